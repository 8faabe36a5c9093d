"""One image as pixels of a fixed size, whatever its format, colors and shape."""

import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from turnover.errors import DataFileError, MissingExtraError

if TYPE_CHECKING:
    from PIL import Image

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
_MOST_PIXELS = 64_000_000


def read_image(file: Path | BinaryIO, *, size: int) -> np.ndarray:
    """Return an image as uint8 [size, size, 3]: the shorter side scaled to `size`, the middle of the longer one.

    Transparent parts become white, and a photograph is turned as its camera noted.

    Args:
        file: path or open file in any common format.
        size: pixels of a side.

    Raises:
        DataFileError: it is no image, damaged, or larger than 64 million pixels.

    Example:
        >>> import io
        >>> from PIL import Image
        >>> file = io.BytesIO()
        >>> Image.new("L", (40, 20), 7).save(file, "PNG")
        >>> read_image(file, size=8)[0, 0].tolist()
        [7, 7, 7]
    """
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


_DAMAGED = (OSError, SyntaxError, ValueError, EOFError, IndexError, OverflowError, struct.error, zlib.error)


def scaled(image: "Image.Image", size: int) -> np.ndarray:
    """Return an opened image as uint8 [size, size, 3]."""
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        # Sixteen bits a pixel, as scanners and medical images have them.
        values = np.asarray(image, np.float32)
        image = Image.fromarray((values / (257 if values.max(initial=0) > 255 else 1)).clip(0, 255).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    rgb = image.convert("RGB")
    if rgb.size != (size, size):
        rgb = ImageOps.fit(rgb, (size, size), Image.Resampling.BICUBIC)
    return np.asarray(rgb)


def gray_if_all_are(pixels: np.ndarray) -> np.ndarray:
    """Return images [n, h, w, 3] with one channel if none of them has any color.

    Example:
        >>> gray_if_all_are(np.ones((2, 4, 4, 3), np.uint8)).shape
        (2, 4, 4, 1)
    """
    for start in range(0, len(pixels), 1024):
        part = pixels[start : start + 1024]
        if (part != part[..., :1]).any():
            return pixels
    return np.ascontiguousarray(pixels[..., :1])


def need_pillow() -> Any:
    """Return the module of Pillow that opens images."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("reading images needs Pillow: pip install 'turnover[cli]'.") from error
    return Image
