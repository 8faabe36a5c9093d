"""A text for a language model: parts that follow each other, nothing copied across, words apart from marks."""

import numpy as np
import pytest

from turnover.errors import DataFileError
from turnover.runs.config import RunConfig
from turnover.runs.reading.corpus import read_corpus


@pytest.fixture
def text_file(tmp_path):
    def write(text, name="book.txt"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write


def lines(count, start=0):
    return [f"line {number} of a book with words {number % 7} ." for number in range(start, start + count)]


def test_parts_follow_each_other_and_have_the_shares_asked_for(text_file):
    corpus = read_corpus(RunConfig(text_file("\n".join(lines(200)))))
    assert corpus.lines == tuple(lines(200))
    assert (np.diff(corpus.splits) >= 0).all()
    assert [len(corpus.places(split)) for split in ("train", "validation", "test")] == pytest.approx(
        [160, 20, 20], abs=1
    )
    assert corpus.lines_of("train") + corpus.lines_of("validation") + corpus.lines_of("test") == lines(200)


def test_a_cut_is_made_between_paragraphs(text_file):
    paragraphs = ["\n".join(lines(9, 9 * number)) + "\n" for number in range(120)]
    corpus = read_corpus(RunConfig(text_file("\n".join(paragraphs))))
    for split in ("validation", "test"):
        first = int(corpus.places(split)[0])
        assert corpus.lines[first - 1] == ""
        assert corpus.lines[first]


def test_words_come_from_training_lines_only(text_file):
    text = [*lines(100), *(f"unseen{number} words here now" for number in range(40))]
    corpus = read_corpus(RunConfig(text_file("\n".join(text)), validation=0.05, test=0.05))
    last = corpus.lines_of("test")[-1].split()[0]
    assert last not in corpus.vocabulary.words
    assert int((corpus.tokens("test") == 1).sum()) > 0
    assert len(read_corpus(RunConfig(text_file("\n".join(text)), vocabulary=5)).vocabulary) == 7


def test_long_lines_that_stand_in_an_earlier_part_are_left_out_and_short_ones_stay(text_file):
    text = lines(200)
    text[190], text[195] = text[3].upper(), "= heading ="
    text[5] = "= heading ="
    corpus = read_corpus(RunConfig(text_file("\n".join(text))))
    assert text[190] not in corpus.lines
    assert corpus.lines_of("test").count("= heading =") == 1
    assert "1 test lines skipped: they also stand in an earlier part." in corpus.notes


def test_separate_files_stay_whole(text_file):
    data = text_file("\n".join(lines(100)))
    more = text_file("\n".join(lines(30)), "more.txt")
    corpus = read_corpus(RunConfig(data, validation_data=more, test_data=more))
    assert corpus.lines_of("train") == lines(100)
    assert corpus.lines_of("validation") == corpus.lines_of("test") == lines(30)
    assert "30 test lines also stand in an earlier part." in corpus.notes


def test_punctuation_is_separated_from_words_but_not_within_them(text_file):
    text = "\n".join(f'He said: "Pi is 3.14, no. {number} (roughly)!"' for number in range(60))
    corpus = read_corpus(RunConfig(text_file(text)))
    assert corpus.lines[0] == 'He said : " Pi is 3.14 , no . 0 ( roughly ) ! "'
    assert any("Punctuation" in note for note in corpus.notes)


def test_a_text_without_lines_has_one_for_every_sentence(text_file):
    text = " ".join(f"This is sentence {number} of the book." for number in range(100))
    corpus = read_corpus(RunConfig(text_file(text)))
    assert len(corpus.lines) == 100
    assert corpus.lines[1] == "This is sentence 1 of the book ."


def test_a_folder_of_texts_and_a_column_of_texts_are_corpora_too(text_file, tmp_path):
    folder = tmp_path / "books"
    folder.mkdir()
    (folder / "a.txt").write_text("\n".join(lines(60)))
    (folder / "b.txt").write_text("\n".join(lines(60, 60)))
    assert read_corpus(RunConfig(str(folder), task="lm")).lines == tuple(lines(120))
    table = text_file("\n".join(["text,label", *(f"{line},1" for line in lines(120))]), "rows.csv")
    assert read_corpus(RunConfig(table, task="lm")).lines == tuple(lines(120))


def test_only_the_first_lines_are_used_if_asked(text_file):
    corpus = read_corpus(RunConfig(text_file("\n".join(lines(200))), max_rows=50))
    assert corpus.lines == tuple(lines(50))
    assert "The first 50 of 200 lines are used." in corpus.notes


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"only three words", "book.txt", r"has 3 words\. A language model needs at least 100"),
        ("\n".join(lines(20)).encode(), "book.txt", r"validation part .* too few for --context 50"),
        (b"", "book.txt", "is empty"),
        (b"", "bok.txt", r"no file .*bok\.txt'\. Did you mean .*book\.txt"),
        (b"", "none", "no text files"),
        ("café ".encode("latin-1") * 200, "book.txt", r"byte 0xe9 at position 3.*iconv"),
    ],
)
def test_what_is_no_corpus_says_what_to_do(tmp_path, content, name, message):
    (tmp_path / "book.txt").write_bytes(content)
    (tmp_path / "none").mkdir()
    with pytest.raises(DataFileError, match=message):
        read_corpus(RunConfig(str(tmp_path / name), task="lm", context=50))


def test_the_real_wikitext_has_its_known_number_of_words(data_file):
    names = [str(data_file(f"wikitext-2/{name}.txt")) for name in ("valid", "test")]
    corpus = read_corpus(RunConfig(names[0], validation_data=names[1], test=0))
    assert len(corpus.tokens("train")) == 217_646
    assert len(corpus.tokens("validation")) == 245_569
