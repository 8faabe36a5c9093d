"""Values that JSON can hold: checking them, comparing them by name, and records that carry their own checksum."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Any, ClassVar, Literal, TypeAlias, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from turnover.errors import StoreError

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

_CHECKSUM = "checksum"
_SHOWN = 60
_ABSENT = object()


def plain(value: object, *, where: str) -> Any:
    """Return a copy of a value made of dict, list, str, int, float, bool and None only; errors call it `where`.

    Tuples become lists and numpy scalars become numbers.
    """
    if isinstance(value, np.generic):
        value = cast("object", value.item())
    if value is None or isinstance(value, bool):
        return value
    for kind in (int, float, str):
        if isinstance(value, kind):
            if isinstance(value, float) and not math.isfinite(value):
                raise StoreError(f"{where} is {value}, which JSON cannot hold. Give a finite number, None or a string.")
            return kind(value)
    if isinstance(value, Mapping):
        result: dict[str, Any] = {}
        for key, inner in cast("Mapping[object, object]", value).items():
            if not isinstance(key, str):
                raise StoreError(f"{where} has the key {key!r}; keys must be strings.")
            result[str(key)] = plain(inner, where=f"{where}.{key}")
        return result
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        return [plain(inner, where=f"{where}[{place}]") for place, inner in enumerate(items)]
    raise StoreError(
        f"{where} is a {type(value).__name__}, which JSON cannot hold. Give numbers, strings, lists and dicts."
    )


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
    old_text, new_text = _shown(cast("object", stored), cast("object", given))
    return [f"{where}: stored {old_text}, given {new_text}"]


def wrong_types(values: object) -> list[str]:
    """Return the fields of a dataclass that was made of JSON whose values are not of their types: "seed (str)"."""
    hints = _hints_of(type(values))
    return [
        f"{name} ({type(value).__name__})"
        for name, hint in hints.items()
        if hasattr(values, name) and not _is_of(value := cast("object", getattr(values, name)), hint)
    ]


_hints_of = cache(get_type_hints)  # a recipe is read whenever a model is copied


def _is_of(value: object, hint: Any) -> bool:
    """Tell whether a value is of a type; a whole number may stand for a float, True for no number."""
    kind, inner = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return any(_is_of(value, one) for one in inner)
    if kind is Literal:
        return type(value) in map(type, cast("tuple[object, ...]", inner))
    if kind is ClassVar or hint is Any:
        return True
    if kind in (list, tuple):
        # tuple[int, int] has as many items, tuple[str, ...] and list[str] any number of the same.
        items = cast("Sequence[object]", value)
        if not isinstance(value, kind) or (kind is tuple and inner[-1] is not ... and len(items) != len(inner)):
            return False
        each = inner if kind is tuple and inner[-1] is not ... else inner[:1] * len(items)
        return all(_is_of(item, one) for item, one in zip(items, each, strict=True))
    if kind is dict:
        pairs = cast("dict[object, object]", value)
        return isinstance(value, dict) and all(_is_of(k, inner[0]) and _is_of(v, inner[1]) for k, v in pairs.items())
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


def _shown(stored: object, given: object) -> tuple[str, str]:
    """Return both values as short texts that show where they differ."""
    texts = ["nothing" if value is _ABSENT else json.dumps(value, sort_keys=True) for value in (stored, given)]
    if max(map(len, texts)) <= _SHOWN:
        return texts[0], texts[1]
    same = next((place for place, (x, y) in enumerate(zip(*texts, strict=False)) if x != y), min(map(len, texts)))
    start = max(0, same - _SHOWN // 2)
    return _cut(texts[0], start), _cut(texts[1], start)


def _cut(text: str, start: int) -> str:
    end = start + _SHOWN
    return ("..." if start else "") + text[start:end] + ("..." if end < len(text) else "")
