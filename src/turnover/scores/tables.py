"""Results as pandas tables, and tables as scores.

What is about the whole table (unit, path, provenance, the offset of each query) goes with it in `attrs`.
"""

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from turnover.errors import ScoresError

from .about import Name, name_of, told_by
from .arrays import Floats, Ints
from .content import Content
from .extras import load_pandas
from .per_query import is_per_row

if TYPE_CHECKING:
    from .out_of_sample import OutOfSample
    from .top import Top

_KEY = "turnover"
_PER_QUERY = ("offset", "null_spread")
_NULL = "never-trained ids"


def wide_table(scores: Content) -> Any:
    """Return instances down and queries across; for scores [n] the columns score, stderr and what else is per row."""
    pandas = load_pandas()
    index = pandas.Index(scores.ids, name="instance")
    if scores.queries is None:
        table = pandas.DataFrame(_columns(scores), index=index)
    else:
        names = pandas.Index(list(scores.queries), name="query")
        table = pandas.DataFrame(np.array(scores.values), index=index, columns=names)
    table.attrs[_KEY] = _attributes(scores)
    return table


def long_table(scores: Content) -> Any:
    """Return one row a pair: instance, query, score and, where known, stderr."""
    pandas = load_pandas()
    columns: dict[str, Any] = {"instance": scores.ids}
    if scores.queries is not None:
        n, m = scores.shape
        names = pandas.Index(list(scores.queries))
        columns = {"instance": np.repeat(scores.ids, m), "query": names[np.tile(np.arange(m), n)]}
    table = pandas.DataFrame({**columns, **_columns(scores)})
    table.attrs[_KEY] = _attributes(scores)
    return table


def from_table(table: Any) -> dict[str, Any]:
    """Return what the class `Scores` takes for the scores in a table, wide or long, or in a Series."""
    pandas = load_pandas()
    if isinstance(table, pandas.Series):
        return {"values": table.to_numpy(), "ids": table.index.to_numpy(), **_from_attributes(table.attrs, None)}
    if not isinstance(table, pandas.DataFrame):
        raise ScoresError(f"a {type(table).__name__} is no table; give a pandas DataFrame or Series.")
    columns: set[Any] = set(table.columns)
    if {"instance", "query", "score"} <= columns:
        return _from_long(table)
    # Queries may be called "score" too; the name of the columns tells.
    if "score" in columns <= {"instance", "score", "stderr", *_PER_QUERY} and table.columns.name != "query":
        ids = table["instance"] if "instance" in columns else table.index
        told = _from_attributes(table.attrs, None) | _stderr(table)
        rows = {name: table[name].to_numpy() for name in _PER_QUERY if name in columns}
        return {"values": table["score"].to_numpy(), "ids": ids.to_numpy(), **told, **rows}
    queries = [name_of(one) for one in table.columns]
    told = _from_attributes(table.attrs, queries)
    return {"values": table.to_numpy(), "ids": table.index.to_numpy(), "queries": queries, **told}


def top_table(top: "Top") -> Any:
    """Return one row an entry: query, side, place, instance, score and, where known, stderr and p."""
    pandas = load_pandas()
    names = pandas.Index([0] if top.queries is None else list(top.queries))
    sides: list[Any] = []
    for side in ("helpful", "harmful"):
        ids: Ints = getattr(top, f"{side}_ids")
        query, place = np.nonzero(ids >= 0)
        columns: dict[str, Any] = {
            "query": names[query],
            "side": side,
            "place": place,
            "instance": ids[query, place],
            "score": getattr(top, f"{side}_scores")[query, place],
        }
        for name in ("stderr", "p"):
            array: Floats | None = getattr(top, f"{side}_{name}")
            if array is not None:
                columns[name] = array[query, place]
        sides.append(pandas.DataFrame(columns).assign(_query=query))
    # Both lists of a query stand together.
    table = pandas.concat(sides).sort_values("_query", kind="stable", ignore_index=True)
    table = table.drop(columns=["_query"] if top.queries is not None else ["_query", "query"])
    table.attrs[_KEY] = vars(told_by(top))
    return table


def out_of_sample_table(result: "OutOfSample") -> Any:
    """Return one row an instance: label and label_quality where labels are known, and one column a class."""
    pandas = load_pandas()
    columns: dict[str, Any] = {}
    if result.labels is not None:
        columns = {"label": result.labels, "label_quality": result.label_quality}
    columns |= {f"prob_{place}": result.probs[:, place] for place in range(result.probs.shape[1])}
    return pandas.DataFrame(columns, index=pandas.Index(result.ids, name="instance"))


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
    told: dict[str, Any] = dict(vars(told_by(scores)))
    told["stderr_from"] = "replicas" if "stderr" in scores.sources else _NULL
    for name in _PER_QUERY:
        array: Floats | None = getattr(scores, name)
        if array is None or is_per_row(array, scores.shape):
            continue
        # By name, so that they stay right when columns are chosen or put in another order.
        told[name] = float(array) if scores.queries is None else dict(zip(scores.queries, array.tolist(), strict=True))
    return told


def _from_attributes(attrs: dict[Any, Any], queries: list[Name] | None) -> dict[str, Any]:
    told: dict[str, Any] = dict(attrs.get(_KEY, {}))
    told.pop("stderr_from", None)
    for name in _PER_QUERY:
        kept = told.pop(name, None)
        if isinstance(kept, dict) and queries is not None:
            by_name = cast("dict[Any, Any]", kept)
            # Files that keep attrs as JSON turn numbers into strings.
            found = [by_name.get(query, by_name.get(str(query))) for query in queries]
            if all(value is not None for value in found):
                told[name] = found
        elif isinstance(kept, float) and queries is None:
            told[name] = kept
    return told


def _stderr(table: Any) -> dict[str, Any]:
    """Return the column of standard errors; nothing where it is the spread of never-trained ids."""
    if "stderr" not in table.columns or table.attrs.get(_KEY, {}).get("stderr_from") == _NULL:
        return {}
    return {"stderr": table["stderr"].to_numpy()}


def _from_long(table: Any) -> dict[str, Any]:
    pandas = load_pandas()
    rows, ids = pandas.factorize(table["instance"])
    columns, found = pandas.factorize(table["query"])
    queries = [name_of(one) for one in found]
    again = table.duplicated(["instance", "query"]).to_numpy()
    if again.any():
        row = table[again].iloc[0]
        raise ScoresError(f"instance {row['instance']} and query {row['query']!r} are in the table twice.")
    arrays = {"values": table["score"].to_numpy(), **_stderr(table)}
    for name, numbers in arrays.items():
        arrays[name] = np.full((len(ids), len(queries)), np.nan, np.float32)
        arrays[name][rows, columns] = numbers
    return {"ids": np.asarray(ids), "queries": queries, **_from_attributes(table.attrs, queries), **arrays}
