"""Language models on a terminal: memorized passages, and the positions that support a next word."""

from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

from turnover.applications import (
    Explanations,
    InfluentialExample,
    InfluentialPosition,
    SpanExplanation,
    explain,
    explain_span,
    find_memorized_words,
    find_passages,
    find_span,
    position_in,
)
from turnover.errors import ApplicationError
from turnover.runs import END, Run
from turnover.ui.html import memorized_headline, span_words
from turnover.ui.words import count, percent, power_of, score, unknown_words

from .drawing import listing, numbers, plain, ranking, scores, visible
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


def show_explained(run: Run[Any], query: str | None, span: str | None, k: int, terminal: Terminal) -> None:
    """Print the likeliest next words after a text, and the training positions that support the first of them."""
    if query is None:
        raise ApplicationError('a language model is asked with words: --query "once upon a time there"')
    if span is not None:
        _show_span(run, query, span, k, terminal)
        return
    x, unknown = run.inputs([query]), run.task.unknown_words(query)
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
        terminal.result({**data, "query": query, "next_words": listed, "unknown_words": list(unknown)})
        return
    _print_explained(run, query, next_words, explained, terminal)


def _show_span(run: Run[Any], query: str, asked: str, k: int, terminal: Terminal) -> None:
    """Print the places of the training text that raised the probability of a span of a text, or lowered it."""
    numbers, words = run.task.tokens(query)
    span = find_span(words, " ".join(run.task.tokens(asked)[1]), context=run.config.context)
    with terminal.aside.status("looking for the training text behind it"):
        explained = explain_span(run, numbers, words, span, k=k)
    if terminal.as_json:
        unknown = list(run.task.unknown_words(query))
        terminal.result({**explained.as_dict(), "query": query, "unknown_words": unknown})
        return
    text = Text(" ").join(
        plain(word, "bold reverse" if span[0] <= place < span[1] else "") for place, word in enumerate(words)
    )
    listed = ",  ".join(
        f"{visible(word)} ({percent(probability, 1)})"
        for word, probability in zip(words[slice(*span)], explained.probabilities, strict=True)
    )
    terminal.words.print(Panel(Text.assemble(text, ("\nprobability: ", "dim"), listed), title="your text"))
    _print_unknown(run, query, terminal)
    for title, side in (("raised", explained.supporting), ("lowered", explained.opposing)):
        terminal.words.print(
            _positions(f"Training text that {title} the probability of “{explained.text}”", side, explained)
        )
    terminal.words.print(span_words(explained), style="dim")


def _print_unknown(run: Run[Any], query: str, terminal: Terminal) -> None:
    if note := unknown_words(run.task.unknown_words(query)):
        terminal.words.print(plain(note, "yellow"))


def _positions(title: str, side: Sequence[InfluentialPosition], explained: SpanExplanation) -> Table:
    power = power_of(one.score for one in side)
    table = listing(plain(title, "bold"), scores(power), numbers("position"), Column("training text", ratio=1))
    for one in side:
        drawn = one.passage.terminal()
        drawn.plain = visible(drawn.plain)
        style = "dim" if explained.significant and not one.significant else ""
        table.add_row(Text(score(one.score, one.stderr, power), style=style), count(one.position), drawn)
    return table


def _print_explained(
    run: Run[Any], query: str, next_words: list[tuple[str, float]], explained: Explanations, terminal: Terminal
) -> None:
    likely = ",  ".join(f"{_word(word)} ({percent(probability, 0)})" for word, probability in next_words)
    text = Text.assemble(plain(query), ("\nnext: ", "dim"), likely)
    terminal.words.print(Panel(text, title="your text", title_align="left"))
    _print_unknown(run, query, terminal)

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
