"""Results as text for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .about import SIGN
from .arrays import Floats
from .content import Content
from .noise import noise_of
from .source import InMemory, blocks

if TYPE_CHECKING:
    from .out_of_sample import OutOfSample
    from .top import Top

_MOST_QUERIES = 5
_MOST_ENTRIES = 3
_MOST_LETTERS = 24
_LIMIT = "|"


def scores_text(scores: Content) -> str:
    """Return shape, unit, sign, size and origin of scores."""
    head = f"Scores of {counted(scores.shape[0], 'training instance')}"
    lines: list[tuple[str, str]] = []
    if scores.queries is not None:
        head += f" on {counted(scores.shape[1], 'query')}"
        lines.append(("queries", _listed(scores.queries)))
    head += f", in units of {scores.unit} ({SIGN})"
    if scores.folder is not None:
        lines.append(("values", f"not read yet, in {scores.folder}"))
    else:
        lines.append(("values", _range(scores.values)))
    lines.append(("stderr", _stderr(scores)))
    in_memory = all(source.folder is None for source in scores.sources.values())
    if in_memory and (scores.null_spread is not None or "stderr" in scores.sources):
        lines.append(("noise", str(noise_of(scores)).removeprefix("noise is ")))
    if scores.offset is None:
        lines.append(("offset", "none: the mean of never-trained ids was not subtracted"))
    else:
        lines.append(("offset", f"{_range(scores.offset)}; mean of never-trained ids, subtracted"))
    lines.append(("path", scores.path or "not said"))
    if scores.provenance:
        lines.append(("provenance", _listed(list(scores.provenance))))
    return "\n".join([head, *(f"  {name:<11}{text}" for name, text in lines)])


def top_text(top: "Top") -> str:
    """Return the first entries of the first queries as a table."""
    head = f"Top {top.k}"
    if top.queries is not None:
        head += f" for {counted(len(top.queries), 'query')}"
    counts = sorted({int(count) for count in top.counts})
    if counts:
        size = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
        head += f", of {size} training instances"
    head += f", in units of {top.unit} ({SIGN})"
    known = top.distinguishable() if top.knows_noise else None
    rows = [["query", "most helpful: id (score)", "most harmful: id (score)"]]
    for place in range(min(_MOST_QUERIES, len(top.helpful_ids))):
        name = "" if top.queries is None else _short(top.queries[place])
        limits = (None, None) if known is None else (int(known[place, 0]), int(known[place, 1]))
        rows.append([name, _entries(top, "helpful", place, limits[0]), _entries(top, "harmful", place, limits[1])])
    if top.queries is None:
        rows = [row[1:] for row in rows]
    rest = len(top.helpful_ids) - _MOST_QUERIES
    more = [f"  and {counted(rest, 'more query', 'more queries')}"] if rest > 0 else []
    if top.knows_noise:
        more.append(f"  {_LIMIT} from here on not distinguishable from noise (Benjamini-Hochberg, 5 %)")
    return "\n".join([head, *_columns(rows), *more])


def out_of_sample_text(result: "OutOfSample") -> str:
    """Return size and content of predictions."""
    networks, rows, classes = result.replicas.shape
    head = f"OutOfSample: predictions of {counted(rows, 'row')} by networks that never saw them"
    lines = [("probs", f"{classes} classes, mean of {counted(networks, 'replica')}")]
    failed = int(np.isnan(result.probs).any(axis=1).sum())
    if failed:
        lines.append(("failed", f"{counted(failed, 'row')} (NaN)"))
    if result.labels is None:
        lines.append(("labels", "not known"))
    else:
        quality = result.label_quality
        low = int(np.count_nonzero(quality < 0.5))
        lines.append(("labels", f"label_quality {_range(quality)}; below 0.5 for {counted(low, 'row')}"))
    lines.append(("path", result.path or "not said"))
    return "\n".join([head, *(f"  {name:<8}{text}" for name, text in lines)])


def _stderr(scores: Content) -> str:
    source = scores.sources.get("stderr")
    if source is not None:
        origin = f"from {scores.replicas} replicas" if scores.replicas > 1 else "as given"
        return f"{_range(source.whole) if source.folder is None else 'not read yet'}; {origin}"
    if scores.null_spread is not None:
        return f"{_range(scores.null_spread)}; spread of never-trained ids"
    return "not known"


def _range(values: Floats) -> str:
    """Return smallest and largest number and their mean, and how many failed."""
    size, failed, total, low, high = 0, 0, 0.0, np.inf, -np.inf
    for _, _, part in blocks(InMemory(np.atleast_1d(values))):
        valid = ~np.isnan(part)
        size, failed = size + part.size, failed + int(np.count_nonzero(~valid))
        low = min(low, float(part.min(initial=np.inf, where=valid)))
        high = max(high, float(part.max(initial=-np.inf, where=valid)))
        with np.errstate(invalid="ignore"):  # inf − inf is NaN, and may be shown as such
            total += float(part.sum(dtype=np.float64, where=valid))
    if size == failed:
        text = "none"
    elif low == high:
        text = f"{low:.3g}"
    else:
        text = f"{low:.3g} to {high:.3g}, mean {total / (size - failed):.3g}"
    return text + (f"; {failed:,} of {size:,} failed (NaN)" if failed else "")


def _entries(top: "Top", side: str, row: int, limit: int | None) -> str:
    """Return the first entries of a list, with a mark where the noise begins."""
    ids, scores, stderr = (getattr(top, f"{side}_{what}") for what in ("ids", "scores", "stderr"))
    known = int(np.count_nonzero(ids[row] >= 0))
    shown = [
        f"{ids[row, place]} ({scores[row, place]:+.3g}" + (")" if stderr is None else f" ± {stderr[row, place]:.2g})")
        for place in range(min(known, _MOST_ENTRIES))
    ]
    if known > _MOST_ENTRIES:
        shown.append("...")
    if limit is not None and limit < len(shown):
        shown[limit] = f"{_LIMIT} {shown[limit]}"
    return ", ".join(shown).replace(f", {_LIMIT}", f" {_LIMIT}") or "none"


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


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with what it counts, in the plural where needed."""
    if many is None:
        many = one[:-1] + "ies" if one.endswith("y") else one + "s"
    return f"{number:,} {one if number == 1 else many}"
