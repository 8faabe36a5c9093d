"""Values that JSON can hold: checking them, comparing them by name, and records that carry their own checksum."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, ClassVar, Literal, TypeAlias, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from turnover.errors import StoreError, TurnOverError

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

_CHECKSUM = "checksum"
_SHOWN = 60
_ABSENT = object()


def plain(value: object, *, where: str, error: type[TurnOverError] = StoreError) -> Any:
    """Return a copy made of dict, list, str, int, float, bool and None only; `error` names the entry that JSON lacks.

    Tuples become lists and numpy scalars numbers; keys are strings afterwards.
    """
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value).items()
        return {str(key): plain(inner, where=f"{where}.{key}", error=error) for key, inner in entries}
    try:
        return json.loads(json.dumps(value, allow_nan=False, default=_as_json))
    except (TypeError, ValueError, RecursionError) as problem:
        raise error(f"{where} cannot be written as JSON: {problem}. Give numbers, strings, lists and dicts.") from None


def _as_json(value: object) -> object:
    if isinstance(value, np.generic):
        return cast("object", value.item())
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    raise TypeError(f"it has an object of type {type(value).__name__}")


def as_plain(value: Any) -> Any:
    """Return a result as JSON could hold it: dataclasses as dicts, arrays as lists, NaN and infinity as None.

    What has an `as_dict` of its own is what that returns.

    Example:
        >>> as_plain({"score": np.float32(0.5), "rows": np.arange(2), "missing": float("nan")})
        {'score': 0.5, 'rows': [0, 1], 'missing': None}
    """
    if hasattr(value, "as_dict"):
        return value.as_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): as_plain(item) for name, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, np.ndarray | np.generic):
        return as_plain(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [as_plain(item) for item in cast("Sequence[Any]", value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def differences(stored: Any, given: Any, *, where: str = "") -> list[str]:
    """Return one line for each entry in which two plain values differ: "model.seed: stored 0, given 1"."""
    if isinstance(stored, dict) and isinstance(given, dict):
        old, new = cast("dict[str, Any]", stored), cast("dict[str, Any]", given)
        return [
            line
            for key in dict.fromkeys([*old, *new])
            for line in differences(
                old.get(key, _ABSENT), new.get(key, _ABSENT), where=f"{where}.{key}" if where else key
            )
        ]
    if isinstance(stored, list) and isinstance(given, list):
        before, after = cast("list[Any]", stored), cast("list[Any]", given)
        if len(before) == len(after):
            pairs = enumerate(zip(before, after, strict=True))
            return [line for place, (x, y) in pairs for line in differences(x, y, where=f"{where}[{place}]")]
    # In Python True equals 1, in JSON it does not.
    elif isinstance(stored, bool) == isinstance(given, bool) and stored == given:
        return []
    both = cast("tuple[object, object]", (stored, given))
    texts = ["nothing" if value is _ABSENT else json.dumps(value, sort_keys=True) for value in both]
    if max(map(len, texts)) > _SHOWN:  # shown where they differ
        same = next((place for place, (x, y) in enumerate(zip(*texts, strict=False)) if x != y), min(map(len, texts)))
        start = max(0, same - _SHOWN // 2)
        end = start + _SHOWN
        texts = [("..." if start else "") + text[start:end] + ("..." if end < len(text) else "") for text in texts]
    return [f"{where}: stored {texts[0]}, given {texts[1]}"]


def wrong_types(values: object) -> list[str]:
    """Return the fields of a dataclass that was made of JSON whose values are not of their types: "seed (str)"."""
    return [
        f"{name} ({type(value).__name__})"
        for name, hint in _hints_of(type(values)).items()
        if hasattr(values, name) and not _is_of(value := cast("object", getattr(values, name)), hint)
    ]


_hints_of = cache(get_type_hints)  # a recipe is read whenever a model is copied


def _is_of(value: object, hint: Any) -> bool:
    """Tell whether a value is of a type; a whole number may stand for a float, True for no number."""
    kind, inner = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return any(_is_of(value, one) for one in inner)
    if kind is Literal:
        return any(type(value) is type(one) and value == one for one in inner)
    if kind is ClassVar or hint is Any:
        return True
    if kind in (list, tuple) and isinstance(value, kind):
        items = cast("Sequence[object]", value)
        if kind is tuple and inner[-1] is not ...:
            return len(items) == len(inner) and all(map(_is_of, items, inner))
        return all(_is_of(item, inner[0]) for item in items)
    if kind is dict and isinstance(value, dict):
        pairs = cast("dict[object, object]", value)
        return all(_is_of(key, inner[0]) and _is_of(item, inner[1]) for key, item in pairs.items())
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, kind or hint) or (isinstance(value, int) and hint is float)


def to_record(content: Mapping[str, Any], *, indent: int | None = None, allow_nan: bool = False) -> bytes:
    """Return plain content as JSON, with a checksum of itself; equal content gives equal bytes."""
    whole = {**content, _CHECKSUM: _checksum(content)}
    return json.dumps(whole, sort_keys=True, indent=indent, allow_nan=allow_nan).encode() + b"\n"


def parse(data: bytes) -> dict[str, Any] | None:
    """Return a JSON object, without a look at its checksum, or None where there is none."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", content) if isinstance(content, dict) else None


def from_record(data: bytes) -> dict[str, Any] | None:
    """Return what `to_record` was given, or None if the bytes are damaged."""
    content = parse(data)
    # Bytes that lack their end were cut off, even if only the line break is missing.
    if content is None or not data.endswith(b"\n"):
        return None
    checksum = content.pop(_CHECKSUM, None)
    return content if checksum == _checksum(content) else None


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
