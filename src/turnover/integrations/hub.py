"""What comes from the Hugging Face hub, or from a folder saved from there: data sets as tables, pretrained encoders.

An encoder stays frozen and gives its last hidden states, pooled, or is fine-tuned as a classifier. Nothing is
unpickled, and no code that comes with a model or data set is run.
"""

import hashlib
import json
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from turnover.errors import DataFileError, MissingExtraError
from turnover.layers import device_of, preferred_device, tensor_bytes

if TYPE_CHECKING:
    import pandas as pd

Pooling = Literal["mean", "cls", "max"]
_REACH_SECONDS = 5.0
_BATCH = 64
_POOLING = "1_Pooling/config.json"
_POOLING_MODES: dict[str, Pooling] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
}
# A pooler or a head is newly made where the checkpoint has none; the last hidden states do not pass through it.
_UNUSED_PARTS = {"pooler", "pooling", "classifier", "lm_head", "cls"}
_FAILURES = (OSError, ValueError, KeyError, ImportError, RuntimeError, TypeError, UnpicklingError)


@dataclass(frozen=True)
class HubData:
    """A data set as it was loaded."""

    frames: dict[str, "pd.DataFrame"]  # a table per split; classes by name, encoded images as bytes
    images: tuple[str, ...]  # columns of images


def load_hub_data(where: str) -> HubData:
    """Return a data set by its name on the hub, or from a folder that `save_to_disk` wrote.

    A subset stands after a colon: "nyu-mll/glue:sst2". Where there is none of this name, or no network, a
    `DataFileError` says what to type.
    """
    try:
        import datasets
        import datasets.utils.logging
    except ImportError as error:
        raise MissingExtraError(
            f"the Hugging Face hub needs datasets ({error}): pip install 'turnover[text]'."
        ) from error
    is_folder = Path(where).is_dir()
    try:
        with _quietly(datasets.utils.logging):
            if is_folder:
                loaded: Any = datasets.load_from_disk(where)
            else:
                name, _, subset = where.partition(":")
                with _offline_without_network():
                    loaded = datasets.load_dataset(name, subset or None)
    except _FAILURES as error:
        raise DataFileError(_cannot_load(where, is_folder, error)) from error
    splits = dict(loaded) if isinstance(loaded, dict) else {"all": loaded}
    images = {name for split in splits.values() for name, kind in split.features.items() if _is(kind, "Image")}
    return HubData({name: _frame(split) for name, split in splits.items()}, tuple(sorted(images)))


def _frame(split: Any) -> "pd.DataFrame":
    """Return a split as a table in which classes have their names and images are still encoded."""
    import datasets

    classes = {column: kind.names for column, kind in split.features.items() if _is(kind, "ClassLabel")}
    for column, kind in split.features.items():
        if _is(kind, "Image"):
            split = split.cast_column(column, datasets.Image(decode=False))
    frame = split.to_pandas()
    for column, names in classes.items():
        # Test rows of competitions have the class -1: they are not labeled.
        numbers = frame[column].fillna(-1).astype(int)
        frame[column] = [names[number] if 0 <= number < len(names) else None for number in numbers]
    return frame


def _is(kind: Any, name: str) -> bool:
    return type(kind).__name__ == name


def _cannot_load(where: str, is_folder: bool, error: Exception) -> str:
    if is_folder:
        return (
            f"the folder {where!r} cannot be opened as a saved data set ({_cause(error)}). Write it anew: "
            f"dataset.save_to_disk({where!r})."
        )
    if "onfig name is missing" in str(error) or "BuilderConfig" in str(error):
        return (
            f"the data set {where!r} has several subsets ({' '.join(str(error).split())[:300]}). Name one after a "
            f"colon: {where.partition(':')[0]}:SUBSET"
        )
    return (
        f"there is no file or folder {where!r}, and no data set of this name came from the Hugging Face hub "
        f"({_cause(error)}). Check the path; or, with a network, give a name such as stanfordnlp/sst2. Without one, "
        "save the data set where there is: datasets.load_dataset(name).save_to_disk(folder), and give that folder."
    )


def _cause(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


@contextmanager
def _offline_without_network() -> Iterator[None]:
    """Without a network, let `datasets` look into its cache at once instead of trying again for half a minute."""
    from datasets import config
    from huggingface_hub import constants

    before = (config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE)
    if not _hub_is_reachable():
        config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before


def _hub_is_reachable() -> bool:
    """Tell whether downloads are worth a try: the hub's own libraries retry for most of a minute."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    # A proxy resolves names itself, so that looking from here would tell nothing.
    if getproxies().keys() & {"https", "http", "all"}:
        return True
    address = urlsplit(constants.ENDPOINT)
    try:
        port = address.port or (80 if address.scheme == "http" else 443)
        with socket.create_connection((address.hostname or "", port), timeout=_REACH_SECONDS):
            return True
    except OSError:
        return False


@contextmanager
def _quietly(logging: Any) -> Iterator[None]:
    """Keep a library of Hugging Face from drawing its own bars and from reporting heads that are not needed here."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


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

    @property
    def most_tokens(self) -> int:
        """The number of tokens of a text that are read: never more than the model can take."""
        positions = getattr(self.model.config, "max_position_embeddings", None) or self.longest
        return int(min(self.longest, positions, self.tokenizer.model_max_length))

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
            features[places] = _pooled(states, batch["attention_mask"], self.pooling).float().cpu()
            done += len(places)
            if callable(progress):
                progress(done, len(texts))
        return features

    def digest(self) -> str:
        """Return a name for all that features depend on: weights, vocabulary, pooling and length.

        It does not depend on where the encoder lies, nor on the form of its files.
        """
        return self._digest

    @cached_property
    def _digest(self) -> str:
        digest = hashlib.sha256(f"{self.most_tokens}\n{self.pooling}\n".encode())
        for word, number in sorted(self.tokenizer.get_vocab().items()):
            digest.update(f"{word} {number}\n".encode("utf-8", "surrogatepass"))
        for name, value in sorted(self.model.state_dict().items()):
            if _UNUSED_PARTS.isdisjoint(name.split(".")):
                digest.update(f"{name} {list(value.shape)} {value.dtype}\n".encode())
                digest.update(tensor_bytes(value))
        return digest.hexdigest()[:24]

    @cached_property
    def pooling(self) -> Pooling:
        """How the states of a text's tokens become one vector: as 1_Pooling/config.json says, else by their mean."""
        file = Path(self.where) / _POOLING
        if not Path(self.where).is_dir():
            from transformers.utils.hub import cached_file

            options = {f"_raise_exceptions_for_{what}": False for what in _ABSENT}
            found = cached_file(self.where, _POOLING, local_files_only=not _hub_is_reachable(), **options)
            file = Path(str(found)) if found is not None else file
        if not file.is_file():
            return "mean"
        try:
            config = json.loads(file.read_text(encoding="utf-8"))
            chosen = [name for name, value in config.items() if name.startswith("pooling_mode_") and value is True]
        except (OSError, ValueError, AttributeError) as error:
            raise DataFileError(
                f"{str(file)!r} cannot be read ({error}): it says how the encoder pools. Repair or remove it."
            ) from error
        if len(chosen) != 1 or chosen[0] not in _POOLING_MODES:
            raise DataFileError(
                f"{str(file)!r} pools by {' and '.join(chosen) or 'nothing'}; known are {', '.join(_POOLING_MODES)}. "
                "Give another encoder, or change that file to one of them."
            )
        return _POOLING_MODES[chosen[0]]

    @cached_property
    def _opened(self) -> tuple[Any, Any]:
        """The model and its tokenizer."""
        try:
            import transformers
        except ImportError as error:
            raise MissingExtraError(
                f"a pretrained encoder needs transformers ({error}): pip install 'turnover[text]'. Without one, leave "
                "--model out: texts are then represented by their words."
            ) from error

        def opened(local: bool) -> tuple[Any, Any, Any]:
            # Said explicitly: otherwise a model that comes with code asks on standard input whether to run it.
            options = {"local_files_only": local, "trust_remote_code": False}
            with _quietly(transformers.utils.logging):
                tokenizer = transformers.AutoTokenizer.from_pretrained(self.where, **options)
                model, loading = transformers.AutoModel.from_pretrained(
                    self.where, **options, dtype=torch.float32, output_loading_info=True
                )
            return model, tokenizer, loading

        is_folder = Path(self.where).is_dir()
        try:
            try:  # what was downloaded before is taken as it is: the same run gives the same features
                model, tokenizer, loading = opened(local=True)
            except _FAILURES:
                if is_folder or not _hub_is_reachable():
                    raise
                model, tokenizer, loading = opened(local=False)
        except _FAILURES as error:
            raise DataFileError(_cannot_open(self.where, is_folder, error)) from error
        missing = sorted(name for name in loading["missing_keys"] if _UNUSED_PARTS.isdisjoint(name.split(".")))
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


_ABSENT = ("missing_entries", "connection_errors", "gated_repo")


def _cannot_open(where: str, is_folder: bool, error: Exception) -> str:
    cause = _cause(error)
    if isinstance(error, UnpicklingError):
        cause = "its file of weights holds more than numbers, and is not opened"
    if is_folder:
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
        return self.output(_pooled(states, real, self.pooling))


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
    padding = int(encoder.tokenizer.pad_token_id)
    numbers = [torch.tensor(row, dtype=torch.int64) for row in rows["input_ids"]]
    if not max(map(len, numbers), default=0):
        return torch.full((len(texts), 1), padding)
    return nn.utils.rnn.pad_sequence(numbers, batch_first=True, padding_value=padding)


def _pooled(states: Tensor, attention_mask: Tensor, pooling: Pooling) -> Tensor:
    if pooling == "cls":
        # The first real token, wherever a tokenizer pads.
        return states[torch.arange(len(states)), attention_mask.argmax(1)]
    if pooling == "max":
        return states.masked_fill(attention_mask.unsqueeze(2) == 0, torch.finfo(states.dtype).min).amax(1)
    weights = attention_mask.unsqueeze(2).to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1).clamp(min=1)
