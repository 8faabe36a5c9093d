"""VGG19 for images of 32 by 32 pixels, and where its masks go."""

from collections import OrderedDict

from torch import Tensor, nn

from turnover.errors import PlanError, TrainingError
from turnover.layers import Dim

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


def every_vgg_site() -> dict[str, Dim]:
    """Return `at` for masks on all layers: nothing but the first convolution's input is then shared.

    Example:
        >>> len(every_vgg_site())
        17
    """
    return vgg_sites(first=1)
