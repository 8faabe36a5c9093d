"""The paper's figures for one's own results: each shows what it is about, and is written to a file."""

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="matplotlib is missing: pip install 'turnover[cli]'")

from matplotlib.colors import to_hex

from turnover.applications import (
    Explanation,
    Explanations,
    InfluentialExample,
    Memorized,
)
from turnover.errors import ApplicationError
from turnover.scores import OutOfSample, Scores
from turnover_bench.experiments.paper_figures import (
    image_figure,
    self_influence_figure,
    text_figure,
)

QUERY = "a thin plot for $5"
EXAMPLE = "what a thin story, $5 was too much"


@pytest.fixture
def file(tmp_path):
    """The file of a figure; must have been written at the end of the test."""
    path = tmp_path / "figure.png"
    yield path
    assert path.read_bytes()[:4] == b"\x89PNG"


def words(figure):
    return "".join(
        text.get_text()
        for panel in figure.axes
        for text in [*panel.texts, panel.title, panel.xaxis.label, panel.yaxis.label]
    )


def marked_letters(figure):
    boxes = [(patch.get_y(), patch.get_x(), patch.get_x() + patch.get_width()) for patch in figure.axes[0].patches]
    return sorted((round(y), round(start), round(end)) for y, start, end in boxes)


def explanations(*positions, significant=True):
    """One error per position, predicted 1 with the label 0, each supported by the training row at that position."""
    items = []
    for query, position in enumerate(positions):
        example = InfluentialExample(position, position, position, None, 1, None, 1, 0.4, 0.1, 1e-5, significant)
        items.append(Explanation(query, 1, 0.8, 0, (example,), ()))
    return Explanations(tuple(items), True, False, 0.05, "loss", False, "tod", None, 4, "")


def memorized_rows(self_influence):
    rows = len(self_influence)
    held_out = OutOfSample(np.full((rows, 2), 0.5), ids=np.arange(rows))
    marks = np.zeros(rows, bool)
    scores = Scores(self_influence, ids=np.arange(rows))
    return Memorized(scores, held_out, np.zeros(rows, int), np.zeros(rows), np.arange(rows), marks, marks, 0.05)


def test_histogram_shows_the_share_that_is_positive(file):
    rows = memorized_rows(np.random.default_rng(0).normal(0.5, 1, 500))
    figure = self_influence_figure(rows, file, bins=20)
    assert f"positive for {rows.share_positive:.0%} of 500 rows" in words(figure)
    bars = figure.axes[0].patches
    assert sum(bar.get_height() for bar in bars) == 500
    colors = {bar.get_x() + bar.get_width() / 2 > 0: to_hex(bar.get_facecolor()) for bar in bars}
    assert len(set(colors.values())) == 2


def test_supporting_images_stand_below_the_errors(file):
    rng = np.random.default_rng(0)
    queries, train = rng.random((3, 8, 8)), rng.random((5, 1, 8, 8))
    train[0].flat[:2] = 0, 1  # the range of all images, so that they are drawn unscaled
    figure = image_figure(explanations(4, 2, 3), queries, train, file, names=["bad", "$good$"], k=1)
    assert len(figure.axes) == 6
    assert np.allclose(figure.axes[3].get_images()[0].get_array(), train[4, 0])
    assert figure.axes[0].get_title() == "$good$ (80%)\nlabel: bad"
    assert figure.axes[3].get_title() == "$good$  +0.4"


def test_shared_words_are_marked_in_both_texts(file):
    figure = text_figure(explanations(1), [QUERY], ["nothing", EXAMPLE], file, names=["bad", "good"])
    assert "good(80%),label:bad" in words(figure)
    assert EXAMPLE.replace(" ", "") in words(figure)
    assert "notsignificant" not in words(figure)
    assert (1, 2, 6) in marked_letters(figure)  # thin in the query
    assert (3, 9, 13) in marked_letters(figure)  # and in the example, which is indented by two


@pytest.mark.parametrize(
    ("draw", "queries", "train", "message"),
    [
        (text_figure, ["a", "b"], ["c"], "2 texts for 1 explanations"),
        (image_figure, np.zeros((2, 8, 8)), np.zeros((3, 8, 8)), "2 images for 1 explanations"),
        (image_figure, np.zeros((1, 64)), np.zeros((3, 8, 8)), "1 or 3 channels"),
    ],
)
def test_what_does_not_fit_is_rejected(tmp_path, draw, queries, train, message):
    with pytest.raises(ApplicationError, match=message):
        draw(explanations(0), queries, train, tmp_path / "figure.png")
