"""What a terminal shows of data: nothing in it is obeyed, what is shared is marked, pictures are drawn."""

import io

import numpy as np
import pytest
from rich.console import Console

from turnover.ui.terminal.drawing import SHARED, draw_image, draw_value, plain, visible


@pytest.mark.parametrize("nasty", ["\x1b[2J", "\x9b31m", "\x07", "\u202eabc", "a\rb", "\x00", "\ud800"])
def test_nothing_in_the_data_is_a_command_to_the_terminal(nasty):
    safe = visible(f"before {nasty} after")
    assert len(safe) == len(f"before {nasty} after")
    assert not any(ord(sign) < 32 or 0x7F <= ord(sign) < 0xA0 or sign in "\u202e\ud800" for sign in safe)


def test_nothing_in_the_data_is_markup():
    heard = io.StringIO()
    Console(file=heard).print(plain("[bold]a[/bold] [/x]"))
    assert heard.getvalue().strip() == "[bold]a[/bold] [/x]"


def marked(drawn):
    return [drawn.plain[span.start : span.end] for span in drawn.spans if span.style == SHARED]


@pytest.mark.parametrize("before", ["a thin", "\x1b\x1b thin"])
def test_spans_are_marked_where_they_stand_also_behind_signs_that_a_terminal_must_not_see(before):
    text = f"{before}, thin plot"
    place = text.index("plot")
    drawn = draw_value(text, Console(), spans=((2, 6), (place, place + 4)))
    assert marked(drawn) == [visible(text[2:6]), "plot"]


def test_near_cells_come_first_and_are_marked():
    cells = {f"c{number}": number for number in range(12)} | {"same": "x", "missing": float("nan")}
    drawn = draw_value(cells, Console(), near=("same", "c3"))
    assert drawn.plain.startswith("c3=3, same=x, c0=0")
    assert drawn.plain.endswith("and 9 more")
    assert marked(drawn) == ["3", "x"]


def test_an_image_takes_two_pixels_a_character_in_color():
    image = np.arange(8 * 8 * 3, dtype=np.uint8).reshape(8, 8, 3)
    drawn = draw_image(image, Console(color_system="truecolor", force_terminal=True))
    assert [len(line) for line in drawn.plain.splitlines()] == [16] * 8  # a small one is drawn twice as large
    large = np.zeros((24, 24, 3), np.uint8)
    assert len(draw_image(large, Console(color_system="truecolor", force_terminal=True)).plain.splitlines()) == 12


def test_a_large_image_is_shrunk_to_the_mean_of_its_pixels():
    image = np.full((100, 200, 1), 255, np.uint8)
    drawn = draw_image(image, Console(color_system=None), widest=20)
    assert drawn.plain.splitlines() == ["█" * 20] * 5
