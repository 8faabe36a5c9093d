"""Models and options that adapters reject, each with the cure."""

import pytest
import torch
from torch import nn

import turnover
from tests.wrapping.adapter_models import TorchClassifier, make
from tests.wrapping.models import mlp
from turnover.errors import PlanError
from turnover.wrapping import Adapters


def rejected(model, adapters, **options):
    before = list(model.state_dict()), [parameter.requires_grad for parameter in model.parameters()]
    with pytest.raises(PlanError) as caught:
        turnover.wrap(model, adapters=adapters, in_place=True, **options)
    assert (list(model.state_dict()), [parameter.requires_grad for parameter in model.parameters()]) == before
    return str(caught.value)


def test_a_model_without_blocks_is_told_how_to_name_the_places():
    text = rejected(mlp(), 8)
    assert "no transformer blocks were recognized in this Sequential" in text
    assert "Adapters(after=['path', ...]), for example of '0', '2', '4'" in text


UNITS = "`adapters` must be an integer >= 2, the number of bottleneck units, got {}. Give adapters=64"
BLOCKS = "Adapters(layers={}): the model has 2 blocks. Give how many of the top ones (1 to 2)"
OPTIONS = [
    *(({"size": size}, UNITS.format(repr(size))) for size in (0, 1, -3, True, 2.5, "64")),
    *(({"layers": n}, BLOCKS.format(repr(n))) for n in (0, 3, -1, [2], [], ["0"], "all", True, [True])),
    ({"after": ["encoder.layers.0.linear3"]}, "modules of this model, got 'encoder.layers.0.linear3'. Near misses"),
    ({"after": []}, "Adapters(after=[]) names no module"),
    ({"after": ["encoder.layers.0.dropout1"]}, "how wide the output of 'encoder.layers.0.dropout1'"),
    ({"after": ["encoder.layers.0.self_attn.out_proj"]}, "Use Adapters(after=['encoder.layers.0.self_attn', ...])"),
    ({"after": ["encoder.layers.0.linear2"], "layers": 1}, "Give one of them"),
    ({"head": "outt"}, "must name modules of this model, got 'outt'. Near misses: 'out'"),
    ({"head": "embed"}, "'embed' (Embedding) holds no nn.Linear whose input could be masked"),
    ({"head": ["encoder"]}, "'encoder' holds modules that get adapters"),
    ({"activation": "tanh"}, "activation='tanh' is unknown to adapters. Give 'gelu' or 'relu'"),
]


@pytest.mark.parametrize(("options", "message"), OPTIONS, ids=str)
def test_options_that_do_not_fit_the_model_are_rejected_with_the_cure(options, message):
    assert message in rejected(TorchClassifier(), Adapters(**{"size": 8, **options}))


def test_all_problems_are_named_at_once():
    text = rejected(TorchClassifier(), Adapters(size=0, after=["nowhere"], activation="tanh"), replicas=0, keep=7.0)
    for said in (
        "5 problems",
        "(both excluded), got 7.0",
        "bottleneck units",
        "'nowhere'",
        "'tanh'",
        "`replicas` must be an integer >= 1, got 0",
    ):
        assert said in text


def test_a_model_without_an_output_layer_is_asked_for_one_or_for_none():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 2, 64, batch_first=True), 2)
    assert "Name it: Adapters(head='path')" in rejected(encoder, 8)
    model = turnover.wrap(encoder, adapters=Adapters(size=8, head=()))
    with turnover.instances(range(3)):
        assert model(torch.zeros(3, 4, 32)).shape == (3, 4, 32)


def test_tied_output_weights_are_rejected_and_adapters_alone_are_not():
    model = make("torch")
    model.out = nn.Linear(32, 50, bias=False)
    model.out.weight = model.embed.weight
    text = rejected(model, 8)
    assert "'out.weight' is tied to 'embed.weight'" in text
    assert "Adapters(head=())" in text
    turnover.wrap(model, adapters=Adapters(size=8, head=()))


def test_a_hugging_face_language_model_with_tied_weights_is_rejected():
    transformers = pytest.importorskip("transformers", reason="needs the extra `text`")
    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, vocab_size=50
    )
    assert "config.tie_word_embeddings = False" in rejected(transformers.BertForMaskedLM(config), 8)


def test_a_model_that_has_adapters_is_rejected_and_told_how_to_mask_them():
    bare = turnover.unwrap(turnover.wrap(TorchClassifier(), adapters=8))
    with pytest.raises(PlanError, match="has adapters already") as caught:
        turnover.wrap(bare, adapters=8)
    assert "at=['**.adapter.activation', '**.masked_input']" in str(caught.value)
    turnover.wrap(bare, at=["**.adapter.activation", "**.masked_input"])


def test_a_model_with_peft_adapters_is_rejected_and_told_how_to_mask_them():
    peft = pytest.importorskip("peft", reason="needs the extra `text`")
    model = peft.get_peft_model(TorchClassifier(), peft.LoraConfig(r=4, target_modules=["linear1"]))
    with pytest.raises(PlanError, match="lora_sites"):
        turnover.wrap(model, adapters=8)


class Packed(nn.Linear):
    """As bitsandbytes packs weights: integers, which cannot learn."""

    def __init__(self):
        super().__init__(32, 32)
        self.weight = nn.Parameter(torch.zeros(32, 32, dtype=torch.int8), requires_grad=False)


def quantized(model):
    if not hasattr(torch, "ao") or "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("this build of torch cannot quantize")
    return torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: model[2].add_module("adapter", mlp()), "'2' has an attribute 'adapter' of its own"),
        (lambda model: model[2].compile(), "'2': compiled already. Wrap the model first, then torch.compile(model)"),
        (lambda model: model.__setitem__(2, Packed()), "'2': quantized already"),
        (quantized, "'0', '2', '4': quantized already"),
    ],
)
def test_models_that_cannot_get_adapters_are_rejected(change, message):
    model = mlp()
    assert message in rejected(change(model) or model, Adapters(size=8, after=["0", "2"], head="4"))
