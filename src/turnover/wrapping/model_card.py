"""A model card: what a folder of weights was trained with, and how its masks come back; for people and for hubs."""

from pathlib import Path

from turnover.layers import Recipe
from turnover.storage import write_atomically

CARD = "README.md"
HEADING = "## Turn-over dropout"
_MOST_SITES = 12


def recipe_section(recipe: Recipe) -> str:
    """Return the masks of a model as a section of Markdown."""
    sites = [f"`{site.path}`" for site in recipe.sites]
    more = f" and {len(sites) - _MOST_SITES} more" if len(sites) > _MOST_SITES else ""
    keeps = sorted({site.keep for site in recipe.sites})
    rows = [
        ("masks", f"{recipe.kind}, seed {recipe.seed}"),
        ("sites", ", ".join(sites[:_MOST_SITES]) + more),
        ("keep", ", ".join(f"{keep:g}" for keep in keeps)),
        ("replicas", str(recipe.replicas)),
        ("mode", recipe.mode),
    ]
    if recipe.adapters is not None:
        rows.append(("adapters", f"{len(recipe.adapters.after)}, with {recipe.adapters.size:,} weights each"))
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return (
        f"{HEADING}\n\n"
        "Every training row trained its own part of this network, chosen by masks, so that influence of training rows "
        "can be asked about.\n\n"
        f"| | |\n| --- | --- |\n{table}\n\n"
        "`from_pretrained` alone brings back the weights without the masks. With them:\n\n"
        "```python\nimport turnover\n\nmodel = turnover.load(folder, model=base)  # base: the plain model\n```\n"
    )


def write_card(folder: Path, recipe: Recipe) -> None:
    """Write the card of a folder, or bring the section of a card that is there up to date; other words stay."""
    file = folder / CARD
    section = recipe_section(recipe)
    if not file.is_file():
        write_atomically(file, f"---\nlibrary_name: turnover\ntags:\n- turnover\n---\n\n# Model\n\n{section}")
        return
    before, heading, rest = file.read_text(encoding="utf-8").partition(HEADING)
    _, following, after = rest.partition("\n## ") if heading else ("", "", "")
    tail = f"\n## {after}" if following else ""
    write_atomically(file, f"{before.rstrip()}\n\n{section}{tail}")
