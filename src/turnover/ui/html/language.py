"""What the report of a language model says: which words and passages it learned by heart."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from turnover.ui.words import count, digits, percent

from .data import Counts, Finding, Overview, ReportData
from .data_measures import (
    ColoredPassage,
    FrequencyBand,
    LearningCurves,
    MemorizedWord,
    Token,
    Trust,
)
from .overview import making_of
from .row_lists import Standing, standing
from .trust import histogram_of, leaks_of, self_reading, trust_in, verdict_of

if TYPE_CHECKING:
    from turnover.runs import LanguageModeling, Run

_PASSAGES = 6
_MOST_WORDS = 200
_BANDS = ((1, 1), (2, 5), (6, 20), (21, 100), (101, 1000), (1001, None))


def language_report(run: "Run[LanguageModeling]", *, level: float) -> ReportData:
    """Return what the report of a language model says.

    Args:
        run: of a language model.
        level: share of what stands out that may be noise.
    """
    own = run.self_influence
    stands = standing(own, level)
    memorized = stands.count(own.values > 0)
    kinds = (trust_in("self-influence", own, stands, partial(self_reading, "words")),)
    bands = _bands(run, stands)
    leaks = leaks_of(run.models[0], run.train_data)
    overview = _overview(run)
    return ReportData(
        overview=overview,
        findings=_findings(run, overview, memorized, bands),
        counts=Counts(memorized=memorized),
        making=making_of(run),
        self_influence=histogram_of(own, tails=0.05),
        curves=LearningCurves(**{name: tuple(values) for name, values in run.curves.as_dict().items()}),
        leaks=leaks,
        trust=Trust(
            of=kinds,
            replicas=own.replicas,
            expected=None,
            expected_reading=(
                "Self-influence compares what a model says of a word that it has read with what the part of it says "
                "that has not; one such score is clear. Which other places of the text made it say a word is a far "
                "smaller thing: ask for the first few places only, and mind their standard errors."
            ),
            verdict=verdict_of(
                kinds, f"{own.replicas} models that were trained one after the other" if own.replicas > 2 else None
            ),
            level=level,
        ),
        colored=_passages(run),
        words=_words(run),
        frequencies=bands,
    )


def _overview(run: "Run[LanguageModeling]") -> Overview:
    positions = {
        split: len(run.data(split)[1])
        for split in ("train", "validation", "test")
        if len(run.task.corpus.tokens(split)) > run.config.context
    }
    results, models = run.about.results, count(run.self_influence.replicas, "model")
    facts = [
        ("data", run.config.data),
        ("words to predict", ", ".join(f"{count(number)} {split}" for split, number in positions.items())),
        ("vocabulary", f"{count(len(run.task.words))} words"),
        ("model", f"predicts a word from the {run.config.context} before it; the mean of {models}"),
        ("training", f"{count(len(run.curves.keep), 'epoch')}, AdamW, seed {run.config.seed}"),
    ]
    facts += [
        (f"{split} perplexity", digits(results[f"{split}_perplexity"]))
        for split in ("validation", "test")
        if f"{split}_perplexity" in results
    ]
    return Overview(
        title=run.task.corpus.name,
        kind="lm",
        rows=positions,
        labels=(),
        facts=tuple(facts),
        notes=tuple(run.about.notes),
        results=dict(results),
    )


def _findings(
    run: "Run[LanguageModeling]", overview: Overview, memorized: int, bands: tuple[FrequencyBand, ...]
) -> tuple[Finding, ...]:
    found: list[Finding] = []
    perplexity = perplexity_finding(run.about.results)
    if perplexity is not None:
        found.append(perplexity)
    positions = max(overview.rows.get("train", 1), 1)
    sentence = (
        f"of the words read were learned by heart ({count(memorized)} of {count(positions)}): the model expects them "
        "there because it has read that very place."
    )
    found.append(Finding(percent(memorized / positions, 0), sentence, "colored"))
    if len(bands) > 1 and bands[-1].mean > 0:
        ratio = bands[0].mean / bands[-1].mean
        if ratio > 1:
            often, rare = _times(bands[-1]), _times(bands[0])
            sentence = (
                f"Words that occur {rare} have, on average, {digits(ratio)} times the self-influence of words that "
                f"occur {often}."
            )
            found.append(Finding(f"{digits(ratio)} ×", sentence, "memorized"))
    return tuple(found)


def perplexity_finding(results: Mapping[str, float]) -> Finding | None:
    """Return how good the model is on every text that was not read, each named; None: there is none.

    Example:
        >>> perplexity_finding({"validation_perplexity": 203.6, "test_perplexity": 90.5}).figure
        '204 and 90.5'
    """
    known = {split: results.get(f"{split}_perplexity") for split in ("validation", "test")}
    known = {split: digits(value) for split, value in known.items() if value is not None}
    if not known:
        return None
    what = "is the perplexity" if len(known) == 1 else "are the perplexities"
    sentence = (
        f"{what} on {' and on '.join(known)} text, which was not read: the model is as unsure there as between so many "
        "words that are equally likely."
    )
    return Finding(" and ".join(known.values()), sentence, "data-and-model")


def _times(band: FrequencyBand) -> str:
    if band.least == band.most:
        return "once" if band.least == 1 else f"{band.least:,} times"
    return f"{band.least:,} to {band.most:,} times"


def _passages(run: "Run[LanguageModeling]") -> tuple[ColoredPassage, ...]:
    """Return the passages of which most was learned by heart, in full."""
    found = []
    for start in run.task.most_memorized(run.self_influence, _PASSAGES):
        passage = run.task.passage(run.self_influence, start)
        tokens = [
            Token(
                text if place == 0 or passage.tokens[place - 1].endswith("\n") else passage.joiner + text,
                int(step),
                None if np.isnan(value) else float(value),
            )
            for place, (text, step, value) in enumerate(zip(passage.tokens, passage.steps, passage.values, strict=True))
        ]
        found.append(ColoredPassage(f"From word {start + 1:,}", tuple(tokens)))
    return tuple(found)


def _words(run: "Run[LanguageModeling]") -> tuple[MemorizedWord, ...]:
    own = run.self_influence
    values = np.nan_to_num(own.values, nan=-np.inf)
    order = np.argsort(-values, kind="stable")[:_MOST_WORDS]
    return tuple(
        MemorizedWord(
            position=int(place),
            **run.task.around(int(place)),
            score=float(values[place]),
            stderr=None if own.stderr is None else float(own.stderr[place]),
            times=int(run.task.frequency[place]),
        )
        for place in order[values[order] > 0]
    )


def _bands(run: "Run[LanguageModeling]", stands: Standing) -> tuple[FrequencyBand, ...]:
    """Return self-influence by how often words occur; bands without words are left out."""
    values, times = run.self_influence.values, run.task.frequency
    found = []
    for least, most in _BANDS:
        within = (times >= least) & (times <= (most or times.max(initial=0)))
        if within.any():
            marked = stands.count(within & (values > 0))
            found.append(
                FrequencyBand(
                    least, most or int(times.max()), int(within.sum()), float(np.nanmean(values[within])), marked
                )
            )
    return tuple(found)
