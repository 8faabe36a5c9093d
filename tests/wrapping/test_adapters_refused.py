"""Models and options that adapters refuse, each with the cure."""

import pytest
import torch
from torch import nn

import turnover
from tests.wrapping.adapter_models import TorchClassifier, make
from turnover.errors import PlanError
from turnover.wrapping import Adapters


def refused(model, adapters, **options):
    before = list(model.state_dict())
    with pytest.raises(PlanError) as caught:
        turnover.wrap(model, adapters=adapters, in_place=True, **options)
    assert list(model.state_dict()) == before
    assert all(parameter.requires_grad for parameter in model.parameters())
    return str(caught.value)


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))


def test_a_model_without_blocks_is_told_how_to_name_the_places():
    text = refused(mlp(), 8)
    assert "no transformer blocks were recognized in this Sequential" in text
    assert "Adapters(after=['path', ...]), for example of '0', '2', '4'" in text


@pytest.mark.parametrize("size", [0, 1, -3, True, 2.5, "64"])
def test_a_size_that_cannot_be_masked_is_rejected(size):
    said = f"`adapters` must be an integer >= 2, the number of bottleneck units, got {size!r}. Give adapters=64"
    assert said in refused(TorchClassifier(), size)


@pytest.mark.parametrize("layers", [0, 3, -1, [2], [], ["0"], "all", True, [True]], ids=str)
def test_blocks_that_are_not_there_are_refused(layers):
    text = refused(TorchClassifier(), Adapters(size=8, layers=layers))
    assert f"Adapters(layers={layers!r}): the model has 2 blocks. Give how many of the top ones (1 to 2)" in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"after": ["encoder.layers.0.linear3"]},
            "modules of this model, got 'encoder.layers.0.linear3'. Near misses",
        ),
        ({"after": []}, "Adapters(after=[]) names no module"),
        ({"after": ["encoder.layers.0.dropout1"]}, "how wide the output of 'encoder.layers.0.dropout1'"),
        ({"after": ["encoder.layers.0.self_attn.out_proj"]}, "Use Adapters(after=['encoder.layers.0.self_attn', ...])"),
        ({"after": ["encoder.layers.0.linear2"], "layers": 1}, "Give one of them"),
        ({"head": "outt"}, "must name modules of this model, got 'outt'. Near misses: 'out'"),
        ({"head": "embed"}, "'embed' (Embedding) holds no nn.Linear"),
        ({"head": ["encoder"]}, "'encoder' holds modules that get adapters"),
        ({"activation": "tanh"}, "activation='tanh' is unknown to adapters. Give 'gelu' or 'relu'"),
    ],
    ids=str,
)
def test_options_that_do_not_fit_the_model_are_refused_with_the_cure(options, said):
    assert said in refused(TorchClassifier(), Adapters(size=8, **options))


def test_all_problems_are_named_at_once():
    text = refused(TorchClassifier(), Adapters(size=0, after=["nowhere"], activation="tanh"), replicas=0, keep=7.0)
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
    assert "Name it: Adapters(head='path')" in refused(encoder, 8)
    model = turnover.wrap(encoder, adapters=Adapters(size=8, head=()))
    with turnover.instances(range(3)):
        assert model(torch.zeros(3, 4, 32)).shape == (3, 4, 32)


def test_tied_output_weights_are_refused_and_adapters_alone_are_not():
    model = make("torch")
    model.out = nn.Linear(32, 50, bias=False)
    model.out.weight = model.embed.weight
    text = refused(model, 8)
    assert "'out.weight' is tied to 'embed.weight'" in text
    assert "Adapters(head=())" in text
    turnover.wrap(model, adapters=Adapters(size=8, head=()))


def test_a_hugging_face_language_model_with_tied_weights_is_refused():
    transformers = pytest.importorskip("transformers", reason="needs the extra `text`")
    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, vocab_size=50
    )
    assert "config.tie_word_embeddings = False" in refused(transformers.BertForMaskedLM(config), 8)


def test_a_model_that_has_adapters_is_refused_and_told_how_to_mask_them():
    bare = turnover.unwrap(turnover.wrap(TorchClassifier(), adapters=8))
    with pytest.raises(PlanError, match="has adapters already") as caught:
        turnover.wrap(bare, adapters=8)
    assert "at=['**.adapter.activation', '**.masked_input']" in str(caught.value)
    turnover.wrap(bare, at=["**.adapter.activation", "**.masked_input"])


def test_a_model_with_peft_adapters_is_refused_and_told_how_to_mask_them():
    peft = pytest.importorskip("peft", reason="needs the extra `text`")
    model = peft.get_peft_model(TorchClassifier(), peft.LoraConfig(r=4, target_modules=["linear1"]))
    with pytest.raises(PlanError, match="lora_sites"):
        turnover.wrap(model, adapters=8)


def test_a_module_with_an_attribute_named_adapter_is_refused():
    model = mlp()
    model[2].adapter = nn.Linear(16, 16)
    assert "'2' has an attribute 'adapter' of its own" in refused(model, Adapters(size=8, after=["2"], head="4"))


def test_a_model_with_a_compiled_part_is_refused():
    model = TorchClassifier()
    model.encoder.layers[0].compile()
    assert "'encoder.layers.0': compiled already. Wrap the model first, then torch.compile(model)" in refused(model, 8)


def test_a_quantized_model_is_refused():
    class Packed(nn.Linear):
        """As bitsandbytes packs weights: integers, which cannot learn."""

        def __init__(self):
            super().__init__(16, 16)
            self.weight = nn.Parameter(torch.zeros(16, 16, dtype=torch.int8), requires_grad=False)

    model = mlp()
    model[2] = Packed()
    with pytest.raises(PlanError, match="'2': quantized already"):
        turnover.wrap(model, adapters=Adapters(size=8, after=["0"], head="4"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_model_quantized_by_torch_is_refused():
    if not hasattr(torch, "ao") or "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("this build of torch cannot quantize")
    model = torch.ao.quantization.quantize_dynamic(mlp(), {nn.Linear}, dtype=torch.qint8)
    with pytest.raises(PlanError, match="'0', '2', '4': quantized already"):
        turnover.wrap(model, adapters=8)
