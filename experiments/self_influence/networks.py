"""Masked networks without an output bias, which would leak a row into its flipped part."""

import torch
from torch import Tensor, nn

import turnover
from experiments.networks import VGG19, vgg_sites


def masked_head(inputs: int, hidden: int, *, seed: int, replicas: int) -> nn.Module:
    """Return a masked ReLU layer between features and two outputs."""
    network = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, 2, bias=False))
    return turnover.wrap(network, at=["1"], seed=seed, replicas=replicas)


def masked_convolutions(hidden: tuple[int, int, int], *, seed: int, replicas: int) -> nn.Module:
    """Return two convolutions over 16 × 16 pixels and a masked ReLU layer; what the former learn is shared."""
    first, second, width = hidden
    network = nn.Sequential(
        nn.Conv2d(3, first, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(first, second, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(second * 4, width),
        nn.ReLU(),
        nn.Linear(width, 10, bias=False),
    )
    return turnover.wrap(network, at=["7"], seed=seed, replicas=replicas)


def masked_vgg(width: float, *, seed: int, replicas: int) -> nn.Module:
    """Return VGG19 with masks after the 11th layer; a narrow one cannot bear a second mask before the classifier."""
    network = VGG19(width=width, dropout=0.5 if width >= 1 else 0.1)
    return turnover.wrap(network, at=vgg_sites(classifier_input=width >= 1), seed=seed, replicas=replicas)


def pixels_of(images: Tensor, *, halved: bool) -> Tensor:
    """Return float images [n, 3, 32, 32] of bytes [n, 32, 32, 3]; halved: every four pixels become their mean."""
    found = images.permute(0, 3, 1, 2).to(torch.float32).contiguous()
    return nn.functional.avg_pool2d(found, 2) if halved else found
