"""Examples of docstrings as code on the API page: our heading is "Example:", the one that griffe knows "Examples:"."""

from typing import Any

import griffe


class ExampleSections(griffe.Extension):
    """Renames the heading before a docstring is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
