"""A small residual network for images, and where its masks go."""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

from turnover.errors import PlanError, TrainingError
from turnover.layers import Dim


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
