"""Text colored by a number for each token."""

import json
import re
from html import unescape

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnover.applications import colored_text
from turnover.applications.colored_text import STYLE, TINTS
from turnover.errors import ApplicationError

TEXTS = st.lists(st.text(max_size=8), min_size=1, max_size=12)


def test_values_are_clipped_to_the_percentiles_of_the_paper():
    values = np.arange(101.0)
    text = colored_text(["x"] * 101, values)
    assert text.limits == (70, 95)
    assert (text.shades[:71] == 0).all()
    assert (text.shades[95:] == 1).all()
    assert text.shades[80] == pytest.approx(0.4)
    assert text.steps.tolist()[::10] == [0, 0, 0, 0, 0, 0, 0, 0, 2, 4, 5]


def test_several_models_are_averaged():
    one = colored_text(["a", "b"], [[0.0, 2.0], [0.0, 4.0]])
    assert one.values.tolist() == [0, 3]


@given(TEXTS)
def test_a_page_shows_the_tokens_as_they_are_and_nothing_of_them_as_html(tokens):
    for inline in (False, True):
        page = colored_text(tokens, np.arange(len(tokens)), joiner="|").html(inline=inline)
        inside = page[page.index(">") + 1 : -len("</div>")]
        assert unescape(re.sub(r"</?span[^>]*>", "", inside)) == unescape("|".join(_escaped(t) for t in tokens))
        assert re.sub(r"</?(span|div)[^<>]*>", "", page).count("<") == 0


def _escaped(token):
    return (
        token.replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace('"', "&quot;")
        .replace("'", "&#x27;")
    )


def test_a_script_in_a_token_or_unit_stays_text():
    page = colored_text(["<script>alert(1)</script>", "b"], [1, 0], unit='"><img src=x onerror=alert(1)>').html()
    assert "<script" not in page
    assert "<img" not in page


def test_titles_hold_the_number_and_unknown_values_have_neither_title_nor_color():
    page = colored_text(["a", "b", "c"], [0.0, float("nan"), 1.2345], unit="self-influence").html()
    assert 'title="self-influence 1.23"' in page
    assert "<span>b</span>" in page


def test_classes_have_rules_and_inline_pages_need_none():
    text = colored_text(["a", "b"], [0.0, 1.0])
    assert 'class="t5"' in text.html()
    assert all(f".t{number}" in STYLE for number in range(1, 6))
    assert 'class="t5"' not in text.html(inline=True)
    assert TINTS[4] in text.html(inline=True)


def test_black_letters_are_readable_on_every_tint_and_tints_get_darker():
    luminance = [_luminance(tint) for tint in TINTS]
    assert luminance == sorted(luminance, reverse=True)
    assert all((light + 0.05) / 0.05 > 7 for light in luminance)  # WCAG AAA


def _luminance(tint):
    parts = np.array([int(tint[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@given(TEXTS)
def test_a_terminal_shows_the_tokens_as_they_are(tokens):
    pytest.importorskip("rich", reason="rich is missing: pip install 'turnover[cli]'")
    shown = colored_text(tokens, np.arange(len(tokens)), joiner=" ").terminal()
    from rich.control import strip_control_codes

    assert shown.plain == strip_control_codes(" ".join(tokens))


def test_markup_in_a_token_is_no_markup_on_a_terminal():
    pytest.importorskip("rich", reason="rich is missing: pip install 'turnover[cli]'")
    assert colored_text(["[red]a[/red]", "b"], [0, 1]).terminal().plain == "[red]a[/red] b"


def test_one_scale_serves_several_texts():
    assert colored_text(["a"], [5.0], limits=(0, 10)).shades.tolist() == [0.5]


def test_equal_values_are_not_colored():
    assert colored_text(["a", "b"], [3.0, 3.0]).steps.tolist() == [0, 0]


def test_it_becomes_json():
    data = json.loads(json.dumps(colored_text(["a", "b"], [float("nan"), 1.0]).as_dict(), allow_nan=False))
    assert data["tokens"] == ["a", "b"]
    assert data["values"] == [None, 1.0]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((["a", "b"], [1.0]), {}, r"shape \[1\] for 2 tokens"),
        ((["a"], [float("nan")]), {}, "no token has a value"),
        (("a text", [1.0]), {}, "text.split"),
        ((["a"], [1.0]), {"percentiles": (95, 70)}, "the lower first"),
        ((["a"], [1.0]), {"limits": (2, 1)}, "out of order"),
        (([], []), {}, "0 tokens"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, options, message):
    with pytest.raises(ApplicationError, match=message):
        colored_text(*arguments, **options)
