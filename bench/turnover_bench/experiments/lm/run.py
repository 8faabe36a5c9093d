"""Train, score, test the pattern, and train again without what scored highest; finished parts are kept."""

from dataclasses import asdict, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from turnover.evaluation import spearman
from turnover_bench.experiments.runner import kept, spent
from turnover_bench.experiments.timing import one_thread

from .config import Config
from .pattern import VARIANTS, by_frequency, judged, rare_names, weights_for, with_frequency
from .training import Corpus, load_corpus, null_scores, self_influence, trained

_SHOWN = 12
_TRIAL_SEED = 100
"""Of the trainings that choose a rate; none of those that are reported."""


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return perplexities, the colored passage, correlations, and what removal does."""
    corpus, parts = load_corpus(config), out / "parts"
    scored = corpus.around_passage(config.scored)
    with one_thread():
        rates = {
            how: _rate(corpus, config, masked, parts / f"rates-{how}")
            for how, masked in (("masked", True), ("plain", False))
        }
        masked = [
            kept(
                parts / f"masked-{seed}.json",
                partial(_masked, corpus, scored, config, rates["masked"]["best"], seed, out),
            )
            for seed in tqdm(range(config.models), desc="models with masks")
        ]
        every = np.stack([np.load(out / f"self-{seed}.npy") for seed in range(config.models)]).astype(np.float64)
        null = np.load(out / "null.npy").astype(np.float64)
        pattern = kept(parts / "pattern.json", partial(_pattern, scored, config, every, null))
        again = _removal(corpus, config, rates["plain"]["best"], every.mean(0), parts)
    return {
        "setting": asdict(config),
        "corpus": {**_told(corpus), "scored": len(scored.train)},
        "rates": rates,
        "masked": masked,
        "pattern": pattern,
        "passage": _passage(scored, config, every),
        "highest": _highest(scored, every.mean(0)),
        "removal": again,
        "spent": spent(parts),
    }


def _rate(corpus: Corpus, config: Config, masked: bool, file: Path) -> dict[str, Any]:
    """Return validation perplexity by rate and the best rate; where there is one rate alone, it is taken."""
    rates = config.network.rates
    if len(rates) == 1:
        return {"best": rates[0], "perplexity": {}}

    def one(rate: float) -> float:
        options: dict[str, Any] = {"rate": rate, "seed": _TRIAL_SEED, "masked": masked, "title": f"rate {rate:g}"}
        return min(trained(corpus, replace(config.network, epochs=config.network.trial_epochs), **options)[1])

    found = {rate: kept(file.with_name(f"{file.name}-{rate:g}.json"), partial(one, rate)) for rate in rates}
    return {
        "best": min(found, key=lambda rate: found[rate]),
        "perplexity": {f"{rate:g}": found[rate] for rate in found},
    }


def _masked(corpus: Corpus, scored: Corpus, config: Config, rate: float, seed: int, out: Path) -> dict[str, Any]:
    """Return the perplexities of one model with masks; its scores are written beside."""
    model, curve = trained(corpus, config.network, rate=rate, seed=seed, masked=True, title=f"masks, seed {seed}")
    np.save(out / f"self-{seed}.npy", self_influence(model, scored))
    if seed == 0:
        np.save(out / "null.npy", null_scores(model, scored.train))
    return {"test": judged(model, corpus), "curve": curve}


def _pattern(corpus: Corpus, config: Config, every: np.ndarray, null: np.ndarray) -> dict[str, Any]:
    mean, frequencies = every.mean(0), corpus.frequencies
    return {
        "positive": float((mean > 0).mean()),
        "mean": float(mean.mean()),
        "frequency": with_frequency(mean, frequencies, draws=config.draws),
        "frequency_one_model": with_frequency(every[0], frequencies, draws=config.draws),
        "frequency_null": with_frequency(null, frequencies, draws=config.draws),
        "names": rare_names(mean, corpus, draws=config.draws),
        "bins": by_frequency(mean, corpus),
        "between_models": float(np.mean([spearman(*pair) for pair in combinations(every, 2)]))
        if len(every) > 1
        else None,
    }


def _removal(corpus: Corpus, config: Config, rate: float, scores: np.ndarray, parts: Path) -> dict[str, Any]:
    """Return test perplexities of trainings without masks: with everything, and for every share and variant."""

    def one(variant: str | None, share: float, seed: int) -> dict[str, Any]:
        weights = None
        if variant is not None:
            options: dict[str, Any] = {"share": share, "weight": config.weight, "seed": seed}
            weights = weights_for(variant, scores, corpus.frequencies, **options)
        title = f"{variant or 'everything'}, seed {seed}"
        options = {"rate": rate, "seed": seed, "masked": False, "weights": weights, "title": title}
        model, curve = trained(corpus, config.network, **options)
        return {**judged(model, corpus), "valid": min(curve)}

    def runs(variant: str | None, share: float) -> list[dict[str, Any]]:
        name = "everything" if variant is None else f"{variant}-{share:g}"
        return [kept(parts / f"{name}-{seed}.json", partial(one, variant, share, seed)) for seed in config.seeds]

    return {
        "everything": runs(None, 0.0),
        "shares": [
            {"share": share, **{variant: runs(variant, share) for variant in VARIANTS}}
            for share in tqdm(config.shares, desc="shares removed")
        ],
    }


def _passage(corpus: Corpus, config: Config, every: np.ndarray) -> dict[str, Any]:
    """Return the words of the paper's passage and their mean self-influence, a bit of text before it."""
    first = max(0, corpus.passage - config.shown // 4)
    rows = slice(first, first + config.shown)
    limits = np.percentile(every.mean(0), [70, 95])
    return {
        "words": [corpus.vocabulary.words[number] for number in corpus.train.words[rows].tolist()],
        "values": every.mean(0)[rows],
        "frequencies": corpus.frequencies[rows],
        "limits": limits,
        "models": len(every),
    }


def _highest(corpus: Corpus, scores: np.ndarray) -> list[dict[str, Any]]:
    """Return the positions of highest self-influence: their context, word, score and how often the word is there."""
    words = corpus.vocabulary.words
    return [
        {
            "context": [words[number] for number in corpus.train.contexts[place].tolist()],
            "word": words[int(corpus.train.words[place])],
            "value": float(scores[place]),
            "frequency": int(corpus.frequencies[place]),
        }
        for place in np.argsort(-scores, kind="stable")[:_SHOWN].tolist()
    ]


def _told(corpus: Corpus) -> dict[str, Any]:
    return {
        "positions": len(corpus.train),
        "vocabulary": len(corpus.vocabulary),
        "valid": len(corpus.valid),
        "test": len(corpus.test),
        "unknown_in_test": float((corpus.test.words == 1).float().mean()),
        "first": corpus.first,
    }
