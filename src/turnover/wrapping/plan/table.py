"""A plan as text: one line a site, then what would leak, warnings and problems."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from turnover.wrapping.audit.leaks import CURES, Cause, Leak

if TYPE_CHECKING:
    from .plan import Plan, SitePlan

_MOST_NAMES = 6


def plan_table(plan: "Plan") -> str:
    """Return the plan as text for a terminal."""
    recipe = plan.recipe
    lines = [
        f"turnover plan: {len(plan.sites)} site{'' if len(plan.sites) == 1 else 's'}, {recipe.kind} masks, "
        f"seed {recipe.seed}; {plan.trainable:,} of {plan.parameters:,} parameters trainable",
        "",
    ]
    header = ["site", "module", "units", "width", "batch dim", "keep", "zero stays zero", "runs"]
    rows = [_row(site) for site in plan.sites]
    if all(site.runs is None for site in plan.sites):
        header, rows = header[:-1], [row[:-1] for row in rows]
    lines += columns(header, rows)
    if plan.leaks:
        how = "measured on the example" if plan.leaks_measured else "expected from the order of the modules"
        lines += ["", f"would leak ({how}; frozen parameters cannot):"]
        lines += [f"  {line}" for line in leak_lines(plan.leaks)]
    elif plan.sites:
        how = (
            "measured on the example" if plan.leaks_measured else "by the order of the modules; turnover.audit measures"
        )
        lines += ["", f"would leak: nothing ({how})"]
    if plan.sites:
        lines += ["", f"scores: {plan.path} (settled on the first query; Scores.path says which way was taken)"]
    if plan.signal is not None:
        lines += ["", f"expected: {plan.signal}"]
    for title, entries in (
        ("problems", plan.problems),
        ("warnings", plan.warnings),
        ("notes", plan.notes),
    ):
        if entries:
            lines += ["", f"{title}:", *(f"  - {entry}" for entry in entries)]
    return "\n".join(lines)


def _row(site: "SitePlan") -> list[str]:
    zero = {True: "yes", False: "NO: ", None: "not known: "}[site.zero.keeps]
    place = "" if site.place == "output" else f" ({site.place})"
    return [
        site.path or "(the model)",
        site.module + place,
        site.dim,
        "?" if site.width is None else f"{site.width:,}",
        str(site.batch_dim),
        f"{site.keep:g}",
        zero + site.zero.reason if site.zero.keeps is not True else zero,
        {True: "yes", False: "NO", None: "?"}[site.runs],
    ]


def leak_lines(leaks: Sequence[Leak]) -> list[str]:
    """Return one line a cause: which parameters, how much and the cure."""
    by_cause: dict[Cause, list[Leak]] = {}
    for leak in leaks:
        by_cause.setdefault(leak.cause, []).append(leak)
    lines: list[str] = []
    for cause, members in by_cause.items():
        names = ", ".join(_with_share(leak) for leak in members[:_MOST_NAMES])
        more = f" and {len(members) - _MOST_NAMES} more" if len(members) > _MOST_NAMES else ""
        lines.append(f"{cause}: {names}{more}; {CURES[cause]}")
    return lines


def _with_share(leak: Leak) -> str:
    return leak.name if leak.share is None else f"{leak.name} ({leak.share:.0%})"


def columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines in which the columns stand under each other."""
    widths = [max(len(row[place]) for row in [header, *rows]) for place in range(len(header))]
    lines = [header, ["-" * width for width in widths], *rows]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
