"""The text of web pages, without their scripts and styles. This module does no I/O."""

from __future__ import annotations

from html.parser import HTMLParser

_BREAKS = frozenset(("br", "p", "div", "tr", "li", "pre", "h1", "h2", "h3", "h4", "table", "ul"))
_HIDDEN = frozenset(("script", "style", "noscript", "svg", "head"))


class SavedPage(HTMLParser):
    """The text of a web page, and the JSON in its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.data: list[str] = []
        self.has_blocks = False  # of code or output
        self._shown: list[str] = []
        self._hidden: list[str] = []
        self._is_data = False
        self.feed(text)
        self.close()

    @property
    def shown(self) -> str:
        """The text that a reader of the page sees."""
        return "".join(self._shown)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an element."""
        if tag in _HIDDEN:
            self._hidden.append(tag)
            self._is_data = tag == "script" and ("type", "application/json") in attrs
        if tag in _BREAKS:
            self._shown.append("\n")
        if tag in ("td", "th"):
            self._shown.append("\t")
        self.has_blocks |= tag in ("pre", "br")

    def handle_endtag(self, tag: str) -> None:
        """End an element."""
        if tag in self._hidden:
            self._hidden.remove(tag)
            self._is_data = False
        elif tag in _BREAKS:
            self._shown.append("\n")

    def handle_data(self, data: str) -> None:
        """Keep text, or JSON."""
        if self._is_data:
            self.data.append(data)
        elif not self._hidden:
            self._shown.append(data)


def plain(text: str) -> str:
    """Take the tags out of a part of a page; leave any other text as it is."""
    return SavedPage(text).shown if "</pre>" in text or "</p>" in text else text
