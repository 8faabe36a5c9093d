"""The networks that experiments, benchmarks and examples share, and where their masks go.

None has a bias behind its last mask, unless asked for: no mask would cover it, so it would learn every instance.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from torch import Tensor, nn
from torch.nn import functional

import turnover
from turnover.errors import PlanError, TrainingError
from turnover.layers import Dim


def mlp(inputs: int, hidden: Sequence[int], classes: int) -> nn.Sequential:
    """Return a ReLU network without an output bias."""
    parts: list[nn.Module] = []
    for before, width in zip((inputs, *hidden), hidden, strict=False):
        parts += [nn.Linear(before, width), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(hidden[-1], classes, bias=False))


def cnn(inputs: int, hidden: Sequence[int], classes: int) -> nn.Sequential:
    """Return two convolutions, each of which halves the 16 × 16 pixels, a pooling, a ReLU layer and the outputs.

    The pooling makes it more accurate (with 32 and 64 channels .48 instead of .45 on CIFAR-10's first 10,000 rows with
    changed labels) and saves three quarters of the weights, for which gradient-based baselines pay in proportion.

    Args:
        inputs: channels of the images.
        hidden: channels of both convolutions, units of the ReLU layer.
        classes: how many.
    """
    first, second, width = hidden
    return nn.Sequential(
        nn.Conv2d(inputs, first, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(first, second, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(second * 4, width),
        nn.ReLU(),
        nn.Linear(width, classes, bias=False),
    )


def masked_mlp(
    inputs: int,
    hidden: Sequence[int],
    classes: int,
    *,
    seed: int = 0,
    replicas: int = 1,
    keep: float = 0.5,
    dropout: float = 0.0,
) -> nn.Module:
    """Return `mlp` with masks on all hidden layers, and ordinary dropout there if asked for: nothing in it leaks."""
    sites = [str(2 * layer + 1) for layer in range(len(hidden))]
    model = with_dropout(mlp(inputs, hidden, classes), sites, dropout)
    return turnover.wrap(model, at=sites, seed=seed, replicas=replicas, keep=keep)


def with_dropout(model: nn.Module, sites: Iterable[str], share: float) -> nn.Module:
    """Put ordinary dropout behind modules without weights, which keep their paths; 0: nothing changes."""
    for path in sites if share else ():
        model.set_submodule(path, nn.Sequential(model.get_submodule(path), nn.Dropout(share)))
    return model


def masked_cnn(
    inputs: int, hidden: Sequence[int], classes: int, *, seed: int = 0, replicas: int = 1, keep: float = 0.5
) -> nn.Module:
    return turnover.wrap(cnn(inputs, hidden, classes), at=["7"], seed=seed, replicas=replicas, keep=keep)


STAGES = ((64, 64), (128, 128), (256,) * 4, (512,) * 4, (512,) * 4)
"""Channels of the sixteen convolutions; each stage ends with a pooling that halves the image."""

CONVOLUTIONS = sum(map(len, STAGES))
FIRST_MASKED = 12


class VGG19(nn.Module):
    """Sixteen convolutions with BatchNorm and ReLU, and one linear classifier [batch, classes].

    Args:
        classes: how many.
        width: share of the usual channels; 1.0 is VGG19 itself, 0.125 is small enough to try things out.
        dropout: ordinary dropout after the ReLU of convolutions 12 to 16 and before the classifier; 0: none.
        bias: of the classifier. No mask covers it, so it learns every instance.

    Example:
        >>> import torch
        >>> VGG19(width=0.125)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    def __init__(self, *, classes: int = 10, width: float = 1.0, dropout: float = 0.0, bias: bool = False) -> None:
        super().__init__()
        if not width > 0 or classes < 2:
            raise TrainingError(
                f"width={width!r}, classes={classes!r}: give a width above 0, as VGG19(width=0.125), and two classes "
                "or more."
            )
        parts: OrderedDict[str, nn.Module] = OrderedDict()
        before, number = 3, 0
        for stage, channels in enumerate(STAGES, start=1):
            for usual in channels:
                number += 1
                wide = max(1, round(usual * width))
                # BatchNorm brings a bias of its own.
                parts[f"conv{number}"] = nn.Conv2d(before, wide, 3, padding=1, bias=False)
                parts[f"norm{number}"] = nn.BatchNorm2d(wide)
                parts[f"relu{number}"] = nn.ReLU()
                if dropout and number >= FIRST_MASKED:
                    parts[f"dropout{number}"] = nn.Dropout(dropout)
                before = wide
            parts[f"pool{stage}"] = nn.MaxPool2d(2)
        self.features = nn.Sequential(parts)
        self.flatten = nn.Flatten()
        self.classifier_input = nn.Identity()
        self.classifier_dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.classifier = nn.Linear(before, classes, bias=bias)

    def forward(self, images: Tensor) -> Tensor:
        """Return class scores [batch, classes] of images [batch, 3, 32, 32]."""
        hidden = self.classifier_input(self.flatten(self.features(images)))
        return self.classifier(self.classifier_dropout(hidden))


def vgg_sites(*, first: int = FIRST_MASKED, classifier_input: bool = True) -> dict[str, Dim]:
    """Return `at` for `turnover.wrap`: channels of the ReLU of every convolution from `first` on, and the classifier.

    On the ReLU and not on the convolution: behind it comes the next convolution, so that zero stays zero, whereas
    BatchNorm would turn it into something else. The default is the paper's: all layers after the 11th.

    Args:
        first: number of the first convolution that is masked, from 1: all layers.
        classifier_input: mask the classifier's input once more. Between the last ReLU and the classifier is only a
            pooling, so that an instance trains a quarter of the classifier's inputs with, half of them without.

    Example:
        >>> list(vgg_sites(first=15))
        ['features.relu15', 'features.relu16', 'classifier_input']
    """
    if not 1 <= first <= CONVOLUTIONS:
        raise PlanError([f"first={first!r}: VGG19 has the convolutions 1 to {CONVOLUTIONS}. Give one of them."])
    sites: dict[str, Dim] = {f"features.relu{number}": "channels" for number in range(first, CONVOLUTIONS + 1)}
    return {**sites, "classifier_input": "features"} if classifier_input else sites


class ResidualBlock(nn.Module):
    """Two convolutions whose output is added to the input.

    The masks go on `relu1`, between them: behind it comes the second convolution, so zero stays zero. What is added to
    the input must not be masked, since the sum is not zero where one side is.
    """

    def __init__(self, before: int, after: int, *, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        same = stride == 1 and before == after
        self.shortcut = nn.Identity() if same else nn.Conv2d(before, after, 1, stride=stride, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return images [batch, after, height, width]."""
        inner = self.relu1(self.norm1(self.conv1(images)))
        return functional.relu(self.norm2(self.conv2(inner)) + self.shortcut(images))


class ResidualNetwork(nn.Module):
    """A residual network for small images: [batch, 3, height, width] to class scores [batch, classes].

    Args:
        classes: how many.
        channels: of each stage; from the second on a stage halves the image.
        blocks: how many in each stage. Three, with the default channels, is the ResNet-20 of CIFAR.
        bias: of the classifier. No mask covers it, so it learns every instance.

    Example:
        >>> import torch
        >>> ResidualNetwork(blocks=1)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    def __init__(
        self, *, classes: int = 10, channels: Sequence[int] = (16, 32, 64), blocks: int = 3, bias: bool = False
    ) -> None:
        super().__init__()
        if classes < 2 or blocks < 1 or not channels or min(channels) < 1:
            raise TrainingError(
                f"classes={classes!r}, channels={channels!r}, blocks={blocks!r}: give two classes or more, and at "
                "least one stage of one block and one channel: ResidualNetwork(channels=(16, 32, 64), blocks=3)."
            )
        self.stem = nn.Sequential(
            nn.Conv2d(3, channels[0], 3, padding=1, bias=False), nn.BatchNorm2d(channels[0]), nn.ReLU()
        )
        stages: list[nn.Module] = []
        before = channels[0]
        for number, wide in enumerate(channels):
            first = ResidualBlock(before, wide, stride=1 if number == 0 else 2)
            stages.append(nn.Sequential(first, *(ResidualBlock(wide, wide, stride=1) for _ in range(blocks - 1))))
            before = wide
        self.stages = nn.Sequential(*stages)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.classifier_input = nn.Identity()
        self.classifier = nn.Linear(before, classes, bias=bias)

    def forward(self, images: Tensor) -> Tensor:
        """Return class scores [batch, classes]."""
        hidden = self.flatten(self.pool(self.stages(self.stem(images))))
        return self.classifier(self.classifier_input(hidden))


def residual_sites(model: ResidualNetwork, *, first_stage: int = 0) -> dict[str, Dim]:
    """Return `at` for `turnover.wrap`: channels within every block, and the features before the classifier.

    Args:
        model: the network.
        first_stage: the first stage that is masked, from 0: all.

    Example:
        >>> list(residual_sites(ResidualNetwork(blocks=1), first_stage=2))
        ['stages.2.0.relu1', 'classifier_input']
    """
    stages = len(model.stages)
    if not 0 <= first_stage < stages:
        raise PlanError([f"first_stage={first_stage!r}: the network has stages 0 to {stages - 1}. Give one of them."])
    sites: dict[str, Dim] = {}
    for stage in range(first_stage, stages):
        blocks = len(list(model.stages[stage].children()))
        sites |= {f"stages.{stage}.{block}.relu1": "channels" for block in range(blocks)}
    return {**sites, "classifier_input": "features"}
