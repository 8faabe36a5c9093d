"""Images: pixels of a fixed size, and folders as rows by a sub-folder for each class or a file of labels."""

import os
import struct
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from turnover.errors import DataFileError, MissingExtraError
from turnover.runs._pixel_scales import BYTES, FLOATS, INTEGERS, PixelScale, in_bytes
from turnover.runs._splits import draw_rows
from turnover.runs.config import RunConfig, Watch, unusable_path, unwatched
from turnover.runs.folder import check_regular
from turnover.runs.rows import TO_BE_SPLIT, Rows
from turnover.storage import check_memory

from .columns import BadRows, check_column, check_labels, choose_label, label_text, number_labels
from .tables import TABLE_ENDINGS, Table, read_table, values_of

if TYPE_CHECKING:
    from PIL import Image

_IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
SPLIT_NAMES = {"train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "dev": 1, "test": 2, "testing": 2}
LABEL_FILES = ("labels.csv", "labels.tsv", "labels.jsonl", "metadata.csv", "metadata.jsonl")
_FILE_COLUMNS = ("file", "file_name", "filename", "image", "path", "image_path", "img", "name", "id")
_MOST_PIXELS = 64_000_000
_MOST_DAMAGED = 0.5
_DAMAGED = (OSError, SyntaxError, ValueError, EOFError, IndexError, OverflowError, struct.error, zlib.error)


def read_image(file: Path | BinaryIO, *, size: int, scales: Mapping[str, PixelScale] | None = None) -> np.ndarray:
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
            return scaled(image, size)
    except _DAMAGED as error:
        raise DataFileError(str(error) or type(error).__name__) from error
    except (image_module.DecompressionBombError, image_module.DecompressionBombWarning) as error:
        raise DataFileError(str(error)) from error


def scaled(image: "Image.Image", size: int) -> tuple[np.ndarray, int]:
    """Return an opened image as [size, size, 3], and whether its pixels are bytes, integers or floats."""
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        # More than eight bits per pixel, as scanners and medical images have them.
        values = np.asarray(image, np.float32)
        if not np.isfinite(values).all():
            raise DataFileError("it has pixels that are NaN or infinite")
        depth = FLOATS if image.mode == "F" else INTEGERS
        return np.repeat(resized(values, size)[..., None], 3, axis=2), depth
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    rgb = image.convert("RGB")
    if rgb.size != (size, size):
        rgb = ImageOps.fit(rgb, (size, size), Image.Resampling.BICUBIC)
    return np.asarray(rgb), BYTES


def resized(values: np.ndarray, size: int) -> np.ndarray:
    """Return float32 [height, width] as [size, size], in the same way as images of bytes."""
    from PIL import Image, ImageOps

    if values.shape == (size, size):
        return values
    return np.asarray(ImageOps.fit(Image.fromarray(values), (size, size), Image.Resampling.BICUBIC))


def gray_if_all_are(pixels: np.ndarray) -> np.ndarray:
    """Return images [n, h, w, 3] with one channel if none of them has any color."""
    for start in range(0, len(pixels), 1024):
        part = pixels[start : start + 1024]
        if (part != part[..., :1]).any():
            return pixels
    return np.ascontiguousarray(pixels[..., :1])


def check_pixels(images: int, size: int, *, bytes_each: int = 1) -> None:
    """Raise where so many images of `size` pixels need more memory than is free."""
    check_memory(
        images * size * size * 3 * bytes_each,
        f"{images:,} images of {size} x {size} pixels need",
        cure="Give a smaller --image-size, or fewer images.",
    )


def need_pillow() -> Any:
    """Return the module of Pillow that opens images."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("reading images needs Pillow: pip install 'turnover[cli]'.") from error
    return Image


@dataclass(frozen=True)
class Images:
    """Images of a folder or archive, before any is opened."""

    files: list[Path | BinaryIO]
    names: list[str]
    origins: list[
        str | int | None
    ]  # their files, lines of labels or rows in the data; None for those of other folders or splits
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
    for split, folder in ((1, config.validation_data), (2, config.test_data)):
        if folder is not None:
            more = _find(Path(folder), config)
            images = _joined(images, more, split, Path(folder).name)
    return rows_of_images(images, config, name=Path(config.data).resolve().name, watch=watch)


def rows_of_images(images: Images, config: RunConfig, *, name: str, watch: Watch) -> Rows:
    """Return images as rows; those without a label are skipped or rejected, only those that are drawn are opened."""
    import pandas as pd

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
    frame = pd.DataFrame({column: [values[place] for place in places] for column, values in columns.items()})
    return Rows(
        "image",
        frame,
        pixels,
        labels,
        label_names,
        images.label_column,
        name,
        tuple(images.names[place] for place in places),
        tuple(images.origins[place] for place in places),
        splits[places],
        groups=tuple(images.groups[place] for place in places) if images.groups else (),
        notes=tuple(notes),
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
    unusable = [ascii(name) for path in images if unusable_path(name := path.relative_to(folder).as_posix())]
    if unusable:
        raise DataFileError(
            f"{str(folder)!r} has {len(unusable):,} images whose names are not valid UTF-8: {', '.join(unusable[:5])}. "
            "Rename them and the folders they are in."
        )
    if labels is not None:
        return _by_file(folder, labels, config)
    if config.label is not None:
        raise DataFileError(
            f"--label {config.label} needs a column: put labels.csv into {str(folder)!r}, with the columns file and "
            f"{config.label}. Without it, names of sub-folders are the labels."
        )
    if config.group is not None:
        raise DataFileError(
            f"--group {config.group} needs a column: put labels.csv into {str(folder)!r}, with the columns file, label "
            f"and {config.group}."
        )
    if all(path.parent == folder for path in images):
        raise DataFileError(
            f"{str(folder)!r} has {len(images):,} images and no labels. Put each into a sub-folder named after its "
            "class, or write labels.csv beside them, with the columns file and label."
        )
    return _by_sub_folder(folder, files, images)


def _by_sub_folder(folder: Path, files: list[Path], images: list[Path]) -> Images:
    notes = []
    top = [path for path in images if path.parent == folder]
    if top:
        notes.append(f"{len(top):,} images that are in no sub-folder skipped, {top[0].name!r} among them.")
    others = [path for path in files if path.suffix.lower() not in _IMAGE_ENDINGS]
    if others:
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
    return Images(
        [path for path, _ in parts],
        ["/".join(part) for _, part in parts],
        ["/".join(part) for _, part in parts],
        [part[1 if as_splits else 0] for _, part in parts],
        [SPLIT_NAMES[part[0].lower()] if as_splits else TO_BE_SPLIT for _, part in parts],
        notes=notes,
    )


def _by_file(folder: Path, labels: Path, config: RunConfig) -> Images:
    """Return the images that a file of labels names."""
    table = read_table(labels)
    columns = [str(name) for name in table.frame.columns]
    named, files = images_named_by(table, folder)
    label_column = choose_label(table, config)
    if config.group is not None:
        check_column(table, config.group, option="--group")
    missing = [name for name, file in zip(named, files, strict=True) if file is None]
    if missing:
        raise DataFileError(
            f"{len(missing):,} of {len(named):,} images that {str(labels)!r} names are not in {str(folder)!r}: "
            f"{', '.join(map(repr, missing[:5]))}. Put them there, named from that folder on, or remove their lines."
        )
    groups = [] if config.group is None else [label_text(value) for value in values_of(table.frame, config.group)]
    return Images(
        [file for file in files if file is not None],
        named,
        table.numbers.tolist(),
        [label_text(value) for value in values_of(table.frame, label_column)],
        [TO_BE_SPLIT] * len(named),
        {name: values_of(table.frame, name) for name in columns},
        label_column,
        [group or name for group, name in zip(groups, named, strict=True)] if groups else [],
    )


def images_named_by(table: Table, folder: Path) -> tuple[list[str], list[Path | None]]:
    """Return what each line of a file of labels names, and the file of that image; None where it is missing."""
    columns = [str(name) for name in table.frame.columns]
    by_lower = {name.lower(): name for name in columns}
    column = next((by_lower[name] for name in _FILE_COLUMNS if name in by_lower), None)
    if column is None:
        raise DataFileError(
            f"{table.source!r} has no column that names the images. Its columns are {', '.join(map(repr, columns))}; "
            "call one of them 'file'."
        )
    named = [label_text(value) for value in values_of(table.frame, column)]
    return named, [_with_ending(folder, name) for name in named]


def _with_ending(folder: Path, name: str) -> Path | None:
    """Return the file of a name, which may lack its ending; None also for one outside of the folder."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        return None
    tried = [folder / name, *(folder / f"{name}{ending}" for ending in _IMAGE_ENDINGS)]
    return next((path for path in tried if os.path.isfile(path)), None)


def _joined(one: Images, more: Images, split: int, name: str) -> Images:
    return Images(
        [*one.files, *more.files],
        one.names + [f"{name}/{row}" for row in more.names],
        one.origins + [None] * len(more.names),
        one.labels + more.labels,
        one.splits + [split] * len(more.files),
        {},
        one.label_column,
        one.groups + more.groups,
        one.notes + more.notes,
    )


def _open_images(
    files: Sequence[Path | BinaryIO], names: Sequence[str], config: RunConfig, notes: list[str], watch: Watch
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the pixels of all images that open, what kind they are, and their places; `notes` says what is skipped."""
    check_pixels(len(files), config.image_size)
    pixels = np.empty((len(files), config.image_size, config.image_size, 3), np.uint8)
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
        if config.skip_bad and len(damaged) >= _MOST_DAMAGED * len(files):
            raise DataFileError(
                f"{len(damaged):,} of {len(files):,} images cannot be opened, {names[min(damaged)]} among them "
                f"({damaged[min(damaged)]}): too many to skip. Replace these files."
            )
        bad = BadRows(repr(config.data), config.skip_bad, "image", "Replace or remove these files")
        problem = f"of {len(files):,} that cannot be opened"
        bad.add([names[place] for place in damaged], problem, why=damaged[min(damaged)])
        notes += bad.notes()
        pixels, depths = pixels[whole], depths[whole]
    return gray_if_all_are(pixels), depths, whole


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
