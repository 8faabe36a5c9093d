"""SST-2: sentences from film reviews, labeled positive (1) or negative (0)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .folder import data_file, read_tsv

Split = Literal["train", "dev", "test"]

_SOURCE = (
    "SST-2 belongs to GLUE (https://gluebenchmark.com/tasks); on the Hugging Face hub it is stanfordnlp/sst2. "
    "Wanted are train.tsv, dev.tsv and test.tsv, a header and then sentence<TAB>label."
)


@dataclass(frozen=True)
class Sentences:
    """Sentences and their labels.

    Attributes:
        texts: the sentences.
        labels: [sentences]; 1 is positive.
    """

    texts: list[str]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.texts)


def load_sst2(split: Split, *, rows: int | None = None, seed: int | None = 0) -> Sentences:
    """Return sentences of a split of SST-2: "train" (67,349 phrases and sentences), "dev" (872) or "test" (1,821).

    A seed draws them at random, without repeats; None: the first ones.
    """
    found = read_tsv(data_file(f"sst2/{split}.tsv", source=_SOURCE))
    places = np.arange(len(found)) if seed is None else np.random.default_rng(seed).permutation(len(found))
    chosen = [found[place] for place in (places if rows is None else places[:rows])]
    texts = [row["sentence"].strip() for row in chosen]
    return Sentences(texts, np.array([int(row["label"]) for row in chosen], np.int64))
