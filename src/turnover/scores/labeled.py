"""Scores as an xarray Dataset and back; nothing is lost."""

import json
from typing import Any

import numpy as np

from turnover.errors import ScoresError

from .about import SIGN, name_of
from .arrays import Floats
from .content import Content
from .extras import load_xarray

_REPLICAS, _NULL = "replicas", "never-trained ids"


def to_dataset(scores: Content) -> Any:
    """Return a Dataset over instance and query."""
    xarray = load_xarray()
    dims = ("instance", "query")[: len(scores.shape)]
    coords: dict[str, Any] = {"instance": scores.ids}
    if scores.queries is not None:
        same_type = len({type(name) for name in scores.queries}) <= 1
        coords["query"] = np.array(scores.queries, None if scores.queries and same_type else object)
    variables: dict[str, Any] = {"score": (dims, scores.values)}
    if scores.stderr is not None:
        origin = _REPLICAS if "stderr" in scores.sources else _NULL
        variables["stderr"] = (dims, scores.stderr, {"from": origin})
    for name in ("offset", "null_spread"):
        array: Floats | None = getattr(scores, name)
        if array is not None:
            variables[name] = (dims[-1:] if array.ndim else (), array)
    if scores.null is not None:
        variables["null"] = (("never_trained", *dims[1:]), scores.null)
    attrs = {
        "unit": scores.unit,
        "sign": SIGN,
        "path": scores.path,
        "replicas": scores.replicas,
        # A string, since files of labeled arrays hold no nested attributes.
        "provenance": json.dumps(scores.provenance),
    }
    return xarray.Dataset(variables, coords, attrs)


def from_dataset(dataset: Any) -> dict[str, Any]:
    """Return what the class `Scores` takes for the scores in a Dataset."""
    xarray = load_xarray()
    if not isinstance(dataset, xarray.Dataset) or "score" not in dataset:
        raise ScoresError("this is no Dataset with a variable 'score' over 'instance' and 'query'.")
    score: Any = dataset["score"]
    dims = [one for one in ("instance", "query") if one in score.dims]
    if "instance" not in dims or len(dims) != score.ndim:
        raise ScoresError(f"score has the dimensions {list(score.dims)}; give 'instance', or 'instance' and 'query'.")
    given: dict[str, Any] = {
        "values": score.transpose(*dims).to_numpy(),
        "ids": dataset["instance"].to_numpy(),
        "queries": [name_of(one) for one in dataset["query"].to_numpy()] if "query" in dims else None,
        "provenance": json.loads(dataset.attrs.get("provenance", "{}")),
    }
    given |= {name: dataset.attrs[name] for name in ("unit", "path") if name in dataset.attrs}
    given["replicas"] = int(dataset.attrs.get("replicas", 1))
    if "stderr" in dataset and dataset["stderr"].attrs.get("from") != _NULL:
        given["stderr"] = dataset["stderr"].transpose(*dims).to_numpy()
    for name in ("offset", "null_spread"):
        if name in dataset:
            given[name] = dataset[name].to_numpy()
    if "null" in dataset:
        given["null"] = dataset["null"].transpose("never_trained", *dims[1:]).to_numpy()
    return given
