"""Notebooks as pages: each file of notebooks/ becomes Markdown with its outputs as they were kept, nothing is run."""

import base64
import json
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

_FOLDER = Path(__file__).parents[2] / "notebooks"


def on_files(files: "Files", *, config: "MkDocsConfig") -> "Files":
    """Add a page per notebook, and its pictures."""
    from mkdocs.structure.files import File

    for path in sorted(_FOLDER.glob("*.ipynb")):
        text, pictures = page_of(json.loads(path.read_text(encoding="utf-8")), path.stem)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
        for name, content in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def page_of(notebook: dict[str, Any], name: str) -> tuple[str, dict[str, bytes]]:
    """Return the Markdown of a notebook, and its pictures by file name."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            # In the repository the pages lie in docs/, beside notebooks/; on the site one level up.
            parts.append(source.replace("](../docs/", "](../"))
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {"text/plain": output.get("text", "")})
            if "image/png" in data:
                picture = f"{name}-{len(pictures) + 1}.png"
                pictures[picture] = base64.b64decode("".join(data["image/png"]))
                parts.append(f"![Output of the code above]({picture})")
            elif "text/html" in data:
                parts.append(f'<div class="output">\n{"".join(data["text/html"]).strip()}\n</div>')
            else:
                parts.append(f'<div class="output"><pre>{escape("".join(data["text/plain"]).rstrip())}</pre></div>')
    parts.insert(1, f"*This page is the notebook `notebooks/{name}.ipynb` of the repository.*")
    return "\n\n".join(parts) + "\n", pictures
