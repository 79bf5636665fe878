"""Logs inside something else: container logs, saved web pages, notebooks, JSON in JSON, one line.

The content is given as text, to be read like any other log. This module does no I/O.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# The key under which a line is stored: by Docker, Fluentd, CloudWatch, Google, Loki.
_LINE_KEYS = ("log", "message", "textPayload", "line", "msg")
_BESIDE = frozenset(
    ("stream", "time", "timestamp", "ts", "level", "kubernetes", "resource", "insertId", "labels")
)
_BREAKS = frozenset(("br", "p", "div", "tr", "li", "pre", "h1", "h2", "h3", "h4", "table", "ul"))
_HIDDEN = frozenset(("script", "style", "noscript", "svg", "head"))
DEEPEST = 8  # levels of JSON that are searched
LONGEST_PAGE = 1 << 26  # characters of a page that is held in memory
LONG_LINE = 160, 1 << 19  # characters of a line that may hold all lines of a log
_ESCAPED = re.compile(r"\\r?\\n|\\n")
_QUOTED = re.compile(r"^\s*b?([\"'])(.*)\1\s*$", re.DOTALL)
# What the lines of logs begin with: comments, rows of nccl-tests, streams of iperf, NCCL.
_BEGINS = re.compile(
    r"(?<=[^\s-])[ \t]+(?=- - )|(?<=\S)[ \t]+(?=#+ |#$|-{20}"
    r"|\[ *(?:ID|SUM|\d+)\](?:\[\w\w-\w\])? +(?:local|Interval|\d)"
    r"|\d+ +\d+ +(?:float|half|double|b?float\d+|u?int\d+|fp?8\w*) "
    r"|[\w.-]+:\d+:\d+ \[\d+\] NCCL "
    r"|(?:Connecting to host|Accepted connection|Server listening|Client connecting|TCP window"
    r"|iperf Done)\b)"
)
_PAIRS = re.compile(r"(?<= )(?:\d{1,18} +\d+\.\d\d(?: +|$)){2,}")  # rows of a size and a figure


def unwrapped(portions: Iterable[str]) -> Iterator[str]:
    """Extract lines from container logs and text from web pages; leave anything else unchanged.

    Args:
        portions: of text, each of whole lines.

    Yields:
        Portions of text.

    """
    rest = iter(portions)
    head = next(rest, "")
    begin = head[:4096].lstrip("\ufeff \t\r\n")
    whole = chain((head,), rest)
    if begin[:15].lower().startswith(("<!doctype html", "<html")) or _is_broken_by_tags(begin):
        yield _page("".join(whole)[:LONGEST_PAGE])
    elif _is_one_line(head):
        yield _in_lines(head)
        yield from rest
    elif _payload(begin.partition("\n")[0]) is not None:
        for portion in whole:
            yield "".join(map(_line, portion.splitlines(keepends=True)))
    else:
        yield from whole


def inside(text: str) -> Iterator[str]:
    """Find the parts of a JSON document that may be logs.

    Args:
        text: of the document.

    Yields:
        Documents within it, its strings of several lines, and the outputs of a notebook.

    """
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return
    if isinstance(document, dict) and isinstance(document.get("cells"), list):
        yield from _outputs(document["cells"])
    elif isinstance(document, dict | list):
        for value in document.values() if isinstance(document, dict) else document:
            yield from _found(value, 1)


def _found(value: object, depth: int) -> Iterator[str]:
    """Search a value; a nested document is given as a whole before its parts."""
    if isinstance(value, str):
        if "\n" in value.strip() or value.lstrip().startswith("{"):
            yield value
    elif isinstance(value, list) and value and all(isinstance(line, str) for line in value):
        yield "\n".join(line.rstrip("\n") for line in value)
    elif isinstance(value, dict):
        yield msgspec.json.encode(value).decode()
    elif isinstance(value, list) and depth < DEEPEST:
        for part in value:
            yield from _found(part, depth + 1)


def _outputs(cells: list[object]) -> Iterator[str]:
    """Give the outputs of the cells of a notebook, without their code."""
    outputs = (
        output
        for cell in cells
        if isinstance(cell, dict)
        for output in cell.get("outputs") or ()
        if isinstance(output, dict)
    )
    for output in outputs:
        data = output.get("data")
        shown = data.get("text/plain") if isinstance(data, dict) else output.get("text")
        if shown is None and isinstance(output.get("traceback"), list):
            shown = [f"{line}\n" for line in output["traceback"]]
        text = "".join(shown) if isinstance(shown, list) else shown
        if isinstance(text, str):
            yield text


def _line(line: str) -> str:
    payload = _payload(line)
    return line if payload is None else payload.rstrip("\n") + "\n"


def _payload(line: str) -> str | None:
    """Give the log line in a line of a container log; none if it is not such a line."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        record = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    if not isinstance(record, dict) or not _BESIDE & record.keys():
        return None
    texts = (record.get(key) for key in _LINE_KEYS)
    return next((text for text in texts if isinstance(text, str)), None)


def _is_broken_by_tags(text: str) -> bool:
    """Tell whether lines end with `<br>` instead of newlines."""
    return text.count("<br") > max(1, text.count("\n"))


def _is_one_line(text: str) -> bool:
    """Tell whether the newlines of a log were lost, or are escaped; JSON needs none."""
    if text.lstrip()[:1] in ("{", "") or len(text) > LONG_LINE[1]:
        return False
    lines = text.strip().count("\n") + 1
    return len(_ESCAPED.findall(text[:4096])) > lines or (lines == 1 and len(text) > LONG_LINE[0])


def _in_lines(text: str) -> str:
    """Begin lines again where they began."""
    quoted = _QUOTED.match(text)
    text = _ESCAPED.sub("\n", quoted[2] if quoted else text).replace("\\t", "\t")
    text = _PAIRS.sub(_rows, text)
    return _BEGINS.sub("\n", text).rstrip("\n") + "\n"


def _rows(match: re.Match[str]) -> str:
    cells = match[0].split()
    return "".join(f"\n{cells[at]} {cells[at + 1]}" for at in range(0, len(cells), 2)) + "\n"


def _page(text: str) -> str:
    reader = _Page()
    reader.feed(text)
    reader.close()
    shown = "".join(reader.shown)
    if reader.has_blocks or not reader.data:
        return shown
    return "\n".join(chain.from_iterable(map(_texts, reader.data))) + "\n"


def _texts(document: str) -> Iterator[str]:
    """Give all strings of several lines in a document, at any depth."""
    waiting = list(inside(document))
    for _ in range(DEEPEST * DEEPEST):
        if not waiting:
            return
        text = waiting.pop(0)
        parts = list(inside(text)) if text.lstrip().startswith(("{", "[")) else []
        if parts:
            waiting += parts
        else:
            yield text


class _Page(HTMLParser):
    """The text of a web page, and the JSON in its scripts."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.shown: list[str] = []
        self.data: list[str] = []
        self.has_blocks = False  # of code or output
        self._hidden: list[str] = []
        self._is_data = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HIDDEN:
            self._hidden.append(tag)
            self._is_data = tag == "script" and ("type", "application/json") in attrs
        if tag in _BREAKS:
            self.shown.append("\n")
        if tag in ("td", "th"):
            self.shown.append("\t")
        self.has_blocks |= tag in ("pre", "br")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._hidden:
            self._hidden.remove(tag)
            self._is_data = False
        elif tag in _BREAKS:
            self.shown.append("\n")

    def handle_data(self, data: str) -> None:
        if self._is_data:
            self.data.append(data)
        elif not self._hidden:
            self.shown.append(data)
