"""A run of a language model, from a text to the words it knows by heart."""

import numpy as np
import pytest

from turnover.applications import find_passages, position_in
from turnover.applications.language import PASSAGE
from turnover.errors import RunError
from turnover.runs import RunConfig, open_run, start_run
from turnover.runs.reading import read_corpus


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    draw = np.random.default_rng(0)
    words = "the a cat dog bird saw heard found red small old house garden".split()
    lines = [" ".join(draw.choice(words, 8)) + f" name{row} ." for row in range(120)]
    folder = tmp_path_factory.mktemp("lm")
    (folder / "tale.txt").write_text("\n".join(lines), encoding="utf-8")
    config = RunConfig(str(folder / "tale.txt"), hidden=32, replicas=2, epochs=8, context=2, learning_rate=1e-2)
    return start_run(config, folder / "run")


def test_a_run_of_a_language_model_is_opened_again(run):
    again = open_run(run.folder.path)
    assert again.kind == "lm"
    assert again.self_influence.equals(run.self_influence)
    assert np.array_equal(again.predict(["the cat"]), run.predict(["the cat"]))


def test_words_that_occur_once_are_learned_by_heart(run):
    rare, frequent = run.task.frequency == 1, run.task.frequency > 20
    assert np.median(run.self_influence.values[rare]) > np.median(run.self_influence.values[frequent]) + 0.5
    assert run.about.results["frequency_correlation"] < -0.2


def test_passages_show_the_words_of_the_text_with_their_scores_and_do_not_overlap(run):
    passages = find_passages(run, most=3)
    scores = np.concatenate([[np.nan] * 2, run.self_influence.values])  # no context yet for the first two words
    for passage in passages:
        words = run.text.words[passage.start : passage.start + PASSAGE]
        assert [token.replace("↵\n", "\n") for token in passage.text.tokens] == list(words)
        assert np.allclose(passage.text.values, scores[passage.start : passage.start + PASSAGE], equal_nan=True)
    starts = [passage.start for passage in passages]
    assert min(abs(one - other) for one in starts for other in starts if one != other) >= PASSAGE


def test_words_around_a_position_are_those_of_the_text(run):
    words = run.task.corpus.lines_of("train")[0].split()
    around = position_in(run.text, 0)
    assert (around.before, around.word, around.after) == (" ".join(words[:2]), words[2], " ".join(words[3:6]))


def test_a_prediction_goes_back_to_positions_with_that_word(run):
    text = " ".join(run.task.corpus.lines_of("train")[0].split()[:8])
    word = run.task.corpus.vocabulary.encode(["."])[:1]
    top = run.influence.top((run.inputs([text]), word), k=3, progress=False)
    assert top.helpful_ids.shape == (1, 3)


@pytest.mark.parametrize(
    ("typed", "read", "unknown"),
    [
        ("the cat.", "the cat .", ()),
        ("(the cat, the dog", "( the cat , the dog", ("(", ",")),
        ("the Cat; the cat", "the Cat ; the cat", ("Cat", ";")),
        ("the cat .\na dog", "the cat . <eos> a dog", ()),
    ],
)
def test_punctuation_of_a_question_is_read_as_that_of_the_training_text(run, typed, read, unknown):
    numbers, words = run.task.tokens(typed)
    assert words == tuple(read.split())
    assert numbers.tolist() == run.task.corpus.vocabulary.encode([read])[:-1].tolist()
    assert run.task.unknown_words(typed) == unknown
    assert np.array_equal(run.predict([typed]), run.predict([read]))


def test_words_with_marks_that_were_trained_stay_as_they_are(tmp_path):
    line = "he saw Mr. Smith , who came ; she , too , saw him ."
    (tmp_path / "a.txt").write_text("\n".join([line] * 40), encoding="utf-8")
    corpus = read_corpus(RunConfig(str(tmp_path / "a.txt"), validation_data=str(tmp_path / "a.txt"), test=0.0))
    assert corpus.words_of("Mr. Smith, too.") == ("Mr.", "Smith", ",", "too", ".")


def test_too_short_a_question_says_how_many_words_are_needed(run):
    with pytest.raises(RunError, match="reads 2 words before the next one"):
        run.predict(["the"])
