"""Labels of causal language models of Hugging Face, which shift them within their own loss."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from turnover.batches import IGNORED
from turnover.errors import MissingExtraError, TargetError

try:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
except ImportError as error:
    raise MissingExtraError(
        f"causal language models need transformers ({error}): pip install 'turnover[text]'."
    ) from error

_FEWEST = 3  # so many labels must agree before chance is ruled out


def shifts_labels(model: nn.Module) -> bool:
    """Tell whether a model compares the output at a position with the label of the next: a causal language model."""
    names = {kind.__name__ for kind in type(model).__mro__}
    return not names.isdisjoint(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())


def refuse_shifted(model: nn.Module, inputs: Mapping[str, Any]) -> None:
    """Raise where labels are shifted already and the model would shift them again: it would learn to skip a token."""
    tokens, labels = inputs.get("input_ids"), inputs.get("labels")
    if not isinstance(tokens, Tensor) or not isinstance(labels, Tensor) or tokens.shape != labels.shape:
        return
    if tokens.dim() < 2 or not shifts_labels(model):
        return
    if _agree(labels[:, :-1], tokens[:, 1:]) and not _agree(labels, tokens):  # one token over and over: both agree
        raise TargetError(
            f"the labels are the input_ids of the next position, and {type(model).__name__} shifts labels within its "
            "own loss: it would learn the token after the next. Give it the tokens themselves, labels=input_ids (-100 "
            "where a token shall not count); or keep these labels, as turnover.runs.token_data makes them, and give "
            "a loss that compares position by position: TurnOverTrainer(..., compute_loss_func=lambda outputs, labels, "
            "num_items_in_batch=None: torch.nn.functional.cross_entropy(outputs.logits.flatten(0, 1), "
            "labels.flatten()))."
        )


def _agree(labels: Tensor, tokens: Tensor) -> bool:
    """Tell whether all labels that count are these tokens."""
    counted = labels != IGNORED
    return int(counted.sum()) >= _FEWEST and bool((labels == tokens)[counted].all())
