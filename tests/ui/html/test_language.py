"""The report of a language model."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from turnover.runs.config import RunConfig
from turnover.runs.run import start_run
from turnover.ui.html import collect, render
from turnover.ui.html.language import perplexity_finding
from turnover.ui.html.overview import settings_of


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    draw = np.random.default_rng(0)
    words = "the a cat dog bird saw heard found red small old house garden".split()
    lines = [" ".join(draw.choice(words, 8)) + f" <i>name{row} ." for row in range(120)]
    folder = tmp_path_factory.mktemp("lm")
    (folder / "tale.txt").write_text("\n".join(lines), encoding="utf-8")
    config = RunConfig(str(folder / "tale.txt"), hidden=32, replicas=3, epochs=12, context=2, learning_rate=5e-3)
    return start_run(config, folder / "run")


def test_words_and_passages_are_those_of_the_text(run):
    data = collect(run)
    text = " ".join(run.task.corpus.lines_of("train"))
    assert data.colored
    for word in data.words[:20]:
        assert word.word in text
        assert word.times == run.task.frequency[word.position]
    first = "".join(token.text for token in data.colored[0].tokens).replace("↵", "").split("\n")[1].split()
    assert " ".join(first) in text


def test_every_position_is_counted_in_one_band_of_frequency(run):
    data = collect(run)
    assert sum(band.positions for band in data.frequencies) == len(run.self_influence)
    assert data.frequencies[0].mean > data.frequencies[-1].mean
    scores = [word.score for word in data.words]
    assert scores == sorted(scores, reverse=True)


def test_its_page_has_colored_words_and_no_sections_about_labels(run):
    text = render(collect(run))
    assert 'class="t5"' in text
    assert "&lt;i&gt;name" in text
    assert "<i>" not in text
    assert 'id="doubtful"' not in text


def test_the_perplexity_of_every_unread_text_is_named(run):
    found = perplexity_finding({"validation_perplexity": 203.6, "test_perplexity": 90.5})
    assert found is not None
    assert found.figure == "204 and 90.5"
    assert "on validation and on test text" in found.sentence
    alone = perplexity_finding({"validation_perplexity": 203.6})
    assert alone is not None
    assert alone.figure == "204"
    assert alone.sentence.startswith("is the perplexity on validation text")
    assert perplexity_finding({}) is None
    assert collect(run).findings[0] == perplexity_finding(run.about.results)


def test_rare_words_are_compared_with_frequent_ones_in_a_sentence_that_can_be_read(run):
    data = collect(run)
    found = next(finding for finding in data.findings if finding.section == "memorized")
    times = found.figure.removesuffix(" ×")
    assert found.sentence.startswith(
        f"Words that occur once have, on average, {times} times the self-influence of words"
    )
    assert float(times) == pytest.approx(data.frequencies[0].mean / data.frequencies[-1].mean, rel=0.01)


def test_settings_that_were_left_open_are_not_shown_as_zero(run):
    assert "learning_rate = 0.005\n" in collect(run).making.config
    run = copy(run)
    run.config = replace(run.config, learning_rate=0.0, epochs=0, replicas=0, hidden=0)
    settings = settings_of(run)
    assert "learning_rate = 0.005  # by the kind of data\n" in settings
    assert "hidden = 32  # by the kind of data\n" in settings
    assert "epochs = 12  # by the kind of data\n" in settings
    assert "replicas = 3  # by the kind of data\n" in settings
