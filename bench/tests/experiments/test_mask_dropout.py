"""Ordinary dropout beside masks: a toy run, where dropout is, and what the page says by the numbers."""

import pytest
import torch
from torch import nn

import turnover
from turnover_bench.experiments.mask_dropout.experiment import findings, network


@pytest.mark.parametrize(
    ("kind", "later"), [("vgg", ["10", "13"]), ("resnet", ["stages.2.0.relu1", "classifier_input"])]
)
def test_dropout_is_where_the_masks_are_and_changes_no_weights(kind, later):
    models = []
    for dropout in (0.0, 0.3):
        torch.manual_seed(0)
        model, sites = network(kind, 16, 3, dropout)
        assert list(sites) == later
        found = [name.rpartition(".")[0] for name, part in model.named_modules() if isinstance(part, nn.Dropout)]
        assert found == (later if dropout else [])
        models.append(model)
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(one, other)
    x = torch.randn(2, 3, 8, 8)
    assert torch.equal(*(model.eval()(x) for model in models))
    assert not turnover.plan(models[1], at=sites, example=x).warnings


def result(**accuracies):
    """Return a result whose networks have these accuracies after a short and a long training, in the mean of seeds."""

    def apart(name):
        return accuracies.get("apart", {}).get(name, 0.0)

    networks = {
        name: {
            time: [
                {"accuracy": value + (seed - 0.5) * apart(name), "label_of_mask": 0.2, "flip": 0.3} for seed in (0, 1)
            ]
            for time, value in zip("19", values, strict=True)
        }
        for name, values in {
            "plain": (0.6, 0.6),
            "plain, dropout 0.3": (0.6, 0.61),
            "masks": (0.5, 0.4),
            "masks, dropout 0.3": accuracies.get("low", (0.4, 0.4)),
            "masks, dropout 0.5": (0.6, 0.6),
        }.items()
    }
    how = {"epochs": [1, 9], "base_epochs": 12, "rows": 10, "pixels": 8, "seeds": [0, 1]}
    return {"setting": how, "kinds": {"vgg": networks}}


@pytest.mark.parametrize(
    ("low", "share", "verdict"), [((0.4, 0.55), "75%", "holds"), ((0.6, 0.45), "25%", "does not hold here")]
)
def test_dropout_brings_most_back_by_the_longest_training(low, share, verdict):
    by_epochs, claim = findings(result(low=low))
    assert claim.ours == f"vgg {share}"
    assert claim.verdict == verdict
    assert "after 12 and 108 epochs masks cost +10.0, +20.0 points" in by_epochs.agreement
