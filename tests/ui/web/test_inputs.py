"""Images that are sent are read as those of the run, and nothing else is read at all."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from turnover.errors import DataFileError
from turnover.ui.terminal.explain import image_query
from turnover.ui.web.site import MOST_PIXELS, read_upload


def _file(image: Image.Image, kind: str = "PNG") -> bytes:
    held = io.BytesIO()
    image.save(held, kind)
    return held.getvalue()


def _png_header(width: int, height: int) -> bytes:
    """Return the beginning of a PNG that claims to be large, as a decompression bomb does."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 1000)), (b"IEND", b"")]
    parts = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_an_image_of_any_size_and_color_becomes_one_like_those_of_the_run(image_run, kind, mode):
    pixels = read_upload(_file(Image.new(mode, (40, 24), 200 if mode == "L" else (200, 200, 200)), kind), image_run)
    assert pixels.shape == image_run.rows.values.shape[1:]
    assert pixels.dtype == np.uint8
    assert abs(int(pixels.mean()) - 200) <= 3


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "Choose a file"),
        (b"hello", "cannot be read as an image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "cannot be read as an image"),
        (_file(Image.new("RGB", (30, 30)))[:60], "cannot be used|cannot be read as an image"),
        (_file(Image.new("RGB", (30, 30)), "TIFF"), "cannot be read as an image"),
        (_png_header(50_000, 50_000), "cannot be read as an image|at most 16 million"),
        (_png_header(5_000, 4_000), "at most 16 million pixels, got 5,000 x 4,000"),
        (b"x" * (6 * 2**20), "at most 5 MB"),
    ],
    ids=["empty", "text", "svg", "cut off", "tiff", "bomb", "large", "heavy"],
)
def test_what_is_no_image_or_too_large_is_refused_with_a_sentence(image_run, content, sentence):
    with pytest.raises(DataFileError, match=sentence):
        read_upload(content, image_run)


def test_the_limit_is_in_pixels_and_not_in_bytes(image_run):
    side = int(MOST_PIXELS**0.5)
    assert read_upload(_file(Image.new("1", (side, side))), image_run).shape == image_run.rows.values.shape[1:]


def test_a_run_of_texts_takes_no_images(texts):
    answer = texts.post("/api/explain/image", files={"image": _file(Image.new("L", (8, 8)))})
    assert answer.status_code == 422
    assert "not images" in answer.json()["detail"]


def test_the_command_and_the_page_read_a_colored_image_alike(image_run, tmp_path):
    colors = np.random.default_rng(0).integers(0, 255, (9, 12, 3)).astype(np.uint8)
    (tmp_path / "photo.png").write_bytes(_file(Image.fromarray(colors)))
    page = read_upload((tmp_path / "photo.png").read_bytes(), image_run)
    assert np.array_equal(page, image_query(image_run, tmp_path / "photo.png").values[0])
