"""Misuse of models and ids, a second table: what `wrap`, `plan`, `unwrap`, `save`, `load`, `audit`, `recalibrate`,
`instances` and `with_instance_ids` do with wrong types, damaged files and rows that make no sense.

Cases are as in `misuse`.
"""

import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset

import turnover
from tests.campaign.misuse import IDS, ROWS, X, Y, influence, network, same, silence, stepped, trained, wrapped
from turnover.influence import TurnOver
from turnover.scores import OutOfSample, Scores
from turnover.storage import from_record, to_record
from turnover.wrapping import only_at

Cases = dict[str, Callable[[], str]]
BATCH = (X, Y, IDS)
NO_MODELS = {
    "None": None,
    "a number": 3,
    "a list": [nn.ReLU()],
    "a class": nn.Linear,
    "weights": network().state_dict(),
}
NO_PATHS = {
    "None": None,
    "a number": 3,
    "bytes": b"x",
    "a list": ["x"],
    "": "",
    "a zero byte": "a\0b",
    "half": "\ud800",
}


def _each(name: str, make: Callable[[Any], str], values: Mapping[str, Any]) -> Cases:
    return {f"{name}: {shown}": partial(make, value) for shown, value in values.items()}


def _lazy() -> nn.Module:
    return nn.Sequential(nn.LazyLinear(64), nn.ReLU(), nn.LazyLinear(2))


def _with_statistics() -> nn.Module:
    return turnover.wrap(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)), at=["2"])


def _recalibrated(rows: Any) -> str:
    return silence(turnover.recalibrate(_with_statistics(), rows))


def _saved(prepare: Callable[[Path], Any]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return silence(turnover.save(trained(), prepare(Path(folder))))


def _a_file(folder: Path) -> Path:
    (folder / "file").write_text("x")
    return folder / "file"


def _weights_of_others(folder: Path) -> Path:
    torch.save({"a": X}, folder / "weights.pt")
    return folder


def _loaded(change: Callable[[Path], Any], model: Any = None) -> str:
    with tempfile.TemporaryDirectory() as held:
        folder = turnover.save(trained(), held)
        change(folder)
        return silence(turnover.load(folder, model=network() if model is None else model))


def _edited(**recipe: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        manifest = from_record((folder / "turnover.json").read_bytes()) or {}
        manifest["recipe"].update(recipe)
        (folder / "turnover.json").write_bytes(to_record(manifest))

    return edit


def _manifest(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "turnover.json").write_text(text)


def _as_it_was(folder: Path) -> None:
    """Leave a folder alone."""


def _read(data: Any, **options: Any) -> str:
    data = turnover.with_instance_ids(data, **options)
    return silence([data[place] for place in range(2)])


def _repeated(targets: Any) -> str:
    model = turnover.wrap(network(), at=["1"], replicas=2).train()
    with turnover.instances(IDS) as active:
        model(X)
        return silence(active.repeat(targets))


def _in_training_mode() -> str:
    model = trained().train()
    report = turnover.audit(model, BATCH)
    return "" if model.training and report == turnover.audit(trained(), BATCH) else "another audit, or another mode"


def _without_gradients() -> str:
    with torch.no_grad():
        return "" if turnover.audit(trained(), BATCH) == turnover.audit(trained(), BATCH) else "another audit"


def _entered_twice() -> str:
    active, model, outputs = turnover.instances(IDS), trained().train(), list[torch.Tensor]()
    for _ in range(2):
        with active:
            outputs.append(model(X).detach())
    return same(*outputs)


def _beside_a_plain_model() -> str:
    with turnover.instances(IDS):
        return silence(network()(X))


def _named(values: list[Any]) -> list[dict[str, Any]]:
    return [{"x": 0.0, "name": value} for value in values]


CASES: Cases = {
    **_each("wrap", lambda model: silence(turnover.wrap(model, at=["1"])), NO_MODELS | {"lazy modules": _lazy()}),
    **_each("plan", lambda model: silence(turnover.plan(model, at=["1"])), NO_MODELS | {"a wrapped model": trained()}),
    **_each("unwrap", lambda model: silence(turnover.unwrap(model)), NO_MODELS | {"outside": nn.Sequential(trained())}),
    **_each(
        "wrap at",
        lambda at: wrapped(at=at),
        {"bytes": b"1", "True": True, "modules": [nn.ReLU()], "numbers": {1: "features"}},
    ),
    **_each("wrap with keep", lambda keep: wrapped(keep=keep), {"True": True, "a list": [0.5], "-0.5": -0.5}),
    **_each(
        "wrap with replicas", lambda count: wrapped(replicas=count), {"a billion": 10**9, "True": True, "2.0": 2.0}
    ),
    **_each("wrap with split", lambda split: wrapped(replicas=2, split=split), {"a list": ["0"], "a number": 3}),
    **_each("wrap with masks", lambda masks: wrapped(masks=masks), {"a number": 3, "None": None, "a class": dict}),
    **_each("wrap with mode", lambda mode: wrapped(mode=mode), {"a number": 3, "a list": ["forward"]}),
    **_each(
        "plan with example",
        lambda example: silence(turnover.plan(network(), at=["1"], example=example)),
        {
            "no rows": X[:0],
            "a number": 3,
            "nothing": [],
            "other columns": X[:, :2],
            "an array": X.numpy(),
            "names": {"a": X},
        },
    ),
    # Saved models.
    **_each("save to", lambda place: _saved(lambda folder: place), NO_PATHS | {"a long name": "/tmp/" + "x" * 300}),
    **_each("save to", _saved, {"a file": _a_file, "weights of others": _weights_of_others}),
    **_each("save", lambda model: silence(turnover.save(model, tempfile.gettempdir() + "/never")), NO_MODELS),
    **_each("load from", lambda folder: silence(turnover.load(folder, model=network())), NO_PATHS),
    **_each(
        "load into",
        lambda model: _loaded(_as_it_was, model),
        {
            **{name: model for name, model in NO_MODELS.items() if model is not None},
            "lazy modules": _lazy(),
            "masks of another seed": turnover.wrap(network(), at=["1"], seed=4),
            "masks elsewhere": turnover.wrap(network(), at=["0"]),
        },
    ),
    **_each(
        "load where",
        _loaded,
        {
            "the recipe declares a billion replicas": _edited(replicas=10**9),
            "the recipe has another seed": _edited(seed=7),
            "the recipe has no sites": _edited(sites=[]),
            "the recipe has an unknown mode": _edited(mode="x"),
            "the recipe has a word for a seed": _edited(seed="a"),
            "the manifest is a list": _manifest("[]"),
            "the manifest is deep": _manifest("[" * 100_000),
            "the weights are gone": lambda folder: (folder / "weights.pt").unlink(),
        },
    ),
    # Audit and statistics.
    **_each("audit", lambda model: silence(turnover.audit(model, BATCH)), NO_MODELS),
    **_each(
        "audit rows",
        lambda rows: silence(turnover.audit(trained(), BATCH, rows=rows)),
        {"0": 0, "1.5": 1.5, "all": "all"},
    ),
    **_each(
        "audit loss", lambda loss: silence(turnover.audit(trained(), BATCH, loss=loss)), {"a word": "ce", "a number": 3}
    ),
    **_each(
        "audit batch",
        lambda batch: silence(turnover.audit(trained(), batch)),
        {
            "None": None,
            "without ids": (X, Y),
            "negative ids": (X, Y, IDS - 5),
            "boolean ids": (X, Y, IDS > 3),
            "labels beyond the classes": (X, Y + 7, IDS),
            "other columns": (X[:, :2], Y, IDS),
            "integers": (X.long(), Y, IDS),
            "NaN": (X * torch.nan, Y, IDS),
            "unknown names": {"x": X, "labels": Y, "instance_id": IDS},
        },
    ),
    "audit a model in training mode": _in_training_mode,
    "audit without gradients": _without_gradients,
    **_each("recalibrate", lambda model: silence(turnover.recalibrate(model, (X, Y))), NO_MODELS),
    **_each(
        "recalibrate by",
        _recalibrated,
        {
            "None": None,
            "no rows": (X[:0], Y[:0]),
            "one row": (X[:1], Y[:1]),
            "NaN": (X * torch.nan, Y),
            "other columns": (X[:, :2], Y),
            "ids by hand": BATCH,
            "a list of batches": [(X, Y), (X, Y)],
            "a model": network(),
        },
    ),
    # Ids.
    **_each(
        "instances of",
        stepped,
        {
            "a set": set(range(ROWS)),
            "a dict": dict.fromkeys(range(ROWS)),
            "bytes": b"x" * ROWS,
            "booleans and integers": [True, *range(ROWS - 1)],
            "a sparse tensor": IDS.to_sparse(),
            "a meta tensor": IDS.to("meta"),
            "objects": np.array([object()] * ROWS),
            "dates": np.arange(ROWS).astype("datetime64[D]"),
            "a masked array": np.ma.array(np.arange(ROWS), mask=[True] + [False] * (ROWS - 1)),
            "the inputs": X,
            "a model": network(),
        },
    ),
    **_each(
        "view",
        lambda view: stepped(IDS, view),
        {"None": None, "codes": [0] * ROWS, "nested": np.array([["keep"]] * ROWS)},
    ),
    **_each("repeat", _repeated, {"an array": Y.numpy(), "a list": Y.tolist(), "words": ["a"] * ROWS}),
    "instances entered twice": _entered_twice,
    "instances beside a plain model": _beside_a_plain_model,
    **_each(
        "ids for",
        _read,
        {"a model": network(), "a class": TensorDataset, "a single value": torch.tensor(3), "a word": "abc"},
    ),
    **_each(
        "ids named",
        lambda values: _read(_named(values), id="name"),
        {
            "NaN": [np.nan, 1],
            "booleans": [True, False],
            "bytes": [b"a", b"b"],
            "lists": [[1], [2]],
            "the same": ["a", "a"],
        },
    ),
    # Paths, and options of engines.
    **_each("save scores to", lambda path: silence(Scores([0.5], ids=[7]).save(path)), NO_PATHS),
    **_each("open scores from", lambda path: silence(Scores.open(path)), NO_PATHS),
    **_each("open predictions from", lambda path: silence(OutOfSample.open(path)), NO_PATHS),
    **_each("only at", lambda sites: silence(only_at(trained(), sites)), {"a number": 3, "None": None, "a word": "1"}),
    **_each(
        "executor",
        lambda executor: silence(influence(executor=executor)),
        {"a number": 3, "a list": [], "a word": "ray"},
    ),
    **_each(
        "sites",
        lambda sites: silence(influence(estimator=TurnOver(sites=sites))),
        {"a number": 3, "nothing": []},
    ),
    "targets= beside tuples": lambda: silence(influence(targets="labels").pairwise((X[:3], Y[:3]))),
}
