"""The results page."""

from pathlib import Path
from typing import Any


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
