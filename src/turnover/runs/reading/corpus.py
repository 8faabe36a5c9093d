"""Plain text for a language model: lines, in parts that follow each other, and the words it knows."""

import gzip
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from turnover.errors import DataFileError
from turnover.runs._splits import normalized
from turnover.runs.config import RunConfig
from turnover.runs.folder import RunFolder
from turnover.runs.language_models import END, Vocabulary
from turnover.runs.rows import SPLITS, Split
from turnover.storage import read_gzip

from .columns import choose_text
from .encoding import text_encoding
from .rows import CORPUS_ENDINGS, existing
from .tables import TABLE_ENDINGS, column_of, read_table

_LONG_LINE = 8
"""A line of so many words that stands twice was copied; a shorter one, a heading for example, may just recur."""

_FILE = "corpus.json.gz"
_FEWEST_WORDS = 100
_MARKS = frozenset('.,;:!?()[]{}"“”„»«…')
_SENTENCE_ENDS = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True)
class Corpus:
    """A text as a language model reads it."""

    lines: tuple[str, ...]
    splits: np.ndarray  # index into SPLITS of each line [lines], int8
    vocabulary: Vocabulary
    name: str
    notes: tuple[str, ...] = ()

    def lines_of(self, split: Split) -> list[str]:
        """Return the lines of a split, in order."""
        return [self.lines[place] for place in self.places(split)]

    def places(self, split: Split) -> np.ndarray:
        """Return the numbers of the lines of a split."""
        return np.flatnonzero(self.splits == SPLITS.index(split))

    def tokens(self, split: Split) -> Tensor:
        """Return the numbers of all words of a split [tokens], with an end after every line."""
        return self._tokens[split]

    def words_of(self, text: str) -> tuple[str, ...]:
        """Return the words of another text as the model reads them, with an end between its lines.

        A word that the vocabulary has stays as it is; marks before and after any other are words of their own, whether
        they stood apart in the training text or were separated there.
        """
        known = frozenset(self.vocabulary.words)
        lines = [
            [part for word in line.split() for part in ([word] if word in known else _parts(word))]
            for line in text.strip().splitlines()
        ]
        return tuple(word for number, line in enumerate(lines) for word in ((END, *line) if number else line))

    def save(self, folder: RunFolder) -> None:
        """Write the text into a run folder, whole or not at all."""
        about = {
            "name": self.name,
            "notes": list(self.notes),
            "words": list(self.vocabulary.words),
            "splits": self.splits.tolist(),
            "lines": list(self.lines),
        }
        content = json.dumps(about, ensure_ascii=False).encode()
        folder.write(folder.path / _FILE, gzip.compress(content, compresslevel=3))

    @classmethod
    def open(cls, folder: RunFolder) -> "Corpus":
        """Return the text of a run folder."""
        with folder.reading(folder.path / _FILE):
            about: dict[str, Any] = json.loads(read_gzip(folder.path / _FILE))
            vocabulary, splits = Vocabulary(tuple(about["words"])), np.array(about["splits"], np.int8)
            return cls(tuple(about["lines"]), splits, vocabulary, about["name"], tuple(about["notes"]))

    @cached_property
    def _tokens(self) -> dict[Split, Tensor]:
        return {split: self.vocabulary.encode(self.lines_of(split)) for split in SPLITS}


def read_corpus(config: RunConfig) -> Corpus:
    """Return a text for a language model.

    The text is cut into training, validation and test lines that follow each other, between paragraphs where it has
    any. Long lines that the cut would leave on both sides are skipped in the later part: they were copied. Separate
    files of validation and test text stay whole.
    """
    notes: list[str] = []
    texts = {0: _lines(config.data, config)}
    for split, file in ((1, config.validation_data), (2, config.test_data)):
        if file is not None:
            texts[split] = _lines(file, config)
    if config.max_rows is not None and len(texts[0]) > config.max_rows:
        notes.append(f"The first {config.max_rows:,} of {len(texts[0]):,} lines are used.")
        texts[0] = texts[0][: config.max_rows]
    texts = _words_apart(_with_lines(texts, notes), notes)
    words = sum(len(line.split()) for line in texts[0])
    if words < _FEWEST_WORDS:
        raise DataFileError(
            f"{config.data!r} has {words} words. A language model needs at least {_FEWEST_WORDS}, and useful results "
            "need tens of thousands. Give a longer text."
        )
    lines, splits = _cut(texts, config)
    kept = _not_copied(lines, splits, given=set(texts), notes=notes)
    lines, splits = [lines[place] for place in kept], splits[kept]
    vocabulary = Vocabulary.of(
        (line for line, split in zip(lines, splits, strict=True) if split == 0), most=config.vocabulary
    )
    corpus = Corpus(tuple(lines), splits, vocabulary, Path(config.data).name)
    return _checked(corpus, config, notes)


def _lines(where: str, config: RunConfig) -> list[str]:
    """Return the lines of a file, of all files of a folder, or of a column of texts."""
    path = existing(where)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and file.suffix.lower() in CORPUS_ENDINGS)
        if not files:
            raise DataFileError(
                f"the folder {where!r} has no text files ({', '.join(CORPUS_ENDINGS)}). Give a text file, or a folder "
                "of them."
            )
        return [line for file in files for line in _lines(str(file), config)]
    if path.suffix.lower() in TABLE_ENDINGS:
        table = read_table(path)
        column = choose_text(table, config)
        return [" ".join(str(text).split()) for text in column_of(table.frame, column).dropna()]
    if config.text is not None:
        raise DataFileError(f"{where!r} is plain text and has no column {config.text!r}. Leave out: --text.")
    return path.read_text(encoding=text_encoding(path)).splitlines()


def _with_lines(texts: dict[int, list[str]], notes: list[str]) -> dict[int, list[str]]:
    """Make a line of every sentence where a text has hardly any lines."""
    filled = sum(bool(line.strip()) for line in texts[0])
    words = sum(len(line.split()) for line in texts[0])
    if not filled or words / filled < 300:
        return texts
    notes.append("The text has few lines: every sentence is taken as one.")
    return {
        split: [sentence for line in lines for sentence in _SENTENCE_ENDS.split(line)] for split, lines in texts.items()
    }


def _words_apart(texts: dict[int, list[str]], notes: list[str]) -> dict[int, list[str]]:
    """Separate full stops, commas and the like from words, unless they stand apart already."""
    words = [word for line in texts[0][:10_000] for word in line.split()]
    apart = sum(word in _MARKS for word in words)
    attached = sum(len(word) > 1 and (word[-1] in _MARKS or word[0] in _MARKS) for word in words)
    if apart >= attached:
        return texts
    notes.append("Punctuation is separated from words, so that it counts as words of its own.")
    return {
        split: [" ".join(part for word in line.split() for part in _parts(word)) for line in lines]
        for split, lines in texts.items()
    }


def _parts(word: str) -> list[str]:
    """Return a word and the marks before and after it; those within, as in 3.14, belong to it."""
    first, last = 0, len(word)
    while first < last and word[first] in _MARKS:
        first += 1
    while last > first and word[last - 1] in _MARKS:
        last -= 1
    return [*word[:first], *([word[first:last]] if first < last else []), *word[last:]]


def _cut(texts: dict[int, list[str]], config: RunConfig) -> tuple[list[str], np.ndarray]:
    """Return all lines and their splits: shares by the number of words, between paragraphs if one ends nearby."""
    lines = texts[0]
    sizes = np.array([len(line.split()) + 1 for line in lines])
    ends = np.cumsum(sizes)
    shares = [(1, config.validation), (2, config.test)]
    open_shares = [(split, share) for split, share in shares if split not in texts and share > 0]
    splits = np.zeros(len(lines), np.int8)
    left = 1.0 - sum(share for _, share in open_shares)
    for split, share in open_shares:
        start = int(np.searchsorted(ends, left * ends[-1]))
        splits[_paragraph(lines, ends, start) :] = split
        left += share
    for split, more in sorted(texts.items()):
        if split:
            lines = [*lines, *more]
            splits = np.concatenate([splits, np.full(len(more), split, np.int8)])
    return list(lines), splits


def _paragraph(lines: list[str], ends: np.ndarray, start: int) -> int:
    """Return the first line of the next paragraph, if it is not further than a hundredth of the text."""
    for place in range(start, len(lines)):
        if ends[place] - ends[start] > 0.01 * ends[-1]:
            break
        if not lines[place].strip():
            return place + 1
    return min(start + 1, len(lines))


def _not_copied(lines: list[str], splits: np.ndarray, *, given: set[int], notes: list[str]) -> np.ndarray:
    """Return places of the lines without long ones that repeat a line of an earlier split; given files stay whole."""
    first: dict[str, int] = {}
    kept, copied = np.ones(len(lines), bool), [0, 0, 0]
    for place in np.argsort(splits, kind="stable").tolist():
        if len(lines[place].split()) < _LONG_LINE:
            continue
        split = int(splits[place])
        if first.setdefault(normalized(lines[place]), split) < split:
            kept[place] = split in given
            copied[split] += 1
    for split in (1, 2):
        if copied[split] and split in given:
            notes.append(f"{copied[split]:,} {SPLITS[split]} lines also stand in an earlier part.")
        elif copied[split]:
            notes.append(f"{copied[split]:,} {SPLITS[split]} lines skipped: they also stand in an earlier part.")
    return np.flatnonzero(kept)


def _checked(corpus: Corpus, config: RunConfig, notes: list[str]) -> Corpus:
    """Reject parts without any position to predict, and note how much of the text is known words."""
    for place, split in enumerate(SPLITS):
        wanted = place < 2 or config.test > 0 or config.test_data is not None
        if wanted and len(corpus.tokens(split)) <= config.context + 1:
            raise DataFileError(
                f"the {split} part of {config.data!r} has {len(corpus.tokens(split))} words, too few for --context "
                f"{config.context}. Give a longer text, a larger share, or fewer words of context."
            )
    unknown = float((corpus.tokens("train") == 1).float().mean())
    words = {split: len(corpus.tokens(split)) for split in SPLITS}
    notes.append(
        f"{words['train']:,} training, {words['validation']:,} validation and {words['test']:,} test words, ends of "
        f"lines included; the vocabulary has {len(corpus.vocabulary):,} words and lacks {100 * unknown:.1f} % of the "
        "training words."
    )
    return Corpus(corpus.lines, corpus.splits, corpus.vocabulary, corpus.name, tuple(notes))
