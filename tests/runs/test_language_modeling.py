"""A run of a language model, from a text to the words it knows by heart."""

import numpy as np
import pytest

from turnover.errors import RunError
from turnover.runs import RunConfig, open_run, start_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    draw = np.random.default_rng(0)
    words = "the a cat dog bird saw heard found red small old house garden".split()
    lines = [" ".join(draw.choice(words, 8)) + f" name{row} ." for row in range(120)]
    folder = tmp_path_factory.mktemp("lm")
    (folder / "tale.txt").write_text("\n".join(lines), encoding="utf-8")
    config = RunConfig(str(folder / "tale.txt"), hidden=32, replicas=3, epochs=12, context=2, learning_rate=5e-3)
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


def test_a_passage_shows_the_words_of_the_text_with_their_scores(run):
    passage = run.task.passage(run.self_influence, 0, 12)
    said = run.task.corpus.lines_of("train")[0].split()
    assert list(passage.tokens[: len(said)]) == said
    assert np.isnan(passage.values[:2]).all()  # no context yet
    assert passage.values[2:].tolist() == pytest.approx(run.self_influence.values[:10].tolist())


def test_the_most_memorized_passages_do_not_overlap(run):
    starts = run.task.most_memorized(run.self_influence, 3, length=20)
    assert len(starts) == 3
    assert min(abs(one - other) for one in starts for other in starts if one != other) >= 20


def test_words_around_a_position_are_those_of_the_text(run):
    said = run.task.corpus.lines_of("train")[0].split()
    assert run.task.around(0) == {"before": " ".join(said[:2]), "word": said[2], "after": " ".join(said[3:6])}


def test_a_prediction_goes_back_to_positions_with_that_word(run):
    text = " ".join(run.task.corpus.lines_of("train")[0].split()[:8])
    word = run.task.corpus.vocabulary.encode(["."])[:1]
    top = run.influence.top((run.inputs([text]), word), k=3, progress=False)
    assert top.helpful_ids.shape == (1, 3)


def test_too_short_a_question_says_how_many_words_are_needed(run):
    with pytest.raises(RunError, match="reads 2 words before the next one"):
        run.predict(["the"])
