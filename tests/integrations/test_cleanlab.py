"""Out-of-sample predictions as input of cleanlab."""

import importlib.util
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is missing: pip install 'turnover[sklearn]'")
pytest.importorskip("cleanlab", reason="cleanlab is missing: pip install 'turnover[cleanlab]'")

from cleanlab.filter import find_label_issues
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import turnover

EXAMPLE = Path(__file__).parents[2] / "examples" / "cleanlab_digits.py"
ROWS, WRONG = 500, 50


@pytest.fixture(scope="module")
def digits():
    x, true = (part[:ROWS] for part in load_digits(return_X_y=True))
    rng = np.random.default_rng(0)
    y = true.copy()
    wrong = rng.choice(ROWS, WRONG, replace=False)
    y[wrong] = (y[wrong] + rng.integers(1, 10, WRONG)) % 10
    return x, y, y != true


@pytest.fixture(scope="module")
def classifier(digits):
    x, y, _ = digits
    return turnover.TurnOverClassifier(replicas=4, epochs=15, random_state=0).fit(x, y)


def test_find_label_issues_takes_the_predictions_and_finds_most_changed_labels(classifier, digits):
    unseen = classifier.out_of_sample_
    issues = find_label_issues(unseen.labels, unseen.probs)
    assert (issues & digits[2]).sum() > 0.8 * WRONG


def test_label_quality_orders_rows_as_cleanlab_does(classifier):
    from cleanlab.rank import get_label_quality_scores

    unseen = classifier.out_of_sample_
    assert np.allclose(get_label_quality_scores(unseen.labels, unseen.probs), unseen.label_quality, atol=1e-5)


@pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame")  # cleanlab 2.9 with pandas 3.1
def test_datalab_takes_the_predictions(classifier, digits):
    cleanlab = pytest.importorskip("cleanlab")
    pytest.importorskip("datasets", reason="Datalab needs datasets: pip install 'turnover[text]'")
    lab = cleanlab.Datalab({"label": digits[1]}, label_name="label", verbosity=0)
    lab.find_issues(pred_probs=classifier.out_of_sample_.probs, issue_types={"label": {}})
    marked = lab.get_issues("label")["is_label_issue"].to_numpy()
    assert (marked & digits[2]).sum() > 0.8 * WRONG


def test_the_example_runs_and_finds_changed_labels(monkeypatch):
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= 60
    spec = importlib.util.spec_from_file_location("cleanlab_digits", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    quick = partial(MLPClassifier, solver="lbfgs")  # in a tenth of the example's time
    monkeypatch.setattr(example, "MLPClassifier", lambda widths, **options: quick((32,), **options))
    results = example.main(seeds=1, epochs=4, rows=200)
    assert [result["way"].startswith("5 folds") for result in results] == [False, True, True]
    assert all(0.5 * result["wrong"] < result["right"] <= result["wrong"] == 20 for result in results)
