"""Language models on a terminal: memorized passages, and the positions that support a next word."""

from typing import Any

from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Column
from rich.text import Text

from turnover.applications import (
    Explanations,
    InfluentialExample,
    explain,
    find_memorized_words,
    find_passages,
    position_in,
)
from turnover.errors import ApplicationError
from turnover.runs import END, Run
from turnover.ui.html import memorized_headline
from turnover.ui.words import count, percent

from .drawing import numbers, plain, ranking, visible
from .terminal import Terminal


def show_memorized(run: Run[Any], most: int, terminal: Terminal) -> None:
    """Print the most memorized passages, colored by self-influence."""
    memorized, passages = find_memorized_words(run), find_passages(run, most=most)
    if terminal.as_json:
        results = {"results": run.about.results, "passages": [passage.as_dict() for passage in passages]}
        terminal.result({"memorized": memorized.as_dict(), **results})
        return
    words, headline = terminal.words, memorized_headline(memorized)
    words.print(f"{headline.figure} {headline.sentence}\n")
    for passage in passages:
        drawn = passage.text.terminal()
        # Colors stay where they are: what is shown has as many letters as the text itself.
        drawn.plain = "\n".join(visible(line) for line in drawn.plain.split("\n"))
        words.print(Panel(drawn, title=f"from word {count(passage.start + 1)}", title_align="left", border_style="dim"))
    words.print(
        "Colored by self-influence, from the 70th to the 95th percentile: the stronger, the more the prediction of a "
        "word depends on having been trained on this very passage.",
        style="dim",
    )


def show_explained(run: Run[Any], query: str | None, k: int, terminal: Terminal) -> None:
    """Print the likeliest next words after a text, and the training positions that support the first of them."""
    if query is None:
        raise ApplicationError('a language model is asked with words: --query "once upon a time there"')
    x = run.inputs([query])
    next_words = run.task.next_words(run.probabilities(x)[0])
    with terminal.aside.status("looking for the positions behind it"):
        explained = explain(run.influence, x, k=k)
    if terminal.as_json:
        data = explained.as_dict()
        item = data["items"][0]
        for example in (*item["supporting"], *item["opposing"]):
            example["text"] = position_in(run.text, example["position"]).as_dict()
        item["predicted"] = run.label_names[item["predicted"]]
        listed = [{"word": word, "probability": probability} for word, probability in next_words]
        terminal.result({**data, "query": query, "next_words": listed})
        return
    _print_explained(run, query, next_words, explained, terminal)


def _print_explained(
    run: Run[Any], query: str, next_words: list[tuple[str, float]], explained: Explanations, terminal: Terminal
) -> None:
    likely = ",  ".join(f"{_word(word)} ({percent(probability, 0)})" for word, probability in next_words)
    text = Text.assemble(plain(query), ("\nnext: ", "dim"), likely)
    terminal.words.print(Panel(text, title="your text", title_align="left"))

    def cells(example: InfluentialExample, style: str) -> list[RenderableType]:
        around = position_in(run.text, example.position)
        line = Text.assemble(
            (visible(around.before), "dim"), " ", (visible(around.word), "bold"), " ", (visible(around.after), "dim")
        )
        return [count(example.position), line]

    one = explained[0]
    title = f"Training positions supporting “{_word(next_words[0][0])}”"
    columns = (numbers("position"), Column("training text", ratio=1))
    terminal.words.print(
        ranking(title, one.supporting, one.significant_supporting, explained.noise_from, columns, cells)
    )


def _word(word: str) -> str:
    return "end of line" if word == END else visible(word)
