"""What stands after ±, p-values and "stands out" mean beside a list of mean influences, and in which unit these are."""

from turnover.ui.words import count, digits

from .data import ReportData

_USUAL = "the usual "
_FEWEST_REPLICAS = 3


def unit_head(unit: str) -> str:
    """Return the unit of mean influence for the head of a column.

    Example:
        >>> unit_head("loss"), unit_head("the usual loss of each query")
        (' (loss)', ' (usual = 1)')
    """
    return " (usual = 1)" if unit.startswith(_USUAL) else f" ({unit})"


def unit_sentence(unit: str) -> str:
    """Return what 1 is in that unit, as a part of a sentence.

    Example:
        >>> unit_sentence("loss")
        'in units of loss'
    """
    if not unit.startswith(_USUAL):
        return f"in units of {unit}"
    return (
        "1 being what a training row usually (root mean square) does to the loss of a validation row, so that all "
        "validation rows count alike"
    )


def noise_sentences(data: ReportData, *, scores: int) -> str:
    """Return where ± and p-values come from, and why they may seem to disagree; nothing where noise is not known.

    Args:
        data: the report.
        scores: how many mean influences are judged together.
    """
    trust = data.trust
    listed = (*data.harmful, *data.groups)
    if trust is None or all(one.p_value is None for one in listed):
        return ""
    if trust.replicas >= _FEWEST_REPLICAS:
        spread = (
            f"± is one standard error of the size, from how far the {count(trust.replicas, 'replica')} disagree. The "
            "p-value answers another question, whether there is anything at all: how often an id that was never "
            "trained scores as far out. So a score may stand out although its size is uncertain."
        )
    else:
        spread = "± and the p-value both come from ids that were never trained: how far out they score by chance."
    limit = digits(trust.level / max(scores, 1))
    return (
        f"{spread} What stands out is judged among all {count(scores)}: the smallest p-value must lie below "
        f"{digits(trust.level)} / {count(scores)} = {limit}, the second smallest below twice that, and so on, so that "
        "of two small p-values one may stand out and the next not."
    )
