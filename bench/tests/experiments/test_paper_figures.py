"""The paper's figures for one's own results: each shows what it is about, and is written to a file."""

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is missing: pip install 'turnover[cli]'")


from turnover.applications import (
    Explanation,
    Explanations,
    InfluentialExample,
)

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


def explanations(*positions, significant=True):
    """One error per position, predicted 1 with the label 0, each supported by the training row at that position."""
    items = []
    for query, position in enumerate(positions):
        example = InfluentialExample(position, position, position, None, 1, None, 1, 0.4, 0.1, 1e-5, significant)
        items.append(Explanation(query, 1, 0.8, 0, (example,), ()))
    return Explanations(tuple(items), True, False, 0.05, "loss", False, "tod", None, 4, "")
