"""A result of the paper beside ours, in the form that the page of all results shows."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One number or statement of the paper, what we found, and whether they agree.

    Attributes:
        what: is compared, such as "SST-2, 5,000 rows: accuracy lost by the masks".
        paper: its number, with the table or section; "–" where it has none.
        ours: made of the run's numbers.
        setting: in which ours differs from the paper's.
        agreement: one plain sentence, made of the run's numbers.
    """

    what: str
    paper: str
    ours: str
    setting: str
    agreement: str


def spread(values: list[float], form: str = ".3f") -> str:
    """Return mean ± standard deviation over seeds; of one seed, its value.

    Example:
        >>> spread([0.5, 0.7], ".2f"), spread([0.5], ".2f")
        ('0.60 ± 0.14', '0.50')
    """
    mean = sum(values) / len(values)
    if len(values) < 2:
        return f"{mean:{form}}"
    deviation = (sum((one - mean) ** 2 for one in values) / (len(values) - 1)) ** 0.5
    return f"{mean:{form}} ± {deviation:{form}}"
