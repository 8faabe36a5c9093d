"""Sentences on whether our ratios agree with the paper's, made of the numbers."""

from collections.abc import Mapping, Sequence

from .wording import network_title, times

PAPER_RATIO, GOAL = 17.0, 100.0


def loop_verdict(ratio: float) -> str:
    """Return one sentence on the ratio of the paper's own way to compute."""
    if ratio >= PAPER_RATIO:
        return (
            f"The authors' loop is {times(ratio)} times as fast as influence functions: the paper's 17 holds here too."
        )
    if ratio > 1:
        return (
            f"The authors' loop is {times(ratio)} times as fast as influence functions: faster, but less than the "
            "paper's 17. A likely reason: gradients of one row at a time leave most of a GPU idle, and a processor "
            "thread does not."
        )
    return f"The authors' loop is not faster than influence functions here ({times(ratio)} times)."


def fast_verdict(ratios: Mapping[str, float]) -> str:
    """Return one sentence on which ways of the engine reach the paper's ratio, and which the goal of 100."""
    engine = {name: ratio for name, ratio in ratios.items() if name != "loop"}
    paper = [name for name, ratio in engine.items() if ratio >= PAPER_RATIO]
    goal = [name for name in paper if engine[name] >= GOAL]
    if not paper:
        return "No way of the engine reaches the paper's 17 times."
    text = f"The paper's 17 times is reached or passed by: {_listed(paper, engine)}"
    return f"{text}; 100 times by: {_listed(goal, engine)}." if goal else f"{text}; 100 times by none."


def equal_verdict(ratios: Mapping[str, float], kept_features: float) -> str:
    """Return one sentence on influence functions that are restricted to the parameters our masks belong to.

    Args:
        ratios: by the masks that are used, of influence functions on the same parameters.
        kept_features: the ratio for the output layer where its inputs are kept from training.
    """
    least = min(ratios, key=lambda name: ratios[name])
    side = "faster" if ratios[least] > 1 and kept_features > 1 else "not always faster"
    return (
        f"On equal parameters turn-over dropout is {side}: {_listed(list(ratios), ratios)}; and {times(kept_features)} "
        "times for the output layer where influence functions find its features kept from training."
    )


def _listed(names: Sequence[str], ratios: Mapping[str, float]) -> str:
    return ", ".join(f"{network_title(name).removeprefix('engine, ')} ({times(ratios[name])})" for name in names)
