"""Questions about a token or a span of a generated text: which training instances raised its probability?"""

from collections.abc import Sequence

import torch
from torch import Tensor

from turnover.batches import IGNORED
from turnover.errors import InfluenceError

Span = tuple[int, int]
"""Where tokens begin and end: the first of them, and the one after the last."""


def span_queries(tokens: Tensor | Sequence[int], spans: Sequence[Span] | None = None) -> dict[str, Tensor]:
    """Return one query per span of a text, for a causal model and any question of `Influence`.

    The loss of a query is the mean over the tokens of its span alone, each given all tokens before it. So a positive
    score means that the training instance raised the probability of the span, as the model was trained, and the rest
    of the text is only read. Labels are shifted already: `labels[t]` is the token after `input_ids[t]`.

    Args:
        tokens: of the whole text, prompt and continuation [tokens].
        spans: (start, end) each; None: every token but the first, which nothing precedes, is a span of its own.

    Returns:
        `input_ids` and `labels`, [spans, tokens − 1] each.

    Raises:
        InfluenceError: tokens are something else than token numbers, or a span does not lie within them, or begins with
            the first.

    Example:
        >>> span_queries([5, 6, 7, 8], [(2, 4)])["labels"].tolist()
        [[-100, 7, 8]]
        >>> span_queries([5, 6, 7, 8])["labels"].tolist()
        [[6, -100, -100], [-100, 7, -100], [-100, -100, 8]]
    """
    text = torch.as_tensor(tokens)
    if text.dim() != 1 or text.is_floating_point() or len(text) < 2:
        raise InfluenceError(
            f"tokens must be two token numbers or more, [tokens], got {text.dtype} {list(text.shape)}. Give the "
            "input_ids of one text: span_queries(tokenizer(text)['input_ids'])."
        )
    chosen = [(place, place + 1) for place in range(1, len(text))] if spans is None else list(spans)
    wrong = [span for span in chosen if not 1 <= span[0] < span[1] <= len(text)]
    if wrong or not chosen:
        given = f"got {wrong[0]}" if wrong else "got none"
        raise InfluenceError(
            f"spans must be (start, end) with 1 <= start < end <= {len(text)}, {given}: nothing precedes the first "
            "token that could predict it. Give spans=[(1, 3)]."
        )
    labels = torch.full((len(chosen), len(text) - 1), IGNORED, dtype=torch.int64)
    for row, (start, end) in enumerate(chosen):
        labels[row, start - 1 : end - 1] = text[start:end]
    return {"input_ids": text[:-1].expand(len(chosen), -1).contiguous(), "labels": labels}
