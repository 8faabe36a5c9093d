"""Results show the rows of the data: images, and texts with marked words, in HTML and in figures."""

import base64
import io
import pickle
import re

import matplotlib as mpl
import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader

import turnover
from turnover.errors import MissingExtraError
from turnover.scores import Scores, _arrays

mpl.use("Agg")
pytestmark = pytest.mark.filterwarnings("ignore::turnover.errors.WeakSignalWarning")
PIXELS = torch.randint(0, 256, (12, 3, 10, 16), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
TEXTS = [f"A thin plot and bad acting {number}" for number in range(12)]


def _engine(rows, collate=None, id="uid"):
    torch.manual_seed(0)
    model = turnover.wrap(nn.Sequential(nn.Flatten(), nn.Linear(480, 64), nn.ReLU(), nn.Linear(64, 2)), at=["2"])
    with turnover.instances(range(4)):
        model(PIXELS[:4].float())
    loader = turnover.with_instance_ids(DataLoader(rows, batch_size=4, collate_fn=collate), id=id)
    return turnover.Influence(model, train=loader, estimator="tod"), loader


@pytest.fixture
def images():
    rows = [{"uid": f"img-{n}", "image": Image.fromarray(p.permute(1, 2, 0).numpy())} for n, p in enumerate(PIXELS)]

    def collate(batch):
        return torch.stack([torch.tensor(np.array(row["image"])).movedim(-1, 0) for row in batch]).float(), torch.zeros(
            len(batch), dtype=torch.int64
        )

    return _engine(rows, collate)


@pytest.fixture
def texts():
    rows = [{"uid": f"doc-{n}", "text": text} for n, text in enumerate(TEXTS)]

    def collate(batch):
        return torch.stack([PIXELS[TEXTS.index(row["text"])].float() for row in batch]), torch.zeros(
            len(batch), dtype=torch.int64
        )

    return _engine(rows, collate)


def test_html_has_the_very_pixels_of_the_rows(images):
    inf, loader = images
    top = inf.top(loader, k=1)
    html = top._repr_html_()
    first = re.findall(r'src="data:image/png;base64,([^"]+)"', html)[:2]
    shown = [np.asarray(Image.open(io.BytesIO(base64.b64decode(part)))) for part in first]
    helpful = int(top.helpful_ids[0, 0].removeprefix("img-"))
    assert np.array_equal(shown[0], PIXELS[0].permute(1, 2, 0).numpy())  # the query
    assert np.array_equal(shown[1], PIXELS[helpful].permute(1, 2, 0).numpy())
    assert inf.out_of_sample()._repr_html_().count("<img") == 5
    assert inf.self_influence()._repr_html_().count("<img") == 10
    assert "<img" not in pickle.loads(pickle.dumps(top))._repr_html_()
    assert pickle.loads(pickle.dumps(top)).equals(top)


def test_texts_are_shown_with_the_words_marked_that_the_query_has(texts):
    inf, loader = texts
    html = inf.top(loader, k=1)._repr_html_()
    assert ">thin</mark>" in html
    assert ">A</mark>" not in html  # a word of nearly every text
    assert "<mark" not in inf.self_influence()._repr_html_()  # nothing was asked
    assert "A thin plot" in inf.self_influence()._repr_html_()


def test_tensors_given_by_hand_are_images_where_they_look_like_them(images):
    model, x = images[0].models[0], PIXELS.float() / 255
    inf = turnover.Influence(model, train=(x, torch.zeros(12).long(), torch.arange(12)), estimator="tod")
    assert inf.pairwise((x[:1], torch.zeros(1).long()))._repr_html_().count("<img") == 11
    flat = turnover.Influence(nn.Linear(4, 2), train=(torch.randn(9, 4), torch.zeros(9).long()))
    assert "<img" not in flat.pairwise((torch.randn(1, 4), torch.zeros(1).long()))._repr_html_()


def test_a_figure_has_the_scores_the_null_and_the_rows(images):
    inf = images[0]
    scores = Scores(np.linspace(-2, 1, 12), ids=inf.train_ids, null=np.random.default_rng(0).normal(size=50)).seen_by(
        inf.self_influence().views
    )
    figure = scores.plot(k=2)
    histogram, *pictures = figure.axes
    heights = [bar.get_height() for container in histogram.containers[:2] for bar in container]
    assert sum(heights) == 12
    assert [text.get_text() for text in histogram.get_legend().get_texts()] == ["helpful", "harmful", "null ids"]
    assert len(pictures) == 4
    shown = pictures[0].get_images()[0].get_array()
    assert np.array_equal(shown, PIXELS[11].permute(1, 2, 0).numpy())
    assert [axes.get_title() for axes in pictures] == ["img-11", "img-10", "img-0", "img-1"]
    figure.canvas.draw()
    assert figure.get_facecolor()[3] == 0  # transparent, for dark notebooks


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(_arrays, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r"turnover\[plot\]"):
        Scores([1.0], ids=[7]).plot()
