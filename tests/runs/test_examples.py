"""The examples for images and language models run on tiny settings, and stay short."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["vgg_cifar10", "lm_wikitext"])
def test_an_example_has_at_most_sixty_lines(name):
    assert len((EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 60


def test_the_three_networks_of_the_image_example_train_and_are_tested(data_file, monkeypatch):
    monkeypatch.setenv("TURNOVER_DATA", str(data_file("cifar10/cifar10_12k.npz").parents[1]))
    module = example("vgg_cifar10")
    found = module.main(rows=128, **{**module.NARROW, "width": 0.03125, "epochs": 1})
    assert list(found) == ["plain", "masks", "masks and dropout"]
    assert all(0 <= accuracy <= 1 for accuracy in found.values())


def test_the_language_model_example_learns_and_scores_every_position(data_file, monkeypatch):
    monkeypatch.setenv("TURNOVER_DATA", str(data_file("wikitext-2/train.txt").parents[1]))
    module = example("lm_wikitext")
    perplexity, scores = module.main(lines=12, size=32, epochs=6, rate=1.0, batch=16, shown=200)
    assert scores.values.shape == (200,)
    assert scores.values.mean() > 0
    assert perplexity > 1
