"""Language model: a toy run trains, scores and trains again; the page says what its numbers say."""

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from turnover_bench.experiments.colored_text import colored_text
from turnover_bench.experiments.datasets.wikitext2 import load_wikitext2
from turnover_bench.experiments.lm.config import SIZES, Network
from turnover_bench.experiments.lm.figures import draw_text
from turnover_bench.experiments.lm.model import FeedForwardLM, Vocabulary
from turnover_bench.experiments.lm.page import (
    colored_names,
    findings,
    frequency_verdict,
    names_verdict,
    page,
    perplexity_verdict,
    question_verdict,
    training_words,
)
from turnover_bench.experiments.lm.pattern import (
    VARIANTS,
    by_frequency,
    change,
    mean_and_error,
    rare_names,
    verdict,
    weights_for,
    with_frequency,
)
from turnover_bench.experiments.lm.training import Corpus, Positions, load_corpus, perplexity, trained


def test_lines_are_those_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNOVER_DATA", str(tmp_path))
    (tmp_path / "wikitext-2").mkdir()
    (tmp_path / "wikitext-2/test.txt").write_text(" = Title = \n \n some words \n", encoding="utf-8")
    assert load_wikitext2("test") == [" = Title = ", " ", " some words "]


def test_the_text_lies_around_the_passage_and_positions_are_its_words(toy):
    corpus = load_corpus(SIZES["toy"])
    words = [corpus.vocabulary.words[number] for number in corpus.train.words.tolist()]
    assert words[corpus.passage : corpus.passage + 6] == ["The", "cast", "was", ":", "<eos>", "John"]
    assert len(corpus.train) == 2_000 - SIZES["toy"].network.context
    assert corpus.train.contexts[10, -1] == corpus.train.words[9]
    assert corpus.counts.sum() == len(corpus.train)
    assert corpus.frequencies[0] == corpus.counts[corpus.train.words[0]]


def test_a_toy_run_measures_every_part(toy):
    result, config = toy.result, SIZES["toy"]
    assert len(result["masked"]) == config.models
    assert all(len(one["curve"]) == config.network.epochs for one in result["masked"])
    assert len(result["passage"]["words"]) == len(result["passage"]["values"]) == config.shown
    assert "cast" in result["passage"]["words"]
    for name in ("frequency", "frequency_one_model", "frequency_null"):
        found = result["pattern"][name]
        assert -1 <= found["low"] <= found["spearman"] <= found["high"] <= 1
    assert 0 <= result["pattern"]["positive"] <= 1
    highest = [one["value"] for one in result["highest"]]
    assert highest == sorted(highest, reverse=True)
    assert highest[0] >= max(result["passage"]["values"])
    assert set(result["removal"]["shares"][0]) == {"share", *VARIANTS}
    runs = [one for name in VARIANTS for one in result["removal"]["shares"][0][name]]
    assert all(one["known"] > 1 for one in (*runs, *result["removal"]["everything"]))


def test_a_rate_without_plateaus_falls_in_a_straight_line_to_zero():
    words = Vocabulary(tuple(str(number) for number in range(10)))
    positions = Positions.of(torch.randint(10, (100,), generator=torch.Generator().manual_seed(0)), 4)
    corpus = Corpus(words, positions, np.ones(10), valid=positions, test=positions, passage=0, first=0)
    network = Network(size=8, batch=40, epochs=2, dropout=0.0, weight_decay=0.0, decay=None)
    _, curve = trained(corpus, network, rate=2.0, seed=5, masked=False)

    torch.manual_seed(5)
    twin = FeedForwardLM(10, context=4, embedding=8, hidden=8, dropout=0.0)
    expected, steps_left = [], 6
    for _ in range(2):
        for rows in torch.randperm(96).split(40):
            loss = functional.cross_entropy(twin(positions.contexts[rows]), positions.words[rows])
            gradients = torch.autograd.grad(loss, list(twin.parameters()))
            with torch.no_grad():
                for weight, gradient in zip(twin.parameters(), gradients, strict=True):
                    weight -= 2.0 * steps_left / 6 * gradient
            steps_left -= 1
        expected.append(perplexity(twin, positions))
    assert curve == pytest.approx(expected, rel=1e-5)


def test_the_best_rate_is_the_one_with_the_lowest_validation_perplexity(toy):
    for one in toy.result["rates"].values():
        assert one["perplexity"][f"{one['best']:g}"] == min(one["perplexity"].values())


def test_the_page_shows_the_numbers_and_draws_the_text(toy):
    assert "(lm.svg)" in toy.page
    drawn = (toy.pages / "lm.svg").read_text(encoding="utf-8")
    for word in ("Worthing", "Moncrieff", "[eos]"):
        assert f">{word}</text>" in drawn


def test_a_run_that_removes_nothing_leaves_the_open_question_out(toy, tmp_path):
    removal = {**toy.result["removal"], "shares": []}
    one_model = {"masked": toy.result["masked"][:1], "passage": {**toy.result["passage"], "models": 1}}
    result = {**toy.result, **one_model, "removal": removal}
    text = page(result, tmp_path)
    assert "open question" in toy.page
    assert "open question" not in text
    assert "that of one model with masks" in text
    assert len(findings(result)) == len(findings(toy.result)) - 1


def test_drawn_text_escapes_words_breaks_lines_and_underlines_the_strongest(tmp_path):
    words = ["<unk>", "&", "<eos>", *["longer-word"] * 20]
    draw_text(colored_text(words, [0, 9, 0, *[0] * 20], limits=(0, 5)), tmp_path / "x.svg", title="a < b")
    text = (tmp_path / "x.svg").read_text(encoding="utf-8")
    assert "&lt;unk&gt;</text>" in text
    assert "&amp;</text>" in text
    assert "a &lt; b" in text
    assert text.count("<line ") == 1
    heights = {part.split('"')[0] for part in text.split(' y="')[1:] if "textLength" in part}
    assert len(heights) == 4  # the first line, and three for twenty long words


def _corpus(words):
    vocabulary = Vocabulary.of([" ".join(words)])
    train = Positions.of(vocabulary.encode([" ".join(words)]), 2)
    counts = np.bincount(train.words.numpy(), minlength=len(vocabulary))
    return Corpus(vocabulary, train, counts, train, train, passage=0, first=0)


def test_positions_around_the_passage_keep_their_ids_and_the_counts_of_the_whole_text():
    words = " ".join(f"w{number % 9} the" for number in range(30)).split()
    whole = replace(_corpus(words), passage=40)
    part = whole.around_passage(20)
    assert part.ids.tolist() == list(range(30, 50))
    assert torch.equal(part.train.words, whole.train.words[part.ids])
    assert torch.equal(part.train.contexts[part.passage], whole.train.contexts[whole.passage])
    assert np.array_equal(part.frequencies, whole.frequencies[part.ids])
    assert part.first == whole.first + 30
    assert whole.around_passage(None) is whole
    assert whole.around_passage(len(whole.train)).ids.tolist() == whole.ids.tolist()


def test_correlation_with_frequency_is_minus_one_where_rare_words_score_highest():
    frequencies = np.array([1, 2, 4, 8, 16] * 60)
    found = with_frequency(-np.log(frequencies), frequencies, draws=10)
    assert found["spearman"] == found["low"] == found["high"] == pytest.approx(-1)
    noise = np.random.default_rng(0).normal(size=300)
    null = with_frequency(noise, frequencies, draws=50)
    assert null["low"] < 0 < null["high"]


def test_names_are_compared_with_words_of_the_same_frequency():
    corpus = _corpus(("a b Ann went and Bob ran " * 1 + "on and on and on ").split())
    names = np.array([corpus.vocabulary.words[number] in ("Ann", "Bob") for number in corpus.train.words])
    rare = corpus.frequencies == 1
    scores = np.where(names, 3.0, np.where(rare, 1.0, -5.0))
    assert rare_names(scores, corpus, draws=5)["difference"] == pytest.approx(2.0)
    assert by_frequency(scores, corpus)[0]["names"] == {"positions": 2, "words": 2, "mean": 3.0}


@pytest.mark.parametrize("variant", VARIANTS)
def test_as_many_positions_are_left_out_in_every_variant(variant):
    rng = np.random.default_rng(0)
    frequencies = rng.integers(1, 50, 400)
    scores = -np.log(frequencies) + 0.1 * rng.normal(size=400)
    options = {"share": 0.1, "weight": 0.5, "seed": 1}
    weights = weights_for(variant, scores, frequencies, **options)
    assert int((weights < 1).sum()) == 40
    assert set(weights.tolist()) == {1.0, 0.5 if variant == "weighted" else 0.0}
    highest = torch.zeros(400, dtype=torch.bool)
    highest[torch.from_numpy(np.argsort(-scores)[:40].copy())] = True
    assert torch.equal(weights < 1, highest) == (variant in ("removed", "weighted"))


def test_matched_positions_have_words_of_the_same_frequency():
    rng = np.random.default_rng(0)
    frequencies = 2 ** rng.integers(0, 6, 600)
    scores = -np.log(frequencies) + 0.5 * rng.normal(size=600)
    options = {"share": 0.1, "weight": 0.5, "seed": 1}
    left, drawn = (
        np.sort(frequencies[weights_for(name, scores, frequencies, **options).numpy() == 0])
        for name in ("removed", "matched")
    )
    assert left.tolist() == drawn.tolist()


def test_changes_are_by_seed_and_one_seed_settles_nothing():
    runs = [{"known": 110.0}, {"known": 231.0}]
    assert change(runs, [{"known": 100.0}, {"known": 220.0}], "known") == [10.0, 5.0]
    assert mean_and_error([1.0]) == (1.0, 0.0)
    assert [verdict(values) for values in ([-1.0, -1.1], [5.0])] == ["lower", ""]


def test_sentences_on_perplexity_follow_the_number():
    assert "cannot be compared" in perplexity_verdict(176, whole=False, unknown=0.2)
    assert "agrees with" in perplexity_verdict(180, whole=True, unknown=0.0)
    assert perplexity_verdict(250, whole=True, unknown=0.0).endswith("it lies above.")
    assert perplexity_verdict(250, whole=True, unknown=0.0, training="Short.").endswith("it lies above. Short.")
    assert perplexity_verdict(150, whole=True, unknown=0.0, training="Short.").endswith("it lies below.")


def test_a_training_is_called_short_where_perplexity_still_fell_or_the_rate_did():
    plateaus, line = asdict(Network()), asdict(Network(size=256, epochs=6, decay=None))
    assert training_words(plateaus, [[900, 500, 300]]).endswith(
        "in the last of 3 epochs (the paper: 40) the perplexity of the validation text still fell by 40 %."
    )
    assert not training_words(plateaus, [[900, 300, 299]])
    assert training_words(line, [[900, 300, 299]]).endswith("fell to 0 within 6 epochs (the paper: 40).")


def test_sentences_on_frequency_follow_the_intervals():
    none = {"spearman": 0.0, "low": -0.1, "high": 0.1}
    rare, frequent = {"spearman": -0.5, "low": -0.6, "high": -0.4}, {"spearman": 0.5, "low": 0.4, "high": 0.6}
    assert frequency_verdict(rare, none).startswith("Agrees")
    assert "for null ids there is no such" in frequency_verdict(rare, none)
    assert "due to the masks alone" in frequency_verdict(rare, rare)
    assert frequency_verdict(frequent, none).startswith("Does not agree: the more frequent")
    assert "includes 0" in frequency_verdict(none, none)


def test_sentences_on_names_follow_the_numbers():
    passage = {"words": ["Worthing", "Fairfax", "Worthing", "x"], "values": [5.0, 0.0, 0.0, 9.0], "limits": [1.0, 4.0]}
    names = colored_names(passage)
    assert names == {"all": ["Worthing", "Fairfax"], "colored": ["Worthing"]}
    above, below, none = (
        {"difference": (low + high) / 2, "low": low, "high": high} for low, high in ((1, 2), (-2, -1), (-1, 1))
    )
    assert names_verdict(names, none).startswith("Agrees in part: 1 of 2")
    assert "score 1.50 nats above" in names_verdict({"all": ["a"], "colored": ["a"]}, above)
    assert names_verdict({"all": ["a"], "colored": ["a"]}, above).startswith("Agrees: ")
    assert names_verdict({"all": ["a"], "colored": ["a"]}, below).startswith("Agrees in part: ")
    assert names_verdict({"all": ["a"], "colored": []}, below).startswith("Does not agree")
    assert "below other words" in names_verdict(names, below)
    assert "score like" in names_verdict(names, none)


def test_sentences_on_the_open_question_follow_the_differences():
    def runs(*values, known=None):
        return [{"all": value, "known": other} for value, other in zip(values, known or values, strict=True)]

    base = {"share": 0.1, "random": runs(100, 101, 99), "matched": runs(100, 101, 99)}
    worse = question_verdict({"shares": [{**base, "removed": runs(110, 111, 110)}]})
    assert worse.startswith("4 of 4 comparisons are clear, where such rows are worth more than others")
    assert worse.count("(clear)") == 4
    better = question_verdict({"shares": [{**base, "removed": runs(90, 91, 89.5)}]})
    assert "worth less than others" in better
    none = question_verdict({"shares": [{**base, "removed": runs(90, 111, 100)}]})
    assert none.startswith("No clear difference")
    assert "(clear)" not in none
    mixed = runs(110, 111, 110, known=(90, 91, 89.5))
    assert question_verdict({"shares": [{**base, "removed": mixed}]}).startswith("No single answer")
