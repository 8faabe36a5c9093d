"""Sentence features by a pretrained encoder that stays frozen: its last hidden states, pooled."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from turnover.errors import DataFileError, MissingExtraError
from turnover.layers import device_of, preferred_device, tensor_bytes

from .hub import hub_is_reachable

Pooling = Literal["mean", "cls", "max"]
_BATCH = 64
_POOLING = "1_Pooling/config.json"
# A pooler or a head is newly made where the checkpoint has none; the last hidden states do not pass through it.
_UNUSED_PARTS = ("pooler", "pooling", "classifier", "lm_head", "cls")
_FAILURES = (OSError, ValueError, KeyError, ImportError, RuntimeError, UnpicklingError)


class TextEncoder:
    """A pretrained encoder of the transformers library, opened when it is first needed.

    Weights are read from safetensors where there are any, and never by unpickling; code that comes with a model is
    never run.

    Args:
        where: a folder with a model and its tokenizer, or a name on the Hugging Face hub.
        longest: tokens of a text that are read.

    Attributes:
        where: as it was given.
        longest: as it was given.

    Example:
        >>> TextEncoder("no/such/folder/here").width  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        turnover.errors.DataFileError: there is no folder 'no/such/folder/here', and ...
    """

    def __init__(self, where: str | os.PathLike[str], *, longest: int = 128) -> None:
        if longest < 1:
            raise DataFileError(f"`longest` must be an integer >= 1, the tokens of a text to read, got {longest}.")
        self.where, self.longest = os.fspath(where), longest

    @property
    def width(self) -> int:
        """The number of features of a text."""
        return int(self.model.config.get_text_config().hidden_size)

    @property
    def model(self) -> Any:
        """The encoder itself, in evaluation mode and without gradients."""
        return self._opened[0]

    @property
    def tokenizer(self) -> Any:
        """Its tokenizer."""
        return self._opened[1]

    @torch.no_grad()
    def features(self, texts: Sequence[str], progress: bool | Callable[[int, int], None] = False) -> Tensor:
        """Return one vector per text, float32 [texts, width]: the last states pooled over its tokens.

        They are pooled as the folder's 1_Pooling/config.json says (sentence-transformers), else averaged.

        `progress` True shows a bar; a function is called with the number of finished texts and of all.
        """
        features = torch.empty(len(texts), self.width)
        # Texts of like length share a batch, so that little padding is computed.
        order = torch.tensor(sorted(range(len(texts)), key=lambda place: len(texts[place])), dtype=torch.int64)
        done = 0
        for places in tqdm(order.split(_BATCH) if len(texts) else (), "text features", disable=progress is not True):
            batch = self.tokenizer(
                [texts[place] for place in places.tolist()],
                padding=True,
                truncation=True,
                max_length=self.most_tokens,
                return_tensors="pt",
            )
            batch = batch.to(device_of(self.model))
            states = self.model(**batch).last_hidden_state
            features[places] = pooled(states, batch["attention_mask"], self.pooling).float().cpu()
            done += len(places)
            if callable(progress):
                progress(done, len(texts))
        return features

    def digest(self) -> str:
        """Return a name for all that features depend on: weights, vocabulary and length.

        It does not depend on where the encoder lies, nor on the form of its files.
        """
        return self._digest

    @cached_property
    def _digest(self) -> str:
        digest = hashlib.sha256(f"{self.most_tokens}\n".encode())
        if self.pooling != "mean":  # features by the mean keep the name that they had before there was a choice
            digest.update(f"{self.pooling}\n".encode())
        for word, number in sorted(self.tokenizer.get_vocab().items()):
            digest.update(f"{word} {number}\n".encode("utf-8", "surrogatepass"))
        for name, value in sorted(self.model.state_dict().items()):
            if not _is_unused(name):
                digest.update(f"{name} {list(value.shape)} {value.dtype}\n".encode())
                digest.update(tensor_bytes(value))
        return digest.hexdigest()[:24]

    @cached_property
    def pooling(self) -> Pooling:
        """How the states of a text's tokens become one vector: as 1_Pooling/config.json says, else by their mean."""
        file = _pooling_file(self.where)
        if file is None:
            return "mean"
        try:
            config = json.loads(file.read_text(encoding="utf-8"))
            chosen = [name for name, value in config.items() if name.startswith("pooling_mode_") and value is True]
        except (OSError, ValueError, AttributeError) as error:
            raise DataFileError(
                f"{str(file)!r} cannot be read ({error}): it says how the encoder pools. Repair or remove it."
            ) from error
        known: dict[str, Pooling] = {
            "pooling_mode_mean_tokens": "mean",
            "pooling_mode_cls_token": "cls",
            "pooling_mode_max_tokens": "max",
        }
        if len(chosen) != 1 or chosen[0] not in known:
            raise DataFileError(
                f"{str(file)!r} pools by {' and '.join(chosen) or 'nothing'}; known are {', '.join(known)}. "
                "Give another encoder, or change that file to one of them."
            )
        return known[chosen[0]]

    @property
    def most_tokens(self) -> int:
        """The number of tokens of a text that are read: never more than the model can take."""
        positions = getattr(self.model.config, "max_position_embeddings", None) or self.longest
        return int(min(self.longest, positions, self.tokenizer.model_max_length))

    @cached_property
    def _opened(self) -> tuple[Any, Any]:
        """Return the model and its tokenizer."""
        try:
            from transformers import AutoModel, AutoTokenizer
        except ImportError as error:
            raise MissingExtraError(
                f"a pretrained encoder needs transformers ({error}): pip install 'turnover[text]'. Without one, leave "
                "--model out: texts are then represented by their words."
            ) from error

        def opened(local: bool) -> tuple[Any, Any, Any]:
            with _quietly():
                # Said explicitly: otherwise a model that comes with code asks on standard input whether to run it.
                options = {"local_files_only": local, "trust_remote_code": False}
                tokenizer = AutoTokenizer.from_pretrained(self.where, **options)
                model, loading = AutoModel.from_pretrained(
                    self.where, **options, dtype=torch.float32, output_loading_info=True
                )
            return model, tokenizer, loading

        try:
            # What was downloaded before is taken as it is: the same run gives the same features.
            model, tokenizer, loading = opened(local=True)
        except _FAILURES as error:
            local = Path(self.where).is_dir()
            if local or not hub_is_reachable():
                raise DataFileError(_cannot_open(self.where, local, error)) from error
            try:
                model, tokenizer, loading = opened(local=False)
            except _FAILURES as failed:
                raise DataFileError(_cannot_open(self.where, local, failed)) from failed
        missing = sorted(name for name in loading["missing_keys"] if not _is_unused(name))
        if missing:
            raise DataFileError(
                f"the encoder {self.where!r} has no weights for {len(missing)} parts of the model that its config.json "
                f"describes, {missing[0]!r} among them: they would be random. Give a folder with the whole model, as "
                "model.save_pretrained writes it."
            )
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        if model.config.is_encoder_decoder:
            model = model.get_encoder()
        return model.eval().requires_grad_(False).to(preferred_device()), tokenizer


class TextClassifier(nn.Module):
    """Scores of the classes [texts, classes] from token numbers [texts, tokens], by the pooled last states."""

    def __init__(self, encoder: Any, classes: int, *, padding: int, pooling: Pooling = "mean") -> None:
        super().__init__()
        self.encoder = encoder
        self.output = nn.Linear(encoder.config.hidden_size, classes, bias=False)
        self.padding = padding
        self.pooling: Pooling = pooling

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores of the classes."""
        longest = int((tokens != self.padding).sum(1).max())
        tokens = tokens[:, : max(1, longest)]
        real = (tokens != self.padding).long()
        states = self.encoder(input_ids=tokens, attention_mask=real).last_hidden_state
        return self.output(pooled(states, real, self.pooling))


def text_classifier(encoder: TextEncoder, classes: int) -> TextClassifier:
    """Return an encoder with a new output layer, its own dropout off: rows differ by masks alone."""
    model = encoder.model
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return TextClassifier(model, classes, padding=int(encoder.tokenizer.pad_token_id), pooling=encoder.pooling)


def token_numbers(encoder: TextEncoder, texts: Sequence[str]) -> Tensor:
    """Return texts as token numbers [texts, tokens], filled up at the right to the longest."""
    rows = encoder.tokenizer(list(texts), truncation=True, max_length=encoder.most_tokens, add_special_tokens=True)
    tokens = torch.full((len(texts), max(map(len, rows["input_ids"]), default=1)), int(encoder.tokenizer.pad_token_id))
    for place, numbers in enumerate(rows["input_ids"]):
        tokens[place, : len(numbers)] = torch.tensor(numbers)
    return tokens


def pooled(states: Tensor, attention_mask: Tensor, pooling: Pooling) -> Tensor:
    """Return one vector per text from states [texts, tokens, width]: mean, maximum, or the first of the real tokens."""
    if pooling == "cls":
        # The first real token, wherever a tokenizer pads.
        return states[torch.arange(len(states)), attention_mask.argmax(1)]
    if pooling == "max":
        return states.masked_fill(attention_mask.unsqueeze(2) == 0, torch.finfo(states.dtype).min).amax(1)
    weights = attention_mask.unsqueeze(2).to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1).clamp(min=1)


def _pooling_file(where: str) -> Path | None:
    """Return the file that says how an encoder of sentence-transformers pools; None: there is none."""
    if Path(where).is_dir():
        file = Path(where) / _POOLING
        return file if file.is_file() else None
    from transformers.utils.hub import cached_file

    found = cached_file(
        where,
        _POOLING,
        local_files_only=not hub_is_reachable(),
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
        _raise_exceptions_for_gated_repo=False,
    )
    return None if found is None else Path(str(found))


def _is_unused(name: str) -> bool:
    return any(part in _UNUSED_PARTS for part in name.split("."))


def _cannot_open(where: str, local: bool, error: Exception) -> str:
    """Say why an encoder did not open and what to type."""
    cause = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if isinstance(error, UnpicklingError):
        cause = "its file of weights holds more than numbers, and is not opened"
    if local:
        return (
            f"the folder {where!r} cannot be opened as an encoder ({cause}). Give a folder with config.json, a "
            "tokenizer and model.safetensors, as model.save_pretrained(folder) and tokenizer.save_pretrained(folder) "
            "write them."
        )
    return (
        f"there is no folder {where!r}, and no encoder of this name came from the Hugging Face hub ({cause}). Give the "
        "path of a folder with config.json, a tokenizer and model.safetensors; or, with a network, a name such as "
        "sentence-transformers/all-MiniLM-L6-v2. Without --model texts are represented by their words, offline."
    )


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep transformers from drawing its own bars and from reporting heads that are not needed here."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
