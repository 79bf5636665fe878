"""Logs inside something else: container logs, saved web pages, notebooks, JSON in JSON, one line.

The content is given as text, to be read like any other log. This module does no I/O.
"""

from __future__ import annotations

import quopri
import re
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from cluster.core.errors import ParseError
from cluster.core.files import LARGEST, MIB
from cluster.logs.pages import SavedPage, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# The key under which a line is stored: by Docker, Fluentd, CloudWatch, Google, Loki, journald.
_LINE_KEYS = ("log", "message", "textPayload", "line", "msg", "MESSAGE")
_BESIDE = frozenset(
    (
        *("stream", "time", "timestamp", "ts", "level", "kubernetes", "resource", "insertId"),
        *("labels", "@timestamp", "nodeName", "podName", "_HOSTNAME", "__REALTIME_TIMESTAMP"),
    )
)
# What containerd and CRI-O write: time, stream, and whether the line is full or goes on.
_CRI = re.compile(r"^\d{4}-\d\d-\d\dT\S+ std(?:out|err) ([FP]) (.*)\n?", re.MULTILINE)
_BOLD = re.compile(r"\*\*(?<![*\w]\*\*)(\d[\d.,]{0,30})\*\*(?![*\w])")  # in Markdown
_IPYTHON = "<IPython.core.display."  # how a notebook shows what it has as HTML
DEEPEST = 8  # levels of JSON that are searched
SHOWN = 200  # characters of the beginning, in an error
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

    Figures that a page shows in bold type are without their asterisks.
    """
    for portion in _extracted(portions):
        yield _BOLD.sub(r"\1", portion) if "**" in portion else portion


def _extracted(portions: Iterable[str]) -> Iterator[str]:
    rest = iter(portions)
    head = next(rest, "")
    begin = head[:4096].lstrip("\ufeff \t\r\n")
    whole = chain((head,), rest)
    if begin[:15].lower().startswith(("<!doctype html", "<html")) or _is_broken_by_tags(begin):
        yield _page(joined(whole))
    elif begin.startswith("[") and begin[1:].lstrip().startswith("{"):
        yield _listed(joined(whole))
    elif _is_one_line(head):
        yield _in_lines(head)
        yield from rest
    elif "=3D" in begin and "=\n" in begin:  # a mail as it was sent: `=` escapes, and breaks lines
        for portion in whole:
            yield quopri.decodestring(portion.encode("utf-8", "replace")).decode("utf-8", "replace")
    elif _CRI.match(begin) or _payload(begin.partition("\n")[0]) is not None:
        for portion in whole:
            yield "".join(map(_line, _CRI.sub(_rest, portion).splitlines(keepends=True)))
    else:
        yield from whole


def joined(texts: Iterable[str]) -> str:
    """Join the parts of a page or a document, which is held in memory.

    Raises:
        ParseError: it is larger than `LARGEST`.

    """
    parts: list[str] = []
    size = 0
    for text in texts:
        parts.append(text)
        size += len(text)
        if size > LARGEST:
            raise ParseError(
                f"A page or JSON document has more than {LARGEST // MIB} MiB, and is not read.",
                line=parts[0][:SHOWN],
                remedy="Cut the log out of it.",
            )
    return "".join(parts)


def inside(text: str) -> Iterator[str]:
    """Find what may be logs in a JSON document: documents, long strings, outputs of a notebook."""
    document = _decoded(text)
    if isinstance(document, dict) and isinstance(document.get("cells"), list):
        yield from _outputs(document["cells"])
    elif isinstance(document, list):
        yield from _found(document, 0)
    elif isinstance(document, dict):
        seen = set()  # such as stdout, and stdout_lines
        for part in chain.from_iterable(_found(value, 1) for value in document.values()):
            if (said := part.strip()) not in seen:
                yield part
            seen.add(said)


def _decoded(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def _found(value: object, depth: int) -> Iterator[str]:
    """Search a value; a nested document is given as a whole before its parts."""
    if isinstance(value, str):
        if "\n" in value.strip() or value.lstrip().startswith("{"):
            yield value
    elif isinstance(value, list) and (lines := _lines(value)):
        yield "\n".join(line.rstrip("\n") for line in lines)
    elif isinstance(value, dict):
        yield msgspec.json.encode(value).decode()
    elif isinstance(value, list) and depth < DEEPEST:
        for part in value:
            yield from _found(part, depth + 1)


def _lines(values: list[object]) -> list[str]:
    """Return the lines of a list of lines, of records of a container log, or of Loki's pairs."""
    texts = [value if isinstance(value, str) else _said(value) for value in values]
    pairs = [
        (value[0], value[1])
        for value in values
        if isinstance(value, list) and [str] * 2 == [type(part) for part in value]
    ]
    if pairs and len(pairs) == len(values) and all(time.isdigit() for time, _ in pairs):
        return [text for _, text in sorted(pairs, key=lambda pair: int(pair[0][:20]))]
    return [text for text in texts if text is not None] if None not in texts else []


def _outputs(cells: list[object]) -> Iterator[str]:
    """Return the outputs of the cells of a notebook, without their code."""
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
        if isinstance(data, dict) and "".join(map(str, shown or ())).startswith(_IPYTHON):
            shown = data.get("text/html")
        if shown is None and isinstance(output.get("traceback"), list):
            shown = [f"{line}\n" for line in output["traceback"]]
        text = "".join(map(str, shown)) if isinstance(shown, list) else shown
        if isinstance(text, str):
            yield plain(text)


def _rest(match: re.Match[str]) -> str:
    """Return what is left of a line of containerd; a line that goes on has no end."""
    return match[2] + ("\n" if match[1] == "F" else "")


def _line(line: str) -> str:
    for _ in range(DEEPEST):  # a container that logs JSON has records in its records
        payload = _payload(line)
        if payload is None:
            break
        line = payload.rstrip("\n") + "\n"
    return line


def _payload(line: str) -> str | None:
    """Return the log line in a line of a container log; none if it is not such a line."""
    return _said(_decoded(line)) if line.lstrip().startswith("{") else None


def _said(record: object) -> str | None:
    """Return the log line of a record; none if it is no record of a container log."""
    if not isinstance(record, dict) or not _BESIDE & record.keys():
        return None
    inner = record.get("jsonPayload")  # Google's
    inner = inner if isinstance(inner, dict) else record
    texts = (inner.get(key) for key in _LINE_KEYS)
    return next((text for text in texts if isinstance(text, str)), None)


def _listed(text: str) -> str:
    """Return the lines of a list of records; leave any other list as it is."""
    values = _decoded(text)
    lines = _lines(values) if isinstance(values, list) else []
    return "".join(_line(f"{line.rstrip()}\n") for line in lines) or text


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
    """Return the text of a page, and what only its JSON has: pages load their comments later."""
    page = SavedPage(text)
    shown = page.shown if page.has_blocks or not page.data else ""
    known = _stripped(shown)
    for part in map(plain, chain.from_iterable(map(_texts, page.data))):
        lines = _stripped(part)
        if len(lines - known) * 2 > len(lines):
            shown += f"\n{part}\n"
            known |= lines
    return shown


def _stripped(text: str) -> set[str]:
    return {line.strip() for line in text.split("\n")} - {""}


def _texts(document: str) -> Iterator[str]:
    """Return all strings of several lines in a document, at any depth."""
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
