"""A result of the paper beside ours, as the page of all results shows it, and numbers as pages write them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, stdev
from typing import Literal

Verdict = Literal["holds", "holds in part", "does not hold here", "not comparable here"]


@dataclass(frozen=True)
class Finding:
    """One number or statement of the paper, what we found, and whether they agree.

    Attributes:
        what: is compared, such as "SST-2, 5,000 rows: accuracy lost by the masks".
        paper: its number, with the table or section; "–" where it has none.
        ours: made of the run's numbers.
        setting: in which ours differs from the paper's.
        agreement: one plain sentence, made of the run's numbers.
        claim: of the paper, in a few words; "": it makes none.
        verdict: on the claim, by the run's numbers.
        rule: where a claim holds, and where in part; else it does not.
    """

    what: str
    paper: str
    ours: str
    setting: str
    agreement: str
    claim: str = ""
    verdict: Verdict | None = None
    rule: str = ""


def graded(holds: bool, in_part: bool = False) -> Verdict:
    """Return the verdict on a claim that holds, holds in part or does neither.

    Example:
        >>> graded(False, in_part=True)
        'holds in part'
    """
    return "holds" if holds else "holds in part" if in_part else "does not hold here"


def paragraphs(*sections: Iterable[str]) -> str:
    r"""Return a page of blocks, with an empty line between any two but items of a list; empty ones are skipped.

    Example:
        >>> paragraphs(["# Title", "- one", "- two"], ["End."])
        '# Title\n\n- one\n- two\n\nEnd.'
    """
    blocks = [block for section in sections for block in section if block]
    page = blocks[0]
    for before, block in pairwise(blocks):
        page += ("\n" if before.startswith("- ") and block.startswith("- ") else "\n\n") + block
    return page


def agreements(findings: Sequence[Finding]) -> list[str]:
    return [f"- {finding.agreement}" for finding in findings]


def standard_error(values: Sequence[float]) -> float | None:
    return stdev(values) / len(values) ** 0.5 if len(values) > 1 else None


def noise(one: float, other: float, rows: int) -> float:
    return 2 * (sum(points * (100 - points) for points in (one, other)) / rows) ** 0.5


def spread(values: Sequence[float], form: str = ".3f") -> str:
    """Return mean ± standard deviation over seeds; of one seed, its value.

    Example:
        >>> spread([0.5, 0.7], ".2f"), spread([0.5], ".2f")
        ('0.60 ± 0.14', '0.50')
    """
    return f"{mean(values):{form}}" + (f" ± {stdev(values):{form}}" if len(values) > 1 else "")


def percents(values: Sequence[float]) -> str:
    """Return shares in percent, mean ± standard deviation over seeds, without the sign.

    Example:
        >>> percents([0.881, 0.885])
        '88.3 ± 0.3'
    """
    return spread([100 * value for value in values], ".1f")


def counted(count: int, noun: str) -> str:
    """Return a number with its noun.

    Example:
        >>> counted(1, "seed"), counted(2000, "seed")
        ('1 seed', '2,000 seeds')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def seeds_words(seeds: Sequence[int]) -> str:
    return "one seed" if len(seeds) == 1 else f"mean ± sd of {len(seeds)} seeds"


def replicas_words(replicas: int | str) -> str:
    return "one model" if int(replicas) == 1 else f"{replicas} replicas"
