"""An `Influence` as an attributor of dattri, judged by dattri's own metrics."""

import pytest
import torch

pytest.importorskip("dattri", reason="dattri is missing: make -C bench packages")

from dattri.algorithm.base import BaseAttributor
from dattri.benchmark.utils import SubsetSampler
from dattri.metric import lds, mislabel_detection_auc
from torch.utils.data import DataLoader, TensorDataset

import turnover
from turnover.errors import InfluenceError
from turnover.evaluation import lds as our_lds
from turnover.evaluation import mislabel_detection
from turnover_bench.benchmarks.peers.dattri_attributor import DattriAttributor


@pytest.fixture(scope="module")
def rows(trained):
    return trained.rows


@pytest.fixture(scope="module")
def attributor(trained, rows):
    attributor = DattriAttributor(trained.model)
    attributor.cache(DataLoader(rows, batch_size=16))
    return attributor


@pytest.fixture(scope="module")
def tests(trained):
    return DataLoader(TensorDataset(trained.x[:6], trained.y[:6]), batch_size=4)


def test_it_attributes_as_the_engine_does_also_some_rows_by_a_sampler(attributor, trained, rows, tests):
    assert isinstance(attributor, BaseAttributor)
    expected = trained.influence.pairwise((trained.x[:6], trained.y[:6])).values
    torch.testing.assert_close(attributor.attribute(DataLoader(rows, batch_size=7), tests), torch.tensor(expected))
    some = DataLoader(rows, batch_size=2, sampler=SubsetSampler([40, 3, 7]))
    torch.testing.assert_close(attributor.attribute(some, tests), torch.tensor(expected)[[40, 3, 7]])
    own = torch.tensor(trained.influence.self_influence().values)
    torch.testing.assert_close(attributor.self_attribute(some), own[[40, 3, 7]])


@pytest.mark.filterwarnings("ignore:outputs cannot be calibrated")  # a model without training
def test_rows_may_carry_their_ids_and_models_may_be_finished(attributor, trained, rows, tests):
    with_ids = turnover.with_instance_ids(rows)
    named = DattriAttributor(trained.model)
    named.cache(DataLoader(with_ids, batch_size=16))
    expected = attributor.attribute(DataLoader(rows), tests)
    torch.testing.assert_close(named.attribute(DataLoader(with_ids), tests), expected)
    finished = DattriAttributor(torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)))
    finished.cache(DataLoader(rows))
    assert finished.attribute(DataLoader(rows), tests).shape == (60, 6)


def test_metrics_of_dattri_take_its_scores_and_agree_with_ours(attributor, rows, tests):
    scores = attributor.attribute(DataLoader(rows), tests)
    generator = torch.Generator().manual_seed(0)
    halves = torch.stack([torch.randperm(60, generator=generator)[:30] for _ in range(12)])
    values = torch.randn(12, 6, generator=generator)
    subsets = torch.zeros(12, 60, dtype=torch.bool).scatter(1, halves, True)
    ours = our_lds(scores.numpy(), subsets.numpy(), -values.numpy()[None]).value  # of losses; theirs are negated
    assert float(lds(scores, (values, halves))[0].mean()) == pytest.approx(ours, abs=1e-5)
    wrong = torch.arange(60) % 7 == 0
    own = attributor.self_attribute(DataLoader(rows))
    expected = mislabel_detection(own.numpy(), wrong.numpy()).auc
    assert float(mislabel_detection_auc(own, wrong)[0]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("build", "part"),
    [
        (lambda rows: DataLoader(rows, shuffle=True), "is shuffled"),
        (lambda rows: DataLoader(TensorDataset(*rows.tensors)), "another data set"),
    ],
)
def test_loaders_that_cannot_be_attributed_are_told(attributor, rows, tests, build, part):
    with pytest.raises(InfluenceError, match=part):
        attributor.attribute(build(rows), tests)


def test_without_a_cache_it_says_what_to_call(trained, rows, tests):
    with pytest.raises(InfluenceError, match=r"cache\(full_train_dataloader\) first"):
        DattriAttributor(trained.model).attribute(DataLoader(rows), tests)
