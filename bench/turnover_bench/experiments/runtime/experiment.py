"""Measure all methods in turns, and tell what they take for all instances."""

import copy
import importlib.util
import logging
import shutil
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset
from tqdm import tqdm

import turnover
from turnover.evaluation import spearman
from turnover.influence import NULL_IDS
from turnover.layers import masking_of
from turnover.training import TrainingRecipe
from turnover.wrapping import only_at, top_sites, wrapped_root
from turnover_bench.baselines import Hessian, RowLosses, kronfluence_task, parameter_names
from turnover_bench.experiments.datasets.texts import LABELS, load_mnli
from turnover_bench.experiments.encoders import BATCH, Rows, classifier, open_encoder, padded, train
from turnover_bench.experiments.runner import Needs, kept, spent
from turnover_bench.experiments.timing import one_thread, seconds

ALONE = True
"""Seconds are the result: nothing else should run beside."""


@dataclass(frozen=True)
class Recursion:
    """How influence functions invert the Hessian: r repeats of t steps over batches of b rows.

    Attributes:
        steps: rt, as a share of the instances.
        batch: b.
    """

    steps: float
    batch: int

    def batches(self, instances: int, draw: torch.Generator) -> Iterator[torch.Tensor]:
        """Yield the rows of every step for so many instances, at random."""
        for _ in range(max(1, round(self.steps * instances))):
            yield torch.randint(instances, (self.batch,), generator=draw)


RECURSIONS = {"han2020": Recursion(0.25, 8), "table1": Recursion(1.0, 8), "table1_single": Recursion(1.0, 1)}
"""By name: what Han et al. 2020 ran, whose ten minutes the paper compares with, and what the paper's Table 1 says."""

HEADLINE = "han2020"


@dataclass(frozen=True)
class Config:
    """What is measured, and on how large a part.

    Attributes:
        model: name of an encoder on the hub, or its folder; None: MiniLM.
        blocks: of a tiny untrained encoder with MiniLM's words; None: the model above.
        adapter: units of each adapter.
        instances: of MNLI that are scored on one target.
        growth: numbers of instances for which seconds are told.
        trained: rows on which the model is trained first; seconds do not depend on it.
        rate: of this training, at its start.
        rounds: in which all methods take turns; the smallest seconds of each count.
        koh_rows: whose gradients are timed, in a round.
        koh_steps: of the recursion that are timed, in a round.
        check: instances for which influence functions run from end to end, to check the extrapolation.
        loop_batch: repeated inputs of a batch of the authors' loop.
        loop_batches: of these that are timed, in a round.
        engine: instances for which the engine is timed where it runs blocks for each instance.
        engine_last: numbers of instances for which it is timed where only the output layer is masked.
        top: numbers of top blocks whose masks are used alone.
        peer: numbers of rows with which kronfluence is timed; (): it is not.
        seed: of the model and of the rows that are timed.
    """

    model: str | None = None
    blocks: int | None = None
    adapter: int = 64
    instances: int = 10_000
    growth: tuple[int, ...] = (100, 1_000, 10_000, 100_000)
    trained: int = 640
    rate: float = 2e-3
    rounds: int = 2
    koh_rows: int = 24
    koh_steps: int = 6
    check: int = 32
    loop_batch: int = 100
    loop_batches: int = 2
    engine: int = 1_200
    engine_last: tuple[int, ...] = (1_000, 10_000, 100_000)
    top: tuple[int, ...] = (3, 1, 0)
    peer: tuple[int, ...] = (16, 64)
    seed: int = 0


SIZES = {
    "toy": Config(
        blocks=2,
        adapter=4,
        instances=60,
        growth=(20, 60, 200),
        trained=32,
        rounds=1,
        koh_rows=4,
        koh_steps=2,
        check=8,
        loop_batch=10,
        loop_batches=1,
        engine=40,
        engine_last=(20, 2_000),
        top=(1, 0),
        peer=(8,),
    ),
    "small": Config(),
    "medium": Config(
        trained=10_000,
        rounds=4,  # short ones: what is finished is kept
        koh_rows=150,
        koh_steps=36,
        check=512,
        loop_batches=5,
        engine=2_500,
        top=(5, 4, 3, 2, 1, 0),
        peer=(200, 600),
    ),
    "full": Config(
        model="bert-base-cased",
        trained=10_000,
        rounds=1,
        koh_rows=10_000,
        koh_steps=2_500,
        check=512,
        loop_batches=100,
        engine=10_000,
        top=(11, 9, 6, 3, 1, 0),
        peer=(1_000, 10_000),
    ),
}
NEEDS = {"medium": Needs(disk=1, memory=6, hours=0.8), "full": Needs(disk=4, memory=12, hours=60)}


LONGEST = 128
_CANDIDATES = 500  # validation pairs among which the target is found


@dataclass(frozen=True)
class PairRows(Rows):
    """Tokenized pairs of sentences.

    Attributes:
        types: of the tokens of each pair: 0 in the premise, 1 in the hypothesis.
    """

    types: list[list[int]]

    def batch(self, places: list[int]) -> dict[str, Tensor]:
        return {**super().batch(places), "token_type_ids": padded([self.types[place] for place in places])}

    @property
    def lengths(self) -> Tensor:
        return torch.tensor([len(one) for one in self.tokens])

    def of(self, places: list[int]) -> "PairRows":
        """Return some of the pairs, in the order given."""
        some = torch.tensor(places)
        return PairRows([self.tokens[one] for one in places], self.labels[some], [self.types[one] for one in places])


@dataclass(frozen=True)
class Task:
    """Everything that all methods share.

    Attributes:
        train: the instances.
        target: one pair of the validation set.
        model: wrapped and trained.
    """

    train: PairRows
    target: PairRows
    model: nn.Module


def load_rows(config: Config, folder: Path | str) -> tuple[PairRows, PairRows]:
    """Return the instances, and as target the first validation pair that is as long as their median."""
    train = _tokenized("train", folder, config.instances)
    held_out = _tokenized("validation", folder, _CANDIDATES)
    median = int(train.lengths.median())
    # Both methods' seconds grow with length: a target of usual length favors none.
    place = int((held_out.lengths - median).abs().argmin())
    return train, held_out.of([place])


def trained(config: Config, folder: Path | str, rows: PairRows, file: Path) -> nn.Module:
    """Return the trained model; one that was trained before is opened."""
    base = classifier(folder, seed=config.seed, classes=len(LABELS))
    if file.exists():
        return turnover.load(file, model=base).eval()
    model = turnover.wrap(base, adapters=config.adapter, seed=config.seed)
    some = rows.of(list(range(min(config.trained, len(rows)))))
    with tqdm(total=-(-len(some) // BATCH), desc="training") as bar:
        train(model, some, masked=True, rate=config.rate, epochs=1, seed=config.seed, tell=bar.update)
    turnover.save(model, file)
    return model.eval()


class Trimmed(nn.Module):
    """A classifier of padded pairs that computes no padding beyond the longest pair of a batch."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, types: Tensor, real: Tensor) -> Tensor:
        """Return the scores of the classes."""
        longest = int(real.sum(1).max())
        tokens, types, real = (one[:, :longest] for one in (tokens, types, real))
        return self.model(input_ids=tokens, token_type_ids=types, attention_mask=real).logits


def padded_rows(rows: PairRows) -> tuple[Tensor, Tensor, Tensor]:
    """Return tokens, types and which tokens are real, all rows as long as the longest."""
    found = rows.batch(list(range(len(rows))))
    return found["input_ids"], found["token_type_ids"], found["attention_mask"]


def _tokenized(split: Any, folder: Path | str, rows: int | None) -> PairRows:
    from transformers import AutoTokenizer

    found = load_mnli(split, rows=rows)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    options: dict[str, Any] = {"max_length": LONGEST, "truncation": True, "return_token_type_ids": True}
    encoded = tokenizer(found.premises, found.hypotheses, **options)
    return PairRows(encoded["input_ids"], torch.from_numpy(found.labels), encoded["token_type_ids"])


def line(points: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the fixed part and the slope of a line from 0 or above, through the first and the last point.

    Example:
        >>> line([(10, 3.0), (20, 5.0)])
        (1.0, 0.2)
    """
    (few, least), (many, most) = points[0], points[-1]
    slope = (most - least) / (many - few) if many > few else most / many
    fixed = least - slope * few
    # Noise of the clock can tilt the line: one that falls is a fixed cost, one from below 0 grows in proportion.
    if slope < 0:
        return least, 0.0
    return (fixed, slope) if fixed >= 0 else (0.0, most / many)


def at(points: Sequence[Sequence[float]], size: float) -> float:
    """Return the seconds at a size: those measured there, else those of the line.

    Example:
        >>> at([(10, 3.0), (20, 5.0)], 20), at([(10, 3.0), (20, 5.0)], 40)
        (5.0, 9.0)
    """
    for known, took in points:
        if known == size:
            return took
    fixed, slope = line(points)
    return fixed + slope * size


DAMPING, SCALE = 3e-3, 1e4
"""Those of Han et al.; seconds do not depend on them."""
_DRAWN = 999


def solve(hessian: Hessian, vector: Tensor, batches: Iterable[Tensor]) -> Tensor:
    """Return what the recursion makes of a vector, one step per batch."""
    solution = vector
    for rows in batches:
        solution = vector + solution - hessian.times(solution, rows) / SCALE
    return solution / SCALE


class Koh:
    """Influence functions of one model, in parts that can be timed.

    Args:
        task: the instances, the target and the model.
        modules: whose parameters count; None: all that were trained.
    """

    def __init__(self, task: Task, modules: Sequence[str] | None = None) -> None:
        model = copy.deepcopy(Trimmed(turnover.unwrap(task.model))).eval()
        patterns = None if modules is None else [f"model.{module}" for module in modules]
        self.names = parameter_names(model, patterns)
        # What does not count is frozen, so that nothing is computed for it.
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name in self.names)
        self.losses = RowLosses(_recipe(model, task.train), model, self.names)
        self.hessian = Hessian(self.losses, DAMPING)
        self.lengths = task.train.lengths
        self.target = self.losses.over(_recipe(model, task.target))

    def vector(self) -> Tensor:
        return self.target.stacked(torch.arange(1))

    def costs(self, config: Config, number: int) -> dict[str, float]:
        """Return the seconds of a row's gradient and of a step of every batch size."""
        vector = self.vector()
        steps = {
            batch: seconds(lambda some=batches: solve(self.hessian, vector, some)) / len(batches)
            for batch in sorted({one.batch for one in RECURSIONS.values()})
            for batches in [self._batches(batch, config.koh_steps, number)]
        }
        rows = self._rows(config.koh_rows, number)
        return {
            "target": seconds(self.vector),
            "row": seconds(lambda: self.losses.products(rows, vector)) / len(rows),
            **{f"step {batch}": took for batch, took in steps.items()},
        }

    def whole(self, instances: int, recursion: Recursion, seed: int) -> float:
        """Return the seconds of all of it for so many instances, from end to end."""
        draw = torch.Generator().manual_seed(seed)
        rows = torch.randperm(len(self.lengths), generator=draw)[:instances]
        batches = [rows[batch] for batch in recursion.batches(instances, draw)]
        return seconds(lambda: self.losses.products(rows, solve(self.hessian, self.vector(), batches)))

    def _rows(self, count: int, number: int) -> Tensor:
        order = self.lengths.argsort(stable=True)
        places = (torch.arange(count) + (number % 3 + 0.5) / 3) * len(order) / count
        return order[places.long()]

    def _batches(self, size: int, count: int, number: int) -> list[Tensor]:
        """Return random batches whose longest rows are spread as those of many random batches."""
        draw = torch.Generator().manual_seed(number)
        drawn = torch.randint(len(self.lengths), (_DRAWN, size), generator=draw)
        order = self.lengths[drawn].amax(1).argsort(stable=True)
        return list(drawn[order[((torch.arange(count) + 0.5) * _DRAWN / count).long()]])


def head_alone(task: Task, config: Config, recursion: Recursion) -> dict[str, Any]:
    """Return what the output layer alone costs, on features that are kept from training: nothing runs below it.

    Features of some rows are repeated up to all instances: what is in them does not change the seconds.
    """
    model = turnover.unwrap(task.model).eval()
    kept: list[Tensor] = []
    last = model.get_submodule(_head(task.model))
    if not isinstance(last, nn.Linear):
        raise TypeError(f"the output layer is a {type(last).__name__}, and a Linear layer is needed.")
    hook = last.register_forward_hook(lambda _, given, __: kept.append(given[0]))
    some = list(range(min(config.koh_rows, len(task.train))))
    with torch.no_grad():
        took = seconds(lambda: [model(**task.train.batch([place])) for place in some])
    hook.remove()
    features = torch.cat(kept).repeat(-(-config.instances // len(some)), 1)[: config.instances]
    head = nn.Linear(last.in_features, last.out_features, bias=False)
    head.weight.data.copy_(last.weight.data)
    recipe = TrainingRecipe(lambda: head, features, task.train.labels[: config.instances])
    losses = RowLosses(recipe, head, parameter_names(head, None))
    hessian, rows = Hessian(losses, DAMPING), torch.arange(len(recipe))
    draw = torch.Generator().manual_seed(config.seed)

    def answer() -> None:
        losses.products(rows, solve(hessian, losses.stacked(rows[:1]), recursion.batches(len(rows), draw)))

    return {"seconds": seconds(answer), "features": took / len(some) * config.instances}


def extrapolated(costs: dict[str, float], recursion: Recursion, instances: int) -> float:
    """Return the seconds for so many instances: the target's gradient, all steps, all rows."""
    steps = recursion.steps * instances * costs[f"step {recursion.batch}"]
    return costs["target"] + steps + instances * costs["row"]


def modules_of(sites: Sequence[str]) -> list[str]:
    """Return the trained modules that masks at these sites belong to.

    Example:
        >>> modules_of(["layer.5.adapter.activation", "classifier.masked_input"])
        ['layer.5.adapter', 'classifier']
    """
    return [site.rpartition(".")[0] for site in sites]


def _head(model: nn.Module) -> str:
    from turnover.wrapping import top_sites

    return modules_of(top_sites(model, 0))[0]


def _recipe(model: nn.Module, rows: PairRows) -> TrainingRecipe:
    return TrainingRecipe(lambda: model, padded_rows(rows), rows.labels)


def networks_of(model: nn.Module, config: Config) -> dict[str, nn.Module]:
    return {"all": model, **{str(top): only_at(model, top_sites(model, top)) for top in config.top}}


def loop_seconds(task: Task, config: Config) -> dict[str, float]:
    """Return what the authors' loop takes: the repeated target twice through the model, the masks of other ids each."""
    size = config.loop_batch
    query = {name: value.repeat(size, 1) for name, value in task.target.batch([0]).items()}
    labels = task.target.labels.repeat(size)

    @torch.no_grad()
    def run() -> None:
        for number in range(config.loop_batches):
            ids, losses = torch.arange(number * size, (number + 1) * size), {}
            for view in ("keep", "flip"):
                with turnover.instances(ids, view=view):
                    losses[view] = functional.cross_entropy(task.model(**query).logits, labels, reduction="none")
            _ = losses["flip"] - losses["keep"]

    return {"instances": size * config.loop_batches, "seconds": seconds(run)}


def engine_seconds(model: nn.Module, task: Task, sizes: tuple[int, ...]) -> dict[str, Any]:
    """Return the engine's seconds for numbers of instances, its path, and the scores of the largest number.

    As a user gets them: with standard errors, for which null ids are scored besides.
    """
    query: dict[str, Tensor] = {**task.target.batch([0]), "labels": task.target.labels}
    points: list[tuple[int, float]] = []
    found: list[turnover.Scores] = []
    for size in sizes:
        # A new engine each: what it learns from its first question counts.
        ask = turnover.Influence(model)
        took = seconds(lambda ask=ask, size=size: found.append(ask.pairwise(query, ids=range(size), progress=False)))
        points.append((size, took))
    null = found[-1].null
    return {
        "points": points,
        "nulls": 0 if null is None else len(null),
        "path": found[-1].path,
        "scores": np.asarray(found[-1].values)[:, 0],
    }


_BATCH = 8


def peer_missing() -> str | None:
    """Return why the peer cannot be measured, or None."""
    if importlib.util.find_spec("kronfluence") is None:
        return "kronfluence is not installed: pip install kronfluence"
    return None


def peer_seconds(task: Task, rows: Sequence[int], modules: Sequence[str], scratch: Path) -> float:
    """Return the seconds in which factors are fitted on rows and the same rows scored on the target.

    Of the modules that were trained the Linear layers count; its files are in `scratch` meanwhile.
    """
    from kronfluence.analyzer import Analyzer, prepare_model

    model = copy.deepcopy(Trimmed(turnover.unwrap(task.model))).eval()
    layers = {
        name: part
        for name, part in model.named_modules()
        if isinstance(part, nn.Linear) and any(name.startswith(f"model.{module}") for module in modules)
    }
    for name, layer in layers.items():
        if list(layer.children()):  # the place of a mask within, for which it passes the layer over
            model.set_submodule(name, _without_children(layer))
    # Sorted by length, so that little padding is computed.
    some = task.train.of(sorted(rows, key=lambda row: len(task.train.tokens[row])))
    data, target = (TensorDataset(*padded_rows(part), part.labels) for part in (some, task.target))
    shutil.rmtree(scratch, ignore_errors=True)
    own = kronfluence_task(list(layers))
    options: dict[str, Any] = {"output_dir": str(scratch), "disable_tqdm": True, "log_level": logging.ERROR}

    def answer() -> None:
        analyzer: Any = Analyzer("runtime", model=prepare_model(model, own), task=own, cpu=True, **options)
        analyzer.fit_all_factors("factors", dataset=data, per_device_batch_size=_BATCH)
        analyzer.compute_pairwise_scores(
            "scores",
            factors_name="factors",
            query_dataset=target,
            train_dataset=data,
            per_device_query_batch_size=1,
            per_device_train_batch_size=_BATCH,
        )
        if not bool(analyzer.load_pairwise_scores("scores")["all_modules"].isfinite().all()):
            raise ValueError("kronfluence gave scores that are not finite.")

    # Its own warnings are about how torch saves and loads; it draws labels for its factors.
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        took = seconds(answer)
    shutil.rmtree(scratch, ignore_errors=True)
    return took


def _without_children(layer: nn.Linear) -> nn.Linear:
    plain = nn.Linear(layer.in_features, layer.out_features, bias=layer.bias is not None)
    plain.load_state_dict(layer.state_dict())
    return plain


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
