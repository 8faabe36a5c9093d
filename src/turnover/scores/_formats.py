"""Scores as pandas tables, as xarray datasets and as text; tables and datasets as scores.

What is about the whole table (unit, path, provenance, the offset of each query) goes with it in `attrs`.
"""

import json
from collections.abc import Sequence
from importlib import import_module
from typing import Any, cast

import numpy as np

from turnover.errors import MissingExtraError, ScoresError
from turnover.ids import Name
from turnover.tables import aligned, counted, faded, html_table

from ._about import SIGN, About, is_per_row, query_name
from ._arrays import Floats, Source, blocks
from ._content import Content
from .significance import noise_of

ATTRIBUTES = "turnover"
"""Where a table keeps what is about all of it."""

Facts = tuple[str, Sequence[tuple[str, str]]]
"""A first line, and names with what they say."""

_PER_QUERY = ("offset", "null_spread")
_REPLICAS, _NULL = "replicas", "null ids"
_MOST_NAMED = 5
_MOST_LETTERS = 24


def load_pandas() -> Any:
    """Return the package pandas."""
    return _load("pandas", "tables")


def _load_xarray() -> Any:
    return _load("xarray", "labeled arrays")


def _load(package: str, what: str) -> Any:
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingExtraError(f"{what} need {package}: pip install 'turnover[store]'.") from error


def wide_table(scores: Content) -> Any:
    """Return instances down and queries across; for scores [n] the columns score, stderr and what else is per row."""
    pandas = load_pandas()
    index = pandas.Index(scores.ids, name="instance")
    if scores.queries is None:
        table = pandas.DataFrame(_columns(scores), index=index)
    else:
        names = pandas.Index(list(scores.queries), name="query")
        table = pandas.DataFrame(np.array(scores.values), index=index, columns=names)
    table.attrs[ATTRIBUTES] = _attributes(scores)
    return table


def long_table(scores: Content) -> Any:
    """Return one row per pair: instance, query, score and, where known, stderr."""
    pandas = load_pandas()
    columns: dict[str, Any] = {"instance": scores.ids}
    if scores.queries is not None:
        n, m = scores.shape
        names = pandas.Index(list(scores.queries))
        columns = {"instance": np.repeat(scores.ids, m), "query": names[np.tile(np.arange(m), n)]}
    table = pandas.DataFrame({**columns, **_columns(scores)})
    table.attrs[ATTRIBUTES] = _attributes(scores)
    return table


def from_table(table: Any) -> dict[str, Any]:
    """Return what the class `Scores` takes for the scores in a table, wide or long, or in a Series."""
    pandas = load_pandas()
    if isinstance(table, pandas.Series):
        return {"values": table.to_numpy(), "ids": table.index.to_numpy(), **_from_attributes(table.attrs, None)}
    if not isinstance(table, pandas.DataFrame):
        raise ScoresError(f"a table must be a pandas DataFrame or Series, got a {type(table).__name__}.")
    columns: set[Any] = set(table.columns)
    if {"instance", "query", "score"} <= columns:
        return _from_long(table)
    # Queries may be called "score" too; the name of the columns tells.
    if "score" in columns <= {"instance", "score", "stderr", *_PER_QUERY} and table.columns.name != "query":
        ids = table["instance"] if "instance" in columns else table.index
        about = _from_attributes(table.attrs, None) | _stderr_column(table)
        rows = {name: table[name].to_numpy() for name in _PER_QUERY if name in columns}
        return {"values": table["score"].to_numpy(), "ids": ids.to_numpy(), **about, **rows}
    queries = [query_name(column) for column in table.columns]
    about = _from_attributes(table.attrs, queries)
    return {"values": table.to_numpy(), "ids": table.index.to_numpy(), "queries": queries, **about}


def _from_long(table: Any) -> dict[str, Any]:
    pandas = load_pandas()
    missing = table[["instance", "query"]].isna().any(axis=1).to_numpy()
    if missing.any():
        raise ScoresError(
            f"row {int(missing.argmax())} of the table has no instance or no query. Fill it in, or leave the row out."
        )
    rows, ids = pandas.factorize(table["instance"])
    columns, names = pandas.factorize(table["query"])
    queries = [query_name(name) for name in names]
    again = table.duplicated(["instance", "query"]).to_numpy()
    if again.any():
        row = table[again].iloc[0]
        raise ScoresError(f"instance {row['instance']} and query {row['query']!r} are in the table twice.")
    arrays = {"values": table["score"].to_numpy(), **_stderr_column(table)}
    for name, numbers in arrays.items():
        arrays[name] = np.full((len(ids), len(queries)), np.nan, np.float32)
        arrays[name][rows, columns] = numbers
    return {"ids": np.asarray(ids), "queries": queries, **_from_attributes(table.attrs, queries), **arrays}


def _columns(scores: Content) -> dict[str, Floats]:
    """Return what there is one of for each score."""
    columns = {"score": scores.values.ravel()}
    if scores.stderr is not None:
        columns["stderr"] = scores.stderr.ravel()
    for name in _PER_QUERY:
        array: Floats | None = getattr(scores, name)
        if array is not None and is_per_row(array, scores.shape):
            columns[name] = array
    return columns


def _attributes(scores: Content) -> dict[str, Any]:
    attributes: dict[str, Any] = dict(vars(About.of(scores)))
    attributes["stderr_from"] = _REPLICAS if "stderr" in scores.sources else _NULL
    for name in _PER_QUERY:
        array: Floats | None = getattr(scores, name)
        if array is None or is_per_row(array, scores.shape):
            continue
        # By name, so that they stay right when columns are chosen or put in another order.
        by_query = None if scores.queries is None else dict(zip(scores.queries, array.tolist(), strict=True))
        attributes[name] = float(array) if by_query is None else by_query
    return attributes


def _from_attributes(attrs: dict[Any, Any], queries: list[Name] | None) -> dict[str, Any]:
    attributes: dict[str, Any] = dict(attrs.get(ATTRIBUTES, {}))
    attributes.pop("stderr_from", None)
    for name in _PER_QUERY:
        kept = attributes.pop(name, None)
        if isinstance(kept, dict) and queries is not None:
            by_name = cast("dict[Any, Any]", kept)
            # Files that keep attrs as JSON turn numbers into strings.
            numbers = [by_name.get(query, by_name.get(str(query))) for query in queries]
            if all(number is not None for number in numbers):
                attributes[name] = numbers
        elif isinstance(kept, float) and queries is None:
            attributes[name] = kept
    return attributes


def _stderr_column(table: Any) -> dict[str, Any]:
    """Return the column of standard errors; nothing where it is the standard deviation of null ids."""
    if "stderr" not in table.columns or table.attrs.get(ATTRIBUTES, {}).get("stderr_from", _REPLICAS) != _REPLICAS:
        return {}
    return {"stderr": table["stderr"].to_numpy()}


def to_dataset(scores: Content) -> Any:
    """Return an xarray Dataset over instance and query; nothing but tokens is lost."""
    xarray = _load_xarray()
    dims = ("instance", "query")[: len(scores.shape)]
    coords: dict[str, Any] = {"instance": scores.ids}
    if scores.names:
        coords["mask_id"] = ("instance", scores.mask_ids)
    if scores.queries is not None:
        same_type = len({type(name) for name in scores.queries}) <= 1
        coords["query"] = np.array(scores.queries, None if scores.queries and same_type else object)
    variables: dict[str, Any] = {"score": (dims, scores.values)}
    if scores.stderr is not None:
        origin = _REPLICAS if "stderr" in scores.sources else _NULL
        variables["stderr"] = (dims, scores.stderr, {"from": origin})
    for name in _PER_QUERY:
        array: Floats | None = getattr(scores, name)
        if array is not None:
            variables[name] = (dims[-1:] if array.ndim else (), array)
    if scores.null is not None:
        variables["null"] = (("null_id", *dims[1:]), scores.null)
    # Files of labeled arrays hold neither nested attributes nor booleans.
    attrs = {
        **vars(About.of(scores)),
        "sign": SIGN,
        "provenance": json.dumps(scores.provenance),
        "standardized": int(scores.standardized),
    }
    return xarray.Dataset(variables, coords, attrs)


def from_dataset(dataset: Any) -> dict[str, Any]:
    """Return what the class `Scores` takes for the scores in a Dataset."""
    xarray = _load_xarray()
    if not isinstance(dataset, xarray.Dataset) or "score" not in dataset:
        raise ScoresError("scores must be a Dataset with a variable 'score' over 'instance' and 'query'.")
    score: Any = dataset["score"]
    dims = [dim for dim in ("instance", "query") if dim in score.dims]
    if "instance" not in dims or len(dims) != score.ndim:
        raise ScoresError(
            f"score must have the dimensions 'instance', or 'instance' and 'query', got {list(score.dims)}."
        )
    arguments: dict[str, Any] = {
        "values": score.transpose(*dims).to_numpy(),
        "ids": dataset["instance"].to_numpy(),
        "queries": [query_name(name) for name in dataset["query"].to_numpy()] if "query" in dims else None,
        "provenance": json.loads(dataset.attrs.get("provenance", "{}")),
        "replicas": int(dataset.attrs.get("replicas", 1)),
        "standardized": bool(dataset.attrs.get("standardized", False)),
    }
    if "mask_id" in dataset:
        arguments["mask_ids"] = dataset["mask_id"].to_numpy()
    arguments |= {name: dataset.attrs[name] for name in ("unit", "path") if name in dataset.attrs}
    if "stderr" in dataset and dataset["stderr"].attrs.get("from", _REPLICAS) == _REPLICAS:
        arguments["stderr"] = dataset["stderr"].transpose(*dims).to_numpy()
    for name in _PER_QUERY:
        if name in dataset:
            arguments[name] = dataset[name].to_numpy()
    if "null" in dataset:
        arguments["null"] = dataset["null"].transpose(..., *dims[1:]).to_numpy()
    return arguments


def scores_facts(scores: Content) -> Facts:
    """Return shape, unit, sign, size and origin of scores."""
    head = f"Scores of {counted(scores.shape[0], 'training instance')}"
    lines: list[tuple[str, str]] = []
    if scores.queries is not None:
        head += f" on {counted(scores.shape[1], 'query')}"
        lines.append(("queries", _listed(scores.queries)))
    head += f", in {unit_text(scores)}"
    read = scores.folder is None
    lines.append(("values", number_range(scores.values) if read else f"not read yet, in {scores.folder}"))
    lines.append(("stderr", _stderr_text(scores)))
    sources = scores.sources
    in_memory = all(source.folder is None for source in sources.values())
    if in_memory and (scores.null_spread is not None or "stderr" in sources):
        noise = noise_of(sources["values"], sources.get("stderr"), scores.null_spread)
        lines.append(("noise", str(noise).removeprefix("noise is ")))
    if scores.offset is None:
        lines.append(("offset", "none: the mean of null ids was not subtracted"))
    else:
        lines.append(("offset", f"{number_range(scores.offset)}; mean of null ids, subtracted"))
    lines.append(("path", scores.path or "not known"))
    if scores.provenance:
        lines.append(("provenance", _listed(list(scores.provenance))))
    return head, lines


def _stderr_text(scores: Content) -> str:
    source = scores.sources.get("stderr")
    if source is not None:
        origin = f"from {scores.replicas} replicas" if scores.replicas > 1 else "as given"
        return f"{number_range(source.whole) if source.folder is None else 'not read yet'}; {origin}"
    if scores.null_spread is not None:
        return f"{number_range(scores.null_spread)}; standard deviation of {_null_text(scores)}"
    return "not known"


def _null_text(scores: Content) -> str:
    return "null ids" if scores.null is None else f"{len(scores.null):,} null ids"


def unit_text(result: Any) -> str:
    """Return the unit of a Scores or a Top and what its sign means."""
    return f"units of {result.unit} ({SIGN})"


def number_range(values: Floats) -> str:
    """Return smallest and largest number and their mean, and how many failed."""
    size, failed, total, low, high = 0, 0, 0.0, np.inf, -np.inf
    for _, _, part in blocks(Source(np.atleast_1d(values))):
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


def text_of(facts: Facts) -> str:
    """Return what a result says of itself as text: a first line, and a table below it."""
    head, rows = facts
    return "\n".join([head, *(f"  {line}" for line in aligned(rows))])


def html_of(facts: Facts) -> str:
    """Return what a result says of itself as HTML."""
    head, rows = facts
    return html_table(head, [[faded(name), *rest] for name, *rest in rows])


def shortened(value: object) -> str:
    """Return a value as text of a few letters."""
    text = str(value)
    return text if len(text) <= _MOST_LETTERS else text[: _MOST_LETTERS - 3] + "..."


def _listed(values: Sequence[Any]) -> str:
    shown = ", ".join(shortened(value) for value in values[:_MOST_NAMED])
    return shown + (f" and {len(values) - _MOST_NAMED:,} more" if len(values) > _MOST_NAMED else "")
