"""From raw values to what a network takes, and the network that suits it: texts, columns of a table, pixels.

Inputs are fitted on training rows and kept in a run folder as JSON. Pieces of words need no download: they are hashed
into buckets and weighted by rarity. Pieces of three to five letters bear collisions better than words do, because a
word has several: on 5,000 sentences of SST-2 logistic regression has an accuracy of .79 on held-out ones with 4,096
buckets, with words and pairs of words .71 (.79 with as many buckets as there are words).

All networks but that with adapters end in one masked ReLU layer and an output layer without bias: nothing of a row
leaks past the masks there, and scores of all pairs are one matrix product, so that questions are answered while a
person waits. What convolutions before it learn of a row leaks into its flipped subnetwork; the audit of a run says how
much.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from turnover.errors import DataFileError, RunError
from turnover.integrations import TextEncoder, text_classifier, token_numbers
from turnover.storage import VectorCache, atomic_file, cache_folder, check_memory, content_keys, read_array
from turnover.wrapping import only_at, top_sites, wrap

from .columns import MISSING, label_text
from .config import RunConfig, Watch, unwatched
from .folder import RunFolder
from .table import Rows

if TYPE_CHECKING:
    import pandas as pd

REPLICAS = 8
_KEPT = ConfigDict(strict=True, extra="forbid")
# All rows are held as one matrix, of at most this many numbers (2 GB).
_MOST_NUMBERS = 2**29
_TEXTS_AT_ONCE = 4096
_MOST_CATEGORIES = 100
# Texts that are encoded between two calls of a watch, and between two additions to the cache.
_BLOCK, _KEPT_AT_ONCE = 256, 4096
# Epochs are enough to memorize rows a little, which is what influence is made of. Many rows take fewer: no more visits
# than this. Few rows take more: after the 15 steps that 3 epochs of 300 texts are, every prediction is near one half.
_MOST_VISITS, _FEWEST_EPOCHS, _FEWEST_STEPS = 2_400_000, 3, 60


class _MaskedLayer:
    """Inputs over which the network is a masked layer, with modules of their own before it."""

    defaults: ClassVar[tuple[int, int, float]]  # width of the masked layer, epochs, learning rate
    references: ClassVar[bool] = True  # whether reference examples are cheap

    @property
    def width(self) -> int:
        """Return how many numbers the masked layer takes."""
        raise NotImplementedError

    def layers(self) -> list[nn.Module]:
        """Return the modules before the masked layer."""
        return []

    def plain(self, settings: RunConfig, outputs: int, *, copies: int = 1) -> nn.Module:
        """Return the untrained network without masks; raise where `copies` of it need more memory than is free."""
        weights = self.width + outputs
        check_memory(
            4 * settings.hidden * weights * copies,
            f"a masked layer of {settings.hidden:,} units, with {weights:,} weights each, needs",
            cure="Give a smaller --hidden or fewer --replicas.",
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            masked = [*self.layers(), nn.Linear(self.width, settings.hidden), nn.ReLU()]
            return nn.Sequential(*masked, nn.Linear(settings.hidden, outputs, bias=False))

    def masked(self, settings: RunConfig, outputs: int) -> nn.Module:
        """Return the same network with masks on the ReLU layer before the outputs."""
        # Weights and gradients of every replica, and the two means of AdamW.
        plain = self.plain(settings, outputs, copies=4 * settings.replicas)
        site = str(len(list(plain.children())) - 2)
        with torch.random.fork_rng(devices=[]):  # weights of further replicas are drawn
            torch.manual_seed(settings.seed + 1)
            return wrap(plain, at=[site], keep=settings.keep, seed=settings.seed, replicas=settings.replicas)

    def asked(self, model: nn.Module) -> nn.Module:
        """Return a trained network as it is asked about predictions."""
        return model


def settings_for(config: RunConfig, inputs: "Inputs", rows: int, most_epochs: int | None) -> RunConfig:
    """Return settings in which open values have the defaults of the inputs, of labels and of training rows."""
    width, epochs, rate = inputs.defaults
    steps = -(-max(rows, 1) // config.batch_size)  # of an epoch
    epochs = max(epochs, -(-_FEWEST_STEPS // steps)) if most_epochs is None else min(epochs, most_epochs)
    epochs = min(epochs, max(_FEWEST_EPOCHS, _MOST_VISITS // max(rows, 1)))
    replicas = 1 if config.adapters else REPLICAS
    return config.with_defaults(hidden=width, epochs=epochs, learning_rate=rate, replicas=replicas)


# Texts


@dataclass(frozen=True, config=_KEPT)
class NgramInputs(_MaskedLayer):
    """Turns texts into vectors of hashed pieces of words, each of length 1."""

    rarity: tuple[float, ...]  # weight of each bucket: the logarithm of how rare it is among the training rows
    kind: Literal["ngrams"] = "ngrams"
    defaults: ClassVar[tuple[int, int, float]] = (256, 3, 1e-3)

    @classmethod
    def fit(
        cls, texts: Sequence[str], *, rows: int | None = None, most: int = 4096, watch: Watch = unwatched
    ) -> "NgramInputs":
        """Return inputs fitted on training texts; many `rows`, of all splits, get fewer buckets to fit into memory."""
        buckets, every = most, rows or len(texts)
        while buckets > 512 and buckets * every > _MOST_NUMBERS:
            buckets //= 2
        counts = np.zeros(buckets)
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            watch("features", start, len(texts) + every, "counting pieces of words")
            counts += (_hashed(texts[start : start + _TEXTS_AT_ONCE], buckets) != 0).sum(axis=0).A1
        return cls(tuple((np.log((1 + len(texts)) / (1 + counts)) + 1).round(6).tolist()))

    @property
    def width(self) -> int:
        """Return how many numbers a text becomes."""
        return len(self.rarity)

    def __call__(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> Tensor:
        """Return float32 [texts, width]; `progress` is called with the number of texts that are done."""
        vectors = torch.empty(len(texts), self.width)
        weights = torch.tensor(self.rarity)
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            if progress is not None:
                progress(start)
            part = torch.from_numpy(_hashed(texts[start : start + _TEXTS_AT_ONCE], self.width).toarray())
            vectors[start : start + _TEXTS_AT_ONCE] = torch.nn.functional.normalize(part * weights, dim=1)
        return vectors


def _hashed(texts: Sequence[str], buckets: int) -> Any:
    from sklearn.feature_extraction.text import HashingVectorizer

    # Its stubs know neither None nor float32.
    options: dict[str, Any] = {"norm": None, "dtype": np.float32, "alternate_sign": False}
    hashing: Any = HashingVectorizer(n_features=buckets, analyzer="char_wb", ngram_range=(3, 5), **options)
    counts: Any = hashing.transform(texts)
    np.log1p(counts.data, out=counts.data)
    return counts


def _same_encoder(where: str, digest: str) -> TextEncoder:
    """Open an encoder; raise where its weights are others than in training, which would give other numbers."""
    encoder = TextEncoder(where)
    if encoder.digest() != digest:
        raise RunError(
            f"the encoder {where!r} is not the one this run was trained on: its weights differ. Put the former one "
            "back, or run again."
        )
    return encoder


@dataclass(frozen=True, config=_KEPT)
class EncodedInputs(_MaskedLayer):
    """Turns texts into the features of a pretrained encoder, standardized by the training texts."""

    where: str
    digest: str  # of its weights
    mean: tuple[float, ...]
    spread: tuple[float, ...]
    kind: Literal["encoder"] = "encoder"
    defaults: ClassVar[tuple[int, int, float]] = (512, 6, 5e-4)

    @classmethod
    def fit(cls, encoder: TextEncoder, features: Tensor) -> "EncodedInputs":
        """Return what suits the features of training texts."""
        mean, spread = features.mean(0), features.std(0).clamp(min=1e-6)
        return cls(encoder.where, encoder.digest(), tuple(mean.tolist()), tuple(spread.tolist()))

    @property
    def width(self) -> int:
        """Return how many numbers a text becomes."""
        return len(self.mean)

    @cached_property
    def encoder(self) -> TextEncoder:
        """Return the encoder, which is opened when it is first used."""
        return _same_encoder(self.where, self.digest)

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """Return float32 [texts, width]."""
        return self.standardized(self.encoder.features(list(texts), progress=False))

    def standardized(self, features: Tensor) -> Tensor:
        """Return features of the encoder as the masked layer takes them."""
        return (features - torch.tensor(self.mean)) / torch.tensor(self.spread)


@dataclass(frozen=True, config=_KEPT)
class TokenInputs:
    """Turns texts into the token numbers of an encoder, which is the network and gets adapters with the masks."""

    where: str
    digest: str
    kind: Literal["tokens"] = "tokens"
    defaults: ClassVar[tuple[int, int, float]] = (0, 5, 2e-3)
    references: ClassVar[bool] = False

    @classmethod
    def fit(cls, encoder: TextEncoder) -> "TokenInputs":
        """Return the inputs of an encoder."""
        return cls(encoder.where, encoder.digest())

    @cached_property
    def encoder(self) -> TextEncoder:
        """Return the encoder, which is opened when it is first used."""
        return _same_encoder(self.where, self.digest)

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """Return token numbers [texts, tokens]."""
        return token_numbers(self.encoder, texts)

    def plain(self, settings: RunConfig, outputs: int) -> nn.Module:
        """Return the encoder with a new output layer."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            return text_classifier(TextEncoder(self.where), outputs)

    def masked(self, settings: RunConfig, outputs: int) -> nn.Module:
        """Return the same network with masked adapters."""
        plain = self.plain(settings, outputs)
        return wrap(plain, adapters=settings.adapters, keep=settings.keep, seed=settings.seed)

    def asked(self, model: nn.Module) -> nn.Module:
        """Return the network with the masks before the output layer only.

        All pairs are one matrix product then, instead of one pass through the encoder per pair.
        """
        return only_at(model, top_sites(model, 0))


# Tables


@dataclass(frozen=True, config=_KEPT)
class Column:
    """How one column becomes numbers."""

    name: str
    mean: float = 0.0  # of the training rows; takes the place of a missing number
    spread: float = 1.0
    # Anything else counts as other; None: a column of numbers.
    categories: tuple[str, ...] | None = None

    @property
    def width(self) -> int:
        """Return how many numbers a value becomes; the last tells that it is missing or other."""
        return 2 if self.categories is None else len(self.categories) + 1


@dataclass(frozen=True, config=_KEPT)
class ColumnInputs(_MaskedLayer):
    """Turns rows of a table into vectors: standardized numbers, categories as one bit each."""

    columns: tuple[Column, ...]
    kind: Literal["columns"] = "columns"
    defaults: ClassVar[tuple[int, int, float]] = (512, 30, 2e-3)

    @classmethod
    def fit(cls, table: "pd.DataFrame") -> "ColumnInputs":
        """Return what suits the training rows of a table."""
        return cls(tuple(_fitted_column(str(name), table[name]) for name in table.columns))

    @property
    def width(self) -> int:
        """Return how many numbers a row becomes."""
        return sum(column.width for column in self.columns)

    def __call__(self, rows: Any) -> Tensor:
        """Return float32 [rows, width] of a DataFrame, or of a list of rows; columns that are absent are missing."""
        import pandas as pd

        table = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows))
        return torch.from_numpy(np.concatenate([_numbers(column, table) for column in self.columns], axis=1))


def checked_cells(columns: tuple[Column, ...], cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return new cells as a run takes them: numbers, categories, None where one is missing.

    A word in a column of numbers is an error: counted as missing, it would give another answer than was asked for.
    """
    return {column.name: _cell(column, cells[column.name]) for column in columns if column.name in cells}


def _cell(column: Column, value: Any) -> float | str | None:
    text = label_text(value)
    if column.categories is not None:
        return text or None
    if text.lower() in MISSING:
        return None
    try:
        number = float(text)
    except ValueError as error:
        raise DataFileError(
            f"{text!r} in column {column.name!r} must be a number. Give one, or leave it empty."
        ) from error
    if not math.isfinite(number):
        raise DataFileError(f"{text!r} in column {column.name!r} must be finite. Give a number, or leave it empty.")
    return number


def _fitted_column(name: str, values: Any) -> Column:
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
        most = values.dropna().astype(str).value_counts().index[:_MOST_CATEGORIES]
        return Column(name, categories=tuple(sorted(most)))
    numbers = values.to_numpy(np.float64, na_value=np.nan)
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return Column(name)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, spread = float(numbers.mean()), float(numbers.std())
    if not 0 < spread < math.inf:  # squares of tiny numbers are 0, of huge ones infinite
        size = float(np.abs(numbers).max()) or 1.0
        mean, spread = float((numbers / size).mean()) * size, float((numbers / size).std()) * size
    return Column(name, mean, spread or 1.0)


def _numbers(column: Column, table: "pd.DataFrame") -> np.ndarray:
    import pandas as pd

    encoded = np.zeros((len(table), column.width), np.float32)
    if column.name not in table.columns:
        encoded[:, -1] = 1
        return encoded
    values = table[column.name]
    if column.categories is None:
        found_numbers: Any = pd.to_numeric(values, errors="coerce")
        numbers = found_numbers.to_numpy(np.float64, na_value=np.nan)
        known = np.isfinite(numbers)
        encoded[known, 0] = (numbers[known] - column.mean) / column.spread
        encoded[~known, 1] = 1
        return encoded
    places = {category: place for place, category in enumerate(column.categories)}
    encoded[np.arange(len(table)), [places.get(str(value), -1) for value in values]] = 1
    return encoded


# Images


@dataclass(frozen=True, config=_KEPT)
class PixelInputs(_MaskedLayer):
    """Turns images, uint8 [images, height, width, channels], into float32 [images, channels, height, width]."""

    mean: tuple[float, ...]
    spread: tuple[float, ...]
    size: tuple[int, int]
    kind: Literal["pixels"] = "pixels"
    defaults: ClassVar[tuple[int, int, float]] = (512, 12, 1e-3)

    @classmethod
    def fit(cls, images: np.ndarray) -> "PixelInputs":
        """Return what suits training images."""
        scaled = images.reshape(-1, images.shape[-1]) / np.float32(255)
        spread = np.maximum(scaled.std(axis=0), 1e-3)
        mean, spread = (tuple(values.astype(float).tolist()) for values in (scaled.mean(axis=0), spread))
        return cls(mean, spread, (int(images.shape[1]), int(images.shape[2])))

    @property
    def channels(self) -> int:
        """Return how many channels images have."""
        return len(self.mean)

    @property
    def width(self) -> int:
        """Return how many numbers the convolutions make of an image."""
        return 64 * 16

    def __call__(self, images: Any) -> Tensor:
        """Return images, an array or a list, as a network takes them."""
        pixels = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float() / 255
        mean, spread = (torch.tensor(values).view(1, -1, 1, 1) for values in (self.mean, self.spread))
        return ((pixels - mean) / spread).contiguous()

    def layers(self) -> list[nn.Module]:
        """Return two convolutions."""
        first = [nn.Conv2d(self.channels, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        return [*first, nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten()]


Inputs = NgramInputs | EncodedInputs | TokenInputs | ColumnInputs | PixelInputs
"""What turns values into inputs and builds the network over them: is called with values, and is kept as its fields."""

_INPUTS: TypeAdapter[Inputs] = TypeAdapter(Annotated[Inputs, Field(discriminator="kind")])


def fit_inputs(config: RunConfig, rows: Rows, folder: RunFolder, watch: Watch) -> tuple[Inputs, Tensor]:
    """Return how values become inputs, fitted on the training rows alone and kept, and the inputs of all rows."""
    inputs, x = _FIT[rows.kind](config, rows, np.flatnonzero(rows.splits == 0), folder, watch)
    folder.write(folder.inputs, _INPUTS.dump_json(inputs))
    return inputs, x


def _fit_images(config: RunConfig, rows: Rows, train: np.ndarray, *_: Any) -> tuple[Inputs, Tensor]:
    inputs = PixelInputs.fit(rows.values[train])
    return inputs, inputs(rows.values)


def _fit_tables(config: RunConfig, rows: Rows, train: np.ndarray, *_: Any) -> tuple[Inputs, Tensor]:
    inputs = ColumnInputs.fit(rows.values.iloc[train])
    return inputs, inputs(rows.values)


def _fit_texts(
    config: RunConfig, rows: Rows, train: np.ndarray, folder: RunFolder, watch: Watch
) -> tuple[Inputs, Tensor]:
    texts = rows.values
    if config.model is None:
        count = len(train) + len(rows)
        inputs = NgramInputs.fit([texts[place] for place in train.tolist()], rows=len(rows), watch=watch)
        x = inputs(texts, lambda done: watch("features", len(train) + done, count, "weighing pieces of words"))
        watch("features", count, count)
        return inputs, x
    encoder = TextEncoder(config.model)
    if config.adapters:
        tokens = TokenInputs.fit(encoder)
        return tokens, tokens(texts)
    features = encoded_texts(encoder, list(texts), watch)
    with folder.writing(), atomic_file(folder.features) as file:
        np.save(file, features.numpy())
    encoded = EncodedInputs.fit(encoder, features[torch.from_numpy(train)])
    return encoded, encoded.standardized(features)


_FIT = {"text": _fit_texts, "image": _fit_images, "table": _fit_tables}


def read_inputs(folder: RunFolder) -> Inputs:
    """Return how values become inputs in a run."""
    with folder.reading(folder.inputs):
        return _INPUTS.validate_json(folder.inputs.read_bytes())


def inputs_of_rows(inputs: Inputs, rows: Rows, folder: RunFolder) -> Tensor:
    """Return the inputs of all rows of a run."""
    if isinstance(inputs, EncodedInputs) and folder.features.exists():
        with folder.reading(folder.features):
            return inputs.standardized(torch.from_numpy(read_array(folder.features)))
    return inputs(rows.values)


def encoded_texts(encoder: TextEncoder, texts: list[str], watch: Watch) -> Tensor:
    """Return the features of texts, each different one computed once; what an earlier run computed is taken from it."""
    keys, first, same = np.unique(
        content_keys(text.encode("utf-8", "surrogatepass") for text in texts), return_index=True, return_inverse=True
    )
    folder = cache_folder()
    cache = None if folder is None else VectorCache(folder / "features", {"encoder": encoder.digest(), "format": 1})
    features = np.empty((len(keys), encoder.width), np.float32)
    known = np.zeros(len(keys), bool)
    if cache is not None:
        known, features = cache.find(keys, encoder.width)
    # Neighbors have similar lengths, so that little padding is computed.
    missing = np.flatnonzero(~known)
    lengths = np.array([len(texts[place]) for place in first[missing].tolist()])
    missing = missing[np.argsort(lengths, kind="stable")]
    done = 0
    for part in np.split(missing, range(_KEPT_AT_ONCE, len(missing), _KEPT_AT_ONCE)):
        for start in range(0, len(part), _BLOCK):
            watch("features", done + start, len(missing), "encoding texts")
            block = part[start : start + _BLOCK]
            features[block] = encoder.features([texts[int(place)] for place in first[block]]).numpy()
        done += len(part)
        if cache is not None and len(part):
            cache.add(keys[part], features[part])
    watch("features", 1, 1)
    return torch.from_numpy(features[same.reshape(-1)])
