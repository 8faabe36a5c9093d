"""Errors and the training rows behind them, for the experiments on SST-2, Yahoo Answers and CIFAR-10."""

import base64
import io
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any, Literal

import numpy as np

from turnover import Influence
from turnover.applications import Tokenizer, explain, shared_tokens
from turnover.evaluation import Bootstrap, identity_of, mean_interval, query_predictions
from turnover.integrations import TextEncoder
from turnover.runs import REPLICAS, Run, RunConfig, run_recipe, start_run
from turnover.training import retrain
from turnover_bench.checks import markdown_table
from turnover_bench.experiments.datasets.images import CLASSES, load_cifar10
from turnover_bench.experiments.datasets.texts import TOPICS, load_sst2, load_yahoo, minilm_folder
from turnover_bench.experiments.figures import drawn
from turnover_bench.experiments.findings import Finding, agreements, counted, graded, paragraphs
from turnover_bench.experiments.runner import kept
from turnover_bench.experiments.timing import one_thread

Data = Literal["sst2", "yahoo", "cifar10"]


@dataclass(frozen=True)
class Config:
    """Settings of one size.

    Attributes:
        data: which data set.
        rows: that are trained.
        test_rows: among which errors are looked for; None: all.
        shown: errors in the figure.
        supporting: training rows that are shown with each.
        errors: that are to be repaired.
        share: of the training rows that is removed for each.
        seeds: of the retrainings.
        model: encoder of texts, a folder or a name on the hub; None: MiniLM from its package.
        adapters: width of adapters in the encoder; 0: it stays frozen, a masked layer on top learns.
        epochs: of all trainings; 0: as `turnover run` trains.
        hidden: width of the masked layer; 0: as `turnover run` has it.
        image_size: pixels of a side of images.
    """

    data: Data
    rows: int
    test_rows: int | None = None
    shown: int = 3
    supporting: int = 3
    errors: int = 20
    share: float = 0.01
    seeds: tuple[int, ...] = (0, 1)
    model: str | None = None
    adapters: int = 0
    epochs: int = 0
    hidden: int = 0
    image_size: int = 32


_WIDTH, _SIZE, _LINE = 620.0, 8.0, 12.0  # points: of the page, of letters, from line to line
_LONGEST = 200  # letters of a text that are shown
_MARK, _QUERY, _GREY = "#f6d55c", "#b03a2e", "#5d6d7e"


def text_figure(shown: list[dict[str, Any]], file: Path) -> None:
    """Write an SVG of errors with their supporting texts, shared subwords marked in both."""
    indent = max(_width(note, "bold") for error in shown for note in _notes(error)) + 14
    lines = [line for number, error in enumerate(shown) for line in _block(error, indent, first=number == 0)]
    height = (len(lines) + 1) * _LINE
    with drawn(file, (_WIDTH / 72, height / 72), layout=None, letters="path") as figure:
        axis = figure.add_axes((0, 0, 1, 1), xlim=(0, _WIDTH), ylim=(height, 0))
        axis.axis("off")
        for number, (left, words, color, weight) in enumerate(lines, start=1):
            look: dict[str, Any] = {"va": "baseline", "parse_math": False, "weight": weight}
            y = number * _LINE
            axis.text(6, y, left, fontsize=_SIZE - 1, color=color, **look)
            for x, word, marked in words:
                if marked:
                    axis.add_patch(_box(x - 0.5, y - _SIZE * 0.86, _width(word, weight) + 1.0, _SIZE * 1.16))
                axis.text(x, y, word, fontsize=_SIZE, **look)


def image_figure(shown: list[dict[str, Any]], file: Path) -> None:
    """Write an SVG of errors with their supporting images: one column per error, the wrongly predicted image on top."""
    rows = 1 + max(len(error["supporting"]) for error in shown)
    with drawn(file, (1.35 * len(shown), 1.5 * rows), letters="path") as figure:
        axes = figure.subplots(rows, len(shown), squeeze=False)
        for axis in axes.flat:
            axis.axis("off")
        for column, error in enumerate(shown):
            axis, title = axes[0, column], f"{error['label']},\npredicted {error['predicted']}"
            _draw(axis, error["png"])
            axis.set_title(title, fontsize=7, color=_QUERY, weight="bold", parse_math=False)
            for place, row in enumerate(error["supporting"], start=1):
                _draw(axes[place, column], row["png"])
                axes[place, column].set_title(f"{row['label']} {_score(row)}", fontsize=6, parse_math=False)


def _score(row: dict[str, Any]) -> str:
    stderr = "" if row["stderr"] is None else f" ± {_two_digits(row['stderr'])}"
    return f"{_two_digits(row['score'], sign='+')}{stderr}{' *' if row['significant'] else ''}"


def _two_digits(value: float, sign: str = "") -> str:
    return f"{value:{sign}.{'0f' if abs(value) >= 99.5 else '2g'}}"


Word = tuple[float, str, bool]
Line = tuple[str, list[Word], str, str]


def _notes(error: dict[str, Any]) -> list[str]:
    return [f"is {error['label']}", f"predicted {error['predicted']} ({error['probability']:.0%})"]


def _block(error: dict[str, Any], indent: float, *, first: bool) -> list[Line]:
    """Return the lines of one error: what is said of it at the left, its words with their places at the right."""
    lines: list[Line] = [] if first else [("", [], _GREY, "normal")]
    lines += _beside(_notes(error), error["text"], error["marks"], indent, _QUERY, "bold")
    lines.append((f"supporting, {error['predicted']}:", [], _GREY, "normal"))
    for row in error["supporting"]:
        lines += _beside([_score(row)], row["text"], row["marks"], indent, _GREY, "normal")
    return lines


def _beside(
    notes: list[str], text: str, marks: list[tuple[int, int]], indent: float, color: str, weight: str
) -> list[Line]:
    lines = zip_longest(notes, _broken(text, marks, indent, weight))
    return [(note or "", words or [], color, weight) for note, words in lines]


def _broken(text: str, marks: list[tuple[int, int]], indent: float, weight: str) -> list[list[Word]]:
    """Return lines of pieces with their places; a piece is marked or not as a whole."""
    lines: list[list[Word]] = [[]]
    x, at = indent, 0
    for word in text[:_LONGEST].split():
        start = text.index(word, at)
        at = start + len(word)
        if x + _width(word, weight) > _WIDTH - 8 and lines[-1]:
            lines.append([])
            x = indent
        for piece, marked in _pieces(word, start, marks):
            lines[-1].append((x, piece, marked))
            x += _width(piece, weight)
        x += 0.32 * _SIZE
    if len(text) > _LONGEST:
        lines[-1].append((x, "…", False))
    return lines


def _pieces(word: str, start: int, marks: list[tuple[int, int]]) -> list[tuple[str, bool]]:
    inside = [any(low <= start + place < high for low, high in marks) for place in range(len(word))]
    runs = groupby(zip(word, inside, strict=True), key=lambda pair: pair[1])
    return [("".join(letter for letter, _ in letters), marked) for marked, letters in runs]


def _width(text: str, weight: str) -> float:
    """Return the width of letters in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=_SIZE, weight=weight)
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0])


def _box(x: float, y: float, width: float, height: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), width, height, facecolor=_MARK, edgecolor="none", alpha=0.8)


def _draw(axis: Any, png: str) -> None:
    import numpy as np
    from PIL import Image

    axis.imshow(np.asarray(Image.open(io.BytesIO(base64.b64decode(png)))), interpolation="nearest", cmap="gray")


# Of the training rows, for the curves; the seed of everything.
_VALIDATION, _SEED = 0.02, 0


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return errors with their supporting rows, and how often they are repaired without these."""
    with one_thread():
        return kept(out / "measured.json", partial(_measured, config, out))


def _measured(config: Config, out: Path) -> dict[str, Any]:
    run = _finished_run(config, out)
    errors = _errors_of(run)
    orders: dict[str, np.ndarray] = {
        name: _most_supporting(run, errors, by=run.raw_influence if name == "tod" else run.influence)
        for name in ESTIMATES
    }
    return {
        "setting": asdict(config),
        "train_rows": len(run.places("train")),
        "test_rows": len(run.places("test")),
        "replicas": 1 if config.adapters else REPLICAS,
        "wrong": len(errors.rows),
        "accuracy": errors.accuracy,
        "shown": _shown_errors(run, config, errors),
        "shared": _shared_subwords(run, config, errors, orders["recommended"][:, : config.supporting]),
        "repair": _repair(run, config, errors, orders, out / "retrained"),
    }


def _finished_run(config: Config, out: Path) -> Run:
    """Return the finished run that is asked about its errors."""
    images = config.data == "cifar10"
    train, test = (_images if images else _texts)(config, out)
    settings = RunConfig(
        str(train),
        text=None if images else "text",
        label=None if images else "label",
        test_data=str(test),
        validation=_VALIDATION,
        model=None if images else config.model or str(minilm_folder()),
        adapters=config.adapters,
        epochs=config.epochs,
        hidden=config.hidden,
        image_size=config.image_size,
        balance=False,
        seed=_SEED,
    )
    return start_run(settings, out / "run")


def _texts(config: Config, out: Path) -> tuple[Path, Path]:
    if config.data == "sst2":
        names = ("negative", "positive")
        train, test = load_sst2("train", rows=config.rows, seed=_SEED), load_sst2("test", rows=config.test_rows)
        parts = [(train.texts, train.labels), (test.texts, test.labels)]
    else:
        names = TOPICS
        rows = load_yahoo(seed=_SEED)
        last = len(rows) if config.test_rows is None else config.rows + config.test_rows
        parts = [(rows.texts[part], rows.labels[part]) for part in (slice(config.rows), slice(config.rows, last))]
    files = out / "train.tsv", out / "test.tsv"
    for file, (texts, labels) in zip(files, parts, strict=True):
        lines = [f"{text}\t{names[label]}" for text, label in zip(texts, labels, strict=True)]
        # A run rejects data that changed; the same settings give the same file.
        if not file.exists():
            file.write_text("\n".join(["text\tlabel", *lines]) + "\n", encoding="utf-8")
    return files


def _images(config: Config, out: Path) -> tuple[Path, Path]:
    files = out / "train.npz", out / "test.npz"
    for file, split, rows in zip(files, ("train", "test"), (config.rows, config.test_rows), strict=True):
        images = load_cifar10(split, rows=rows)
        if not file.exists():
            np.savez(file, images=images.pixels, labels=np.array(CLASSES)[images.labels])
    return files


_SHORT = 140  # letters of a text that is shown


@dataclass(frozen=True)
class Errors:
    """Errors on test rows, in random order.

    Attributes:
        rows: their numbers in the run.
        predicted: class numbers.
        accuracy: of the whole network on all test rows.
    """

    rows: np.ndarray
    predicted: np.ndarray
    accuracy: float


def _errors_of(run: Run) -> Errors:
    """Return all errors on test rows, in random order, so that the first are a fair sample."""
    rows = run.places("test")
    predicted, given = run.predicted(run.x[rows]).argmax(1), run.rows.labels[rows]
    wrong = np.random.default_rng(0).permutation(np.flatnonzero(predicted != given))
    return Errors(rows[wrong], predicted[wrong], float((predicted == given).mean()))


def _shown_errors(run: Run, config: Config, errors: Errors) -> list[dict[str, Any]]:
    """Return errors as a figure shows them, with their supporting rows: the first of the file that fit into it."""
    fitting = [row for row in np.sort(errors.rows) if run.kind == "image" or len(run.rows.values[row]) <= _SHORT]
    rows = np.array(fitting[: config.shown])
    found = explain(run.influence, (run.x[rows], run.y[rows]), k=config.supporting)
    train = run.places("train")
    tokenizer = None if run.kind == "image" else _subwords(config)
    shown: list[dict[str, Any]] = []
    for row, explanation in zip(rows, found, strict=True):
        query = _shown(run, int(row))
        supporting = []
        for reason in explanation.supporting:
            one = _shown(run, int(train[reason.position]))
            if tokenizer is not None:
                shared = shared_tokens(query["text"], one["text"], tokenizer=tokenizer)
                one["marks"] = [(span.start, span.end) for span in shared.example]
                query.setdefault("marks", []).extend((span.start, span.end) for span in shared.query)
            scored = {"score": reason.score, "stderr": reason.stderr, "significant": reason.significant}
            supporting.append({**one, **scored})
        query["marks"] = sorted(set(query.get("marks", [])))
        shown.append(
            {
                **query,
                "predicted": run.label_names[explanation.predicted],
                "probability": explanation.probability,
                "supporting": supporting,
            }
        )
    return shown


def _shared_subwords(run: Run, config: Config, errors: Errors, most: np.ndarray) -> dict[str, float] | None:
    """Return how many subwords errors share with their supporting rows, and with random rows of that label."""
    if run.kind != "text":
        return None
    tokenizer, train = _subwords(config), run.places("train")
    labels, rng = run.rows.labels[train], np.random.default_rng(1)
    counts: dict[str, list[int]] = {"supporting": [], "random": []}
    for row, label, supporting in zip(errors.rows, errors.predicted, most, strict=False):
        query = _shown(run, int(row))["text"]
        chance = rng.choice(np.flatnonzero(labels == label), len(supporting), replace=False)
        for name, places in (("supporting", supporting), ("random", chance)):
            texts = [_shown(run, int(train[place]))["text"] for place in places]
            counts[name] += [len(shared_tokens(query, text, tokenizer=tokenizer).tokens) for text in texts]
    return {name: float(np.mean(found)) for name, found in counts.items()}


def _shown(run: Run, row: int) -> dict[str, Any]:
    label, value = run.label_names[run.rows.labels[row]], run.rows.values[row]
    return {"label": label, "png": _png(value)} if run.kind == "image" else {"label": label, "text": value}


def _png(pixels: np.ndarray) -> str:
    """Return an image as PNG in base64, for JSON."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels.squeeze()).save(file, "png")
    return base64.b64encode(file.getvalue()).decode()


def _subwords(config: Config) -> Tokenizer:
    """Return the encoder's own subwords with their places."""
    tokenizer = TextEncoder(config.model or minilm_folder()).tokenizer

    def subwords(text: str) -> list[tuple[str, int, int]]:
        found = tokenizer(text, return_offsets_mapping=True, add_special_tokens=False, truncation=True)
        tokens = tokenizer.convert_ids_to_tokens(found["input_ids"])
        return [(token, start, end) for token, (start, end) in zip(tokens, found["offset_mapping"], strict=True)]

    return subwords


# By which scores rows are removed: raw, averaged over the run's replicas, and as the run explains.
ESTIMATES = {"tod": "the original estimator", "recommended": "the recommended estimator"}


def _most_supporting(run: Run, errors: Errors, *, by: Influence) -> np.ndarray:
    """Return the training rows of the predicted label by how much they support each error [errors, rows].

    Rows of other labels come last.
    """
    queries = run.x[errors.rows], run.y[errors.rows]
    scores = np.array(by.pairwise(queries, at_label="predicted", progress=False).values)
    labels = run.rows.labels[run.places("train")]
    scores[labels[:, None] != errors.predicted[None]] = -np.inf
    return np.argsort(-scores, axis=0, kind="stable").T


def _repair(run: Run, config: Config, errors: Errors, orders: dict[str, np.ndarray], cache: Path) -> dict[str, Any]:
    """Return how many errors are gone after retraining the network without masks, by what was removed.

    Errors that a retraining on all rows does not make count for nothing: there is nothing to repair.
    """
    recipe = run_recipe(run)
    count = min(config.errors, len(errors.rows))
    removed = max(1, round(config.share * len(recipe)))
    labels, rng = run.rows.labels[run.places("train")], np.random.default_rng(2)
    chance = np.array(
        [rng.permutation(np.flatnonzero(labels == label))[:removed] for label in errors.predicted[:count]]
    )
    ways = {**{name: order[:count, :removed] for name, order in orders.items()}, "random": chance}
    chosen = np.ones((1 + len(ways) * count, len(recipe)), bool)
    for number, rows in enumerate(rows for way in ways.values() for rows in way):
        chosen[1 + number, rows] = False
    queries = run.x[errors.rows[:count]], run.y[errors.rows[:count]]
    predictions = retrain(
        recipe,
        np.concatenate([chosen] * len(config.seeds)),
        seeds=[1000 + seed for seed in config.seeds for _ in chosen],
        measure=partial(query_predictions, recipe.over(queries)),
        cache=cache,
        identity=identity_of(recipe, queries, "plain"),
        progress=True,
    ).reshape(len(config.seeds), len(chosen), -1)
    given = run.rows.labels[errors.rows[:count]]
    right = predictions.reshape(len(config.seeds), len(chosen), count) == given
    still = ~right[:, 0]  # [seeds, errors]: made again by a training on all rows
    by_way = right[:, 1:].reshape(len(config.seeds), len(ways), count, count)
    own = np.diagonal(by_way, axis1=2, axis2=3)  # of the model retrained for an error, that error counts
    return {
        "removed": removed,
        "tried": int(still.sum()),
        "errors": count,
        "repaired": {name: int((own[:, place] & still).sum()) for place, name in enumerate(ways)},
        # Error by error, for an interval: means over the seeds in which it was made again.
        "by_error": {
            name: [
                float(own[still[:, error], place, error].mean()) if still[:, error].any() else None
                for error in range(count)
            ]
            for place, name in enumerate(ways)
        },
    }


_TITLES = {"sst2": "SST-2", "yahoo": "Yahoo Answers", "cifar10": "CIFAR-10"}
_PAPER = {
    "sst2": "one text whose many subwords recur in its supporting row (Figure on SST-2)",
    "yahoo": "one text that shares “ch ##rist” with two supporting rows (Figure on Yahoo Answers)",
    "cifar10": "images that resemble their supporting images in shape, layout or color (Figure on CIFAR-10)",
}

_MOST = 0.5
"""Of the errors: where fewer are corrected, most are not due to these rows alone."""


def page(result: dict[str, Any], folder: Path) -> str:
    """Return the page as Markdown and write its figure into `folder`."""
    how, repair = result["setting"], result["repair"]
    images, figure = how["data"] == "cifar10", f"error_{how['data']}.svg"
    (image_figure if images else text_figure)(result["shown"], folder / figure)
    parts = [
        f"# Errors on {_TITLES[how['data']]}, and the training rows behind them",
        f"{result['train_rows']:,} training rows, {_network(how)}, {result['replicas']} replicas; "
        f"{result['wrong']:,} errors on {result['test_rows']:,} test rows (accuracy {result['accuracy']:.1%}). Shown "
        f"are the first {len(result['shown'])} of the file{'' if images else ' whose texts are short'}, each with the "
        f"{how['supporting']} training rows of the predicted label that support it most (score ± standard error; * "
        "significant)" + ("." if images else "; subwords of both texts are marked."),
        f"![errors and their supporting rows]({figure})",
        "## Are errors corrected without these rows?",
        f"For each of {repair['errors']} errors drawn at random, the {how['share']:.0%} of the training rows "
        f"({repair['removed']}) of the predicted label that support it most are removed, and the network without masks "
        f"is retrained from {counted(len(how['seeds']), 'seed')}; beside it, as many random rows of that label. An "
        f"error counts where a training on all rows makes it too: {repair['tried']} cases. Intervals (95 %) are over "
        f"errors. All cases together take {_trainings(repair, how):,} trainings, hence a small network.",
        markdown_table(["removed", "corrected", "share", "more than at random"], _rows(result)),
        *agreements(findings(result)),
    ]
    return paragraphs(parts)


def _trainings(repair: dict[str, Any], how: dict[str, Any]) -> int:
    return (len(ESTIMATES) + 1) * repair["tried"] + len(how["seeds"])


def findings(result: dict[str, Any]) -> list[Finding]:
    """Return what the paper shows beside what we measure."""
    how, repair, shared = result["setting"], result["repair"], result["shared"]
    title, about = _TITLES[how["data"]], f"{result['train_rows']:,} rows, {_network(how)}, one training"
    if shared is not None:
        more = shared["supporting"] > shared["random"]
        first = Finding(
            f"{title}: what an error and its supporting rows share",
            _PAPER[how["data"]],
            f"{shared['supporting']:.2f} shared subwords; with random rows of that label {shared['random']:.2f}",
            about,
            f"Supporting rows share {'more' if more else 'no more'} subwords with an error than random rows of that "
            f"label do ({shared['supporting']:.2f} against {shared['random']:.2f}): "
            + (
                "what the paper shows in one example holds on average."
                if more
                else "the paper's example is not typical."
            ),
            f"{title}: an error and its supporting rows share subwords",
            graded(more),
            "more than random rows",
        )
    else:
        first = Finding(
            f"{title}: errors and their supporting rows",
            _PAPER[how["data"]],
            "figure",
            about,
            "Visual resemblance is not scored, only whether retraining corrects the error, below.",
        )
    share = {name: _share(repair, name) for name in ("recommended", "tod", "random")}
    low, high = _difference(repair, "recommended")
    verdict = "corrects it more" if low > 0 else "corrects it less" if high < 0 else "does not clearly correct it more"
    second = Finding(
        f"{title}: errors corrected by removing {how['share']:.0%}",
        "–",
        f"{share['recommended']:.0%} corrected by the recommended estimator, {share['tod']:.0%} by the original "
        f"one; by removing random rows of that label {share['random']:.0%}",
        f"{about}, {repair['tried']} cases, retrained from {counted(len(how['seeds']), 'seed')}",
        f"Removing the {how['share']:.0%} that support an error most {verdict} often than removing random rows of "
        f"that label does (difference {low:+.0%} to {high:+.0%}); by the original estimator "
        "{:+.0%} to {:+.0%}.".format(*_difference(repair, "tod")),
        f"{title}: an error is due to its most supporting rows (our test: retraining without them corrects it)",
        graded(low > 0 and share["recommended"] > _MOST, in_part=low > 0),
        f"recommended estimator: significantly more than random, and {_MOST:.0%} of the errors; in part: the first",
    )
    return [first, second]


def _rows(result: dict[str, Any]) -> list[list[str]]:
    repair = result["repair"]
    rows = []
    for name in (*ESTIMATES, "random"):
        title = f"by {ESTIMATES[name]}" if name in ESTIMATES else "random rows of that label"
        more = "–" if name == "random" else "{:+.0%} to {:+.0%}".format(*_difference(repair, name))
        rows.append([title, f"{repair['repaired'][name]} of {repair['tried']}", f"{_share(repair, name):.0%}", more])
    return rows


def _share(repair: dict[str, Any], name: str) -> float:
    return repair["repaired"][name] / repair["tried"] if repair["tried"] else 0.0


def _difference(repair: dict[str, Any], name: str) -> tuple[float, float]:
    """Return the 95 % interval over errors of how much more often errors are repaired than at random."""
    pairs = zip(repair["by_error"][name], repair["by_error"]["random"], strict=True)
    each = np.array([one - other for one, other in pairs if one is not None])
    if len(each) < 2:
        return -1.0, 1.0
    interval = mean_interval(each, Bootstrap())
    return interval.low, interval.high


def _network(how: dict[str, Any]) -> str:
    if how["data"] == "cifar10":
        return f"a small convolutional network on {how['image_size']} × {how['image_size']} pixels"
    encoder = "MiniLM" if how["model"] is None else how["model"]
    return f"{encoder} with adapters" if how["adapters"] else f"a masked layer on frozen features of {encoder}"
