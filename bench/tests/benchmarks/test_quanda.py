"""An `Influence` as an explainer of quanda, judged by quanda's own metrics.

quanda pins other versions than ours: `make -C bench test-quanda` runs this file in an environment of its own.
"""

import numpy as np
import pytest
import torch

pytest.importorskip("quanda", reason="quanda is missing: make -C bench test-quanda")

from quanda.explainers import Explainer
from quanda.metrics.downstream_eval import ClassDetectionMetric, MislabelingDetectionMetric

import turnover
from turnover_bench.benchmarks.peers.quanda_explainer import QuandaExplainer

# Of quanda's own packages.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")


@pytest.fixture(scope="module")
def explainer(trained):
    return QuandaExplainer(trained.model, trained.rows)


def test_it_explains_as_the_engine_does(explainer, trained):
    assert isinstance(explainer, Explainer)
    expected = trained.influence.pairwise((trained.x[:6], trained.y[:6])).values.T
    np.testing.assert_allclose(explainer.explain(trained.x[:6], trained.y[:6]), expected, rtol=1e-5)
    np.testing.assert_allclose(explainer.explain(trained.x[:6], trained.y[:6].tolist()), expected, rtol=1e-5)
    np.testing.assert_array_equal(explainer.self_influence(), trained.influence.self_influence().values)


def test_the_last_checkpoint_is_loaded(trained, tmp_path):
    model = turnover.wrap(
        torch.nn.Sequential(torch.nn.Linear(5, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2)), at=["1"]
    )
    path = tmp_path / "weights.pt"
    torch.save({name: value + 1 for name, value in model.state_dict().items() if value.is_floating_point()}, path)
    before = model[0].weight.clone()

    def load(model, path):
        model.load_state_dict(torch.load(path), strict=False)
        return 1.0

    QuandaExplainer(model, trained.rows, checkpoints=[str(path)], checkpoints_load_func=load)
    torch.testing.assert_close(model[0].weight, before + 1)


def test_metrics_of_quanda_take_it(explainer, trained):
    metric = ClassDetectionMetric(trained.model, trained.rows)
    metric.update(explanations=explainer.explain(trained.x[:20], trained.y[:20]), test_targets=trained.y[:20])
    assert metric.compute()["score"] > 0.9  # the most helpful row has the label of the query
    wrong = list(range(0, 60, 7))
    found = MislabelingDetectionMetric(trained.model, trained.rows, wrong, explainer_cls=QuandaExplainer).compute()
    own = explainer.self_influence().numpy() + 1e-4 * np.arange(60)  # quanda adds that to break ties
    order = np.argsort(-own, kind="stable")
    curve = np.cumsum(np.isin(order, wrong)) / len(wrong)
    np.testing.assert_allclose(found["curve"], curve, atol=1e-6)
