"""From a log to results: each line is offered to the parsers whose words occur in the log."""

import ast
import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import zip_longest

from msgspec import structs

from cluster.core import plugins
from cluster.core.errors import ParseError
from cluster.core.model.logs import CAUSE, Parsed, Reading, Symptoms, Unread
from cluster.core.model.results.records import Note
from cluster.core.state.files import MIB
from cluster.logs.hosts import Participants
from cluster.logs.parsers import Parser, number
from cluster.logs.text import DEEPEST, LONGEST, JsonDocument, Lines, inside, split_log

IMPOSSIBLE = (ValueError, ArithmeticError, LookupError)  # the result of absurd numbers in a log
LARGEST_ROWS = 128 * MIB  # of lines whose figures are kept: they take 3 to 15 times as much memory
EXAMPLES = 5  # lines that no parser understood, kept as examples
HEAD = 1 << 16  # characters at the beginning of a document by which it is recognised
SHOWN = 200  # characters of such a line
MOST_SHAPES = 20_000  # of lines, that are remembered
MOST_ROWS = 1000  # lines that look like rows, and are kept
DIAGNOSIS = "symptoms"  # the parser that reads every line, whoever takes it
NCCL = "nccl_log"
# Where tests begin (the group), and where they succeed.
_STAGES = re.compile(
    r'("key": ?"run_start")|"key": ?"run_stop".*"status": ?"success"'  # MLPerf
    r"|(# nThread \d)|# Avg bus bandwidth *: *\d"  # nccl-tests
    r"|(\(R\) MPI Benchmarks)|# All processes entering MPI_Finalize"
)
_STAGE_WORDS = (
    *('"run_start"', '"run_stop"', "# nThread", "# Avg bus", "MPI Benchmarks"),
    "entering MPI_Finalize",
)
# A row that may be one of a known table: a number, or a stream or a name before figures.
_ROW = re.compile(r"\s*(?:\[[ \w]+\]|[\w ]{1,30}[=:])?\s*[-+]?\d[\d.,]*(?:\s|$)")
_WORD = re.compile(r"[^\s|,;]++")
_FIGURE = re.compile(r"(?:[\w-]{0,30}[=:])?[-+]?\d[\d.]*[A-Za-z%/]{0,8}")
_COMPLAINT = re.compile(r"error|fail|abort|signal|kill|exit", re.IGNORECASE)
JOB = "job"  # the parser of what launchers print about a job
# What helpers of a job may say, of whose benchmark the figures are whole: steps of Slurm, shells.
_HELPER = re.compile(
    r"srun: (?:error: .*: Exited with exit code \d+$|Job step aborted)"
    r"|(?!.*(?:mpirun|mpiexec|srun)).*: (?:command not found|No such file or directory)$"
)
_NAMED_NUMBER = re.compile(r"[A-Za-z]=[\d.]+$")
_DIGIT = re.compile(r"\d")
_DIGITS = bytes.maketrans(b"123456789", b"0" * 9)
_BARE = re.compile(r"\s*\d[\d.]*(?:\s|$)")  # how rows of numbers begin
_MARKS = re.compile(r"^    marks(?:: .*?)? = (\((?:.*\)|\n(?:        .*\n)+    \)))$", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_RULE = re.compile(r"\s*#*\s*[-=*_~+]{4,}[ #]*$")  # a line that only separates others


def read(chunks: Iterable[bytes], format_: str = "") -> Reading:
    """Read a log, in portions of any size, with the parser of a name, or those that recognise it.

    Memory grows only with JSON documents and values, not with the log. SpecError: there is no such
    parser. ParseError: no parser understood any of it.
    """
    reader = _Reader(format_)
    for piece in split_log(chunks):
        reader.take(piece)
    return reader.reading()


class _Reader:
    """Offers lines to parsers, the one that took the last line first."""

    def __init__(self, format_: str, depth: int = 0) -> None:
        self._format = format_
        self._depth = depth  # of nested documents
        self._marks = marks_of_parsers() if format_ in ("", DIAGNOSIS) else {}
        # parsers whose marks have not occurred
        self._idle = [n for n in self._marks if n != DIAGNOSIS and not format_]
        self._active = [_parser(format_)()] if format_ else []
        self._diagnosis: Parser | None = None  # it reads every line, whoever takes it
        self._participants = Participants()
        self._results: list[Parsed] = []
        self._lines = self._unread = 0
        self._examples: list[Unread] = []
        self._shapes: set[bytes] = set()  # of lines, with 0 for each digit
        self._sizes: Counter[str] = Counter()  # characters of lines whose figures are kept
        self._rows: list[Unread] = []  # lines that look like rows, and were not understood
        self._ends = (0, 0)  # the lines on which the last test began, and succeeded
        self._is_mlperf = False  # whether the last of them may be of MLPerf
        self._open_tests = 0  # that began, and did not succeed
        self._is_any = False  # whether there is a line that is not blank
        self._last = ""  # the last line that was taken
        self._owner = ""  # the parser of the open table
        self._owner_line = 0  # the number of the last line of this table
        self._before: Parser | None = None  # the parser whose table began right before it
        self._conflicts: set[str] = set()  # parsers whose rows are mixed with those of others

    def take(self, piece: Lines | JsonDocument) -> None:
        if isinstance(piece, JsonDocument):
            self.document(piece)
        else:
            self.lines(piece)

    def lines(self, piece: Lines) -> None:
        """Read some lines; text between the code fences of a document is a separate log."""
        self._is_any = self._is_any or not piece.text.isspace()
        text, newline, end = piece.text.rpartition("\n")
        pos, lineno = 0, piece.first
        for fence in _FENCE.finditer(text) if "```" in text or "~~~" in text else ():
            lineno += self._take_text(text[pos : fence.start()], lineno)
            self._collect()
            if self._format:
                self._active = [_parser(self._format)()]
            else:
                self._idle += [parser.name for parser in self._active]
                self._active = []
            self._shapes = set()
            pos = fence.start()
        lineno += self._take_text(text[pos:] + newline, lineno)
        if end.strip():
            self._cut(end, lineno)

    def document(self, piece: JsonDocument) -> None:
        """Read a JSON document; if no parser knows it, read it as lines."""
        if self._take_document(piece) or (
            self._wake(head := piece.text[:HEAD], _shapes(head)) and self._take_document(piece)
        ):
            self._lines += piece.text.count("\n") or 1
        elif not self._take_inside(piece):
            self.lines(Lines(first=piece.first, text=piece.text))

    def _take_inside(self, piece: JsonDocument) -> bool:
        """Read the logs in the strings of a document, and the documents within it."""
        is_read = False
        for text in inside(piece.text) if piece.complete and self._depth < DEEPEST else ():
            reader = _Reader(self._format, self._depth + 1)
            for part in split_log([text.encode("utf-8", "replace"), b"\n"]):
                reader.take(part)
            with suppress(ParseError):
                reading = reader.reading()
                self._results += [structs.replace(r, first=piece.first) for r in reading.results]
                self._lines += reading.lines
                self._unread += reading.unread
                is_read = True
        return is_read

    def _take_document(self, piece: JsonDocument) -> bool:
        for parser in self._active:
            try:
                if parser.take_document(piece.text, piece.first):
                    return True
            except IMPOSSIBLE as error:
                raise _impossible(parser) from error
        return False

    def reading(self) -> Reading:
        self._collect()
        details = [result.detail for result in self._results]
        # Lines that only look like a cause may be about anything.
        if all(isinstance(d, Symptoms) and all(s.kind == CAUSE for s in d.found) for d in details):
            raise self._empty_log_error()
        is_whole = any(r.measurements and not r.failures and r.whole for r in self._results)
        results = list(map(_excuse_steps, self._results)) if is_whole else self._results
        starts = sorted(result.first for result in results)
        results = [self._excuse(self._misread(result, starts)) for result in results]
        hosts = self._participants.count([result.first for result in results])
        results = [
            structs.replace(result, hosts=count, hosts_of_job=is_job)
            if count and not result.hosts
            else result
            for result, (count, is_job) in zip(results, hosts, strict=True)
        ]
        return Reading(
            results=tuple(sorted(results, key=lambda result: result.first)),
            lines=self._lines,
            unread=self._unread,
            examples=tuple(self._examples),
        )

    def _misread(self, result: Parsed, starts: Sequence[int]) -> Parsed:
        """Turn the failure that there is no row into a note, if rows were not understood."""
        if not result.expects:
            return result
        begin = bisect_right(self._rows, result.first, key=lambda row: row.line)
        after = bisect_right(starts, result.first)
        end = starts[after] if after < len(starts) else sys.maxsize
        if begin == len(self._rows) or self._rows[begin].line >= end:
            return result
        row = self._rows[begin]
        note = Note("rows_not_understood", (row.line, row.text, result.expects))
        return structs.replace(
            result, failures=(), failed_at=(), expects="", notes=(*result.notes, note)
        )

    def _excuse(self, result: Parsed) -> Parsed:
        """Turn failures that its test survived, as it succeeded at its end, into notes."""
        start, end = self._ends
        if not result.failed_at or not start <= end or not end or self._open_tests > 0:
            return result
        if result.format == NCCL and not self._is_mlperf:
            return result  # its parser knows which process of a test it is about
        if any(r.first > end and (r.definitions or r.expects) for r in self._results):
            return result  # another program began
        since = start if result.format == NCCL else end
        failures = list(zip_longest(result.failures, result.failed_at, fillvalue=0))
        remainder = [(text, line) for text, line in failures if line <= since]
        notes = (Note("succeeded", (text,)) for text, line in failures if line > since)
        return structs.replace(
            result,
            failures=tuple(text for text, _ in remainder),
            failed_at=tuple(line for _, line in remainder),
            notes=(*result.notes, *notes),
        )

    def _take_text(self, text: str, first: int) -> int:
        """Offer lines to the active parsers; lines that they do not take may activate others."""
        lines = text.split("\n")
        shapes = _shapes(text, lines)
        self._scan(text, first, b"\n".join(shapes).decode())
        if not self._active:
            self._wake(text, shapes)
        leftovers = []
        looking = [p for p in self._active if type(p).look is not Parser.look]
        looking.sort(key=lambda parser: not parser.rows_interrupted)
        for lineno, line in enumerate(lines, first):
            rest = self._look(looking, line, lineno) if looking else line
            if rest and not self._offer(rest, lineno):
                leftovers.append((lineno, rest))
        for lineno, line in self._offer_again(leftovers):
            is_sign = self._diagnosis is not None and self._diagnosis.take(line, lineno)
            if is_sign or self._participants.names_at(lineno):
                self._lines += 1
            elif not (line.isspace() or _FENCE.match(line) or _RULE.match(line)):
                self._miss(lineno, line)
        self._refuse_too_many_rows()
        return text.count("\n")

    def _offer_again(self, leftovers: list[tuple[int, str]]) -> list[tuple[int, str]]:
        """Offer lines to the parsers that they activate; return those that none takes."""
        while leftovers and self._active:
            text = "\n".join(line for _, line in leftovers)
            if not self._wake(text, _shapes(text)):
                break
            leftovers = [(n, line) for n, line in leftovers if not self._offer(line, n)]
        return leftovers

    def _scan(self, text: str, first: int, short: str) -> None:
        """Look for signs of problems, hosts, and beginnings and ends of tests, in all lines.

        `short` has the shapes of them.
        """
        self._participants.scan(text, first, short)
        is_tried = self._format in ("", DIAGNOSIS)
        if self._diagnosis is None and is_tried and _occur(self._marks[DIAGNOSIS], text, short):
            self._diagnosis = _parser(DIAGNOSIS)()
        if self._diagnosis is not None:
            self._diagnosis.scan(text, first, short)
        line, pos = first, 0
        for stage in _STAGES.finditer(text) if any(word in short for word in _STAGE_WORDS) else ():
            line, pos = line + text.count("\n", pos, stage.start()), stage.start()
            self._is_mlperf |= "run_st" in stage[0]
            if stage.lastindex:
                self._open_tests, self._ends = self._open_tests + 1, (line, 0)
            else:
                self._open_tests, self._ends = self._open_tests - 1, (self._ends[0], line)

    def _look(self, looking: Sequence[Parser], line: str, lineno: int) -> str:
        """Show a line to the parsers that look at every line; return what they leave of it."""
        rest = line
        for parser in looking if line else ():
            try:
                rest = parser.look(rest, lineno)
            except IMPOSSIBLE as error:
                raise _impossible(parser, line) from error
        self._lines += bool(line) and not rest
        return rest

    def _wake(self, text: str, shapes: Mapping[bytes, str]) -> bool:
        """Activate the parsers of which a word occurs in a text with lines of these shapes."""
        new = {shape: line for shape, line in shapes.items() if shape not in self._shapes}
        self._shapes = {*self._shapes, *new} if len(self._shapes) < MOST_SHAPES else set(new)
        short = "\n".join(new.values())
        awake = [name for name in self._idle if _occur(self._marks[name], text, short)]
        self._idle = [name for name in self._idle if name not in awake]
        self._active += [_parser(name)() for name in awake]
        return bool(awake)

    def _offer(self, line: str, lineno: int) -> bool:
        if len(line) > LONGEST:
            return False
        for index, parser in enumerate(self._active):
            try:
                is_taken = parser.take(line, lineno)
            except IMPOSSIBLE as error:
                raise _impossible(parser, line) from error
            if is_taken:
                if index:  # it will probably take the next line, too
                    self._active.insert(0, self._active.pop(index))
                self._last = line
                self._lines += 1
                if parser.definitions:
                    self._sizes[parser.name] += len(line)
                if parser.has_rows:
                    self._note_row(parser, line, lineno)
                return True
        return False

    def _refuse_too_many_rows(self) -> None:
        """Refuse a log of which more is kept than memory is for."""
        if sum(self._sizes.values()) > LARGEST_ROWS:
            ((name, _),) = self._sizes.most_common(1)
            raise ParseError(
                f"This log has more than {LARGEST_ROWS // MIB} MiB of rows of {name}, and all of "
                "them would be in memory.",
                remedy="Read a part of it: split -C 100M LOG part. && cluster import part.aa",
            )

    def _note_row(self, parser: Parser, line: str, lineno: int) -> None:
        """Notice a bare row that may belong to another parser.

        It follows a line of another table, or may be the first row of a table that began right
        before this one, or the next row of a matrix that is not complete.
        """
        is_row = _BARE.match(line) is not None
        rivals = (other for other in self._active if other is not parser) if is_row else ()
        for other in rivals:
            if other.expects(line):
                self._conflicts |= {parser.name, other.name}
        if parser.name != self._owner:
            if self._owner and is_row:
                self._conflicts |= {parser.name, self._owner}
            previous = (other for other in self._active if other.name == self._owner)
            self._before = next(previous, None) if lineno == self._owner_line + 1 else None
            self._owner = parser.name
        if is_row and self._before is not None:
            if self._before.awaits(line):
                self._conflicts |= {parser.name, self._before.name}
            self._before = None
        self._owner_line = lineno

    def _cut(self, line: str, lineno: int) -> None:
        """Read a last line without a newline, whose last number may be cut off.

        Pasted text often lacks only the newline. The line is accepted if the previous line had the
        same columns, and as many decimals in the last one.
        """
        ends_whole = not (line[-1:].isdigit() or line[-1:] in (".", ","))
        shape = _shape(line)
        if _NAMED_NUMBER.search(line):  # the previous line does not show how many digits it has
            shape = []
        # Rows of whole numbers only do not count: the header of a matrix looks like them.
        if ends_whole or (shape == _shape(self._last) and set(shape) != {"whole"}):
            self._take_text(line, lineno)
        else:
            self._miss(lineno, line)

    def _miss(self, lineno: int, line: str) -> None:
        self._lines += 1
        self._unread += 1
        if len(self._rows) < MOST_ROWS and _is_row(line[:LONGEST]):
            self._rows.append(Unread(line=lineno, text=line.strip()[:SHOWN]))
        if len(self._examples) < EXAMPLES:
            self._examples.append(Unread(line=lineno, text=line.strip()[:SHOWN]))

    def _collect(self) -> None:
        for parser in (*self._active, *filter(None, [self._diagnosis])):
            try:
                results = parser.results()
            except IMPOSSIBLE as error:
                raise _impossible(parser) from error
            self._results += map(_unusable, results) if parser.name in self._conflicts else results
        self._owner, self._owner_line, self._before, self._diagnosis = "", 0, None, None
        self._conflicts = set()

    def _empty_log_error(self) -> ParseError:
        first = self._examples[0] if self._examples else None
        formats = ", ".join(plugins.names(Parser))
        if first is None and not self._is_any:
            return ParseError("The log is empty.", remedy=f"Formats: {formats}")
        if first is None:
            return ParseError(
                "The log holds no figure, and no failure.",
                remedy="Include the lines with numbers: there were only headings or remarks.",
            )
        label = f"as {self._format} " if self._format else ""
        return ParseError(
            f"Nothing in {self._lines} line(s) could be read {label}(line {first.line} is the "
            "first of them).",
            line=first.text,
            remedy=f"Name its format: --log-format NAME, of {formats}",
        )


def _shapes(text: str, lines: Sequence[str] = ()) -> dict[bytes, str]:
    """Return one line of each shape; most lines differ from others only in digits."""
    shapes = text.encode("utf-8", "replace").translate(_DIGITS).split(b"\n")
    return dict(zip(shapes, lines or text.split("\n"), strict=True))


def _is_row(line: str) -> bool:
    """Tell whether a line that was not understood may be a row of figures, of whatever shape."""
    words = _WORD.findall(line)
    figures = sum(_FIGURE.fullmatch(word) is not None for word in words)
    is_row = figures * 3 > len(words) or _ROW.match(line) is not None
    return is_row and _COMPLAINT.search(line) is None


def _occur(marks: Iterable[str], text: str, short: str) -> bool:
    """Tell whether one of the marks occurs: with a digit in the text, else in its short form."""
    return any(mark in (text if _DIGIT.search(mark) else short) for mark in marks)


def marks_of_parsers() -> dict[str, tuple[str, ...]]:
    """Return the marks of each parser, without importing it where its file spells them out."""
    sources = plugins.sources(Parser)
    return {name: _marks_in(text) or _parser(name).marks for name, text in sources.items()}


@cache
def _marks_in(source: str) -> tuple[str, ...]:
    """Return the marks that the file of a parser spells out; empty if it computes them."""
    match = _MARKS.search(source)
    nodes = list(ast.walk(ast.parse(match[1]))) if match else []
    if any(isinstance(node, ast.Name | ast.Attribute | ast.Call) for node in nodes):
        return ()
    return tuple(str(node.value) for node in nodes if isinstance(node, ast.Constant))


def _impossible(parser: Parser, line: str = "") -> ParseError:
    """Return the error for a log with a number that its program cannot have printed."""
    return ParseError(
        f"This log has a number that {parser.name} cannot have printed.",
        line=line,
        remedy="Look for a line that was changed or cut off, and remove it.",
    )


def _excuse_steps(result: Parsed) -> Parsed:
    """Turn a failure of another job step into a note, if the figures of the job are complete."""
    helpers = result.format == JOB and all(map(_HELPER.match, result.failures))
    if not result.failures or not helpers:
        return result
    notes = (Note("other_step", (text,)) for text in result.failures)
    return structs.replace(result, failures=(), failed_at=(), notes=(*result.notes, *notes))


def _unusable(result: Parsed) -> Parsed:
    reason = (
        "its rows are mixed with those of another program, and cannot be separated, so none of "
        "them is used"
    )
    return structs.replace(
        result, measurements=(), definitions=(), detail=None, failures=(*result.failures, reason)
    )


@cache
def _parser(name: str) -> type[Parser]:
    """Import a parser once: thousands of files may be read one after another."""
    return plugins.find(Parser, name)


def _shape(line: str) -> list[str]:
    """Return what kind each column is, and how many decimals the last has."""
    cells = line.split()
    kinds = [
        "word" if number(cell) is None else "decimal" if "." in cell else "whole" for cell in cells
    ]
    return [*kinds[:-1], kinds[-1] + "d" * len(cells[-1].partition(".")[2])] if cells else []
