"""The results page."""

from pathlib import Path
from typing import Any

from experiments.findings import Finding

_TITLES = {
    "turnover": "**the report's list**, one training with masks",
    "cleanlab": "cleanlab, {folds} trainings of the same network without masks",
    "cleanlab_logistic": "cleanlab, {folds} logistic regressions",
}


def page(result: dict[str, Any], folder: Path) -> str:
    """Return the page as Markdown."""
    lines = [
        "# Likely wrong labels, beside cleanlab",
        "",
        f"SST-2, {result['rows']:,} training sentences, features of MiniLM (frozen), {result['changed']:,} labels "
        "turned round. `turnover run` trains once; its report lists the rows whose label the part that never saw them "
        f"believes least. cleanlab gets predictions of models that did not see a row, from {result['folds']} folds of "
        f"the same rows and features. Counted are the changed labels among the first {result['changed']:,} of each "
        "list.",
        "",
        "| list | changed labels found | share | processor seconds |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name, title in _TITLES.items():
        mean, sd = result["mean"][name], result["sd"][name]
        spread = "" if sd is None else f" ± {sd:.0f}"
        lines.append(
            f"| {title.format(folds=result['folds'])} | {mean:.0f}{spread} | {mean / result['changed']:.1%} | "
            f"{result['seconds'][name]:.0f} |"
        )
    seeds = ", ".join(
        f"{one['found']['turnover']} against {one['found']['cleanlab']} and {one['found']['cleanlab_logistic']}"
        for one in result["seeds"]
    )
    lines += ["", f"Seed by seed: {seeds}. {verdict(result)}", ""]
    lines.append("Seconds of the report's list are those of its training (by the clock) and of the list itself.")
    return "\n".join(lines)


def verdict(result: dict[str, Any]) -> str:
    """Return in a sentence whether the report finds fewer, as many or more than the better of cleanlab's lists."""
    best = max(("cleanlab", "cleanlab_logistic"), key=lambda name: result["mean"][name])
    difference = result["mean"]["turnover"] - result["mean"][best]
    spread = max(result["sd"]["turnover"] or 0.0, result["sd"][best] or 0.0)
    if abs(difference) <= spread:
        return "That is as many as the better of cleanlab's lists, within one standard deviation."
    more = "more" if difference > 0 else "fewer"
    return f"The report finds {more} than the better of cleanlab's lists, by more than one standard deviation."


def findings(result: dict[str, Any]) -> list[Finding]:
    """Return how many wrong labels the report and cleanlab find."""
    best = max(("cleanlab", "cleanlab_logistic"), key=lambda name: result["mean"][name])
    told = [
        f"{result['mean'][name]:.0f}" + ("" if result["sd"][name] is None else f" ± {result['sd'][name]:.0f}")
        for name in ("turnover", best)
    ]
    return [
        Finding(
            what=f"Changed labels among the first {result['changed']:,} of a list: the report's and cleanlab's",
            paper="–",
            ours=f"{told[0]} against {told[1]}",
            setting=f"SST-2, {result['rows']:,} rows, features of MiniLM, seeds: {len(result['seeds'])}",
            agreement=verdict(result),
        )
    ]
