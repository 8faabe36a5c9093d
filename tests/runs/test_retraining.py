"""The training of a run as a recipe: another seed starts elsewhere, the same one ends the same."""

import pytest
import torch

pytest.importorskip("sklearn", reason="needs the extra cli")

from turnover.layers import find_root
from turnover.runs import start_run
from turnover.runs.config import RunConfig
from turnover.runs.retraining import run_recipe


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recipe")
    lines = [f"{'fine' if n % 2 else 'dull'} film {n},{n % 2 if n % 10 else 1 - n % 2}" for n in range(80)]
    (folder / "a.csv").write_text("\n".join(["text,label", *lines]))
    config = RunConfig(str(folder / "a.csv"), hidden=32, replicas=3, epochs=10, batch_size=8, learning_rate=0.01)
    return start_run(config, folder / "run")


def test_the_plain_network_has_no_masks_and_the_masked_one_has(run):
    assert find_root(run_recipe(run).build()) is None
    assert find_root(run_recipe(run, masked=True).build()) is not None


def test_one_seed_gives_one_model_and_another_seed_another(run):
    recipe = run_recipe(run)
    first, same, other = (recipe.fit(seed=seed)[0].weight for seed in (5, 5, 6))
    assert torch.equal(first, same)
    assert not torch.allclose(first, other)


def test_the_retrained_network_learns_what_the_run_learned(run):
    recipe = run_recipe(run, masked=True)
    x, y = run.data("test")
    model = recipe.fit(seed=1)
    with torch.no_grad():
        assert (model(x).argmax(1) == y).float().mean() >= 0.75
