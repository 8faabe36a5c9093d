"""What runs of language models say on a terminal: colored passages, and the positions behind a next word."""

from typing import Any

import numpy as np
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from turnover.applications import Explanation
from turnover.applications import explain as explain_predictions
from turnover.errors import ApplicationError
from turnover.runs import END, LanguageModeling, Run
from turnover.ui.words import count, percent, power_of, score, unit

from .drawing import plain, visible
from .terminal import Terminal


def show_memorized(run: Run[LanguageModeling], most: int, terminal: Terminal) -> None:
    """Print the passages of which most was learned by heart, colored by self-influence."""
    starts = run.task.most_memorized(run.self_influence, most)
    if terminal.as_json:
        terminal.result(_memorized_data(run, starts))
        return
    words, values = terminal.words, run.self_influence.values
    better = percent(float((values > 0).mean()), 0)
    words.print(f"{count(len(values), 'position')} of training text; {better} are better known for having been seen.\n")
    for start in starts:
        drawn = run.task.passage(run.self_influence, start).terminal()
        # Colors stay where they are: what is shown has as many letters as the text itself.
        drawn.plain = "\n".join(visible(line) for line in drawn.plain.split("\n"))
        words.print(Panel(drawn, title=f"from word {start:,}", title_align="left", border_style="dim"))
    words.print(
        "Colored by self-influence, from the 70th to the 95th percentile: the stronger, the more a word is known only "
        "because this very passage was seen.",
        style="dim",
    )


def _memorized_data(run: Run[LanguageModeling], starts: list[int]) -> dict[str, Any]:
    values = run.self_influence.values
    return {
        "positions": len(values),
        "share_positive": float((values > 0).mean()),
        "results": run.about.results,
        "percentiles": dict(zip(("5", "50", "70", "95"), np.percentile(values, (5, 50, 70, 95)).tolist(), strict=True)),
        "passages": [{"start": start, **run.task.passage(run.self_influence, start).as_dict()} for start in starts],
    }


def show_explained(run: Run[LanguageModeling], query: str | None, k: int, terminal: Terminal) -> None:
    """Print the likeliest next words after a text, and the training positions behind the first of them."""
    if query is None:
        raise ApplicationError('a language model is asked with words: --query "once upon a time there"')
    guesses = run.task.next_words(run.predict([query])[0])
    with terminal.aside.status("looking for the positions behind it"):
        found = explain_predictions(run.influence, run.inputs([query]), k=k)
    if terminal.as_json:
        data = found.as_dict()
        for reason in (*data["items"][0]["pushed"], *data["items"][0]["against"]):
            reason["text"] = run.task.around(reason["position"])
        item = data["items"][0]
        item["predicted"] = run.task.words[item["predicted"]]
        terminal.result({**data, "query": query, "next_words": [{"word": w, "probability": p} for w, p in guesses]})
        return
    _print_explained(run, query, guesses, found[0], terminal)


def _print_explained(
    run: Run[LanguageModeling], query: str, guesses: list[tuple[str, float]], found: Explanation, terminal: Terminal
) -> None:
    words = terminal.words
    said = ",  ".join(f"{_word(word)} ({percent(probability, 0)})" for word, probability in guesses)
    words.print(Panel(Text.assemble(plain(query), ("\nnext: ", "dim"), said), title="your text", title_align="left"))
    first = _word(guesses[0][0])
    title = Text(f"Where the text itself goes on with “{first}”, and pushed toward it", style="bold")
    power = power_of(reason.score for reason in found.pushed)
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("score" + unit(power), justify="right", no_wrap=True)
    table.add_column("position", justify="right")
    table.add_column("training text", ratio=1)
    for place, reason in enumerate(found.pushed):
        if place == found.meaningful:
            noise = "from here on the order could be noise" if place else "none of these stands out from noise"
            table.add_row("┄" * 14, "", Text(noise, style="dim italic"))
        around = run.task.around(reason.position)
        line = Text.assemble(
            (visible(around["before"]), "dim"),
            " ",
            (visible(around["word"]), "bold"),
            " ",
            (visible(around["after"]), "dim"),
        )
        table.add_row(score(reason.score, reason.stderr, power), f"{reason.position:,}", line)
    words.print(table)


def _word(word: str) -> str:
    return "end of line" if word == END else visible(word)
