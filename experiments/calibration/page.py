"""The results page."""

from pathlib import Path
from typing import Any

from experiments.findings import Finding

_SETTING = "digits, an MLP with two masked hidden layers and no trunk"


def page(result: dict[str, Any], folder: Path) -> str:
    """Return the page as Markdown."""
    found = result["null"]
    by_query = sorted(result["covered_by_query"])
    lines = [
        "# Do intervals and significance keep their promise?",
        "",
        "Digits, an MLP with two masked hidden layers and no trunk, a tenth of the labels changed.",
        "",
        "## Intervals",
        "",
        "Each run against the mean of all others; the error of that mean is part of the interval.",
        "",
        "| | |",
        "| --- | --- |",
        f"| 95 % intervals that hold the mean of the other runs | {result['covered']:.1%} (wanted: 92 to 97 %) |",
        f"| for the query with the fewest, with the most | {by_query[0]:.1%}, {by_query[-1]:.1%} |",
        f"| without the error of that mean | {result['covered_without_the_reference_error']:.1%} |",
        f"| standard error of a run / standard deviation of the runs, median | {result['ratio_of_errors']:.2f} |",
        "",
        "With a trunk (the first layer shared by all replicas, so that their errors go together) and denoised by ridge "
        "(which shrinks: the interval is around what the denoised estimate is on average, not around the raw one):",
        "",
        "| | runs | intervals that hold | standard error / standard deviation of the runs |",
        "| --- | --- | --- | --- |",
        *(
            f"| {title} | {result[name]['runs']} | {result[name]['covered']:.1%} | "
            f"{result[name]['ratio_of_errors']:.2f} |"
            for name, title in (("trunk", "trunk"), ("trunk_ridge", "trunk, ridge"))
        ),
        "",
        "## Ids that were never trained",
        "",
        "Other ids than those that p-values are made from.",
        "",
        "| | pairs | p < .05 (wanted: 4 to 6 %) | sets | anything marked (wanted: at most 5 %) |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, part in found.items():
        replicas = name.removeprefix("replicas_")
        lines.append(
            f"| {replicas} replica{'' if replicas == '1' else 's'} | {part['pairs']:,} | {part['p_below_05']:.2%} | "
            f"{part['sets']:,} | {part['sets_with_anything_marked']:.1%} |"
        )
    return "\n".join([*lines, ""])


def findings(result: dict[str, Any]) -> list[Finding]:
    """Return what intervals and significance promise, and what they keep."""
    held = result["covered"]
    kept = "keep" if 0.92 <= held <= 0.97 else "do not keep"
    found = [
        Finding(
            what="95 % intervals that hold the mean of the other runs",
            paper="–",
            ours=f"{held:.1%}",
            setting=f"{_SETTING}, {result['runs']} runs",
            agreement=f"Intervals {kept} their promise: 92 to 97 % were wanted, {held:.1%} hold what they should.",
        )
    ]
    for name, part in result["null"].items():
        replicas = int(name.removeprefix("replicas_"))
        who = "one replica" if replicas == 1 else f"{replicas} replicas"
        share, marked = part["p_below_05"], part["sets_with_anything_marked"]
        right = "as they should be" if 0.04 <= share <= 0.06 else "not as they should be"
        found.append(
            Finding(
                what=f"never-trained ids, {who}: p < .05, and sets in which anything is marked",
                paper="–",
                ours=f"{share:.1%}, {marked:.1%}",
                setting=f"{part['pairs']:,} pairs, {part['sets']:,} sets",
                agreement=f"P-values of {who} are {right}: 4 to 6 % below .05 were wanted. Anything is marked in "
                f"{marked:.1%} of sets of pure noise, and 5 % were allowed.",
            )
        )
    return found
