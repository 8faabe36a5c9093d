"""Tables in Markdown."""

from collections.abc import Sequence


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, padded: bool = True) -> str:
    """Return a Markdown table, the first column to the left, numbers to the right.

    Args:
        head: titles of the columns.
        rows: cells.
        padded: pad all cells of a column to one width; not where cells are sentences.
    """
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in [head, *rows]]
    widths = [max(3, *(len(row[column]) for row in cells)) if padded else 1 for column in range(len(head))]
    lines = [
        "| " + " | ".join(_padded(cell, widths[place], place) for place, cell in enumerate(row)) + " |" for row in cells
    ]
    rule = "|" + "|".join(
        "-" * (width + 2) if place == 0 else "-" * (width + 1) + ":" for place, width in enumerate(widths)
    )
    return "\n".join([lines[0], rule + "|", *lines[1:]])


def _padded(cell: str, width: int, place: int) -> str:
    return cell.ljust(width) if place == 0 else cell.rjust(width)
