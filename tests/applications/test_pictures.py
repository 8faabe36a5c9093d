"""Pictures of results: each shows what it is about, and can be written to a file."""

import io

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="matplotlib is missing: pip install 'turnover[cli]'")

from turnover.applications import Explanation, Explanations, Reason, colored_text, explain, memorized
from turnover.applications.colored_text import TINTS
from turnover.applications.pictures import (
    colored_picture,
    images_picture,
    proof_picture,
    self_influence_picture,
    texts_picture,
)
from turnover.applications.proof import Proof
from turnover.errors import ApplicationError

QUERY = "a thin plot for $5"
EXAMPLE = "what a thin story, $5 was too much"


def drawn(figure):
    """Return a figure's words, after it was written to a file."""
    file = io.BytesIO()
    figure.savefig(file, format="png")
    assert file.getvalue()[:4] == b"\x89PNG"
    return "".join(
        text.get_text()
        for axes in figure.axes
        for text in [*axes.texts, axes.title, axes.xaxis.label, axes.yaxis.label]
    )


def one_explanation(position):
    reasons = (Reason(position, position, 1, 0.4, 0.1, 1e-5, True),)
    return Explanations((Explanation(0, 1, 0.8, 0, reasons, ()),), True, False, 0.05, "loss", 4, "")


def marked(figure):
    """Return the ranges of letters with a mark, by line."""
    found = [(patch.get_y(), patch.get_x(), patch.get_x() + patch.get_width()) for patch in figure.axes[0].patches]
    return sorted((round(y), round(a), round(b)) for y, a, b in found)


def test_the_histogram_tells_the_share_that_is_positive(digits):
    found = memorized(digits.influence)
    figure = self_influence_picture(found, bins=20)
    assert f"{found.share_positive:.0%} of 500 rows" in drawn(figure)
    assert sum(bar.get_height() for bar in figure.axes[0].patches) == 500


def test_images_stand_below_the_errors_that_they_explain(digits):
    x, y = digits.test
    found = explain(digits.influence, (x[:3], y[:3]), k=2)
    figure = images_picture(found, x[:3].view(3, 8, 8), digits.x.view(-1, 1, 8, 8), names=list("abcdefghij"), k=2)
    assert len(figure.axes) == 9
    below = figure.axes[1].get_images()[0].get_array()
    wanted = digits.x[found[0].pushed[0].position].view(8, 8)
    assert np.allclose(below, wanted)
    assert "abcdefghij"[found[0].predicted] in figure.axes[0].get_title()
    drawn(figure)


def test_shared_words_of_texts_are_marked_in_both():
    figure = texts_picture(one_explanation(1), [QUERY], ["nothing", EXAMPLE], names=["bad", "good"])
    words = drawn(figure)
    assert "good(80%),true:bad" in words
    assert EXAMPLE.replace(" ", "").replace("$", r"\$") in words
    assert (1, 2, 6) in marked(figure)  # thin in the query
    assert (3, 9, 13) in marked(figure)  # and in the example, which is indented by two


def test_long_texts_are_broken_between_words_and_marks_go_along():
    figure = texts_picture(one_explanation(0), ["word " * 30 + "thin"], ["thin"], width=40)
    assert max(end for _, _, end in marked(figure)) <= 40
    assert len(marked(figure)) == 2


def test_colored_text_has_the_tints_of_its_tokens():
    text = colored_text(["John", "Worthing", "x"], [0.0, 9.0, 0.0], unit="self-influence")
    figure = colored_picture(text)
    assert marked(figure) == [(0, 5, 13)]
    from matplotlib.colors import to_hex

    assert to_hex(figure.axes[0].patches[0].get_facecolor()) == TINTS[-1]
    assert "JohnWorthingx" in drawn(figure)


def test_a_proof_shows_every_training():
    values = np.arange(12.0).reshape(3, 4)
    figure = proof_picture(Proof(values, -values, (1, 2, 3, 4), 5, 100, 50))
    shown = np.concatenate([line.get_ydata() for line in figure.axes[0].lines if line.get_marker() == "."])
    assert sorted(shown) == sorted(values.ravel())
    assert "test accuracy" in drawn(figure)


def test_what_does_not_fit_is_refused(digits):
    with pytest.raises(ApplicationError, match="2 texts for 1 explanations"):
        texts_picture(one_explanation(0), ["a", "b"], ["c"])
    with pytest.raises(ApplicationError, match="2 images for 1 explanations"):
        images_picture(one_explanation(0), np.zeros((2, 8, 8)), np.zeros((3, 8, 8)))
    with pytest.raises(ApplicationError, match="1 or 3 channels"):
        images_picture(one_explanation(0), np.zeros((1, 64)), np.zeros((3, 8, 8)))
