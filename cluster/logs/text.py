"""Splits a log into clean lines and JSON documents, before any parser reads it.

Logs reach us through launchers, terminals, e-mail and editors. What those add (colours, carriage
returns, `[1,0]<stdout>:`, `> `, line numbers, time stamps) is removed here, so that no parser sees
it. This module does no I/O: it is given bytes, in any portions.
"""

import codecs
import quopri
import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from itertools import chain, pairwise
from sys import getsizeof

import msgspec

from cluster.core.errors import ParseError
from cluster.core.model.value import Value
from cluster.core.state.files import LARGEST, MIB

LONGEST = 2048  # characters of a line that a parser is given; no tool prints longer lines
PORTION = 1 << 20  # bytes of text processed at once; binary data without a newline is cut there
PIECE = 1 << 18  # bytes decoded at once: one emoji makes each character of a text four bytes
UTF8 = "utf-8-sig"
WIDEST = 128  # blanks in a row: no table has more, and some patterns try each as a beginning
MOST_PREFIXES = 3  # before a line, one after the other
SAMPLE = 64  # lines at the beginning of a portion that show which prefix each line has

_WIDE = re.compile(rf"[ \t]{{{WIDEST},}}+")
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-Z\\^_])")
# Open MPI and Horovod tag streams (Open MPI 5 also names the job, and SageMaker the host), torchrun
# and PyTorch tag ranks.
_TAGS = {
    ("<stdout>:", "<stderr>:", "<stddiag>:"): re.compile(
        r"^[ \t]*+(?:\w{3} \w{3} [ \d]\d [\d:]{8} \d{4} ?"
        r"|(?:[A-Za-z][\w./-]{0,80}+ {1,2}+){1,2}(?=\[\d+,))?"  # a pod, and its container
        r"\[(?:[^\]\s]{0,200}@)?\d+(?:,[\w:.-]{1,60}){0,2}\]<std(?:out|err|diag)>: ?",
        re.MULTILINE,
    ),
    ("[default", "[rank"): re.compile(r"^[ \t]*+\[(?:default|rank)\d+\]: ?", re.MULTILINE),
}  # by the words of which a text has one
_NUMBERED = re.compile(r"^[ \t]*(\d{1,9})(?:[:|)\t]|(?=$)|(?= +))", re.MULTILINE)
# Prefixes of lines; one is removed only if most lines have it.
_PREFIXES = (
    re.compile(r"^(?:[ \t]*>)+ ?", re.MULTILINE),  # quoted in a mail
    re.compile(r"^\+(?![-+=])", re.MULTILINE),  # added by a diff; no border of a table
    re.compile(r"^\| (?!.*\|[ \t]*$)", re.MULTILINE),  # quoted with a bar; no row of a table
    re.compile(
        r"^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]*(?:Z|[+-]\d\d:?\d\d)?\]? "
        r"(?:\| (?!.*\|[ \t]*$))?",  # a bar after it, but not that of a table
        re.MULTILINE,
    ),
    # iperf3 --timestamps, journalctl, syslog, ts
    re.compile(r"^\w{3} \w{3} [ \d]\d [\d:]{8} \d{4} ?", re.MULTILINE),
    re.compile(
        r"^\w{3} [ \d]\d \d\d:\d\d:\d\d (?:\S{1,100} [\w./-]{1,60}(?:\[\d+\])?: )?", re.MULTILINE
    ),
    re.compile(r"^\[?(?:\d\d:)?\d\d:\d\d(?:[.,]\d+)?\]?:? ", re.MULTILINE),
    re.compile(  # Python's logging
        r"^(?:- (?:[\w.]{1,60} - )?(?:DEBUG|INFO|WARNING|ERROR) - |(?:DEBUG|INFO):[\w.]{1,60}:"
        r"|(?:\[INFO\]|INFO:?) )",
        re.MULTILINE,
    ),
    re.compile(  # Ray, aprun, and programs that start others
        r"^(?:\([^()\n]{0,80}\bpid=\d+[^()\n]{0,80}\)|\[NID \d+\]"
        r"|\[(?:STDOUT|STDERR|OUTPUT|rank \d{1,6})\]) ",
        re.MULTILINE,
    ),
    re.compile(r"^ {0,5}\d{1,6}: ", re.MULTILINE),  # srun --label
    # labels of MPICH and Intel MPI; iperf's stream ids look alike, but times follow them
    re.compile(r"^\[\d{1,6}\] (?! *(?:[\d.]+ ?- ?[\d.]+ |local |ID|connected))", re.MULTILINE),
)
# Names of hosts and containers: kubectl --prefix, docker compose, pdsh, iperf3 --title, ReFrame.
_NAME_PREFIXES = (
    re.compile(r"^(\[(?:pod/[^\]\s]{1,200}|[\w.-]{1,80}:\d{1,6})\]):? ?", re.MULTILINE),
    re.compile(r"^([\w.-]{1,80}) +\| ?", re.MULTILINE),
    re.compile(
        r"^([A-Za-z][\w.-]{0,60}\d[\w.-]{0,20}|[\w.-]{1,80}(?=:  )):(?: {1,2}|$)", re.MULTILINE
    ),
)
_COMMENTED = re.compile(r"^(?:#[ \t]+)+(?=#[ \t])", re.MULTILINE)  # a comment sign before another
_FENCE = re.compile(r"^([ \t]*```[^\n`]{0,40}\n)", re.MULTILINE)  # of code, in Markdown
FEW = 3  # lines that each name must precede
_OPENING = re.compile(r"^[ \t]*\{[ \t]*(?=\n|\"|\}|$)", re.MULTILINE)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
# A line of JSON; older versions of perftest write their keys without quotes.
_JSON_LINE = re.compile(r"[ \t]*(?:[]\"{}\[\d,tfn-]|[A-Za-z][\w.]{0,40} ?: )")


class Lines(Value, frozen=True, kw_only=True):
    """Some lines of a log, clean; the first of them has the number `first`, from 1."""

    first: int
    text: str


class JsonDocument(Value, frozen=True, kw_only=True):
    """A JSON object on lines of its own, the first of which has the number `first`, from 1."""

    first: int
    text: str
    complete: bool = True


def split_log(chunks: Iterable[bytes]) -> Iterator[Lines | JsonDocument]:
    """Split a log into clean lines, as soon as they are read, and complete JSON documents."""
    splitter = _Splitter()
    for text in unwrap(_portions(decode_text(chunks))):
        yield from splitter.feed(_clean(text))
    yield from splitter.end()


def decode_text(chunks: Iterable[bytes]) -> Iterator[str]:
    """Decode UTF-8, or UTF-16 as Windows writes it; other bytes are replaced."""
    decoder = None
    for chunk in chunks:
        if decoder is None:
            decoder = codecs.getincrementaldecoder(_encoding(chunk))("replace")
        for start in range(0, len(chunk), PIECE):
            yield decoder.decode(chunk[start : start + PIECE])
    if decoder is not None:
        yield decoder.decode(b"", final=True)


def as_utf8(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Convert a log in UTF-16 to UTF-8, and leave any other unchanged."""
    rest = iter(chunks)
    head = next(rest, b"")
    whole = chain((head,), rest)
    yield from whole if _encoding(head) == UTF8 else map(str.encode, decode_text(whole))


def _encoding(head: bytes) -> str:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    even_bytes, odd = head[:256:2], head[1:256:2]
    if odd and odd.count(0) > len(odd) // 2 and not even_bytes.count(0):
        return "utf-16-le"
    return UTF8


def _portions(texts: Iterable[str]) -> Iterator[str]:
    """Make portions that end at newlines; a line that is too long is cut, unless it is JSON."""
    waiting: list[str] = []
    size = 0
    for text in texts:
        waiting.append(text)
        size += getsizeof(text) if text else 0  # in memory
        if size < PORTION or ("\n" not in text and waiting[0].lstrip().startswith("{")):
            continue
        head, newline, rest = "".join(waiting).rpartition("\n")
        yield head + newline or rest
        waiting = [rest] if newline else []
        size = getsizeof(rest) if newline and rest else 0
    if size:
        yield "".join(waiting)


def _clean(text: str) -> str:
    """Remove what terminals, launchers, e-mail and editors added."""
    if WIDEST * " " in text or WIDEST * "\t" in text:
        text = _WIDE.sub(WIDEST * " ", text)
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n")
        text = text if "\n" in text else text.replace("\r", "\n")  # old Macs end lines in this way
        # the last state of progress bars, as a terminal shows it
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    if "\u00a0" in text:  # web pages
        text = text.replace("\u00a0", " ")
    text = _without_all_prefixes(text)
    if "# # " in text:
        text = _COMMENTED.sub("", text)
    if "```" in text:  # a page: each log that it quotes has prefixes of its own
        parts = _FENCE.split(text)  # before a fence, the fence, inside, its end, before the next
        parts[2::4] = map(_without_all_prefixes, parts[2::4])
        text = "".join(parts)
    return text


def _without_all_prefixes(text: str) -> str:
    """Remove prefixes in any order, such as a launcher's tag after an e-mail's mark."""
    prefixes: tuple[re.Pattern[str], ...] = (*_NAME_PREFIXES, *_PREFIXES)
    for count in range(MOST_PREFIXES):
        before = text
        for words, tag in _TAGS.items():
            if any(word in text for word in words):
                text = tag.sub("", text)
        text, used = _without_prefixes(text, prefixes, numbers=not count)
        prefixes = tuple(prefix for prefix in prefixes if prefix not in used)
        if text == before:
            break
    return text


def _without_prefixes(
    text: str, prefixes: tuple[re.Pattern[str], ...], *, numbers: bool
) -> tuple[str, set[re.Pattern[str]]]:
    """Remove prefixes that most lines have, and give the patterns that matched."""
    head = text.split("\n", SAMPLE)[:SAMPLE]
    head = [line for line in head if line.strip()]
    used = set()
    if numbers and _is_numbered(head):
        text = _NUMBERED.sub("", text)
        head = [_NUMBERED.sub("", line) for line in head]
    for prefix in prefixes:
        matches = [match for line in head if (match := prefix.match(line))]
        if len(matches) * 2 > len(head) and (prefix in _PREFIXES or _are_names(matches, head)):
            text = prefix.sub("", text)
            head = [prefix.sub("", line) for line in head]
            used.add(prefix)
    return text, used


def _are_names(matches: list[re.Match[str]], head: list[str]) -> bool:
    """Tell whether prefixes are names: a few of them, each before several lines."""
    names = {match[1] for match in matches}
    return len(matches) == len(head) and len(names) * FEW <= len(head)


def _is_numbered(head: list[str]) -> bool:
    """Tell whether an editor or `grep -n` put a number before each line.

    Such numbers rise by one, and the text after them is not always a number: rows of a table whose
    first column counts are not numbered lines.
    """
    prefixes = [_NUMBERED.match(line) for line in head]
    numbers = [int(match[1]) for match in prefixes if match]
    if len(numbers) < max(3, len(head)):
        return False
    rising = all(b - a == 1 for a, b in pairwise(numbers))
    has_separators = all(m and m[0][-1:] in ":|)\t" for m in prefixes)
    tails = [_NUMBERED.sub("", line, count=1).strip() for line in head]
    wordy = sum(not rest[:1].isdigit() for rest in tails if rest) * 2 > len(tails)
    return rising and (has_separators or (numbers[0] == 1 and wordy))


class _Splitter:
    """Finds JSON documents in text that arrives in portions.

    A document begins with a line that is an opening brace, alone or before a quote. It ends on
    that line, or with a closing brace of the same indentation. Any other line that is not indented
    further shows that its end was lost. If all indentation was lost, braces are counted.
    """

    def __init__(self) -> None:
        self._line = 1  # the number of the next line
        self._parts: list[str] = []  # of the open document
        self._size = 0  # characters of them
        self._indent = 0  # of its braces
        self._depth = 0  # open braces in a document without indentation; 0 in others

    def feed(self, text: str) -> Iterator[Lines | JsonDocument]:
        pos = 0
        while pos < len(text):
            if self._parts:
                end, is_complete = self._end(text, pos)
                self._parts.append(text[pos:end])
                self._size += end - pos
                if self._size > LARGEST:
                    join(self._parts)  # which refuses it
                pos = end
                if is_complete is not None:
                    yield self._document(complete=is_complete)
                continue
            match = _OPENING.search(text, pos) if "{" in text else None
            start = match.start() if match else len(text)
            if start > pos:
                lines = Lines(first=self._line, text=text[pos:start])
                self._line += text.count("\n", pos, start)
                yield lines
            pos = _line_end(text, start)
            if start < pos:
                line = text[start:pos]
                self._parts = [line]
                self._indent = len(line) - len(line.lstrip(" \t"))
                self._depth = self._size = 0

    def end(self) -> Iterator[JsonDocument]:
        """Return what is still open."""
        if self._parts:
            yield self._document(complete=_is_balanced("".join(self._parts)))

    def _end(self, text: str, pos: int) -> tuple[int, bool | None]:
        """Find the end of the open document, and whether it has its brace; none if it continues."""
        if len(self._parts) == 1:
            if _is_balanced(self._parts[0]):
                return pos, True
            shallow = re.compile(f"[ \t]{{0,{self._indent}}}(?=[^\\s}}])").match(text, pos)
            if shallow and _JSON_LINE.match(text, pos):
                self._depth = 1
        if self._depth:
            return self._count_braces(text, pos)
        pattern = re.compile(f"[ \t]{{0,{self._indent}}}(?=[^\\s])")
        match = pattern.match(text, pos) or re.compile("\n" + pattern.pattern).search(text, pos)
        if match is None:
            return len(text), None
        if text[match.end()] == "}":
            return _line_end(text, match.end()), True
        return pos if match.start() == pos else match.start() + 1, False

    def _count_braces(self, text: str, pos: int) -> tuple[int, bool | None]:
        while pos < len(text):
            end = _line_end(text, pos)
            line = text[pos:end]
            if line.strip() and not _JSON_LINE.match(line):
                return pos, False
            self._depth += line.count("{") - line.count("}")
            pos = end
            if self._depth <= 0:
                return pos, True
        return pos, None

    def _document(self, *, complete: bool) -> JsonDocument:
        text = "".join(self._parts)
        document = JsonDocument(first=self._line, text=text, complete=complete)
        self._line += text.count("\n")
        self._parts = []
        return document


def _line_end(text: str, pos: int) -> int:
    end = text.find("\n", pos)
    return len(text) if end < 0 else end + 1


def _is_balanced(text: str) -> bool:
    """Tell whether all braces are closed, with or without those in strings."""
    if text.count("{") != text.count("}"):
        text = _STRING.sub("", text)
    return text.count("{") == text.count("}")


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


def unwrap(portions: Iterable[str]) -> Iterator[str]:
    """Extract lines from container logs and text from web pages; leave anything else unchanged.

    Figures that a page shows in bold type are without their asterisks.
    """
    for portion in _extract(portions):
        yield _BOLD.sub(r"\1", portion) if "**" in portion else portion


def _extract(portions: Iterable[str]) -> Iterator[str]:
    rest = iter(portions)
    head = next(rest, "")
    begin = head[:4096].lstrip("\ufeff \t\r\n")
    whole = chain((head,), rest)
    is_page = begin[:15].lower().startswith(("<!doctype html", "<html"))
    if is_page or begin.count("<br") > max(1, begin.count("\n")):  # tags end its lines
        yield _page(join(whole))
    elif begin.startswith("[") and begin[1:].lstrip().startswith("{"):
        yield _record_lines(join(whole))
    elif _is_one_line(head):
        yield _in_lines(head)
        yield from rest
    elif "=3D" in begin and "=\n" in begin:  # a mail as it was sent: `=` escapes, and breaks lines
        for portion in whole:
            yield quopri.decodestring(portion.encode("utf-8", "replace")).decode("utf-8", "replace")
    elif _CRI.match(begin) or _payload(begin.partition("\n")[0]) is not None:
        for portion in whole:
            # a line of containerd that goes on has no end
            text = _CRI.sub(lambda match: match[2] + "\n" * (match[1] == "F"), portion)
            yield "".join(map(_line, text.splitlines(keepends=True)))
    else:
        yield from whole


def join(texts: Iterable[str]) -> str:
    """Join the parts of a page or document in memory (ParseError: it is larger than `LARGEST`)."""
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
    document = _decode(text)
    if isinstance(document, dict) and isinstance(document.get("cells"), list):
        yield from _outputs(document["cells"])
    elif isinstance(document, list):
        yield from _texts_of(document, 0)
    elif isinstance(document, dict):
        texts = set()  # such as stdout, and stdout_lines
        for part in chain.from_iterable(_texts_of(value, 1) for value in document.values()):
            if (content := part.strip()) not in texts:
                yield part
            texts.add(content)


def _decode(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def _texts_of(value: object, depth: int) -> Iterator[str]:
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
            yield from _texts_of(part, depth + 1)


def _lines(values: list[object]) -> list[str]:
    """Return the lines of a list of lines, of records of a container log, or of Loki's pairs."""
    texts = [value if isinstance(value, str) else _log_line(value) for value in values]
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
        output_text = data.get("text/plain") if isinstance(data, dict) else output.get("text")
        if isinstance(data, dict) and "".join(map(str, output_text or ())).startswith(_IPYTHON):
            output_text = data.get("text/html")
        if output_text is None and isinstance(output.get("traceback"), list):
            output_text = [f"{line}\n" for line in output["traceback"]]
        text = "".join(map(str, output_text)) if isinstance(output_text, list) else output_text
        if isinstance(text, str):
            yield plain(text)


def _line(line: str) -> str:
    for _ in range(DEEPEST):  # a container that logs JSON has records in its records
        payload = _payload(line)
        if payload is None:
            break
        line = payload.rstrip("\n") + "\n"
    return line


def _payload(line: str) -> str | None:
    """Return the log line in a line of a container log; none if it is not such a line."""
    return _log_line(_decode(line)) if line.lstrip().startswith("{") else None


def _log_line(record: object) -> str | None:
    """Return the log line of a record; none if it is no record of a container log."""
    if not isinstance(record, dict) or not _BESIDE & record.keys():
        return None
    inner = record.get("jsonPayload")  # Google's
    inner = inner if isinstance(inner, dict) else record
    texts = (inner.get(key) for key in _LINE_KEYS)
    return next((text for text in texts if isinstance(text, str)), None)


def _record_lines(text: str) -> str:
    """Return the lines of a list of records; leave any other list as it is."""
    values = _decode(text)
    lines = _lines(values) if isinstance(values, list) else []
    return "".join(_line(f"{line.rstrip()}\n") for line in lines) or text


def _is_one_line(text: str) -> bool:
    """Tell whether the newlines of a log were lost, or are escaped; JSON needs none."""
    if text.lstrip()[:1] in ("{", "") or len(text) > LONG_LINE[1]:
        return False
    lines = text.strip().count("\n") + 1
    return len(_ESCAPED.findall(text[:4096])) > lines or (lines == 1 and len(text) > LONG_LINE[0])


def _in_lines(text: str) -> str:
    """Begin lines again where they began."""
    quote = _QUOTED.match(text)
    text = _ESCAPED.sub("\n", quote[2] if quote else text).replace("\\t", "\t")
    text = _PAIRS.sub(_rows, text)
    return _BEGINS.sub("\n", text).rstrip("\n") + "\n"


def _rows(match: re.Match[str]) -> str:
    cells = match[0].split()
    return "".join(f"\n{cells[i]} {cells[i + 1]}" for i in range(0, len(cells), 2)) + "\n"


def _page(text: str) -> str:
    """Return the text of a page, and what only its JSON has: pages load their comments later."""
    page = SavedPage(text)
    page_text = page.visible_text if page.has_blocks or not page.data else ""
    lines_read = _distinct_lines(page_text)
    for part in map(plain, chain.from_iterable(map(_texts, page.data))):
        lines = _distinct_lines(part)
        if len(lines - lines_read) * 2 > len(lines):
            page_text += f"\n{part}\n"
            lines_read |= lines
    return page_text


def _distinct_lines(text: str) -> set[str]:
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


_BREAKS = frozenset(("br", "p", "div", "tr", "li", "pre", "h1", "h2", "h3", "h4", "table", "ul"))
_HIDDEN = frozenset(("script", "style", "noscript", "svg", "head"))


class SavedPage(HTMLParser):
    """The text of a web page, and the JSON in its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.data: list[str] = []
        self.has_blocks = False  # of code or output
        self._visible: list[str] = []
        self._hidden: list[str] = []
        self._is_data = False
        self.feed(text)
        self.close()

    @property
    def visible_text(self) -> str:
        return "".join(self._visible)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HIDDEN:
            self._hidden.append(tag)
            self._is_data = tag == "script" and ("type", "application/json") in attrs
        if tag in _BREAKS:
            self._visible.append("\n")
        if tag in ("td", "th"):
            self._visible.append("\t")
        self.has_blocks |= tag in ("pre", "br")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._hidden:
            self._hidden.remove(tag)
            self._is_data = False
        elif tag in _BREAKS:
            self._visible.append("\n")

    def handle_data(self, data: str) -> None:
        if self._is_data:
            self.data.append(data)
        elif not self._hidden:
            self._visible.append(data)


def plain(text: str) -> str:
    """Take the tags out of a part of a page; leave any other text as it is."""
    return SavedPage(text).visible_text if "</pre>" in text or "</p>" in text else text
