"""What was found, in words: every sentence is made of the run's numbers, and the paper's stand beside them."""

from collections.abc import Mapping
from typing import Any

from experiments.findings import spread

from .plot import NAMES, gains

# Table "The results of data cleansing" of the paper: mean and standard deviation of four runs.
PAPER = {
    "none": {"accuracy": (0.770, 0.009), "loss": (0.536, 0.063)},
    "random": {"accuracy": (0.768, 0.011), "loss": (0.521, 0.030)},
    "paper": {"accuracy": (0.783, 0.002), "loss": (0.484, 0.008)},
}
# Two seeds that share fewer than so many times the rows that chance gives do not agree.
_CHANCE = 2.0
_MANY = 1000  # seeds that nobody would train
_POWER = 0.8416  # standard deviations that a mean stays above with a chance of 80 %


def agreement(name: str, measure: str, proof: Mapping[str, Any]) -> str:
    """Return in a sentence whether cleansing beats all rows and random removal, as in the paper."""
    each = [one for one in proof["differences"] if one["measure"] == measure]
    told = ", ".join(f"{gain_told(one['gain'], one['stderr'], measure)} over {one['against']}" for one in each)
    start = f"In {measure}, rows chosen {name}"
    if all(one["beyond"] for one in each):
        return f"{start}: removing them is better than both beyond one standard error, as in the paper ({told})."
    needed = [one["seeds_needed"] for one in each if not one["beyond"]]
    if any(count is None for count in needed):
        why = "there is no gain that more seeds could confirm"
    else:
        why = f"a gain of this size would take {seeds_told(max(needed))} seeds to show"
    return f"{start}: the paper's gain is not seen beyond one standard error ({told}); {why}."


def power_sentence(result: Mapping[str, Any]) -> str:
    """Return in words whether gains as large as the paper's would have shown with these seeds."""
    proof = result["proofs"]["paper"][str(result["setting"]["shown"])]
    told = []
    for measure in ("accuracy", "loss"):
        gain = abs(PAPER["paper"][measure][0] - PAPER["none"][measure][0])
        stderr = next(one["stderr"] for one in proof["differences"] if one["measure"] == measure)
        would = "would" if gain > (1 + _POWER) * stderr else "would not"
        told.append(
            f"{would} have shown in {measure} ({gain_told(gain, stderr, measure)[1:]}, its standard error being ours)"
        )
    return f"A gain over none as large as the paper's {' and '.join(told)}."


def best_sentence(result: Mapping[str, Any]) -> str:
    """Return for which estimates and shares cleansing beats both others, in words."""
    shares = result["setting"]["shares"]
    told = []
    for measure in ("accuracy", "loss"):
        won = [
            f"{name_of(name, result)} ({', '.join(percent(share) for share in wins)})"
            for name in result["setting"]["estimates"]
            if (wins := [share for share in shares if result["proofs"][name][str(share)]["helps"][measure]])
        ]
        told.append(f"In {measure}: {'; '.join(won) if won else 'none'}.")
    return f"Better than none and than random, both beyond one standard error. {' '.join(told)}"


def source_sentence(result: Mapping[str, Any]) -> str:
    """Return in words how much of the gain is there without influence functions, which need no masks."""
    share = result["setting"]["shown"]
    ridge, both = (100 * float(gains(result, name, share, "accuracy").mean()) for name in ("ridge", "denoised"))
    told = f"{both:+z.2f} points of accuracy at {percent(share)} with influence functions, {ridge:+z.2f} without"
    if both > 2 * ridge:
        return f"Most of the gain comes from the influence functions of the last layer, which need no masks: {told}."
    return f"Ridge regression of the scores has at least half of the gain by itself: {told}."


def noise_sentence(result: Mapping[str, Any]) -> str:
    """Return in words whose choice is the same from seed to seed, and whose is mostly noise."""
    share = result["setting"]["shown"]
    known = {name: overlap for name, overlap in result["overlap"].items() if overlap is not None}
    noise = [name for name, overlap in known.items() if overlap < _CHANCE * share]
    steady = [name for name in known if name not in noise]
    told = []
    if noise:
        names = "; ".join(name_of(name, result) for name in noise)
        told.append(f"Which {percent(share)} of the rows go is mostly noise where they are chosen {names}.")
    if steady:
        names = "; ".join(f"{name_of(name, result)} ({known[name] / share:.0f} times)" for name in steady)
        told.append(f"Two seeds share more rows than chance would have it where they are chosen {names}.")
    return " ".join(told)


def network(result: Mapping[str, Any]) -> str:
    """Return which network is trained, in words."""
    setting = result["setting"]
    if setting["encoder"] is not None:
        return f"{setting['encoder']}, masked adapters for the estimate, fine-tuned for the test"
    return f"features of a frozen MiniLM and a hidden layer of {setting['hidden']}"


def seeds_told(count: int) -> str:
    """Return how many seeds would be needed, in words."""
    return f"about {count}" if count <= _MANY else f"more than {_MANY:,}"


def theirs(name: str, measure: str) -> str:
    """Return mean ± standard deviation of an arm in the paper."""
    if name not in PAPER:
        return "–"
    mean, deviation = PAPER[name][measure]
    return f"{100 * mean:.1f} ± {100 * deviation:.1f}" if measure == "accuracy" else f"{mean:.3f} ± {deviation:.3f}"


def name_of(name: str, result: Mapping[str, Any]) -> str:
    """Return how rows were chosen, in words."""
    return NAMES[name].format(**result["setting"])


def percent(share: float) -> str:
    """Return a share as a person would write it."""
    return f"{100 * share:.2g} %"


def mean_and_sd(values: list[float], measure: str) -> str:
    """Return mean ± standard deviation over seeds; accuracy in percent."""
    return spread([100 * one for one in values], ".1f") if measure == "accuracy" else spread(values, ".3f")


def gain_told(gain: float, stderr: float, measure: str) -> str:
    """Return a gain ± its standard error; accuracy in points."""
    scale, form = (100, "+z.2f") if measure == "accuracy" else (1, "+z.4f")
    return f"{scale * gain:{form}} ± {scale * stderr:{form[2:]}}"
