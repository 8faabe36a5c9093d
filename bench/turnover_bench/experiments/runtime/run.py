"""Measure all methods in turns, and tell what they take for all instances."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from turnover.evaluation import spearman
from turnover.influence import NULL_IDS
from turnover.layers import masking_of
from turnover.wrapping import top_sites, wrapped_root
from turnover_bench.experiments.datasets.mnli import load_mnli
from turnover_bench.experiments.encoders import open_encoder
from turnover_bench.experiments.runner import kept, spent
from turnover_bench.experiments.timing import one_thread

from .config import HEADLINE, RECURSIONS, Config
from .koh import Koh, at, extrapolated, head_alone, modules_of
from .ours import engine_seconds, loop_seconds, networks_of, peer_missing, peer_seconds
from .task import Task, load_rows, trained


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return seconds, ratios and how they grow."""
    load_mnli("train", rows=1)  # before anything is made
    with one_thread():
        folder = open_encoder(out, name=config.model, blocks=config.blocks)
        train, target = load_rows(config, folder)
        task = Task(train, target, trained(config, folder, train, out / "model"))
        parts = out / "parts"
        rounds = [
            kept(parts / f"round-{number}.json", partial(_round, task, config, number))
            for number in tqdm(range(config.rounds), desc="rounds")
        ]
        check = kept(parts / "check.json", partial(_check, task, config))
        head = kept(parts / "head.json", partial(head_alone, task, config, RECURSIONS[HEADLINE]))
        other = kept(parts / "peer.json", partial(_peer, task, config, out / "peer"))
    costs = _smallest(rounds)
    check["ratio"] = check["seconds"] / extrapolated(costs["koh"]["all"], RECURSIONS[HEADLINE], config.check)
    return {
        "setting": asdict(config),
        "recursions": {name: asdict(one) for name, one in RECURSIONS.items()},
        "null_ids": round(_nulls(costs["engine"]["all"], config.instances)),
        "tokens": {"mean": float(train.lengths.float().mean()), "target": int(target.lengths[0])},
        "costs": costs,
        "check": check,
        "head_alone": head,
        "peer": other,
        "growth": [_told(costs, other, size) for size in config.growth],
        "at": _told(costs, other, config.instances),
        "spent": spent(parts),
    }


def _round(task: Task, config: Config, number: int) -> dict[str, Any]:
    """Return the seconds of one round, and what does not change between rounds."""
    networks = networks_of(task.model, config)
    koh: dict[str, dict[str, float]] = {}
    sizes: dict[str, int] = {}
    engine: dict[str, Any] = {}
    loop = loop_seconds(task, config)
    for name, network in networks.items():
        modules = None if name == "all" else modules_of(top_sites(task.model, int(name)))
        influence = Koh(task, modules)
        koh[name], sizes[name] = influence.costs(config, number), influence.losses.size
        engine[name] = engine_seconds(network, task, config.engine_last if name == "0" else (config.engine,))
    whole = engine["all"].pop("scores")
    agreement = {"all": 1.0}
    for name in networks:
        if name != "all":
            scores = engine[name].pop("scores")
            both = min(len(whole), len(scores))
            agreement[name] = float(spearman(whole[:both], scores[:both]))
    return {"koh": koh, "loop": loop, "engine": engine, "parameters": sizes, "agreement": agreement}


def _smallest(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return every cost at its smallest over the rounds: what other work on the machine adds is not the method's."""
    first = rounds[0]
    koh = {
        name: {what: min(one["koh"][name][what] for one in rounds) for what in costs}
        for name, costs in first["koh"].items()
    }
    engine = {
        name: {
            "path": found["path"],
            "nulls": found["nulls"],
            "points": [
                [size, min(one["engine"][name]["points"][place][1] for one in rounds)]
                for place, (size, _) in enumerate(found["points"])
            ],
        }
        for name, found in first["engine"].items()
    }
    loop = min(one["loop"]["seconds"] for one in rounds) / first["loop"]["instances"]
    kept_ones = {name: first[name] for name in ("parameters", "agreement")}
    return {"koh": koh, "loop": loop, "engine": engine, **kept_ones}


def _told(costs: dict[str, Any], other: dict[str, Any], size: int) -> dict[str, Any]:
    """Return the seconds of all methods for so many instances, and how often each of ours goes into them."""
    koh = {name: extrapolated(costs["koh"]["all"], one, size) for name, one in RECURSIONS.items()}
    # The gradients of all rows alone, as if the inverse cost nothing.
    koh["no_inverse"] = costs["koh"]["all"]["target"] + size * costs["koh"]["all"]["row"]
    equal = {name: extrapolated(one, RECURSIONS[HEADLINE], size) for name, one in costs["koh"].items()}
    ours = {
        "loop": size * costs["loop"],
        **{name: _engine(one, size) for name, one in costs["engine"].items()},
    }
    found: dict[str, Any] = {
        "instances": size,
        "koh": koh,
        "ours": ours,
        "ratio": {name: {mine: koh[name] / ours[mine] for mine in ours} for name in koh},
        "equal_koh": equal,
        "equal_ratio": {name: equal[name] / ours[name] for name in equal},
    }
    if "points" in other:
        found["peer"] = at(other["points"], size)
        found["peer_ratio"] = {mine: found["peer"] / ours[mine] for mine in ours}
    return found


def _engine(costs: dict[str, Any], size: int) -> float:
    """Return the engine's seconds: by a line where several sizes were measured, else in proportion to all ids scored.

    Null ids count among them.
    """
    points = costs["points"]
    if len(points) > 1:
        return at(points, size)
    (known, seconds), *_ = points
    return seconds * (size + _nulls(costs, size)) / (known + costs["nulls"])


def _nulls(costs: dict[str, Any], size: int) -> float:
    """Return how many null ids the engine scores beside so many instances: in proportion, up to the most."""
    return min(NULL_IDS, costs["nulls"] * size / costs["points"][-1][0])


def _check(task: Task, config: Config) -> dict[str, float]:
    whole = Koh(task).whole(config.check, RECURSIONS[HEADLINE], config.seed)
    return {"instances": config.check, "seconds": whole}


def _peer(task: Task, config: Config, scratch: Path) -> dict[str, Any]:
    why = peer_missing() if config.peer else "it is not asked for"
    if why is not None:
        return {"missing": why}
    modules = modules_of([site.path for site in masking_of(wrapped_root(task.model)).recipe.sites])
    order = task.train.lengths.argsort(stable=True)
    points = []
    for size in config.peer:
        rows = order[((torch.arange(size) + 0.5) * len(order) / size).long()].tolist()
        points.append((size, peer_seconds(task, rows, modules, scratch)))
    return {"points": points, "name": "kronfluence (EK-FAC)"}
