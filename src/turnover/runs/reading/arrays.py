"""Images and labels in an npz file as rows."""

import io
import re
import zipfile
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from turnover.errors import DataFileError, TurnOverError
from turnover.runs._pixel_scales import BYTES, FLOATS, INTEGERS
from turnover.runs.config import RunConfig, Watch, unwatched
from turnover.runs.rows import SPLITS, TO_BE_SPLIT, Rows
from turnover.storage import open_arrays

from .columns import BadRows, label_text, natural_order, nearest, number_labels
from .images import SPLIT_NAMES, check_pixels, gray_if_all_are, need_pillow, resized, scaled

_IMAGES = {"images", "image", "x", "data", "pixels", "imgs"}
_LABELS = {"labels", "label", "y", "targets", "target"}
_NAMES = {"classes", "names"}
# Of a file that is damaged, encrypted, or a single array.
_DAMAGED = (
    *(OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError),
)


@dataclass(frozen=True)
class _Part:
    """Images of one split, their labels, and which of them have no bad pixel."""

    images: np.ndarray
    depth: int  # what their pixels are: bytes, integers or floats
    labels: list[str]
    split: int
    name: str
    whole: np.ndarray


def rows_of_arrays(config: RunConfig, *, watch: Watch = unwatched) -> Rows:
    """Return the images of an npz file as rows.

    Known are arrays `images` and `labels`, `x` and `y`, and the same with train, val and test in the name, such as
    `x_train`. Images are [n, height, width] or [n, height, width, channels], of bytes or of any numbers, which
    `Rows.with_bytes` scales. A label of -1 or NaN is none.
    """
    import pandas as pd

    parts = _read(Path(config.data), config, None)
    for split, file in ((1, config.validation_data), (2, config.test_data)):
        if file is not None:
            parts += _read(Path(file), config, split)
    notes: list[str] = []
    total = sum(len(part.labels) for part in parts)
    size = config.image_size
    depths = np.repeat(np.array([part.depth for part in parts], np.int8), [len(part.labels) for part in parts])
    check_pixels(total, size, bytes_each=4 if depths.any() else 1)
    pixels = np.empty((total, size, size, 3), np.float32 if depths.any() else np.uint8)
    done = 0
    for part in parts:
        for image in part.images:
            pixels[done] = _scaled(image, part.depth, size)
            done += 1
            if done % 256 == 0 or done == total:
                watch("reading images", done, total)
    height, width = parts[0].images.shape[1:3]
    if (height, width) != (size, size):
        notes.append(f"Images of {width} x {height} pixels scaled to {size} x {size}.")
    texts = [label for part in parts for label in part.labels]
    labels, label_names = number_labels(texts)
    names = [f"{part.name} {place}" for part in parts for place in range(1, len(part.labels) + 1)]
    origins = [place if part.split <= 0 else None for part in parts for place in range(1, len(part.labels) + 1)]
    rows = Rows(
        "image",
        pd.DataFrame({"image": names, "label": texts}),
        gray_if_all_are(pixels),
        labels,
        label_names,
        "label",
        Path(config.data).name,
        tuple(names),
        tuple(origins),
        np.repeat(np.array([part.split for part in parts], np.int8), [len(part.labels) for part in parts]),
        notes=tuple(notes),
        depths=depths if depths.any() else None,
    )
    whole = np.concatenate([part.whole for part in parts])
    kept = whole & (labels >= 0)
    if kept.all() or not (labels >= 0).any():
        return rows
    bad = BadRows(repr(config.data), config.skip_bad, "image")
    bad.add([names[place] for place in np.flatnonzero(labels < 0)], "without a label")
    bad.add([names[place] for place in np.flatnonzero(~whole)], "with pixels that are NaN or infinite")
    return replace(rows.taken(np.flatnonzero(kept)), notes=(*notes, *bad.notes()))


def _read(path: Path, config: RunConfig, split: int | None) -> list[_Part]:
    """Return the arrays of a file, one part for each split it has, or all as one split."""
    try:
        with open_arrays(path, cure="Give fewer or smaller images.") as file:
            _need_array(file.files, config.label, path)
            arrays = {name: file[name] for name in file.files if _role(name, config.label)}
            shapes = {name: file[name].shape for name in file.files} if len(arrays) < 2 else {}
    except TurnOverError:
        raise
    except FileNotFoundError as error:
        raise DataFileError(f"there is no file {str(path)!r}.") from error
    except _DAMAGED as error:
        raise DataFileError(
            f"{str(path)!r} cannot be read as npz ({error}). Write it with numpy.savez({path.name!r}, images=images, "
            "labels=labels), both of numbers or strings."
        ) from error
    by_split: dict[int, dict[str, str]] = {}
    for name in arrays:
        role = _role(name, config.label)
        if role in ("images", "labels"):
            by_split.setdefault(_split_of(name), {})[role] = name
    pairs = {place: found for place, found in by_split.items() if {"images", "labels"} <= found.keys()}
    if not pairs:
        listed = ", ".join(f"{name!r} {list(shape)}" for name, shape in (shapes or _shapes(arrays)).items())
        raise DataFileError(
            f"{str(path)!r} has no images with labels. Its arrays are {listed or 'none'}; call them 'images' and "
            f"'labels': numpy.savez({path.name!r}, images=images, labels=labels)."
        )
    if len(pairs) > 1:
        pairs.pop(TO_BE_SPLIT, None)
    classes = next((arrays[name] for name in arrays if _role(name, config.label) == "names"), None)
    return [_part(arrays, found, place, split, classes, path, only=len(pairs) == 1) for place, found in pairs.items()]


def _need_array(names: list[str], label: str | None, path: Path) -> None:
    if label is None or label in names:
        return
    near = nearest(label, names)
    suggestion = f" Did you mean --label {near}?" if near else ""
    raise DataFileError(
        f"{str(path)!r} has no array {label!r}.{suggestion} Its arrays are {', '.join(map(repr, names))}."
    )


def _part(
    arrays: Mapping[str, np.ndarray],
    found: Mapping[str, str],
    place: int,
    split: int | None,
    classes: np.ndarray | None,
    path: Path,
    *,
    only: bool,
) -> _Part:
    images, labels = arrays[found["images"]], arrays[found["labels"]]
    where = f"{found['images']!r} of {str(path)!r}"
    if labels.ndim == 2 and labels.shape[1] > 1 and (labels.dtype == bool or np.issubdtype(labels.dtype, np.number)):
        labels = _of_one_hot(labels, f"{found['labels']!r} of {str(path)!r}")
    labels = labels.reshape(-1)
    if images.ndim not in (3, 4) or len(images) != len(labels):
        raise DataFileError(
            f"{where} is {list(images.shape)} and its labels {list(labels.shape)}. Give images [n, height, width] or "
            "[n, height, width, channels] and one label each."
        )
    if not images.size:
        raise DataFileError(f"{where} is empty, {list(images.shape)}. Give at least one image.")
    texts = [label_text(label) for label in labels.tolist()]
    if np.issubdtype(labels.dtype, np.number):
        texts = ["" if label == -1 else text for label, text in zip(labels.tolist(), texts, strict=True)]
    # As many names as images are those of the images, not of the classes.
    if classes is not None and len(classes) != len(images) and np.issubdtype(labels.dtype, np.integer):
        if labels.min(initial=-1) < -1 or labels.max(initial=0) >= len(classes):
            raise DataFileError(
                f"the labels of {where} must be from 0 to {len(classes) - 1}, as there are {len(classes)} names of "
                f"classes, or -1 for none, got {labels.min()} to {labels.max()}. Correct them, or omit the names."
            )
        texts = ["" if label == -1 else str(classes[label]) for label in labels.tolist()]
    chosen = place if split is None else split
    # A file with one set of images only says nothing about splits, whatever its arrays are called.
    chosen = TO_BE_SPLIT if only and split is None else chosen
    name = "image" if chosen == TO_BE_SPLIT else SPLITS[chosen]
    whole = _finite(images, where)
    return _Part(*_with_depth(_channels_last(images, where), whole), texts, chosen, name, whole)


def _of_one_hot(labels: np.ndarray, where: str) -> np.ndarray:
    """Return class numbers of labels [n, classes] that have a single 1 in each row, -1 where there is none."""
    ones = (labels == 1).sum(1)
    if ((labels != 0) & (labels != 1)).any() or (ones > 1).any():
        raise DataFileError(
            f"{where} is {list(labels.shape)}, with several labels per image or shares of them. A run learns one class "
            "per image: give class numbers [n], or a single 1 in each row."
        )
    return np.where(ones == 1, labels.argmax(1), -1)


def _finite(images: np.ndarray, where: str) -> np.ndarray:
    """Tell which images [n] have only pixels that are finite numbers; raise where there is no such image."""
    numbers = images.dtype == bool or images.dtype.kind in "iuf"
    finite = np.zeros(len(images), bool)
    if numbers:
        finite[:] = np.isfinite(images).reshape(len(images), -1).all(1)
    if len(finite) and not finite.any():
        raise DataFileError(f"{where} must have numbers as pixels. Give bytes from 0 to 255, or numbers from 0 to 1.")
    return finite


def _channels_last(images: np.ndarray, where: str) -> np.ndarray:
    if images.ndim == 3:
        return images[..., None]
    if images.shape[-1] in (1, 3, 4):
        return images
    if images.shape[1] in (1, 3, 4):
        return images.transpose(0, 2, 3, 1)
    raise DataFileError(f"{where} is {list(images.shape)}: the last dimension should be 1, 3 or 4 channels.")


def _with_depth(images: np.ndarray, whole: np.ndarray) -> tuple[np.ndarray, int]:
    """Return images as bytes or float32, and what their pixels were; images that are not whole become black."""
    if images.dtype == np.uint8:
        return images, BYTES
    if images.dtype == bool:
        return images.astype(np.uint8) * 255, BYTES
    if not whole.all():
        images = np.where(whole[:, None, None, None], images, images.dtype.type(0))
    return images.astype(np.float32), FLOATS if np.issubdtype(images.dtype, np.floating) else INTEGERS


def _scaled(image: np.ndarray, depth: int, size: int) -> np.ndarray:
    if image.shape[:2] == (size, size) and image.shape[2] in (1, 3):
        return image
    module = need_pillow()
    if depth == BYTES:
        return scaled(module.fromarray(np.ascontiguousarray(image[..., 0] if image.shape[2] == 1 else image)), size)[0]
    if image.shape[2] == 4:  # transparent parts become white
        opaque = image[..., 3:] / max(float(image[..., 3].max()), 1e-12)
        image = image[..., :3] * opaque + float(image.max()) * (1 - opaque)
    return np.stack([resized(np.ascontiguousarray(image[..., channel]), size) for channel in range(image.shape[2])], -1)


def _tokens(name: str) -> list[str]:
    return re.split(r"[^a-z0-9]+", name.lower())


def _role(name: str, label: str | None) -> str | None:
    tokens = set(_tokens(name))
    if name == label:
        return "labels"
    if {"label", "names"} <= tokens or tokens & _NAMES:
        return "names"
    if tokens & _LABELS:
        return "labels" if label is None else None
    return "images" if tokens & _IMAGES else None


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return arrays as the content of an npz file."""
    held = io.BytesIO()
    np.savez_compressed(held, **arrays)  # pyright: ignore[reportArgumentType]
    return held.getvalue()


def arrays_without(path: Path, places: Collection[int]) -> dict[str, np.ndarray]:
    """Return the arrays of an npz file of images without some of those that are not for validation or test."""
    with open_arrays(path) as file:
        arrays = {name: file[name] for name in file.files}
    images = [name for name in arrays if _role(name, None) == "images"]
    own = [name for name in images if _split_of(name) <= 0] or images
    rows = {
        name
        for name in arrays
        if arrays[name].shape[:1] == arrays[own[0]].shape[:1]
        and _role(name, None) != "names"
        and (own == images or _split_of(name) <= 0)
    }
    return {name: np.delete(array, list(places), axis=0) if name in rows else array for name, array in arrays.items()}


def _split_of(name: str) -> int:
    """Return which split the name of an array speaks of: index into SPLITS, or TO_BE_SPLIT."""
    return next((SPLIT_NAMES[token] for token in _tokens(name) if token in SPLIT_NAMES), TO_BE_SPLIT)


def _shapes(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    return {name: arrays[name].shape for name in natural_order(arrays)}
