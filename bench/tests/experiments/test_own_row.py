"""What a flipped subnetwork knows of its own row: a toy run, its resuming, and what the page says of it."""

import pytest
import torch

import turnover
from turnover_bench.experiments.networks import masked_mlp
from turnover_bench.experiments.own_row.experiment import _WHO, findings, page


def test_everyone_is_asked_about_the_rows(toy):
    (one,) = toy.result["tasks"]["digits"]["seeds"]
    assert set(one) == set(_WHO)
    assert all(0 <= found["accuracy"] <= 1 and found["loss"] > 0 for found in one.values())
    assert one["kept, trained"]["loss"] < one["flipped, trained"]["loss"]


def test_a_flipped_subnetwork_learns_nothing_of_its_row():
    model = masked_mlp(6, (16, 16), 3, seed=0)
    report = turnover.audit(model, (torch.randn(4, 6), torch.tensor([0, 1, 2, 0]), torch.arange(4)), rows=4)
    assert report.gradient_share == 0


def _result(trained, corrected, away):
    found = {who: {"loss": 1.0, "accuracy": 0.5} for who in _WHO}
    found["flipped, trained"] = {"loss": trained, "accuracy": 0.5}
    found["flipped, trained, corrected"] = {"loss": corrected, "accuracy": 0.5}
    found["flipped, left out"] = {"loss": away, "accuracy": 0.5}
    found["flipped, left out, corrected"] = {"loss": 0.6, "accuracy": 0.5}
    task = {"rows": 100, "hidden": [64], "epochs": 2, "seeds": [found, found]}
    return {"tasks": {"digits": task}, "left_out": 0.1, "references": 4}


@pytest.mark.parametrize(
    ("losses", "told"),
    [
        (
            (1.4, 1.2, 0.8),
            "flipped subnetworks are worse on their own rows than those of a network trained without "
            "them (loss 1.40 against 0.80 in the mean, in every seed); with mask-bias correction, 1.20 against 0.60.",
        ),
        ((0.8, 0.7, 0.9), "not clearly worse on their own rows than"),
    ],
)
def test_the_page_and_findings_say_whether_it_is_the_network_without_the_row(losses, told, tmp_path):
    result = _result(*losses)
    (found,) = findings(result)
    assert told in found.agreement
    text = page(result, tmp_path)
    assert found.agreement in text
    assert "kept subnetwork, trained on the rows | 1.00 ± 0.00 | 0.500 ± 0.000 |" in " ".join(text.split())
