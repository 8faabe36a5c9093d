"""Slow twin of questions about spans: token by token, mask by mask, without any path of the engine."""

import torch
from torch import Tensor, nn

import turnover


def span_scores(model: nn.Module, tokens: Tensor, spans: list[tuple[int, int]], ids: list[int]) -> Tensor:
    """Return mean log-probability of each span's tokens in the kept minus in the flipped subnetwork, [ids, spans]."""
    scores = torch.zeros(len(ids), len(spans))
    for row, id in enumerate(ids):
        for column, (start, end) in enumerate(spans):
            found = {"keep": 0.0, "flip": 0.0}
            for view in found:
                for place in range(start, end):
                    with turnover.instances([id], view=view), torch.no_grad():
                        logits = model(tokens[None, :place]).logits[0, -1]  # what stands behind is not even read
                    found[view] += float(logits.log_softmax(-1)[tokens[place]]) / (end - start)
            scores[row, column] = found["keep"] - found["flip"]
    return scores
