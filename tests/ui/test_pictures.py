"""Images are read as those of the run, and shown small."""

import base64
import io
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from turnover.runs import PixelInputs
from turnover.ui.pictures import as_png, pixels_for, thumbnail


@pytest.mark.parametrize(
    ("size", "channels", "kind"), [(8, 1, "PNG"), (8, 3, "PNG"), (64, 1, "JPEG"), (300, 3, "JPEG")]
)
def test_pictures_are_small_and_keep_their_colors(size, channels, kind):
    pixels = np.zeros((size, size, channels), np.uint8)
    pixels[: size // 2] = 200
    uri = thumbnail(pixels)
    image = Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))
    assert image.format == kind
    assert max(image.size) == min(size, 96)
    assert abs(int(np.asarray(image)[1, 1].max()) - 200) < 4
    assert abs(int(np.asarray(image)[-2, -2].max())) < 4
    assert len(uri) < 4000


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_new_image_gets_the_size_and_channels_of_arrays_that_are_not_square(channels):
    pixels = np.random.default_rng(0).integers(0, 255, (6, 10, channels)).astype(np.uint8)
    run = SimpleNamespace(preparation=PixelInputs.fit(pixels[None]), rows=SimpleNamespace(scales={}))
    assert pixels_for(run, io.BytesIO(as_png(pixels))).shape == (6, 10, channels)
