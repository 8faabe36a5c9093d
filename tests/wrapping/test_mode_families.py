"""Whole transformers of every family in the modes "backward" and "mixout": clean, or told what to freeze."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import turnover
from tests.wrapping.adapter_models import batch_of, inputs_of, logits, make
from tests.wrapping.models import train
from turnover.errors import BatchSizeError, PlanError

MODES = ("backward", "mixout")
SIZES = {"vocab_size": 50, "num_labels": 3, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0}


def causal(family):
    transformers = pytest.importorskip("transformers", reason="transformers is missing: pip install 'turnover[text]'")
    torch.manual_seed(0)
    if family == "gpt2":
        off = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
        sizes = {"n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 2}
        return transformers.GPT2ForSequenceClassification(transformers.GPT2Config(**SIZES, **sizes, **off))
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "max_position_embeddings": 16}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    config = getattr(transformers, f"{family}Config")(**SIZES, **sizes, **heads)
    return getattr(transformers, f"{family}ForSequenceClassification")(config)


def without_output_bias(model):
    for name, parameter in model.named_parameters():
        if name in ("out.bias", "classifier.bias", "classifier.out_proj.bias"):
            parameter.requires_grad_(False)
    return model


def cures(error):
    return [line.strip() for line in str(error).splitlines() if line.strip().startswith("for ")]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", ["gpt2", "Llama", "Qwen3"])
def test_transposed_linear_layers_and_rms_norms_are_masked_without_leak(family, mode):
    base, batch = causal(family), batch_of("bert")
    plan = turnover.plan(base, mode=mode)
    kinds = {site.module for site in plan.sites}
    assert ("Conv1D" if family == "gpt2" else f"{family}RMSNorm") in kinds
    assert all(site.width is not None for site in plan.sites)
    assert plan.leaks == ()
    model = train(turnover.wrap(base, mode=mode).train(), [batch] * 2)
    moved = [name for name, value in base.named_parameters() if not torch.equal(value, model.get_parameter(name))]
    assert any(".mlp." in name for name in moved)
    assert any("norm" in name or "ln_" in name for name in moved)
    report = turnover.audit(model, batch)
    assert report.clean, str(report)


@pytest.mark.parametrize("mode", MODES)
def test_a_whole_bert_learns_without_leak_though_positions_are_embedded_once_a_batch(mode):
    model, batch = turnover.wrap(without_output_bias(make("bert")), mode=mode), batch_of("bert")

    def loss():
        return cross_entropy(logits(model.eval(), inputs_of("bert")), batch["labels"]).item()

    before = loss()
    train(model.train(), [batch] * 40)
    assert loss() < before - 0.1
    assert turnover.audit(model, batch).clean


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("family", "named"),
    [
        ("torch", "'encoder.layers.0.self_attn', 'encoder.layers.1.self_attn' (MultiheadAttention)"),
        ("torch_seq_first", "'encoder.layers.0.self_attn', 'encoder.layers.1.self_attn' (MultiheadAttention)"),
        ("vit", "'vit.embeddings.cls_token', 'vit.embeddings.position_embeddings' (ViTEmbeddings)"),
        ("mpnet", "'mpnet.encoder.relative_attention_bias' (Embedding)"),
    ],
)
def test_what_must_be_frozen_is_named_and_the_line_to_type_makes_it_clean(family, named, mode):
    model, batch = without_output_bias(make(family)), batch_of(family)
    with pytest.raises(PlanError, match="Freeze them before") as caught:
        turnover.wrap(model, mode=mode)
    assert named in str(caught.value)
    assert len(cures(caught.value)) == 1
    exec(cures(caught.value)[0], {"model": model})
    frozen = [name for name, value in model.named_parameters() if not value.requires_grad]
    assert len(frozen) < len(list(model.parameters())) / 2
    # As many positions as rows in ViT: the batch dimension must be detected.
    wrapped = train(turnover.wrap(model, mode=mode).train(), [batch] * 2)
    report = turnover.audit(wrapped, batch)
    assert report.clean, str(report)
    query = {name: value[:1] for name, value in batch.items() if name != "instance_id"}
    scores = turnover.Influence(wrapped.eval()).pairwise(query, ids=range(100, 105), progress=False)
    assert abs(scores.values).max() > 0


@pytest.mark.parametrize("mode", MODES)
def test_a_named_module_with_weights_of_its_own_is_told_to_be_frozen(mode):
    with pytest.raises(PlanError, match=r"for path in \['encoder.layers.0.self_attn'\]: model.get_submodule"):
        turnover.wrap(make("torch"), mode=mode, at=["encoder.layers.0.self_attn", "out"])


class Biased(nn.Module):
    """Adds something that is made once for all rows, under a name that nobody knows."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 16)
        self.distances = nn.Embedding(9, 16)
        self.head = nn.Linear(16, 3, bias=False)

    def forward(self, x):
        places = torch.arange(x.shape[1])
        return self.head((self.words(x)[:, None] + self.distances((places[:, None] - places).abs())).mean((1, 2)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rows", [4, 7], ids=["fewer rows than positions", "as many rows as positions"])
def test_what_is_made_once_a_batch_is_never_masked_by_position_and_the_cure_is_told(mode, rows):
    model = turnover.wrap(Biased(), mode=mode).train()
    cure = r"model\.get_submodule\('distances'\)\.requires_grad_\(False\)"
    with pytest.raises(BatchSizeError, match=cure), turnover.instances(range(rows)):
        model(torch.randint(20, (rows, 7)))
    base = Biased()
    base.get_submodule("distances").requires_grad_(False)
    batch = {"x": torch.randint(20, (rows, 7)), "labels": torch.arange(rows) % 3, "instance_id": torch.arange(rows)}
    assert turnover.audit(train(turnover.wrap(base, mode=mode).train(), [batch] * 2), batch).clean
