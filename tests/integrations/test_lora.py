"""Masks on the rank dimension of LoRA layers: clean there, and not in the place of lora_dropout."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import turnover
from tests.reference.influence_twin import twin_scores
from tests.wrapping.adapter_models import BLOCKS, batch_of, inputs_of, logits, make
from turnover.errors import PlanError, TurnOverWarning
from turnover.influence import TurnOver
from turnover.integrations import lora_sites

peft = pytest.importorskip("peft", reason="peft is missing: pip install 'turnover[text]'")

HEAD = "base_model.model.dropout"  # what stands before BERT's output layer


def lora(family: str = "bert", *, targets=("query", "value"), **options) -> nn.Module:
    """A model with LoRA layers, away from zero as training would leave them; its output layer has no learning bias."""
    options = {"r": 8, "lora_dropout": 0.1, "modules_to_save": ["classifier"], **options}
    model = peft.get_peft_model(make(family), peft.LoraConfig(target_modules=list(targets), **options))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter, std=0.3)
        if name.endswith("classifier.modules_to_save.default.bias"):
            parameter.requires_grad_(False)
    return model.eval()


def test_sites_are_the_rank_dimensions_of_all_lora_layers():
    model = lora()
    sites = lora_sites(model)
    layer = "base_model.model.bert.encoder.layer.{}.attention.self.{}.lora_A.default"
    assert sites == [layer.format(number, name) for number in range(BLOCKS) for name in ("query", "value")]
    assert {site.width for site in turnover.plan(model, at=sites).sites} == {8}


def test_without_a_site_before_the_output_layer_that_layer_leaks_and_the_lora_layers_do_not():
    model = turnover.wrap(lora(), at=lora_sites(lora()))
    leaks = {leak.name for leak in turnover.audit(model, batch_of("bert")).leaks}
    assert leaks == {"base_model.model.classifier.modules_to_save.default.weight"}


def test_masks_in_the_place_of_lora_dropout_leak_through_all_of_b():
    model = turnover.wrap(lora(), at=["**.lora_dropout.default", HEAD])
    report = turnover.audit(model, batch_of("bert"))
    assert {leak.name for leak in report.leaks} == {name for name, _ in model.named_parameters() if "lora_B" in name}
    assert all(leak.share == 1 for leak in report.leaks)
    assert report.share > 0.5


def test_a_step_on_z_leaves_its_flip_outputs_bit_identical():
    model = turnover.wrap(lora(), at=[*lora_sites(lora()), HEAD])
    batch = batch_of("bert", 1)

    def flipped(instance):
        with torch.no_grad(), turnover.instances([instance] * 5, view="flip"):
            return logits(model.eval(), inputs_of("bert"))

    own, other = flipped(100), flipped(101)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
    model.train()
    with turnover.instances(batch["instance_id"]):
        functional.cross_entropy(logits(model, inputs_of("bert", 1)), batch["labels"]).backward()
    optimizer.step()
    assert torch.equal(flipped(100), own)
    assert not torch.equal(flipped(101), other)


@pytest.mark.parametrize(("family", "targets"), [("bert", ["query", "dense"]), ("vit", ["q_proj", "fc2"])])
def test_influence_on_lora_layers_equals_the_plain_computation(family, targets):
    model = lora(family, targets=targets)
    model = turnover.wrap(model, at=lora_sites(model))
    with turnover.instances(range(5)):
        logits(model.train(), inputs_of(family))
    queries, labels, ids = inputs_of(family, 2), torch.tensor([0, 2]), [3, 9, 2**61]
    scores = turnover.Influence(model, estimator=TurnOver(center=False)).pairwise(
        {**queries, "labels": labels}, ids=ids
    )
    rows = [((), {name: value[row : row + 1] for name, value in queries.items()}, labels[row]) for row in range(2)]
    expected = twin_scores(model, rows, ids, lambda outputs, label: -functional.cross_entropy(outputs[0], label))
    torch.testing.assert_close(torch.tensor(scores.values).double(), expected, atol=1e-5, rtol=1e-3)
    assert expected.abs().max() > 1e-3


def test_a_chosen_adapter_is_masked_and_an_unknown_one_rejected():
    model = lora()
    model.add_adapter("second", peft.LoraConfig(r=4, target_modules=["key"]))
    assert all(path.endswith("key.lora_A.second") for path in lora_sites(model, adapter="second"))
    assert len(lora_sites(model, adapter="second")) == BLOCKS
    with pytest.raises(PlanError, match="must be one of 'default', 'second', got 'third'"):
        lora_sites(model, adapter="third")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: lora(r=1), r"LoRA of rank 1 .*Use a larger rank: peft\.LoraConfig\(r=8\)"),
        (lambda: make("bert"), r"has no LoRA layers\. Add them first: peft\.get_peft_model"),
        (lambda: lora(targets=["query", "word_embeddings"]), "LoRA on an embedding"),
        (
            lambda: lora("torch", targets=["self_attn"], modules_to_save=None, lora_dropout=0.0),
            "never calls its LoRA weights as modules",
        ),
        (lambda: lora(use_dora=True), r"uses DoRA.*Use plain LoRA: LoraConfig\(use_dora=False\)"),
    ],
)
def test_lora_that_cannot_be_masked_is_rejected_with_the_cure(build, message):
    with pytest.raises(PlanError, match=message):
        lora_sites(build())


def test_merged_weights_are_rejected():
    model = lora()
    model.merge_adapter()
    with pytest.raises(PlanError, match=r"merged, so they never run\. Call model\.unmerge_adapter\(\) first"):
        lora_sites(model)
    model.unmerge_adapter()
    assert lora_sites(model)


def test_a_bias_of_b_is_warned_of_and_the_audit_agrees():
    model = lora(lora_bias=True)
    with pytest.warns(TurnOverWarning, match="a bias behind B, which no mask covers"):
        sites = lora_sites(model)
    report = turnover.audit(turnover.wrap(model, at=[*sites, HEAD]), batch_of("bert"))
    assert report.leaks
    assert all(leak.name.endswith("lora_B.default.bias") for leak in report.leaks)
