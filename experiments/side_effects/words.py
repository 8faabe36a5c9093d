"""The paper's numbers, and sentences on whether ours agree with them."""

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

PAPER_TEXT = {5_000: (90.0, 88.3), 20_000: (90.5, 90.2)}
"""Accuracy of BERT with adapters on SST-2 by rows: without masks, with them (section 4.1)."""

PAPER_VGG = {"plain": 92.0, "masks": 86.2, "masks and dropout": 91.3}
"""Accuracy of VGG19 on CIFAR-10 (section 4.1)."""

SLIGHT = 3.0
"""Points of accuracy up to which a loss is called slight; the paper's largest that it calls so is 1.7."""

SMALL_LEAK, LARGE_LEAK = 0.01, 0.25
"""Shares of a row's squared gradient: below the first the audit calls a leak small, from the second on large."""


def lost_points(without: Sequence[float], with_masks: Sequence[float]) -> tuple[float, float | None]:
    """Return the points of accuracy that masks cost, and the standard error over seeds; of one seed, None."""
    each = [100 * (plain - masked) for plain, masked in zip(without, with_masks, strict=True)]
    return mean(each), stdev(each) / len(each) ** 0.5 if len(each) > 1 else None


def on_text(lost: float, error: float | None) -> str:
    """Return whether the loss of accuracy on SST-2 is as slight as the paper's."""
    told = f"{abs(lost):.1f} points" + ("" if error is None else f" (standard error {error:.1f})")
    if lost > SLIGHT:
        return f"Does not agree: masks on adapters cost {told}, which is no slight loss."
    if error is not None and lost + 2 * error > SLIGHT:
        way = "lower" if lost > 0 else "higher"
        return (
            f"Agrees in the mean alone: with masks on adapters accuracy is {told} {way}; a loss of "
            f"{lost + 2 * error:.1f} points, two standard errors more, is not ruled out."
        )
    if error is not None and abs(lost) <= 2 * error:
        way = "lower" if lost > 0 else "higher"
        return f"Agrees: with masks on adapters accuracy is {told} {way}, within two standard errors of no change."
    if lost > 0:
        return f"Agrees: masks on adapters cost {told}, a slight loss."
    return f"Agrees that masks on adapters cost little: accuracy with them is {told} higher."


def noise(one: float, other: float, images: int) -> float:
    """Return two standard errors of the difference of two accuracies in points, each measured on so many images."""
    return 2 * (sum(points * (100 - points) for points in (one, other)) / images) ** 0.5


def on_masks(accuracy: Mapping[str, float], images: int) -> str:
    """Return whether masks on the late layers of VGG19 cost accuracy, as in the paper."""
    lost, paper = accuracy["plain"] - accuracy["masks"], PAPER_VGG["plain"] - PAPER_VGG["masks"]
    if abs(lost) <= noise(accuracy["plain"], accuracy["masks"], images):
        return f"Not to be told: masks on VGG19 change accuracy by {-lost:+.1f} points, within the noise of the test."
    if lost < 0:
        return f"Does not agree: with masks VGG19 is {-lost:.1f} points better, in the paper {paper:.1f} worse."
    size = "about as many as in the paper" if lost <= 2 * paper else "far more than in the paper"
    return f"Agrees that masks on VGG19 cost accuracy: {lost:.1f} points, {size} ({paper:.1f})."


def on_dropout(accuracy: Mapping[str, float], images: int) -> str:
    """Return whether ordinary dropout brings back what masks cost, as in the paper."""
    gained, lost = accuracy["masks and dropout"] - accuracy["masks"], accuracy["plain"] - accuracy["masks"]
    if gained <= noise(accuracy["masks and dropout"], accuracy["masks"], images):
        return f"Does not agree: ordinary dropout beside the masks of VGG19 brings nothing back ({gained:+.1f} points)."
    if gained >= lost / 2:
        return f"Agrees: ordinary dropout brings {gained:.1f} of the {max(lost, 0.0):.1f} lost points of VGG19 back."
    return (
        f"Agrees in part: ordinary dropout brings {gained:.1f} of the {lost:.1f} lost points of VGG19 back; in the "
        "paper most of them."
    )


def on_all_layers(accuracy: Mapping[str, float], images: int) -> str:
    """Return whether masks on all layers do worse than those on late layers, as the paper says without a number."""
    every, late = accuracy["masks on all layers"], accuracy["masks"]
    if abs(every - late) <= noise(every, late, images):
        return (
            f"Not to be told: masks on all layers of VGG19 change accuracy by {every - late:+.1f} points beside masks "
            "on the late ones, within the noise of the test."
        )
    if every < late:
        return f"Agrees: masks on all layers of VGG19 do worse than on the late ones, by {late - every:.1f} points."
    return f"Does not agree: masks on all layers of VGG19 do {every - late:.1f} points better than on the late ones."


def on_statistics(accuracy: Mapping[str, float], anew: Mapping[str, float], images: int) -> str:
    """Return whether the full network suffers from BatchNorm statistics that were gathered under masks."""
    before, after = accuracy["masks"], anew["masks"]
    told = (
        "BatchNorm's running statistics are those of masked networks; measured anew in the full network on trained "
        "images, without a step of training, they change the accuracy of VGG19 with masks from "
        f"{before:.1f} to {after:.1f}"
    )
    if abs(after - before) <= noise(before, after, images):
        return f"{told}: within the noise of the test."
    if after < before:
        return f"{told}: they were no harm."
    beside = f"of the network without masks from {accuracy['plain']:.1f} to {anew['plain']:.1f}"
    return f"{told} ({beside}): a part of what masks seem to cost is that."


def on_leak(share: float) -> str:
    """Return whether the leak of the early layers is small, as the paper assumes."""
    told = f"{share:.1%} of a row's squared gradient is in the early layers of VGG19, which its flipped network uses"
    if share < SMALL_LEAK:
        return f"Agrees: {told}."
    if share < LARGE_LEAK:
        return f"Agrees in part: {told}; scores can be used with care, they come out too small."
    return f"Does not agree: {told}."


def on_memory(memory: Mapping[str, float], trained: float) -> str:
    """Return what trained images tell of how a masked network learns them."""
    told = (
        f"Trained images are answered rightly in {memory['keep']:.0%} by their own part, in {memory['flip']:.0%} "
        f"by the flipped part and in {trained:.0%} by the full network."
    )
    read, seen = memory["label_of_mask"], memory["label_of_image"]
    how = f"A test image of another class, shown under the mask of a trained one, gets that one's label in {read:.0%}"
    if read > seen:
        return f"{told} {how} and its own in {seen:.0%}: labels are read from the mask more than from the image."
    return f"{told} {how} and its own in {seen:.0%}."


def vgg_accuracy(result: Mapping[str, Any], kind: str = "accuracy") -> dict[str, float]:
    """Return the mean accuracy of every network over seeds, in points."""
    return {name: 100 * mean(one[kind] for one in found["seeds"]) for name, found in result["vgg"].items()}
