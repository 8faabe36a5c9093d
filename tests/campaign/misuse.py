"""Misuse of the library, a table: every case must end with the right answer, an error or a warning, never in silence.

A case is a function that returns what is wrong with its result, "" where the result is right; `silence` says that
there is no right result.
"""

import copy
import tempfile
import warnings
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import turnover
from tests.campaign.trial import Budget, Outcome, Tally, judged
from turnover import applications, evaluation
from turnover.runs import RunConfig
from turnover.scores import OutOfSample, Scores
from turnover.storage import from_record, to_record
from turnover.training import TrainingRecipe
from turnover.wrapping import only_at

ROWS = 120  # ids are compared with those of the training from a hundred rows on
X = torch.randn(ROWS, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(ROWS) * 7 % 3 % 2
IDS = torch.arange(ROWS)
# Python's own words for arguments that a function does not have.
_SIGNATURE = ("unexpected keyword argument", "required keyword-only argument", "positional argument")


def network(*, width: int = 64, classes: int = 2) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, classes))


def train(model: nn.Module, ids: Callable[[int], torch.Tensor] = lambda epoch: IDS, epochs: int = 150) -> nn.Module:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    model.train()
    for epoch in range(epochs):
        with turnover.instances(ids(epoch)):
            loss = functional.cross_entropy(model(X), Y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@cache
def _trained(seed: int = 0) -> nn.Module:
    return train(turnover.wrap(network(), at=["1"], seed=seed))


def trained() -> nn.Module:
    return copy.deepcopy(_trained())


def influence(**options: Any) -> turnover.Influence:
    return turnover.Influence(trained(), **{"train": (X, Y, IDS), "estimator": "tod", **options})


def silence(result: object) -> str:
    return f"accepted without a word: {str(result)[:80]!r}"


def same(one: Any, other: Any) -> str:
    return "" if np.array_equal(np.asarray(one), np.asarray(other), equal_nan=True) else "another answer"


def wrapped(**options: Any) -> str:
    model = turnover.wrap(network(), **{"at": ["1"], **options}).train()
    with turnover.instances(IDS):
        model(X)
    return silence(model)


def stepped(ids: Any, view: Any = "keep", model: nn.Module | None = None, *, training: bool = True) -> str:
    model = (model or trained()).train(training)
    with turnover.instances(ids, view=view):
        return silence(model(X).shape)


def asked(
    question: str = "pairwise", queries: Any = None, *, options: Mapping[str, Any] | None = None, **given: Any
) -> str:
    engine = influence(**(options or {}))
    result = getattr(engine, question)((X[:3], Y[:3]) if queries is None else queries, **given)
    return silence(getattr(result, "shape", result))


class _AroundTheSite(nn.Module):
    """Calls its second layer in every other pass only."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2)
        self.passes = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.passes += 1
        hidden = self.first(x).relu()
        return self.last(self.second(hidden).relu() if self.passes % 2 else hidden)


def _around_the_site() -> str:
    model = turnover.wrap(_AroundTheSite(), at=["second"]).train()
    for _ in range(2):
        with turnover.instances(IDS):
            model(X)
    return silence("a pass around a site")


def _nested() -> str:
    with turnover.instances(IDS), turnover.instances(IDS):
        return silence("two at once")


def _repeat_first() -> str:
    with turnover.instances(IDS) as active:
        return silence(active.repeat(Y))


def _with_other_ids(ids: Callable[[int], torch.Tensor], question: str, estimator: str) -> str:
    model = train(turnover.wrap(network(), at=["1"]), ids)
    engine = turnover.Influence(model, train=(X, Y, IDS), estimator=estimator)
    return silence(getattr(engine, question)((X[:3], Y[:3])).unit)


_shuffled = torch.randperm(ROWS, generator=torch.Generator().manual_seed(5))


def _fresh_ids(epoch: int) -> torch.Tensor:
    return IDS + ROWS * (1 + epoch)


def _other_weights() -> str:
    """Ask, train on, and ask the same engine again: the second answer must be that of a new engine."""
    model = trained()
    engine = turnover.Influence(model, train=(X, Y, IDS))
    engine.pairwise((X[:3], Y[:3]), progress=False)
    train(model, epochs=20)
    anew = turnover.Influence(model, train=(X, Y, IDS)).pairwise((X[:3], Y[:3]), progress=False)
    return same(engine.pairwise((X[:3], Y[:3]), progress=False).values, anew.values)


def _other_rows() -> str:
    """Change the training rows in place between two questions."""
    x = X.clone()
    engine = influence(train=(x, Y, IDS), estimator="auto")
    engine.pairwise((X[:3], Y[:3]), progress=False)
    x += 1
    anew = influence(train=(x, Y, IDS), estimator="auto").pairwise((X[:3], Y[:3]), progress=False)
    return same(engine.pairwise((X[:3], Y[:3]), progress=False).values, anew.values)


def _in_training_mode() -> str:
    before = influence().pairwise((X[:3], Y[:3]), progress=False).values
    model = trained().train()
    return same(turnover.Influence(model, train=(X, Y, IDS), estimator="tod").pairwise((X[:3], Y[:3])).values, before)


def _shuffled_loader() -> str:
    loader = DataLoader(turnover.with_instance_ids(TensorDataset(X, Y)), batch_size=7, shuffle=True)
    found = turnover.Influence(trained(), train=loader, estimator="tod").pairwise((X[:3], Y[:3]), progress=False)
    before = influence().pairwise((X[:3], Y[:3]), progress=False)
    return "" if np.allclose(found.select(ids=IDS.tolist()).values, before.values, atol=1e-6) else "another answer"


def _more_than_there_are() -> str:
    top = influence().top((X[:2], Y[:2]), k=ROWS + 5, progress=False)
    return "" if (top.helpful_ids[:, -5:] == -1).all() else "ids of rows that do not exist"


def _asked_twice() -> str:
    found = influence().pairwise((X[:3], Y[:3]), ids=[1, 1], progress=False).values
    return same(found, influence().pairwise((X[:3], Y[:3]), ids=[1], progress=False).values.repeat(2, 0))


def _top_of_a_label() -> str:
    found = influence().top((X[:3], Y[:3]), label=1, progress=False).helpful_ids
    return "" if (Y.numpy()[found[found >= 0]] == 1).all() else "rows of another label"


def as_others_say(words: str, call: Callable[[], Any]) -> str:
    """Expect the words of PyTorch or scikit-learn, where theirs is the call and turnover has no part in it."""
    try:
        return silence(call())
    except (ValueError, RuntimeError) as error:
        return "" if words in str(error) else f"another error: {error}"


def _seed_of_another_model() -> str:
    model = turnover.wrap(network(), at=["1"], seed=9)
    model.load_state_dict(_trained().state_dict())
    return silence("weights under other masks")


def _weights_of_a_plain_model() -> str:
    model = turnover.wrap(network(), at=["1"])
    return as_others_say("turnover_recipe", lambda: model.load_state_dict(network().state_dict()))


def _loaded(model: Any, change: Callable[[Path], Any] = str) -> str:
    with tempfile.TemporaryDirectory() as held:
        folder = turnover.save(_trained(), held)
        change(folder)
        return silence(turnover.load(folder, model=model))


def _edited(**recipe: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        manifest = from_record((folder / "turnover.json").read_bytes()) or {}
        manifest["recipe"].update(recipe)
        (folder / "turnover.json").write_bytes(to_record(manifest))

    return edit


def _saved(prepare: Callable[[Path], Any]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return silence(turnover.save(trained(), prepare(Path(folder))))


def _weights_of_others(folder: Path) -> Path:
    torch.save({"a": X}, folder / "weights.pt")
    return folder


def _audited_otherwise() -> str:
    model = trained().train()
    with torch.no_grad():
        report = turnover.audit(model, (X, Y, IDS))
    same_again = report == turnover.audit(trained(), (X, Y, IDS))
    return "" if model.training and same_again else "another audit, or another mode"


def _entered_twice() -> str:
    active, model, outputs = turnover.instances(IDS), trained().train(), list[torch.Tensor]()
    for _ in range(2):
        with active:
            outputs.append(model(X).detach())
    return same(*outputs)


def _folder_of_another_question() -> str:
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held) / "scores"
        influence().pairwise((X[:3], Y[:3]), out=folder, progress=False)
        before = influence().pairwise((X[5:8], Y[5:8]), progress=False).values
        return same(influence().pairwise((X[5:8], Y[5:8]), out=folder, progress=False).values, before)


def _folder_with_other_files() -> str:
    with tempfile.TemporaryDirectory() as held:
        (Path(held) / "thesis.txt").write_text("precious")
        influence().pairwise((X[:3], Y[:3]), out=held, progress=False)
        return silence("files among others")


def _ids_given(data: Any, **options: Any) -> str:
    data = turnover.with_instance_ids(data, **options)
    return silence([data[place] for place in range(2)])


def _columns(**more: Any) -> Any:
    import datasets

    return datasets.Dataset.from_dict({"x": [0.0, 1.0, 2.0], "label": [0, 1, 0], **more})


def _unmasked_eval() -> str:
    model = trained()
    return same(model(X).detach(), turnover.unwrap(model)(X).detach())


def _copied() -> str:
    with torch.no_grad(), turnover.instances(IDS, view="flip"):
        return same(copy.deepcopy(trained())(X), _trained()(X))


def _recipe(**options: Any) -> TrainingRecipe:
    return TrainingRecipe(network, **{"inputs": X, "targets": Y, "epochs": 2, **options})


def _classifier(x: Any, y: Any, *, other: Any = None) -> str:
    model = turnover.TurnOverClassifier(epochs=2, hidden=(8,), replicas=2, random_state=0).fit(x, y)
    return silence(model.predict(x if other is None else other))


def _spoilt(place: tuple[int, int], value: float) -> torch.Tensor:
    x = X.clone()
    x[place] = value
    return x


def _nan_row_alone() -> str:
    """Score training rows of which one has a NaN: its own score may be NaN, and no other one may change."""
    before = influence().self_influence(progress=False).values
    raw = turnover.influence.TurnOver(center=False)
    found = influence(train=(_spoilt((3, 0), torch.nan), Y, IDS), estimator=raw).self_influence(progress=False).values
    whole = influence(estimator=raw).self_influence(progress=False).values
    return "" if np.isnan(found[3]) and np.array_equal(np.delete(found, 3), np.delete(whole, 3)) else silence(before)


def _softmaxed() -> str:
    model = nn.Sequential(nn.Linear(4, 16), nn.Softmax(1), nn.Linear(16, 2))
    return silence(turnover.wrap(model, at=["0"]))


def _normalized() -> str:
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.BatchNorm1d(16), nn.Linear(16, 2))
    return silence(turnover.wrap(model, at=["1"]))


def _scores(**options: Any) -> Scores:
    return Scores(**{"values": [0.5, -1.0, 2.0], "ids": [7, 8, 9], **options})


def _many(name: str, make: Callable[[Any], str], values: Mapping[str, Any]) -> dict[str, Callable[[], str]]:
    return {f"{name} {shown}": partial(make, value) for shown, value in values.items()}


NO_MODELS = {
    "None": None,
    "a number": 3,
    "a list": [nn.ReLU()],
    "a class": nn.Linear,
    "weights": network().state_dict(),
}
OF_MODELS: dict[str, Callable[[Any], Any]] = {
    "wrap": lambda model: turnover.wrap(model, at=["1"]),
    "plan": lambda model: turnover.plan(model, at=["1"]),
    "unwrap": turnover.unwrap,
    "save": lambda model: turnover.save(model, tempfile.gettempdir() + "/turnover-never"),
    "audit": lambda model: turnover.audit(model, (X, Y, IDS)),
    "recalibrate": lambda model: turnover.recalibrate(model, (X, Y)),
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
OF_PATHS: dict[str, Callable[[Any], Any]] = {
    "save to": lambda path: turnover.save(trained(), path),
    "load from": lambda path: turnover.load(path, model=network()),
    "save scores to": lambda path: _scores().save(path),
    "open scores from": Scores.open,
    "open predictions from": OutOfSample.open,
}


NO_OPTIONS: dict[str, dict[str, Any]] = {
    "at": {
        "a module that is not there": ["fc9"],
        "a glob without a match": ["conv*"],
        "a direction": {"1": "rows"},
        "nothing": [],
        "a number": 3,
        "bytes": b"1",
        "True": True,
        "modules": [nn.ReLU()],
    },
    "keep": {"0": 0, "1": 1, "1.5": 1.5, "-0.5": -0.5, "NaN": np.nan, "a word": "half", "True": True, "a list": [0.5]},
    "seed": {"a word": "a", "1.5": 1.5, "None": None},
    "replicas": {"0": 0, "-1": -1, "1.5": 1.5, "2.0": 2.0, "a word": "two", "True": True, "a billion": 10**9},
    "masks": {"a word": "random", "a number": 3, "None": None, "a class": dict},
    "mode": {"a word": "sideways", "a number": 3, "a list": ["forward"]},
}


def _silently(call: Callable[[Any], Any], value: Any) -> str:
    return silence(call(value))


CASES: dict[str, Callable[[], str]] = {
    **{
        f"{name}: {shown}": partial(_silently, call, value)
        for calls, values in ((OF_MODELS, NO_MODELS), (OF_PATHS, NO_PATHS))
        for name, call in calls.items()
        for shown, value in values.items()
    },
    # Wrapping.
    **{
        f"wrap with {option}= {shown}": partial(wrapped, **{option: value})
        for option, values in NO_OPTIONS.items()
        for shown, value in values.items()
    },
    **_many(
        "plan with an example of",
        lambda example: silence(turnover.plan(network(), at=["1"], example=example)),
        {"no rows": X[:0], "a number": 3, "nothing": [], "other columns": X[:, :2], "names": {"a": X}},
    ),
    **_many(
        "wrap with keep", lambda keep: wrapped(keep=keep), {"0": 0, "1": 1, "1.5": 1.5, "NaN": np.nan, "a word": "half"}
    ),
    **_many("wrap with seed", lambda seed: wrapped(seed=seed), {"a word": "a", "1.5": 1.5, "None": None}),
    **_many(
        "wrap with replicas", lambda count: wrapped(replicas=count), {"0": 0, "-1": -1, "1.5": 1.5, "a word": "two"}
    ),
    **_many(
        "wrap with split",
        lambda split: wrapped(replicas=2, split=split),
        {"a module that is not there": "fc9", "a list": ["0"], "a number": 3},
    ),
    "wrap with adapters of width 0": lambda: wrapped(adapters=0, at=None),
    "wrap twice": lambda: silence(turnover.wrap(trained(), at=["1"])),
    "wrap a function": lambda: silence(turnover.wrap(torch.relu, at=["1"])),
    "wrap without dropout and without at": lambda: silence(turnover.wrap(network())),
    "mask before a softmax": _softmaxed,
    "mask before a batch norm": _normalized,
    "unwrap a plain model": lambda: silence(turnover.unwrap(network())),
    "ask an unwrapped model": _unmasked_eval,
    "copy a wrapped model": _copied,
    "go around a site": _around_the_site,
    # Ids and views.
    "train without ids": lambda: silence(trained().train()(X)),
    **_many(
        "train with",
        stepped,
        {
            "too few ids": IDS[:-1],
            "float ids": IDS.float(),
            "negative ids": IDS - 1,
            "ids of the null": IDS + 2**62,
            "ids beyond 63 bits": [2**63 + place for place in range(ROWS)],
            "no ids": None,
            "ids in two dimensions": IDS[:, None],
            "strings as ids": [str(place) for place in range(ROWS)],
            "True as ids": [True] * ROWS,
            "an empty list of ids": [],
        },
    ),
    "an unknown view": lambda: stepped(IDS, "left"),
    "views of half of the rows": lambda: stepped(IDS, ["keep"] * (ROWS // 2)),
    **_many("train in the view", lambda view: stepped(IDS, view), {"None": None, "codes": [0] * ROWS}),
    "instances within instances": _nested,
    "instances entered twice": _entered_twice,
    "repeat before the forward pass": _repeat_first,
    "other ids than rows in eval mode": lambda: stepped(IDS[:3], training=False),
    # Data sets.
    "ids from a column that is not there": lambda: _ids_given(_columns(), id="number"),
    "ids that stand twice": lambda: _ids_given(_columns(number=[1, 1, 2]), id="number"),
    "negative ids in a column": lambda: _ids_given(_columns(number=[-1, 1, 2]), id="number"),
    "ids of the null in a column": lambda: _ids_given(_columns(number=[2**62, 1, 2]), id="number"),
    "fractions as ids": lambda: _ids_given(_columns(number=[0.5, 1.0, 2.0]), id="number"),
    "missing ids": lambda: _ids_given(_columns(number=[None, 1, 2]), id="number"),
    "groups from a column that is not there": lambda: _ids_given(_columns(), groups="who"),
    "ids for a number": lambda: _ids_given(3),
    "ids for None": lambda: _ids_given(None),
    # Ids that are not those of the training.
    **{
        f"{question} with {name}": partial(_with_other_ids, ids, question, "tod")
        for question in ("pairwise", "top", "mean")
        for name, ids in {"shuffled ids": lambda epoch: _shuffled, "new ids in every epoch": _fresh_ids}.items()
    },
    # Engines.
    "masks of a plain model": lambda: silence(
        turnover.Influence(network(), train=(X, Y), estimator="tod").pairwise((X, Y))
    ),
    "scores of an untrained model": lambda: silence(
        turnover.Influence(turnover.wrap(network(), at=["1"]), train=(X, Y, IDS), estimator="tod").pairwise((X, Y))
    ),
    "a loss that is averaged": lambda: asked(options={"loss": functional.cross_entropy}),
    "a loss of half of the rows": lambda: asked(
        options={"loss": lambda outputs, targets: outputs[: len(outputs) // 2, 0]}
    ),
    "training rows without ids": lambda: asked(options={"train": (X, Y)}),
    "fewer labels than rows": lambda: asked(options={"train": (X, Y[:-1], IDS)}),
    "labels beyond the classes": lambda: asked(options={"train": (X, Y + 5, IDS), "estimator": "auto"}),
    **{
        f"an unknown {option}": partial(asked, options={option: "other"})
        for option in ("estimator", "measure", "device")
    },
    "an integer dtype": lambda: asked(options={"dtype": torch.int32}),
    **_many("memory", lambda size: asked(options={"memory": size}), {"0": 0, "-1": -1, "a word": "1 GB"}),
    "the same model twice": lambda: silence(
        turnover.Influence([trained(), trained()], train=(X, Y, IDS), estimator="tod").mean((X, Y))
    ),
    "no model": lambda: silence(turnover.Influence([], train=(X, Y, IDS))),
    "a plain model among wrapped ones": lambda: silence(
        turnover.Influence([trained(), network()], train=(X, Y, IDS), estimator="tod").mean((X, Y))
    ),
    "a word for a model": lambda: silence(turnover.Influence("model.pt", train=(X, Y, IDS))),
    # Questions.
    "queries without labels at given ones": lambda: asked(queries=X[:3], at_label="given"),
    "no queries": lambda: asked(queries=(X[:0], Y[:0])),
    "queries with labels beyond the classes": lambda: asked(queries=(X[:3], Y[:3] + 7)),
    "queries with fewer labels than rows": lambda: asked(queries=(X[:3], Y[:2])),
    "queries of None": lambda: silence(influence().pairwise(None)),
    "an unknown at_label": lambda: asked(at_label="guessed"),
    "ids that were not trained": lambda: asked(ids=[10**6]),
    "ids that are asked for twice": _asked_twice,
    **_many("top of", lambda k: asked("top", k=k), {"0": 0, "-1": -1, "1.5": 1.5, "a word": "ten"}),
    "top of more than there are": _more_than_there_are,
    "top of a label by the labels of train": _top_of_a_label,
    "top of a label that no row has": lambda: asked("top", label=5),
    "top of a label without train": lambda: asked("top", options={"train": None}, ids=[1, 2], label=1),
    "a null of 0 ids": lambda: asked("null", n=0),
    "a null of curvature": lambda: asked("null", options={"estimator": "curvature"}),
    "a question after more training": _other_weights,
    "a question after the rows changed": _other_rows,
    "a model in training mode": _in_training_mode,
    "training rows in a shuffled loader": _shuffled_loader,
    "a NaN in one training row": _nan_row_alone,
    "an infinite training row by curvature": lambda: asked(
        options={"train": (_spoilt((3, 0), torch.inf), Y, IDS), "estimator": "curvature"}
    ),
    "a folder of another question": _folder_of_another_question,
    "a folder with other files": _folder_with_other_files,
    "rows of an unknown id": lambda: silence(influence().pairwise((X, Y)).select(ids=[999])),
    # Saved models.
    "weights under other masks": _seed_of_another_model,
    "weights of a plain model": _weights_of_a_plain_model,
    "a saved model into a wider network": lambda: _loaded(network(width=65)),
    "a saved model into one with more classes": lambda: _loaded(network(classes=3)),
    "a saved model without its masked module": lambda: _loaded(nn.Linear(4, 2)),
    **_many(
        "a saved model",
        lambda change: _loaded(network(), change),
        {
            "that declares a billion replicas": _edited(replicas=10**9),
            "with another seed": _edited(seed=7),
            "without sites": _edited(sites=[]),
            "in an unknown mode": _edited(mode="x"),
            "whose manifest is deep": lambda folder: (folder / "turnover.json").write_text("[" * 100_000),
            "without weights": lambda folder: (folder / "weights.pt").unlink(),
        },
    ),
    "save over weights of others": lambda: _saved(_weights_of_others),
    "save a plain model": lambda: silence(turnover.save(network(), tempfile.gettempdir() + "/turnover-never")),
    "load from nowhere": lambda: silence(turnover.load("/nowhere/at/all", model=network())),
    "audit a plain model": lambda: silence(turnover.audit(network(), (X, Y))),
    "audit with an averaged loss": lambda: silence(turnover.audit(trained(), (X, Y), loss=functional.cross_entropy)),
    "audit without gradients, in training mode": _audited_otherwise,
    **_many("only at", lambda sites: silence(only_at(trained(), sites)), {"a number": 3, "None": None, "a word": "1"}),
    "audit an empty batch": lambda: silence(turnover.audit(trained(), (X[:0], Y[:0]))),
    # Results.
    "scores with too few ids": lambda: silence(_scores(ids=[7, 8])),
    "one id of scores that has two": lambda: same(_scores(ids=[7, 7, 8]).select(ids=[7]).values, [0.5, -1.0]),
    "scores in three dimensions": lambda: silence(_scores(values=np.zeros((3, 2, 2)))),
    "scores of words": lambda: silence(_scores(values=["a", "b", "c"])),
    "negative standard errors": lambda: silence(_scores(stderr=[1.0, -1.0, 1.0])),
    "significance at level 2": lambda: silence(_scores(null=[0.1, 0.2]).significant(2)),
    "significance without a null": lambda: silence(_scores().significant()),
    "the top 0": lambda: silence(_scores().top(0)),
    "a mean without queries": lambda: silence(_scores().mean()),
    "scores of different units together": lambda: silence(
        Scores.concat([_scores(), _scores(ids=[1, 2, 3], unit="margin")])
    ),
    "scores of the same ids together": lambda: silence(Scores.concat([_scores(), _scores()])),
    "scores from nowhere": lambda: silence(Scores.open("/nowhere/at/all")),
    "predictions with labels beyond the classes": lambda: silence(
        OutOfSample([[0.5, 0.5]], ids=[1], labels=[4]).label_quality
    ),
    "predictions with too few ids": lambda: silence(OutOfSample([[0.5, 0.5], [1.0, 0.0]], ids=[1])),
    # Applications, evaluation.
    "explain with k of 0": lambda: silence(applications.explain(influence(), X[:2], k=0)),
    **_many(
        "cleanse",
        lambda drop: silence(applications.cleanse(influence(), (X, Y), drop=drop)),
        {"150%": "150%", "a word": "many", "-1": -1, "everything": "100%", "NaN": np.nan},
    ),
    "cleanse at level 3": lambda: silence(applications.cleanse(influence(), (X, Y), drop="significant", level=3)),
    "near-duplicates of nothing": lambda: silence(applications.near_duplicates()),
    "a recipe without epochs": lambda: silence(_recipe(epochs=0)),
    "a recipe with batches of 0": lambda: silence(_recipe(batch_size=0)),
    "a recipe with too few targets": lambda: silence(_recipe(targets=Y[:-1])),
    "wrong labels of too few rows": lambda: silence(evaluation.mislabel_detection([1.0, 2.0], [True])),
    "wrong labels where none is wrong": lambda: silence(evaluation.mislabel_detection([1.0, 2.0], [False, False])),
    # Estimators of scikit-learn.
    "fit with a NaN": lambda: as_others_say(
        "contains NaN", lambda: _classifier(_spoilt((0, 0), torch.nan).numpy(), Y.numpy())
    ),
    "fit with one class": lambda: _classifier(X.numpy(), np.zeros(ROWS)),
    "fit with fewer labels": lambda: as_others_say(
        "inconsistent numbers of samples", lambda: _classifier(X.numpy(), Y.numpy()[:-1])
    ),
    "predict other columns": lambda: as_others_say(
        "is expecting 4 features", lambda: _classifier(X.numpy(), Y.numpy(), other=X.numpy()[:, :2])
    ),
    "predict before fit": lambda: as_others_say(
        "not fitted", lambda: silence(turnover.TurnOverClassifier().predict(X.numpy()))
    ),
    # Settings of runs.
    **_many(
        "a run with seed", lambda seed: silence(RunConfig("x.csv", seed=seed)), {"-1": -1, "1.5": 1.5, "a word": "a"}
    ),
    "a run with keep of 1": lambda: silence(RunConfig("x.csv", keep=1.0)),
    "a run with all rows for tests": lambda: silence(RunConfig("x.csv", validation=0.5, test=0.5)),
}


def try_case(case: Callable[[], str]) -> tuple[Outcome, str]:
    """Return how a case ends; what Python says of arguments that a function does not have is a sentence, too."""
    outcome, about = judged(case)
    if outcome is Outcome.TRACEBACK and about.startswith("TypeError") and any(part in about for part in _SIGNATURE):
        return Outcome.REJECTED, about
    return outcome, about


def try_misuse(budget: Budget, tally: Tally) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _trained()
    for name in list(CASES)[:: max(1, round(1 / budget.share))]:
        if budget.over:
            return
        outcome, about = try_case(CASES[name])
        tally.add(outcome, f"{name} -> {about}")
