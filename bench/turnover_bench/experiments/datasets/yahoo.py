"""Yahoo Answers: a question with its best answer, and one of ten topics."""

import numpy as np

from .folder import data_file, read_tsv
from .hub import HUB_TOPICS
from .sst2 import Sentences

TOPICS = tuple(topic.lower().replace("&", "and") for topic in HUB_TOPICS)
_SOURCE = (
    "Yahoo Answers by topic (Zhang et al. 2015) is yahoo_answers_topics on the Hugging Face hub. Wanted is "
    "yahoo_answers.tsv, a header and then label<TAB>text, labels from 0 to 9."
)


def load_yahoo(*, rows: int | None = None, seed: int = 0) -> Sentences:
    """Return questions with answers and their topics, a place in TOPICS, in random order; each text once."""
    lines = read_tsv(data_file("yahoo-answers/yahoo_answers.tsv", source=_SOURCE))
    found = list({row["text"].strip(): row for row in lines}.values())
    chosen = [found[place] for place in np.random.default_rng(seed).permutation(len(found))[:rows]]
    # Line breaks are written as two signs in the file.
    texts = [" ".join(row["text"].replace("\\n", " ").split()) for row in chosen]
    return Sentences(texts, np.array([int(row["label"]) for row in chosen], np.int64))
