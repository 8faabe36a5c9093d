"""Images as rows: folders by sub-folder or by a file of labels, npz files, and pixels of a fixed size."""

import io
import os
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from turnover.errors import DataFileError, MissingExtraError, TurnOverError
from turnover.storage import check_memory, open_arrays

from ._splits import draw_rows
from .columns import BadRows, check_column, check_labels, choose_label, label_text, nearest, number_labels
from .config import RunConfig, Watch, unusable_path, unwatched
from .files import TABLE_ENDINGS, Table, arrow_column, need_pyarrow, read_table
from .folder import check_regular
from .table import BYTES, FLOATS, INTEGERS, SPLITS, TO_BE_SPLIT, Rows, in_bytes

if TYPE_CHECKING:
    from PIL import Image

_IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
SPLIT_NAMES = {"train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "dev": 1, "test": 2, "testing": 2}
LABEL_FILES = ("labels.csv", "labels.tsv", "labels.jsonl", "metadata.csv", "metadata.jsonl")
_FILE_COLUMNS = ("file", "file_name", "filename", "image", "path", "image_path", "img", "name", "id")
_MOST_PIXELS = 64_000_000
_MOST_DAMAGED = 0.5
_DAMAGED_IMAGE = (OSError, SyntaxError, ValueError, EOFError, IndexError, OverflowError, struct.error, zlib.error)
# Of an npz file that is damaged, encrypted, or a single array.
_DAMAGED_ARRAYS = (
    *(OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError),
)
_IMAGES = {"images", "image", "x", "data", "pixels", "imgs"}
_LABELS = {"labels", "label", "y", "targets", "target"}
_NAMES = {"classes", "names"}


# Pixels


def read_image(
    file: Path | BinaryIO, *, size: int, scales: Mapping[str, tuple[float, float]] | None = None
) -> np.ndarray:
    """Return an image as uint8 [size, size, 3]: the shorter side scaled to `size`, the middle of the longer one.

    Transparent parts become white, and a photograph is turned as its camera noted. Pixels of sixteen bits or floats
    become bytes by the `scales` of a run.
    """
    pixels, depth = _read_pixels(file, size)
    return in_bytes(pixels, depth, scales or {})


def _read_pixels(file: Path | BinaryIO, size: int) -> tuple[np.ndarray, int]:
    """Return the pixels of an image [size, size, 3] as they are, and whether they are bytes, integers or floats."""
    image_module = need_pillow()
    try:
        with image_module.open(file) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise DataFileError(
                    f"{image.width} x {image.height} pixels are more than {_MOST_PIXELS // 10**6} million"
                )
            # Lets the decoder of JPEG skip detail that would be scaled away.
            image.draft(None, (2 * size, 2 * size))
            return _scaled(image, size)
    except _DAMAGED_IMAGE as error:
        raise DataFileError(str(error) or type(error).__name__) from error
    except (image_module.DecompressionBombError, image_module.DecompressionBombWarning) as error:
        raise DataFileError(str(error)) from error


def _scaled(image: "Image.Image", size: int) -> tuple[np.ndarray, int]:
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        # More than eight bits per pixel, as scanners and medical images have them.
        values = np.asarray(image, np.float32)
        if not np.isfinite(values).all():
            raise DataFileError("it has pixels that are NaN or infinite")
        depth = FLOATS if image.mode == "F" else INTEGERS
        return np.repeat(_resized(values, size)[..., None], 3, axis=2), depth
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    rgb = image.convert("RGB")
    if rgb.size != (size, size):
        rgb = ImageOps.fit(rgb, (size, size), Image.Resampling.BICUBIC)
    return np.asarray(rgb), BYTES


def _resized(values: np.ndarray, size: int) -> np.ndarray:
    """Return float32 [height, width] as [size, size], in the same way as images of bytes."""
    from PIL import Image, ImageOps

    if values.shape == (size, size):
        return values
    return np.asarray(ImageOps.fit(Image.fromarray(values), (size, size), Image.Resampling.BICUBIC))


def _gray_if_all_are(pixels: np.ndarray) -> np.ndarray:
    """Return images [n, h, w, 3] with one channel if none of them has any color."""
    for start in range(0, len(pixels), 1024):
        part = pixels[start : start + 1024]
        if (part != part[..., :1]).any():
            return pixels
    return np.ascontiguousarray(pixels[..., :1])


def _empty_pixels(images: int, size: int, kind: type) -> np.ndarray:
    """Return room for images; raise where it needs more memory than is free."""
    check_memory(
        images * size * size * 3 * np.dtype(kind).itemsize,
        f"{images:,} images of {size} x {size} pixels need",
        cure="Give a smaller --image-size, or fewer images.",
    )
    return np.empty((images, size, size, 3), kind)


def need_pillow() -> Any:
    """Return the module of Pillow that opens images."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("reading images needs Pillow: pip install 'turnover[cli]'.") from error
    return Image


# Folders


@dataclass
class Images:
    """Images of a folder or data set, before any is opened."""

    files: list[Path | BinaryIO]
    names: list[str]
    origins: list[Any]  # their files, lines of labels or rows in the data; None for those of other folders or splits
    labels: list[str]
    splits: list[int]  # index into SPLITS, or TO_BE_SPLIT
    columns: dict[str, list[Any]] = field(default_factory=dict)
    label_column: str = "label"
    groups: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def rows_of_folder(config: RunConfig, *, watch: Watch = unwatched) -> Rows:
    """Return the images of a folder as rows."""
    need_pillow()
    images = _find(Path(config.data), config)
    for split, folder in config.split_files:
        more = _find(Path(folder), config)
        images.files += more.files
        images.names += [f"{Path(folder).name}/{name}" for name in more.names]
        images.origins += [None] * len(more.names)
        images.labels += more.labels
        images.splits += [split] * len(more.files)
        images.groups += more.groups
        images.notes += more.notes
        images.columns = {}
    return rows_of_images(images, config, name=Path(config.data).resolve().name, watch=watch)


def rows_of_images(images: Images, config: RunConfig, *, name: str, watch: Watch) -> Rows:
    """Return images as rows; those without a label are skipped or rejected, only those that are drawn are opened."""
    numbers, label_names = number_labels(images.labels)
    splits = np.array(images.splits, np.int8)
    labeled = numbers >= 0
    trained = (splits < 1) & labeled
    check_labels(numbers[trained], label_names, column=images.label_column, source=config.data)
    places, notes = np.flatnonzero(labeled), list(images.notes)
    bad = BadRows(repr(config.data), config.skip_bad, "image")
    bad.add([images.names[place] for place in np.flatnonzero(~labeled)], "without a label")
    notes += bad.notes()
    if config.max_rows is not None and trained.sum() > config.max_rows:
        drawn = np.flatnonzero(trained)[draw_rows(numbers[trained], config.max_rows, seed=config.seed)]
        notes.append(f"{config.max_rows:,} of {int(trained.sum()):,} images drawn at random, classes in proportion.")
        places = np.sort(np.concatenate([drawn, np.flatnonzero((splits >= 1) & labeled)]))
    names = [images.names[place] for place in places]
    pixels, depths, whole = _open_images([images.files[place] for place in places], names, config, notes, watch)
    places = places[whole]
    labels, label_names = number_labels(images.labels[place] for place in places)
    columns = images.columns or {"file": images.names, images.label_column: images.labels}
    data = {column: arrow_column([values[place] for place in places]) for column, values in columns.items()}
    return Rows.of(
        "image",
        need_pyarrow().table(data),
        pixels,
        labels,
        label_names,
        name=name,
        label_column=images.label_column,
        names=[images.names[place] for place in places],
        origins=[images.origins[place] for place in places],
        splits=splits[places],
        groups=[images.groups[place] for place in places] if images.groups else (),
        notes=notes,
        depths=depths if depths.any() else None,
    )


def _find(folder: Path, config: RunConfig) -> Images:
    """Return the images below a folder and their labels, without opening any."""
    if not folder.is_dir():
        raise DataFileError(
            f"{str(folder)!r} must be a folder. Give validation and test images as the images are given."
        )
    entries = sorted(folder.rglob("*"))
    for path in entries:
        check_regular(path)
    labels = next((folder / name for name in LABEL_FILES if (folder / name).is_file()), None)
    files = [path for path in entries if path.is_file() and not _is_hidden(path, folder)]
    images = [path for path in files if path.suffix.lower() in _IMAGE_ENDINGS]
    if not images:
        raise _no_images(folder, files)
    if bad := [ascii(name) for path in images if unusable_path(name := path.relative_to(folder).as_posix())]:
        raise DataFileError(
            f"{str(folder)!r} has {len(bad):,} images whose names are not valid UTF-8: {', '.join(bad[:5])}. Rename "
            "them and the folders they are in."
        )
    if labels is not None:
        return _by_file(folder, labels, config)
    for option, name in (("--label", config.label), ("--group", config.group)):
        if name is not None:
            raise DataFileError(
                f"{option} {name} needs a column: put labels.csv into {str(folder)!r}, with the columns file, "
                f"{config.label or 'label'}{f' and {config.group}' if config.group else ''}. Without it, names of "
                "sub-folders are the labels."
            )
    if all(path.parent == folder for path in images):
        raise DataFileError(
            f"{str(folder)!r} has {len(images):,} images and no labels. Put each into a sub-folder named after its "
            "class, or write labels.csv beside them, with the columns file and label."
        )
    return _by_sub_folder(folder, files, images)


def _by_sub_folder(folder: Path, files: list[Path], images: list[Path]) -> Images:
    notes = []
    if top := [path for path in images if path.parent == folder]:
        notes.append(f"{len(top):,} images that are in no sub-folder skipped, {top[0].name!r} among them.")
    if others := [path for path in files if path.suffix.lower() not in _IMAGE_ENDINGS]:
        notes.append(f"{len(others):,} files that are not images skipped, {others[0].name!r} among them.")
    parts = [(path, path.relative_to(folder).parts) for path in images if path.parent != folder]
    # train/cat/1.png: the first folder is a split if all are, and each holds folders of classes.
    as_splits = all(part[0].lower() in SPLIT_NAMES and len(part) > 2 for _, part in parts)
    as_splits = as_splits and any(SPLIT_NAMES[part[0].lower()] == 0 for _, part in parts)
    if not as_splits and len({part[0] for _, part in parts}) == 1:
        raise DataFileError(
            f"{str(folder)!r} has images in one sub-folder only, {parts[0][1][0]!r}: one class. Give the folder that "
            "holds a sub-folder for each class."
        )
    names = ["/".join(part) for _, part in parts]
    return Images(
        [path for path, _ in parts],
        names,
        list(names),
        [part[1 if as_splits else 0] for _, part in parts],
        [SPLIT_NAMES[part[0].lower()] if as_splits else TO_BE_SPLIT for _, part in parts],
        notes=notes,
    )


def _by_file(folder: Path, labels: Path, config: RunConfig) -> Images:
    """Return the images that a file of labels names."""
    table = read_table(labels)
    named, files = images_named_by(table, folder)
    label_column = choose_label(table, config)
    if config.group is not None:
        check_column(table, config.group, option="--group")
    if missing := [name for name, file in zip(named, files, strict=True) if file is None]:
        raise DataFileError(
            f"{len(missing):,} of {len(named):,} images that {str(labels)!r} names are not in {str(folder)!r}: "
            f"{', '.join(map(repr, missing[:5]))}. Put them there, named from that folder on, or remove their lines."
        )
    columns = {name: table.data.column(name).to_pylist() for name in table.columns}
    groups = [] if config.group is None else [label_text(value) for value in columns[config.group]]
    return Images(
        [file for file in files if file is not None],
        named,
        table.numbers.tolist(),
        [label_text(value) for value in columns[label_column]],
        [TO_BE_SPLIT] * len(named),
        columns,
        label_column,
        [group or name for group, name in zip(groups, named, strict=True)] if groups else [],
    )


def images_named_by(table: Table, folder: Path) -> tuple[list[str], list[Path | None]]:
    """Return what each line of a file of labels names, and the file of that image; None where it is missing."""
    by_lower = {name.lower(): name for name in table.columns}
    column = next((by_lower[name] for name in _FILE_COLUMNS if name in by_lower), None)
    if column is None:
        raise DataFileError(
            f"{table.source!r} has no column that names the images. Its columns are "
            f"{', '.join(map(repr, table.columns))}; call one of them 'file'."
        )
    named = [label_text(value) for value in table.data.column(column).to_pylist()]
    return named, [_with_ending(folder, name) for name in named]


def _with_ending(folder: Path, name: str) -> Path | None:
    """Return the file of a name, which may lack its ending; None also for one outside of the folder."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        return None
    tried = [folder / name, *(folder / f"{name}{ending}" for ending in _IMAGE_ENDINGS)]
    return next((path for path in tried if os.path.isfile(path)), None)


def _open_images(
    files: Sequence[Path | BinaryIO], names: Sequence[str], config: RunConfig, notes: list[str], watch: Watch
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the pixels of all images that open, what kind they are, and their places; `notes` says what is skipped."""
    pixels = _empty_pixels(len(files), config.image_size, np.uint8)
    depths = np.full(len(files), BYTES, np.int8)
    damaged: dict[int, str] = {}
    for place, file in enumerate(files):
        try:
            image, depths[place] = _read_pixels(file, config.image_size)
            if depths[place] != BYTES and pixels.dtype == np.uint8:
                pixels = pixels.astype(np.float32)
            pixels[place] = image
        except DataFileError as error:
            damaged[place] = str(error)
        if place % 64 == 63 or place + 1 == len(files):
            watch("reading images", place + 1, len(files))
    whole = np.array([place for place in range(len(files)) if place not in damaged], np.int64)
    if damaged:
        first = damaged[min(damaged)]
        if config.skip_bad and len(damaged) >= _MOST_DAMAGED * len(files):
            raise DataFileError(
                f"{len(damaged):,} of {len(files):,} images cannot be opened, {names[min(damaged)]} among them "
                f"({first}): too many to skip. Replace these files."
            )
        bad = BadRows(repr(config.data), config.skip_bad, "image", "Replace or remove these files")
        bad.add([names[place] for place in damaged], f"of {len(files):,} that cannot be opened", why=first)
        notes += bad.notes()
        pixels, depths = pixels[whole], depths[whole]
    return _gray_if_all_are(pixels), depths, whole


def _no_images(folder: Path, files: list[Path]) -> DataFileError:
    if not files:
        return DataFileError(
            f"the folder {str(folder)!r} is empty. Give one with a sub-folder of images for each class."
        )
    endings = Counter(path.suffix.lower() for path in files).most_common(3)
    kinds = ", ".join(f"{count:,} {ending or 'without ending'}" for ending, count in endings)
    tables = [path for path in files if path.suffix.lower() in (*TABLE_ENDINGS, ".npz")]
    cure = f"Give the file itself: {tables[0]}" if tables else "Give one with a sub-folder of images for each class"
    return DataFileError(
        f"the folder {str(folder)!r} has no images ({', '.join(_IMAGE_ENDINGS[:4])}, ...), but {kinds}. {cure}."
    )


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in path.relative_to(folder).parts)


# npz files


@dataclass(frozen=True)
class _Arrays:
    """Images of one split, their labels, and which of them have no bad pixel."""

    images: np.ndarray
    depth: int  # what their pixels are: bytes, integers or floats
    labels: list[str]
    split: int
    whole: np.ndarray


def rows_of_arrays(config: RunConfig, *, watch: Watch = unwatched) -> Rows:
    """Return the images of an npz file as rows.

    Known are arrays `images` and `labels`, `x` and `y`, and the same with train, val and test in the name, such as
    `x_train`. Images are [n, height, width] or [n, height, width, channels], of bytes or of any numbers, which
    `Rows.with_bytes` scales. A label of -1 or NaN is none.
    """
    parts = _read_arrays(Path(config.data), config, None)
    for split, file in config.split_files:
        parts += _read_arrays(Path(file), config, split)
    sizes = [len(part.labels) for part in parts]
    total, size, done = sum(sizes), config.image_size, 0
    depths = np.repeat(np.array([part.depth for part in parts], np.int8), sizes)
    pixels = _empty_pixels(total, size, np.float32 if depths.any() else np.uint8)
    for part in parts:
        for image in part.images:
            pixels[done] = _scaled_array(image, part.depth, size)
            done += 1
            if done % 256 == 0 or done == total:
                watch("reading images", done, total)
    height, width = parts[0].images.shape[1:3]
    fits = (height, width) == (size, size)
    notes = [] if fits else [f"Images of {width} x {height} pixels scaled to {size} x {size}."]
    texts = [label for part in parts for label in part.labels]
    labels, label_names = number_labels(texts)
    names: list[str] = []
    origins: list[int | None] = []
    for part in parts:
        called = "image" if part.split == TO_BE_SPLIT else SPLITS[part.split]
        names += [f"{called} {place}" for place in range(1, len(part.labels) + 1)]
        origins += [place if part.split <= 0 else None for place in range(1, len(part.labels) + 1)]
    whole = np.concatenate([part.whole for part in parts])
    kept = whole & (labels >= 0)
    if not kept.all() and (labels >= 0).any():
        bad = BadRows(repr(config.data), config.skip_bad, "image")
        bad.add([names[place] for place in np.flatnonzero(labels < 0)], "without a label")
        bad.add([names[place] for place in np.flatnonzero(~whole)], "with pixels that are NaN or infinite")
        notes += bad.notes()
    else:
        kept[:] = True
    rows = Rows.of(
        "image",
        need_pyarrow().table({"image": names, "label": texts}),
        _gray_if_all_are(pixels),
        labels,
        label_names,
        name=Path(config.data).name,
        label_column="label",
        names=names,
        origins=origins,
        splits=np.repeat(np.array([part.split for part in parts], np.int8), sizes),
        notes=notes,
        depths=depths if depths.any() else None,
    )
    return rows if kept.all() else rows.taken(np.flatnonzero(kept))


def _read_arrays(path: Path, config: RunConfig, split: int | None) -> list[_Arrays]:
    """Return the arrays of a file, one part for each split it has, or all as one split."""
    try:
        with open_arrays(path, cure="Give fewer or smaller images.") as file:
            if config.label is not None and config.label not in file.files:
                near = nearest(config.label, file.files)
                raise DataFileError(
                    f"{str(path)!r} has no array {config.label!r}.{f' Did you mean --label {near}?' if near else ''} "
                    f"Its arrays are {', '.join(map(repr, file.files))}."
                )
            arrays = {name: file[name] for name in file.files if _role(name, config.label)}
            shapes = {name: file[name].shape for name in file.files} if len(arrays) < 2 else {}
    except TurnOverError:
        raise
    except FileNotFoundError as error:
        raise DataFileError(f"there is no file {str(path)!r}.") from error
    except _DAMAGED_ARRAYS as error:
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
        shapes = shapes or {name: array.shape for name, array in arrays.items()}
        listed = ", ".join(f"{name!r} {list(shape)}" for name, shape in sorted(shapes.items()))
        raise DataFileError(
            f"{str(path)!r} has no images with labels. Its arrays are {listed or 'none'}; call them 'images' and "
            f"'labels': numpy.savez({path.name!r}, images=images, labels=labels)."
        )
    if len(pairs) > 1:
        pairs.pop(TO_BE_SPLIT, None)
    classes = next((arrays[name] for name in arrays if _role(name, config.label) == "names"), None)
    parts = []
    for place, found in pairs.items():
        # A file with one set of images only says nothing about splits, whatever its arrays are called.
        chosen = split if split is not None else TO_BE_SPLIT if len(pairs) == 1 else place
        where = f"{found['images']!r} of {str(path)!r}"
        parts.append(_checked_arrays(arrays[found["images"]], arrays[found["labels"]], classes, chosen, where))
    return parts


def _checked_arrays(
    images: np.ndarray, labels: np.ndarray, classes: np.ndarray | None, split: int, where: str
) -> _Arrays:
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
    whole = np.zeros(len(images), bool)
    if images.dtype == bool or images.dtype.kind in "iuf":
        whole[:] = np.isfinite(images).reshape(len(images), -1).all(1)
    if not whole.any():
        raise DataFileError(f"{where} must have numbers as pixels. Give bytes from 0 to 255, or numbers from 0 to 1.")
    return _Arrays(*_with_depth(_channels_last(images, where), whole), texts, split, whole)


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


def _scaled_array(image: np.ndarray, depth: int, size: int) -> np.ndarray:
    if image.shape[:2] == (size, size) and image.shape[2] in (1, 3):
        return image
    if depth == BYTES:
        whole = np.ascontiguousarray(image[..., 0] if image.shape[2] == 1 else image)
        return _scaled(need_pillow().fromarray(whole), size)[0]
    if image.shape[2] == 4:  # transparent parts become white
        opaque = image[..., 3:] / max(float(image[..., 3].max()), 1e-12)
        image = image[..., :3] * opaque + float(image.max()) * (1 - opaque)
    return np.stack(
        [_resized(np.ascontiguousarray(image[..., channel]), size) for channel in range(image.shape[2])], -1
    )


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


def _split_of(name: str) -> int:
    """Return which split the name of an array speaks of: index into SPLITS, or TO_BE_SPLIT."""
    return next((SPLIT_NAMES[token] for token in _tokens(name) if token in SPLIT_NAMES), TO_BE_SPLIT)


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
