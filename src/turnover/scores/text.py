"""Results as text for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .about import SIGN
from .arrays import Floats

if TYPE_CHECKING:
    from .out_of_sample import OutOfSample
    from .scores import Scores
    from .top import Top

_MOST_QUERIES = 5
_MOST_ENTRIES = 3
_MOST_LETTERS = 24


def scores_text(scores: "Scores") -> str:
    """Return shape, unit, sign, size and origin of scores."""
    head = f"Scores of {_count(scores.shape[0], 'training instance')}"
    lines: list[tuple[str, str]] = []
    if scores.queries is not None:
        head += f" on {_count(scores.shape[1], 'query')}"
        lines.append(("queries", _listed(scores.queries)))
    head += f", in units of {scores.unit} ({SIGN})"
    if scores.folder is not None:
        lines.append(("values", f"not read yet, in {scores.folder}"))
    else:
        lines.append(("values", _range(scores.values)))
    lines.append(("stderr", _stderr(scores)))
    if scores.offset is None:
        lines.append(("offset", "none: the mean of never-trained ids was not subtracted"))
    else:
        lines.append(("offset", f"{_range(scores.offset)}: mean of never-trained ids, subtracted"))
    lines.append(("path", scores.path or "not said"))
    if scores.provenance:
        lines.append(("provenance", _listed(list(scores.provenance))))
    return "\n".join([head, *(f"  {name:<11}{text}" for name, text in lines)])


def top_text(top: "Top") -> str:
    """Return the first entries of the first queries as a table."""
    head = f"Top {top.k}"
    if top.queries is not None:
        head += f" for {_count(len(top.queries), 'query')}"
    counts = sorted({int(count) for count in top.counts})
    if counts:
        size = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
        head += f", of {size} training instances"
    head += f", in units of {top.unit} ({SIGN})"
    rows = [["query", "most helpful: id (score)", "most harmful: id (score)"]]
    for place in range(min(_MOST_QUERIES, len(top.helpful_ids))):
        name = "" if top.queries is None else _short(top.queries[place])
        rows.append([name, _entries(top, "helpful", place), _entries(top, "harmful", place)])
    if top.queries is None:
        rows = [row[1:] for row in rows]
    rest = len(top.helpful_ids) - _MOST_QUERIES
    more = [f"  and {_count(rest, 'more query', 'more queries')}"] if rest > 0 else []
    return "\n".join([head, *_columns(rows), *more])


def out_of_sample_text(result: "OutOfSample") -> str:
    """Return size and content of predictions."""
    networks, rows, classes = result.replicas.shape
    head = f"OutOfSample: predictions of {_count(rows, 'row')} by networks that never saw them"
    lines = [("probs", f"{classes} classes, mean of {_count(networks, 'replica')}")]
    failed = int(np.isnan(result.probs).any(axis=1).sum())
    if failed:
        lines.append(("failed", f"{_count(failed, 'row')} (NaN)"))
    if result.labels is None:
        lines.append(("labels", "not known"))
    else:
        quality = result.label_quality
        low = int(np.count_nonzero(quality < 0.5))
        lines.append(("labels", f"label_quality {_range(quality)}; below 0.5 for {_count(low, 'row')}"))
    lines.append(("path", result.path or "not said"))
    return "\n".join([head, *(f"  {name:<8}{text}" for name, text in lines)])


def _stderr(scores: "Scores") -> str:
    if scores.replicas > 1:
        origin = f"from {scores.replicas} replicas"
    else:
        origin = "as given"
    if not scores.has_replica_stderr:
        if scores.null_spread is None:
            return "not known"
        return f"{_range(scores.null_spread)}: spread of never-trained ids"
    if scores.folder is not None or scores.stderr is None:
        return f"not read yet, {origin}"
    return f"{_range(scores.stderr)}, {origin}"


def _range(values: Floats) -> str:
    """Return smallest, median and largest number, and how many failed."""
    valid = values[~np.isnan(values)]
    failed = values.size - valid.size
    text = "none"
    if valid.size == 1:
        text = f"{float(valid.ravel()[0]):.3g}"
    elif valid.size:
        low, middle, high = float(valid.min()), float(np.median(valid)), float(valid.max())
        text = f"{low:.3g} to {high:.3g}, median {middle:.3g}"
    return text + (f"; {failed:,} of {values.size:,} failed (NaN)" if failed else "")


def _entries(top: "Top", side: str, row: int) -> str:
    ids, scores, stderr = (getattr(top, f"{side}_{what}") for what in ("ids", "scores", "stderr"))
    known = int(np.count_nonzero(ids[row] >= 0))
    shown = [
        f"{ids[row, place]} ({scores[row, place]:+.3g}" + (")" if stderr is None else f" ± {stderr[row, place]:.2g})")
        for place in range(min(known, _MOST_ENTRIES))
    ]
    return ", ".join(shown) + (", ..." if known > _MOST_ENTRIES else "") or "none"


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _listed(things: Sequence[Any]) -> str:
    shown = ", ".join(_short(thing) for thing in things[:_MOST_QUERIES])
    return shown + (f" and {len(things) - _MOST_QUERIES:,} more" if len(things) > _MOST_QUERIES else "")


def _short(thing: object) -> str:
    text = str(thing)
    return text if len(text) <= _MOST_LETTERS else text[: _MOST_LETTERS - 3] + "..."


def _count(number: int, one: str, many: str | None = None) -> str:
    if many is None:
        many = one[:-1] + "ies" if one.endswith("y") else one + "s"
    return f"{number:,} {one if number == 1 else many}"
