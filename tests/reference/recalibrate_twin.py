"""BatchNorm statistics of a plain network by their definition: layer by layer, batch by batch, then averaged."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


@torch.no_grad()
def twin_statistics(network: nn.Sequential, batches: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Return mean and variance of the inputs of every BatchNorm of a network without masks, in double precision."""
    seen: dict[int, list[tuple[Tensor, Tensor]]] = {}
    for x in batches:
        for number, module in enumerate(network.double()):
            if isinstance(module, _BatchNorm):
                channels = x.transpose(0, 1).flatten(1)
                mean, count = channels.mean(1), channels.shape[1]
                squares = (channels - mean[:, None]).square().sum(1)
                seen.setdefault(number, []).append((mean, squares / (count - 1)))
                shape = (1, -1, *[1] * (x.dim() - 2))
                x = (x.double() - mean.view(shape)) / (squares / count + module.eps).sqrt().view(shape)
                x = x * module.weight.view(shape) + module.bias.view(shape)
            else:
                x = module(x.double())
    return [
        (torch.stack([mean for mean, _ in own]).mean(0), torch.stack([variance for _, variance in own]).mean(0))
        for own in seen.values()
    ]
