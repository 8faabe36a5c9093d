"""A page taken apart, as a browser would."""

from html.parser import HTMLParser
from typing import Any

_VOID = {"meta", "link", "img", "input", "br", "line", "polyline", "circle"}


class Page(HTMLParser):
    """Tags with attributes, all text, the texts within each kind of tag, what is not closed, fields without a name."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, Any]]] = []
        self.open: list[str] = []
        self.text = ""
        self.texts: dict[str, list[str]] = {}
        self.unlabeled: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append((tag, given))
        named = "label" in self.open or given.get("aria-label") or given.get("type") == "hidden" or given.get("id")
        if tag in ("input", "select", "textarea") and not named:
            self.unlabeled.append(str(given))
        if tag not in _VOID:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1:] == [tag], f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data
        for tag in set(self.open):
            self.texts[tag][-1] += data

    def all(self, tag: str) -> list[dict[str, Any]]:
        return [given for name, given in self.tags if name == tag]
