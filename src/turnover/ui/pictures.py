"""Images: from a file to pixels like those a run was trained on, and from pixels to files that pages show."""

import base64
import io
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from turnover.errors import MissingExtraError
from turnover.runs import PixelInputs, Run, read_image

if TYPE_CHECKING:
    from PIL import Image

_LARGEST_PICTURE = 96
# Up to this size every pixel counts; larger pictures are photographs more often than not.
_EXACT_PICTURE = 20
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def pixels_for(run: Run, file: Path | BinaryIO) -> np.ndarray:
    """Return a new image as the images of a run are: uint8 [height, width, channels]."""
    how = run.preparation
    assert isinstance(how, PixelInputs)
    height, width = how.size
    image = as_image(read_image(file, size=height, scales=run.rows.scales))
    if image.size != (width, height):  # the run was trained on arrays that are not square
        image = image.resize((width, height))
    # A copy: what Pillow hands over cannot be written to, which torch warns of.
    return np.array(image.convert(_MODES[how.channels])).reshape(height, width, how.channels)


def as_image(pixels: np.ndarray) -> "Image.Image":
    """Return uint8 [height, width, channels] as an image of Pillow."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("pictures need pillow, which is not installed: pip install 'turnover[cli]'") from error
    return Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)


def as_png(pixels: np.ndarray) -> bytes:
    """Return an image as a PNG file."""
    return _file(as_image(pixels), "PNG")


def as_data_uri(pixels: np.ndarray) -> str:
    """Return an image as a page can hold it within itself."""
    return _data_uri("png", as_png(pixels))


def thumbnail(pixels: np.ndarray) -> str:
    """Return an image, made small, as a page can hold it within itself."""
    image = as_image(pixels)
    image.thumbnail((_LARGEST_PICTURE, _LARGEST_PICTURE))
    if max(image.size) <= _EXACT_PICTURE or image.mode not in ("L", "RGB"):
        return _data_uri("png", _file(image, "PNG", optimize=True))
    return _data_uri("jpeg", _file(image, "JPEG", quality=82))


def _file(image: "Image.Image", kind: str, **options: int) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def _data_uri(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
