"""Damages of every file of everything that turnover keeps: run folders, score folders, saved models.

The judge knows the answers of what was kept before the damage: opened again, it gives the same ones, or a sentence; and
where it can be made again, the same ones come back.
"""

import contextlib
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

import turnover
from tests.campaign.trial import Budget, Outcome, Tally, judged
from tests.ui import small_runs
from turnover.runs import RunConfig, check_cleansing, open_run, run_cleansing, start_run
from turnover.scores import OutOfSample, Scores
from turnover.storage import LOCK_FILES
from turnover.ui.web.corrections import MarkBook

TINY: dict[str, Any] = {"hidden": 16, "replicas": 2, "epochs": 3, "batch_size": 16, "learning_rate": 0.01}
TINY |= {"validation": 0.2, "test": 0.2}
_FLIPS = 3
Answers = dict[str, Any]


@dataclass(frozen=True)
class Kept:
    make: Callable[[Path, int], Any]  # into a folder, by a seed
    answers: Callable[[Path], Answers]
    rebuild: Callable[[Path, Path], Any] | None = None  # makes a damaged folder, the first, anew
    files: str = "*"  # which of the files are damaged
    alone: bool = False  # each file stands for itself, and another one in its place is not damage


def difference(found: Answers, before: Answers) -> str:
    wrong = [name for name in before if name not in found or not _same(found[name], before[name])]
    return f"other answers: {', '.join(wrong)}" if wrong else ""


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and one.dtype != object:
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    return repr(one) == repr(other)


# Runs of each task, small enough to be made again in a second.
def table_file(folder: Path) -> Path:
    draw = np.random.default_rng(0)
    lines = ["size,color,kind"]
    for row in range(48):
        size = draw.normal()
        lines.append(f"{size!r},{('red', 'blue')[row % 2]},{'large' if (size > 0) != (row % 9 == 4) else 'small'}")
    file = folder / "things.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def _group_file(folder: Path) -> Path:
    lines = small_runs.reviews(48).splitlines()
    file = folder / "groups.csv"
    file.write_text("\n".join(f"{line},{'who' if not row else row % 8}" for row, line in enumerate(lines)) + "\n")
    return file


def _encoder(folder: Path) -> str:
    import transformers

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"a and film number fine lovely dull awful".split()]
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    encoder = folder / "encoder"
    transformers.BertTokenizerFast(vocab={word: place for place, word in enumerate(words)}).save_pretrained(encoder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        transformers.BertModel(transformers.BertConfig(vocab_size=len(words), **sizes)).save_pretrained(encoder)
    return str(encoder)


def _review_file(folder: Path) -> Path:
    file = folder / "reviews.csv"
    file.write_text(small_runs.reviews(48))
    return file


def configs(folder: Path) -> dict[str, Callable[[], RunConfig]]:
    text = {"text": "text", "label": "label", **TINY}
    one = {**TINY, "replicas": 1}
    return {
        "table": lambda: RunConfig(str(table_file(folder)), label="kind", **TINY),
        "text": lambda: RunConfig(str(_review_file(folder)), **text),
        "group": lambda: RunConfig(str(_group_file(folder)), group="who", **text),
        "image": lambda: RunConfig(str(small_runs.image_folder(folder / "bars")), image_size=8, **TINY),
        "encoder": lambda: RunConfig(str(_review_file(folder)), model=_encoder(folder), **text),
        "adapter": lambda: RunConfig(
            str(_review_file(folder)), **{**text, **one, "epochs": 1}, model=_encoder(folder), adapters=4
        ),
    }


def answers_of(folder: Path) -> Answers:
    """Return what a finished run answers, with its report's main findings and a question about new rows."""
    run = open_run(folder)
    found: Answers = {"results": run.about.results, "curves": run.curves.as_dict()}
    found |= {"self-influence": run.self_influence.values, "standard errors": run.self_influence.stderr}
    found |= {"inputs": run.x.numpy(), "targets": run.y.numpy(), "splits": run.splits, "labels": run.label_names}
    found |= {"predictions": run.predicted(run.x[:6]), "settings": run.settings, "config": run.config}
    top = run.influence.top((run.x[:2], run.y[:2]), k=5, progress=False)
    found |= {"mean influence": run.mean_influence.values, "held-out predictions": run.out_of_sample.probs}
    found |= {"supporting": top.helpful_ids, "supporting scores": top.helpful_scores}
    found |= {
        "rows": str(run.rows.data.to_pylist()),
        "names": list(run.rows.names),
        "values": np.asarray(run.rows.values),
    }
    wrong = run.wrong_labels
    found |= {"likely label errors": None if wrong is None else repr(wrong)}
    return found


def _run(kind: str) -> Kept:
    return Kept(
        lambda folder, seed: start_run(replace(configs(folder.parent)[kind](), seed=seed), folder),
        answers_of,
        lambda folder, whole: start_run(RunConfig.read(whole / "config.toml"), folder),
    )


class _StopError(Exception):
    """Ends a training where a kill would."""


def _unfinished(folder: Path, seed: int) -> None:
    def stop(stage: str, done: int, total: int, note: str = "") -> None:
        if stage == "training" and done == total - 1:
            raise _StopError

    config = replace(configs(folder.parent)["table"](), seed=seed)
    with mock.patch("turnover.runs.training._SAVE_EVERY", -1.0), contextlib.suppress(_StopError):
        start_run(config, folder, watch=stop)


def _finished(folder: Path) -> Answers:
    start_run(RunConfig(str(folder.parent / "things.csv"), label="kind", **TINY, seed=0), folder)
    return answers_of(folder)


def _marked(folder: Path, seed: int) -> None:
    _run("table").make(folder, 0)
    book = MarkBook(open_run(folder))
    for row in range(seed, seed + 5):
        book.put(row, ("large", "small", None)[row % 3])


def _marks(folder: Path) -> Answers:
    return {"marks": [(mark.row, mark.label, mark.time) for mark in MarkBook(open_run(folder)).all]}


def _retrained(folder: Path) -> Answers:
    run = open_run(folder)
    return {"retraining check": check_cleansing(run, run_cleansing(run, drop="5%"), seeds=1)}


def _with_retraining(folder: Path, seed: int) -> None:
    _run("table").make(folder, seed)
    _retrained(folder)


def _plain_network() -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))


_X = torch.linspace(-1, 1, 64).reshape(16, 4)
_Y = torch.arange(16) % 2


def _wrapped(seed: int) -> torch.nn.Module:
    return turnover.wrap(_plain_network(), at=["1"], seed=seed).eval()


def _influence(seed: int) -> turnover.Influence:
    return turnover.Influence(_wrapped(seed), train=(_X, _Y, torch.arange(16)), estimator="tod")


def _model_answers(folder: Path) -> Answers:
    model = turnover.load(folder, model=_plain_network()).eval()
    outputs: Answers = {}
    for view in ("keep", "flip", "full"):
        with torch.no_grad(), turnover.instances(torch.arange(16), view=view):
            outputs[view] = model(_X).numpy()
    return outputs


def _pairwise(folder: Path, seed: int) -> None:
    _influence(seed).pairwise((_X, _Y), out=folder, progress=False)


def _scores_answers(folder: Path) -> Answers:
    scores = Scores.open(folder)
    top = scores.top(3)
    found: Answers = {"values": scores.values, "stderr": scores.stderr, "ids": scores.ids, "offset": scores.offset}
    return found | {"top": top.helpful_ids, "unit": scores.unit, "path": scores.path, "method": scores.method}


def _scores_in_part(folder: Path) -> Answers:
    scores = Scores.open(folder)
    top = scores.top(3)
    return {"top": top.helpful_ids, "top scores": top.helpful_scores, "some": scores.select(ids=[3, 7]).values}


def _single_files(folder: Path, seed: int) -> None:
    folder.mkdir(exist_ok=True)
    influence = _influence(seed)
    influence.self_influence(progress=False).save(folder / "self.npz")
    influence.out_of_sample(progress=False).save(folder / "held_out.npz")


def _single_answers(folder: Path) -> Answers:
    scores, held_out = Scores.open(folder / "self.npz"), OutOfSample.open(folder / "held_out.npz")
    return {"self": scores.values, "stderr": scores.stderr, "ids": scores.ids, "probs": held_out.probs}


KEPT: Mapping[str, Kept] = {
    **{f"{kind} run": _run(kind) for kind in ("table", "text", "group", "image", "encoder", "adapter")},
    "unfinished run": Kept(_unfinished, _finished),
    "marks of the live page": Kept(_marked, _marks, files="marks.json", alone=True),
    "retraining check": Kept(_with_retraining, _retrained, files="evaluation/**/*"),
    "saved model": Kept(lambda folder, seed: turnover.save(_wrapped(seed), folder), _model_answers),
    "score folder": Kept(_pairwise, _scores_answers, lambda folder, whole: _pairwise(folder, 0)),
    "score folder, read in part": Kept(_pairwise, _scores_in_part, lambda folder, whole: _pairwise(folder, 0)),
    "score files": Kept(_single_files, _single_answers, alone=True),
}


def _flipped(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content))
    return content[:place] + bytes([content[place] ^ (1 << draw.randrange(8))]) + content[place + 1 :]


def _damages(
    file: Path, whole: Path, other: Path, draw: random.Random, *, alone: bool
) -> Iterator[tuple[str, bytes | None]]:
    """Yield the damages of one file, each with its content after it; None where the file is gone."""
    content = (whole / file).read_bytes()
    if not alone:
        yield "deleted", None
    if content:
        yield "emptied", b""
        yield "cut in half", content[: len(content) // 2]
        yield "without its last byte", content[:-1]
        for number in range(_FLIPS):
            yield f"a bit flipped, {number}", _flipped(content, draw)
    if not alone and (other / file).is_file() and (other / file).read_bytes() != content:
        yield "swapped with that of another one", (other / file).read_bytes()
    beside = [path for path in sorted((whole / file).parent.iterdir()) if path.is_file() and path.name != file.name]
    if beside and not alone:
        yield "swapped with its neighbor", draw.choice(beside).read_bytes()


def _try_one(kept: Kept, folder: Path, whole: Path, before: Answers, *, rebuilt: bool) -> tuple[Outcome, str]:
    outcome, about = judged(lambda: difference(kept.answers(folder), before))
    if outcome is not Outcome.REJECTED or kept.rebuild is None or not rebuilt:
        return outcome, about
    rebuild = kept.rebuild

    def after() -> str:
        rebuild(folder, whole)
        return difference(kept.answers(folder), before)

    again, more = judged(after)
    return (Outcome.REPAIRED if again is Outcome.RIGHT else again), f"{about} Then: {more}"


def try_damages(name: str, budget: Budget, tally: Tally) -> None:
    kept, draw = KEPT[name], random.Random(f"{budget.seed} {name}")
    with tempfile.TemporaryDirectory(prefix="turnover-campaign-") as held:
        whole, other = Path(held) / "data" / "whole", Path(held) / "other" / "whole"
        for folder, seed in ((whole, 0), (other, 1)):
            folder.parent.mkdir()
            kept.make(folder, seed)
        pristine = Path(held) / "data" / "pristine"
        shutil.copytree(whole, pristine)
        before = kept.answers(pristine)
        files = [file.relative_to(whole) for file in sorted(whole.glob(kept.files)) + sorted(whole.glob("*/**/*"))]
        files = [file for file in dict.fromkeys(files) if (whole / file).is_file() and file.name not in LOCK_FILES]
        if kept.files != "*":
            files = [file for file in files if file.match(kept.files) or kept.files.split("/")[0] == file.parts[0]]
        cases = [(file, *damage) for file in files for damage in _damages(file, whole, other, draw, alone=kept.alone)]
        seen: set[Path] = set()
        for file, damage, content in draw.sample(cases, budget.count(len(cases))):
            if budget.over:
                return
            damaged = Path(held) / "data" / "damaged"
            shutil.copytree(whole, damaged)
            if content is None:
                (damaged / file).unlink()
            else:
                (damaged / file).write_bytes(content)
            # A rebuilding takes seconds: one damage of each file has to be enough.
            outcome, about = _try_one(kept, damaged, whole, before, rebuilt=file not in seen)
            seen.add(file)
            tally.add(outcome, f"{name}, {file} {damage} -> {about}")
            shutil.rmtree(damaged)


DAMAGES: Mapping[str, Callable[[Budget, Tally], None]] = {name: partial(try_damages, name) for name in KEPT}
