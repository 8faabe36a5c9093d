"""Images that a user sends: bounded in size and pixels before anything is decoded, and read as those of the run."""

import base64
import io
import warnings

import numpy as np

from turnover.errors import DataFileError
from turnover.runs import PixelInputs, Run, need_pillow, read_image

from .limits import MEGABYTE, UPLOAD_BYTES

MOST_PIXELS = 16_000_000
# What browsers show; decoders of rarer formats are rarely looked at.
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")


def read_upload(content: bytes, run: Run) -> np.ndarray:
    """Return an image as the run's images are: uint8 [height, width, channels].

    Args:
        content: of the file.
        run: of images.

    Raises:
        DataFileError: it is no image, damaged, or too large.
    """
    image_module = need_pillow()
    if not content:
        raise DataFileError("no image was sent. Choose a file.")
    if len(content) > UPLOAD_BYTES:
        raise DataFileError(f"the image has more than {UPLOAD_BYTES // MEGABYTE} MB. Scale it down.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # Only the header is read here.
            with image_module.open(io.BytesIO(content), formats=_FORMATS) as image:
                width, height = image.size
            if width * height > MOST_PIXELS:
                raise DataFileError(
                    f"the image has {width:,} x {height:,} pixels, and {MOST_PIXELS // 10**6} million are the most. "
                    "Scale it down."
                )
            assert isinstance(run.preparation, PixelInputs)
            size, channels = run.preparation.size, run.preparation.channels
            pixels = read_image(io.BytesIO(content), size=size[0])
    except DataFileError as error:
        raise DataFileError(f"the image cannot be used: {error}") from error
    except (Warning, OSError, ValueError, SyntaxError, image_module.DecompressionBombError) as error:
        known = ", ".join(_FORMATS)
        raise DataFileError(f"this is no image that can be read. Send a {known} file that is not damaged.") from error
    if pixels.shape[:2] != size:
        pixels = _fitted(pixels, size)
    # A copy: what Pillow hands over cannot be written to, which torch warns of.
    return np.array(_gray(pixels) if channels == 1 else pixels)


def _fitted(pixels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return an image in the height and width of arrays that are not square."""
    from PIL import Image

    return np.asarray(Image.fromarray(pixels).resize((size[1], size[0]), Image.Resampling.BICUBIC))


def _gray(pixels: np.ndarray) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.fromarray(pixels).convert("L"))[..., None]


def as_png(pixels: np.ndarray) -> bytes:
    """Return uint8 [height, width, channels] as a PNG file."""
    from PIL import Image

    held = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(held, "PNG")
    return held.getvalue()


def as_data_uri(pixels: np.ndarray) -> str:
    """Return an image as a page can hold it within itself."""
    return f"data:image/png;base64,{base64.b64encode(as_png(pixels)).decode()}"
