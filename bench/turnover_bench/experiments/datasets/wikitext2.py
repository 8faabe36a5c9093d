"""WikiText-2: articles of Wikipedia, one paragraph a line, words separated by spaces."""

from typing import Literal

from .folder import data_file

_SOURCE = (
    "WikiText-2 is on the Hugging Face hub as Salesforce/wikitext (wikitext-2-v1) and in "
    "https://github.com/pytorch/examples/tree/main/word_language_model. Wanted are train.txt, valid.txt and test.txt, "
    "words separated by spaces, rare ones as <unk>."
)


def load_wikitext2(split: Literal["train", "valid", "test"]) -> list[str]:
    """Return the lines of a split of WikiText-2 (train: 2,088,628 words and ends of lines), empty ones among them."""
    return data_file(f"wikitext-2/{split}.txt", source=_SOURCE).read_text(encoding="utf-8").splitlines()
