"""Models that released versions saved load, with the same masks and weights."""

import pytest
import torch

import turnover
from tests.golden.models.write import HERE, MODELS, VIEWS, outputs

SAVED = sorted(path for path in HERE.glob("*/*") if (path / "turnover.json").is_file())


def test_every_kind_of_model_was_saved_by_0_1_0():
    assert {path.name for path in SAVED if path.parent.name == "0.1.0"} == set(MODELS)


@pytest.mark.parametrize("folder", SAVED, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_model_of_a_released_version_loads_and_says_the_same(folder):
    make, _, shape = MODELS[folder.name]
    expected = torch.load(folder / "expected.pt", weights_only=True)
    said = outputs(turnover.load(folder, model=make()), shape)
    for view in VIEWS:
        torch.testing.assert_close(said[view], expected[view], rtol=1e-5, atol=1e-6)
    assert not torch.allclose(said["keep"], said["flip"], atol=1e-3)
