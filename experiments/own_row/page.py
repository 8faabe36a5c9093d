"""The results page."""

from statistics import mean
from typing import Any

from experiments.findings import Finding, spread

_TASKS = {"digits": "Handwritten digits", "sst2": "SST-2, features of MiniLM"}
_WHO = {
    "kept, trained": "the kept part, which learned the rows",
    "flipped, trained": "the flipped part, of a network that was trained on them",
    "flipped, left out": "the flipped part, of a network that was not",
    "flipped, held-out rows": "flipped parts of the same masks, on held-out rows",
    "flipped, trained, without what masks say": "trained, what masks say by themselves taken off",
    "flipped, left out, without what masks say": "not trained, the same taken off",
    "flipped, held-out rows, without what masks say": "held-out rows, the same taken off",
    "whole, left out": "the whole network that was not trained on them",
}
_TRAINED, _AWAY = "flipped, trained", "flipped, left out"
_WITHOUT = ", without what masks say"


def page(result: dict[str, Any], folder: Any) -> str:
    """Return the page as Markdown."""
    lines = [
        "# What the flipped part knows of its own row",
        "",
        "A flipped part never learned its row. Is it then what the network would be without the row? Two trainings of "
        f"the same network, one with all rows, one without {result['left_out']:.0%} of them, answer that: both have "
        "the same masks, and in both these rows' flipped parts learned nothing of them.",
        "",
    ]
    for name, task in result["tasks"].items():
        lines += [
            f"## {_TASKS[name]}",
            "",
            f"{task['rows']:,} rows, hidden layers of {', '.join(map(str, task['hidden']))}, all masked, no bias at "
            f"the end, {task['epochs']} epochs; all labels as they are. Loss and accuracy on the rows in question, "
            f"mean ± sd of {len(task['seeds'])} seeds.",
            "",
            "| asked | loss | accuracy |",
            "| --- | ---: | ---: |",
            *(
                f"| {title} | {_told(task, who, 'loss', '.2f')} | {_told(task, who, 'accuracy', '.3f')} |"
                for who, title in _WHO.items()
            ),
            "",
            _sentence(name, task),
            "",
        ]
    lines += [
        "## Why, as far as we can tell",
        "",
        "- **Halves compete.** Where the kept part has learned a row, rows that are like it are answered well already "
        "by networks that share some of its units; they teach the other units less. So training on a row would take "
        "from its flipped part what it could have learned from the row's like. That part is worse on the row than a "
        "network that never had the row, and the difference of both halves is more than the row's influence.",
        "- **Masks speak.** Two halves of a network differ whatever they are shown, and since a row's mask is the same "
        "in every epoch, labels are learned from it too: the units that the row keeps speak for its label, the others "
        "against it. What a mask says of all rows alike can be measured and taken off: "
        f"`Influence.out_of_sample(references={result['references']})`. That makes flipped parts better on all rows, "
        "on their own ones most.",
    ]
    return "\n".join(lines)


def findings(result: dict[str, Any]) -> list[Finding]:
    """Return whether a flipped part is what the network would be without its row."""
    return [
        Finding(
            what=f"{_TASKS[name]}: loss of flipped parts on rows that were trained, and on the same rows left out",
            paper="taken to be the network without the row (section 3)",
            ours=f"{_told(task, _TRAINED, 'loss', '.2f')} against {_told(task, _AWAY, 'loss', '.2f')}",
            setting=f"{task['rows']:,} rows, hidden layers of {', '.join(map(str, task['hidden']))}, "
            f"{len(task['seeds'])} seeds",
            agreement=_sentence(name, task),
        )
        for name, task in result["tasks"].items()
    ]


def _sentence(name: str, task: dict[str, Any]) -> str:
    trained, away, *both = (
        [one[who]["loss"] for one in task["seeds"]] for who in (_TRAINED, _AWAY, _TRAINED + _WITHOUT, _AWAY + _WITHOUT)
    )
    worse = all(one > other for one, other in zip(trained, away, strict=True))
    return (
        f"{_TASKS[name]}: {'no, ' if worse else ''}flipped parts are {'' if worse else 'not clearly '}worse on their "
        f"own rows than where these were never trained (loss {mean(trained):.2f} against {mean(away):.2f} in the mean"
        f"{', in every seed' if worse else ''}); without what masks say by themselves, {mean(both[0]):.2f} against "
        f"{mean(both[1]):.2f}."
    )


def _told(task: dict[str, Any], who: str, what: str, form: str) -> str:
    return spread([one[who][what] for one in task["seeds"]], form)
