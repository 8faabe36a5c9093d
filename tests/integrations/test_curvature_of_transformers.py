"""Scores by curvature of Hugging Face models: whole, with LoRA, with masked adapters, GPT-2's transposed layers."""

import numpy as np
import pytest
import torch
from torch import nn

import turnover
from turnover.influence import Curvature

transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'turnover[text]'")

ROWS = 24
TOKENS = torch.randint(3, 40, (ROWS, 7), generator=torch.Generator().manual_seed(0))
LABELS = (TOKENS[:, 0] > 20).long()
TRAIN = {"input_ids": TOKENS, "attention_mask": torch.ones_like(TOKENS), "labels": LABELS}
QUERIES = {name: value[:4] for name, value in TRAIN.items()}


def bert() -> nn.Module:
    config = transformers.BertConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, num_labels=2
    )
    torch.manual_seed(0)
    return transformers.BertForSequenceClassification(config).eval()


def lora() -> nn.Module:
    peft = pytest.importorskip("peft", reason="needs peft: pip install 'turnover[text]'")
    config = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"], init_lora_weights=False)
    return peft.get_peft_model(bert(), config).eval()


def gpt2() -> nn.Module:
    config = transformers.GPT2Config(
        vocab_size=40, n_embd=16, n_layer=1, n_head=2, n_positions=16, num_labels=2, pad_token_id=0
    )
    torch.manual_seed(0)
    return transformers.GPT2ForSequenceClassification(config).eval()


def exact(model: nn.Module, covered: list[str]) -> np.ndarray:
    """Return the products of the rows' gradients with those of the queries, over the parameters of covered layers."""
    chosen = [
        value
        for name, value in model.named_parameters()
        if value.requires_grad and any(name.rpartition(".")[0] == layer for layer in covered)
    ]

    def gradient(row: int) -> torch.Tensor:
        batch = {name: value[row : row + 1] for name, value in TRAIN.items() if name != "labels"}
        loss = nn.functional.cross_entropy(model(**batch).logits, LABELS[row : row + 1])
        return torch.cat([part.flatten() for part in torch.autograd.grad(loss, chosen)])

    rows = torch.stack([gradient(row) for row in range(ROWS)])
    return (rows @ rows[:4].T).detach().numpy()


@pytest.mark.parametrize("build", [bert, lora, gpt2])
@pytest.mark.filterwarnings("ignore::turnover.errors.TurnOverWarning")
def test_with_much_damping_scores_are_products_of_gradients(build):
    model = build()
    inf = turnover.Influence(model, train=TRAIN, estimator=Curvature(temperature=1.0, damping=1e9))
    scores = inf.pairwise(QUERIES).values
    # λ differs by layer, so one layer at a time: all but one frozen.
    layers = [
        name for name, module in model.named_modules() if isinstance(module, nn.Linear) and name.endswith("score")
    ]
    layers = layers or [
        name for name, module in model.named_modules() if name.endswith(("classifier", "lora_B.default"))
    ]
    assert np.isfinite(scores).all()
    name = next(name for name in layers if isinstance(model.get_submodule(name), nn.Linear))
    model.requires_grad_(False)
    model.get_submodule(name).requires_grad_(True)
    one = turnover.Influence(model, train=TRAIN, estimator=Curvature(temperature=1.0, damping=1e9)).pairwise(QUERIES)
    expected = exact(model, [name])
    for column in range(4):
        assert np.corrcoef(one.values[:, column], expected[:, column])[0, 1] > 0.9999


def test_position_embeddings_are_named_as_not_covered():
    model = bert()
    model.requires_grad_(False)
    model.bert.embeddings.requires_grad_(True)
    with pytest.warns(turnover.errors.TurnOverWarning, match=r"position_embeddings"):
        turnover.Influence(model, train=TRAIN, estimator=Curvature(temperature=1.0)).pairwise(QUERIES)


def test_masked_adapters_are_covered():
    torch.manual_seed(0)
    model = turnover.wrap(bert(), adapters=8).train()
    train = {**TRAIN, "instance_id": torch.arange(ROWS)}
    with turnover.instances(range(ROWS)):
        model(**{name: value for name, value in TRAIN.items() if name != "labels"})
    model.eval()
    scores = turnover.Influence(model, train=train, estimator=Curvature(temperature=1.0)).pairwise(QUERIES)
    assert np.isfinite(scores.values).all()
    assert scores.method == "curvature"
