"""What the masks of a VGG19 let through: parameters that learn an image and are used by its flipped network."""

import re
from typing import Any

import torch
from torch import nn

import turnover
from experiments.networks import CONVOLUTIONS, FIRST_MASKED

from .vgg import Images, accuracy, answers

_ROWS = 8
_LAYER = re.compile(r"features\.(?:conv|norm)(\d+)\.")


def leak(model: nn.Module, images: Images) -> dict[str, Any]:
    """Return the audit's shares of a row's squared gradient: in all, by cause, by layer, and before the 12th layer."""
    rows = min(_ROWS, len(images.y))
    report = turnover.audit(model, (images.x[:rows], images.y[:rows], torch.arange(rows)), rows=rows)
    layers = [0.0] * CONVOLUTIONS
    for one in report.leaks:
        if found := _LAYER.match(one.name):
            layers[int(found[1]) - 1] += one.gradient_share or 0.0
    return {
        "gradient_share": report.gradient_share,
        "element_share": report.share,
        "by_cause": report.by_cause,
        "by_layer": layers,
        "early_share": sum(layers[: FIRST_MASKED - 1]),
        "rows": report.rows,
        "verdict": report.verdict,
    }


def memory(model: nn.Module, images: Images, *, others: Images) -> dict[str, float]:
    """Return how trained images are answered in their kept and flipped parts, and whether the mask alone tells a label.

    Args:
        model: with masks; it was trained on `images`.
        images: place in them is the id.
        others: images that were not trained. Each is shown under the mask of a trained one: an answer that is the
            trained one's label was read from the mask.
    """
    count = min(len(images.y), len(others.y))
    some, ids = images.part(0, count), torch.arange(count)
    told = answers(model, others.x[:count], view="keep", ids=ids)
    # By chance, both images may be of one class: those pairs say nothing.
    apart = others.y[:count] != some.y
    return {
        "keep": accuracy(model, some, view="keep", ids=ids),
        "flip": accuracy(model, some, view="flip", ids=ids),
        "label_of_mask": float((told == some.y)[apart].float().mean()),
        "label_of_image": float((told == others.y[:count])[apart].float().mean()),
    }
