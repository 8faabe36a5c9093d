"""The report of a language model."""

import re
from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from turnover.ui.html import collect, render
from turnover.ui.html.data import settings_of
from turnover.ui.html.headlines import language_headlines
from turnover.ui.html.page import asset


@pytest.fixture(scope="module")
def data(lm_run):
    return collect(lm_run)


def test_words_and_passages_are_those_of_the_text(lm_run, data):
    text = " ".join(lm_run.task.corpus.lines_of("train"))
    assert data.findings.passages
    for word in data.findings.memorized.items[:20]:
        assert word.word in text
        assert word.frequency == lm_run.task.frequency[word.position]
    first = " ".join(data.findings.passages[0].text.tokens).replace("↵", "").split("\n")[1].split()
    assert " ".join(first) in text


def test_every_position_is_counted_in_one_band_of_frequency(lm_run, data):
    bands, memorized = data.findings.frequencies, data.findings.memorized
    assert sum(band.positions for band in bands) == memorized.rows == len(lm_run.self_influence)
    assert sum(band.memorized for band in bands) == memorized.count
    assert bands[0].mean > bands[-1].mean
    scores = [word.self_influence for word in memorized.items]
    assert scores == sorted(scores, reverse=True)


def test_its_page_has_colored_words_and_no_sections_about_labels(data):
    text = render(data)
    assert 'class="t5"' in text
    assert "&lt;i&gt;name" in text
    assert "<i>" not in text
    assert 'id="label-errors"' not in text


def test_the_perplexity_of_every_unseen_text_is_named(lm_run, data):
    both = language_headlines(data.findings, {"validation_perplexity": 203.6, "test_perplexity": 90.5})[0]
    assert both.figure == "204 and 90.5"
    assert both.sentence.startswith("perplexities on validation and on test text")
    alone = language_headlines(data.findings, {"validation_perplexity": 203.6})[0]
    assert alone.figure == "204"
    assert alone.sentence.startswith("perplexity on validation text")
    assert "perplexity" not in language_headlines(data.findings, {})[0].sentence
    assert data.headlines[0] == language_headlines(data.findings, lm_run.about.results)[0]


def test_rare_words_are_compared_with_frequent_ones_in_a_sentence_that_can_be_read(data):
    headline, bands = data.headlines[-1], data.findings.frequencies
    times = headline.figure.removesuffix(" ×")
    assert headline.sentence.startswith(
        f"Words that occur once have, on average, {times} times the self-influence of words"
    )
    assert float(times) == pytest.approx(bands[0].mean / bands[-1].mean, rel=0.01)


def test_settings_that_were_left_open_are_not_shown_as_zero(lm_run, data):
    assert "learning_rate = 0.005\n" in data.making.config
    run = copy(lm_run)
    run.config = replace(run.config, learning_rate=0.0, epochs=0, replicas=0, hidden=0)
    settings = settings_of(run)
    assert "learning_rate = 0.005  # default for this kind of data\n" in settings
    assert "hidden = 32  # default for this kind of data\n" in settings
    assert "epochs = 12  # default for this kind of data\n" in settings
    assert "replicas = 3  # default for this kind of data\n" in settings


def test_on_a_dark_page_stronger_colors_are_lighter_and_all_are_readable():
    rules = asset("base.css").partition("@media screen and (prefers-color-scheme: dark)")[2]
    tints = re.findall(r"\.t(\d) { background: (#\w{6});( color: inherit;)?", rules)
    assert [int(step) for step, *_ in tints] == [1, 2, 3, 4, 5]
    light = [_luminance(tint) for _, tint, _ in tints]
    assert light == sorted(light)
    for ground, (_, _, inherited) in zip(light, tints, strict=True):
        letters = _luminance("#e6e9ee") if inherited else 0.0
        assert (max(ground, letters) + 0.05) / (min(ground, letters) + 0.05) > 4.5  # WCAG AA


def _luminance(color):
    parts = np.array([int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])
