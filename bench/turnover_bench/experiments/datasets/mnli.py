"""MNLI: pairs of sentences; does the first (premise) entail the second (hypothesis), contradict it, or neither?"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .folder import MissingDataError, data_file, read_tsv

LABELS = ("entailment", "neutral", "contradiction")
_PLACES = {name: place for place, label in enumerate(LABELS) for name in (label, str(place))}

_SOURCE = (
    "MNLI belongs to GLUE (https://gluebenchmark.com/tasks); on the Hugging Face hub it is nyu-mll/multi_nli. Wanted "
    "are train.tsv and validation.tsv, a header and then premise<TAB>hypothesis<TAB>label, the label as a word or its "
    "number, 0 to 2."
)


@dataclass(frozen=True)
class Pairs:
    """Pairs of sentences and their labels.

    Attributes:
        premises: the first sentences.
        hypotheses: the second ones.
        labels: [pairs], a place in LABELS.
    """

    premises: list[str]
    hypotheses: list[str]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.labels)


def load_mnli(split: Literal["train", "validation"], *, rows: int | None = None) -> Pairs:
    """Return the first pairs of a split of MNLI; a label that is none of LABELS is a MissingDataError too."""
    path = data_file(f"mnli/{split}.tsv", source=_SOURCE)
    found = read_tsv(path)[:rows]
    strange = sorted({row["label"] for row in found} - set(_PLACES))
    if strange:
        raise MissingDataError(f"{path} has labels {strange}. Wanted are {', '.join(LABELS)}. {_SOURCE}")
    return Pairs(
        [row["premise"].strip() for row in found],
        [row["hypothesis"].strip() for row in found],
        np.array([_PLACES[row["label"]] for row in found], np.int64),
    )
