"""From a log to results: each line is offered to the parsers whose words occur in the log."""

from __future__ import annotations

import gc
import re
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from msgspec import structs

from cluster.core import plugins
from cluster.core.errors import ParseError
from cluster.core.files import MIB
from cluster.core.model.logs import Parsed, Reading, Unread
from cluster.logs.parsers import Parser
from cluster.logs.parsers import number as parsed_number
from cluster.logs.portions import Portion
from cluster.logs.shapes import Shapes, shape_of
from cluster.logs.text import LONGEST, JsonDocument, Lines, split_log
from cluster.logs.unwrap import DEEPEST, inside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

IMPOSSIBLE = (ValueError, ArithmeticError, LookupError)  # the result of absurd numbers in a log
LARGEST_ROWS = 128 * MIB  # of lines whose figures are kept: they take 3 to 15 times as much memory
EXAMPLES = 5  # lines that no parser understood, kept as examples
HEAD = 1 << 16  # characters at the beginning of a document by which it is recognised
SHOWN = 200  # characters of such a line
JOB = "job"  # the parser of what launchers print about a job
# What helpers of a job may say, of whose benchmark the figures are whole: steps of Slurm, shells.
_HELPER = re.compile(
    r"srun: (?:error: .*: Exited with exit code \d+$|Job step aborted)"
    r"|(?!.*(?:mpirun|mpiexec|srun)).*: (?:command not found|No such file or directory)$"
)
_NAMED_NUMBER = re.compile(r"[A-Za-z]=[\d.]+$")
_BARE = re.compile(r"\s*\d[\d.]*(?:\s|$)")  # how rows of numbers begin
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_RULE = re.compile(r"\s*#*\s*[-=*_~+]{4,}[ #]*$")  # a line that only separates others


def read(chunks: Iterable[bytes], format_: str = "") -> Reading:
    """Read a log.

    Args:
        chunks: its bytes, in portions of any size.
        format_: the name of the parser to use; if empty, those that recognise the log.

    Returns:
        Its contents. Memory grows only with JSON documents and values, not with the log.

    Raises:
        SpecError: there is no such parser.
        ParseError: no parser understood any of it.

    """
    reader = _Reader(format_)
    with _without_collector():
        for piece in split_log(chunks):
            reader.take(piece)
        return reader.reading()


@contextmanager
def _without_collector() -> Iterator[None]:
    """Pause the collector of cycles: values have none, and searching millions takes a third."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Reader:
    """Offers lines to parsers, the one that took the last line first."""

    def __init__(self, format_: str, depth: int = 0) -> None:
        self._forced = format_
        self._depth = depth  # of nested documents
        names = (format_,) if format_ else _names()
        self._idle = [_parser(name)() for name in names]
        self._active: list[Parser] = []
        self._known = Shapes()  # of lines without words of idle parsers
        self._matrices: list[Parser] = []  # parsers that may wait for the next row of a matrix
        if format_:
            self._active, self._idle = self._idle, []
        self._results: list[Parsed] = []
        self._lines = self._unread = 0
        self._examples: list[Unread] = []
        self._size = 0  # characters of lines whose figures are kept
        self._is_any = False  # whether there is a line that is not blank
        self._last = ""  # the last line that was taken
        self._owner = ""  # the parser of the open table
        self._owned = 0  # the number of the last line of this table
        self._before: Parser | None = None  # the parser whose table began right before it
        self._mixed: set[str] = set()  # parsers whose rows are mixed with those of others

    def take(self, piece: Lines | JsonDocument) -> None:
        """Read the next piece."""
        if isinstance(piece, JsonDocument):
            self.document(piece)
        else:
            self.lines(piece)

    def lines(self, piece: Lines) -> None:
        """Read some lines; text between the code fences of a document is a separate log."""
        self._is_any = self._is_any or not piece.text.isspace()
        text, newline, end = piece.text.rpartition("\n")
        at, number = 0, piece.first
        for fence in _FENCE.finditer(text) if "```" in text or "~~~" in text else ():
            number += self._some(text[at : fence.start()], number)
            self._begin_anew()
            at = fence.start()
        number += self._some(text[at:] + newline, number)
        if end.strip():
            self._cut(end, number)

    def document(self, piece: JsonDocument) -> None:
        """Read a JSON document; if no parser knows it, read it as lines."""
        if self._take_document(piece) or (
            self._wake([piece.text[:HEAD]]) and self._take_document(piece)
        ):
            self._lines += piece.text.count("\n") or 1
        elif not self._take_inside(piece):
            self.lines(Lines(first=piece.first, text=piece.text))

    def _take_inside(self, piece: JsonDocument) -> bool:
        """Read the logs in the strings of a document, and the documents within it."""
        texts = inside(piece.text) if piece.complete and self._depth < DEEPEST else ()
        readings = [found for text in texts if (found := self._inside(text))]
        for found in readings:
            self._results += [structs.replace(r, first=piece.first) for r in found.results]
            self._lines += found.lines
            self._unread += found.unread
        return bool(readings)

    def _inside(self, text: str) -> Reading | None:
        reader = _Reader(self._forced, self._depth + 1)
        for piece in split_log([text.encode("utf-8", "replace"), b"\n"]):
            reader.take(piece)
        try:
            return reader.reading()
        except ParseError:
            return None

    def _take_document(self, piece: JsonDocument) -> bool:
        for parser in self._active:
            try:
                if parser.take_document(piece.text, piece.first):
                    return True
            except IMPOSSIBLE as error:
                raise _impossible(parser) from error
        return False

    def reading(self) -> Reading:
        """Return the results that were read."""
        self._collect()
        if not self._results:
            raise self._nothing()
        results = [_outlived(result, self._results) for result in self._results]
        return Reading(
            results=tuple(sorted(results, key=lambda result: result.first)),
            lines=self._lines,
            unread=self._unread,
            examples=tuple(self._examples),
        )

    def _some(self, text: str, first: int) -> int:
        """Offer lines to the active parsers; lines that they do not take may activate others."""
        if not self._active:
            self._wake(text.split("\n"))
        rest = text
        for parser in sorted(self._active, key=_reads_later):
            try:
                rest, taken = parser.skim(rest, first)
            except IMPOSSIBLE as error:
                raise _impossible(parser) from error
            self._lines += taken
        missed = self._missed(Portion(rest, first))
        while missed and self._active and self._wake(line for _, line in missed):
            missed = [(n, line) for n, line in missed if not self._offer(line, n)]
        for number, line in missed:
            if not (line.isspace() or _FENCE.match(line) or _RULE.match(line)):
                self._miss(number, line)
        return text.count("\n")

    def _missed(self, portion: Portion) -> list[tuple[int, str]]:
        """Offer lines, and give those that no parser took, with their numbers."""
        missed = []
        lines, refused = portion.lines, 0
        while portion.next < len(lines):
            line, number = lines[portion.next], portion.first + portion.next
            portion.next += 1
            if not line:
                continue
            taken = self._offer(line, number, refused)
            refused = 0
            if not taken:
                missed.append((number, line))
            elif self._before is None and self._is_alone:
                refused = self._more(portion)
        return missed

    @property
    def _is_alone(self) -> bool:
        """Whether no row can belong to another parser than the one that took the last line."""
        return all(parser is self._active[0] for parser in self._matrices)

    def _more(self, portion: Portion) -> int:
        """Offer lines to the parser that took the last one, until it does not take one."""
        parser, begin = self._active[0], portion.next
        try:
            is_refused = portion.offer_to(parser)
        except IMPOSSIBLE as error:
            raise _impossible(parser, portion.lines[portion.next]) from error
        last = portion.last_since(begin)
        if last is not None:
            self._lines += last + 1 - begin - portion.lines[begin:last].count("")
            self._owned = portion.first + last if parser.has_rows else self._owned
            self._last = portion.lines[last]
            self._kept(parser, sum(map(len, portion.lines[begin : last + 1])))
        return int(is_refused)

    def _wake(self, lines: Iterable[str]) -> bool:
        """Activate the parsers whose words occur in lines; lines of one shape have the same."""
        new = []
        for line in lines:
            shape = shape_of(line)
            if shape not in self._known:
                new.append(line)
                if not any(mark in shape for mark in _numbered_marks()):
                    self._known.add(shape)
        text = "\n".join(new)
        awake = [p for p in self._idle if any(mark in text for mark in p.marks)] if text else []
        self._idle = [parser for parser in self._idle if parser not in awake]
        self._active += awake
        self._matrices = [parser for parser in self._active if _has_matrices(parser)]
        return bool(awake)

    def _offer(self, line: str, number: int, refused: int = 0) -> bool:
        """Offer a line to the active parsers, except to the first few, which have refused it."""
        if len(line) > LONGEST:
            return False
        for at, parser in enumerate(self._active[refused:], refused):
            try:
                taken = parser.take(line, number)
            except IMPOSSIBLE as error:
                raise _impossible(parser, line) from error
            if taken:
                if at:  # it will probably take the next line, too
                    self._active.insert(0, self._active.pop(at))
                self._last = line
                self._lines += 1
                self._kept(parser, len(line))
                if parser.has_rows:
                    self._own(parser, line, number)
                return True
        return False

    def _kept(self, parser: Parser, size: int) -> None:
        """Refuse a log of which more is kept than memory is for."""
        self._size += size if parser.definitions else 0
        if self._size > LARGEST_ROWS:
            raise ParseError(
                f"This log has more than {LARGEST_ROWS // MIB} MiB of rows of {parser.name}, and "
                "all of them would be in memory.",
                remedy="Read a part of it: split -C 100M LOG part. && cluster import part.aa",
            )

    def _own(self, parser: Parser, line: str, number: int) -> None:
        """Notice a bare row that may belong to another parser.

        It follows a line of another table, or may be the first row of a table that began right
        before this one, or the next row of a matrix that is not complete.
        """
        is_row = _BARE.match(line) is not None
        others = (other for other in self._active if other is not parser) if is_row else ()
        for other in others:
            if other.expects(line):
                self._mixed |= {parser.name, other.name}
        if parser.name != self._owner:
            if self._owner and is_row:
                self._mixed |= {parser.name, self._owner}
            known = (other for other in self._active if other.name == self._owner)
            self._before = next(known, None) if number == self._owned + 1 else None
            self._owner = parser.name
        if is_row and self._before is not None:
            if self._before.awaits(line):
                self._mixed |= {parser.name, self._before.name}
            self._before = None
        self._owned = number

    def _cut(self, line: str, number: int) -> None:
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
            self._some(line, number)
        else:
            self._miss(number, line)

    def _miss(self, number: int, line: str) -> None:
        self._lines += 1
        self._unread += 1
        if len(self._examples) < EXAMPLES:
            self._examples.append(Unread(line=number, text=line.strip()[:SHOWN]))

    def _begin_anew(self) -> None:
        self._collect()
        self._idle = [type(parser)() for parser in (*self._idle, *self._active)]
        self._active = []
        self._matrices = []
        self._known = Shapes()
        if self._forced:
            self._active, self._idle = self._idle, []

    def _collect(self) -> None:
        for parser in self._active:
            try:
                found = parser.results()
            except IMPOSSIBLE as error:
                raise _impossible(parser) from error
            self._results += map(_unusable, found) if parser.name in self._mixed else found
        self._owner, self._owned, self._before = "", 0, None
        self._mixed = set()

    def _nothing(self) -> ParseError:
        first = self._examples[0] if self._examples else None
        known = ", ".join(_names())
        if first is None and not self._is_any:
            return ParseError("The log is empty.", remedy=f"Formats: {known}")
        if first is None:
            return ParseError(
                "The log holds no figure, and no failure.",
                remedy="Include the lines with numbers: there were only headings or remarks.",
            )
        named = f"as {self._forced} " if self._forced else ""
        return ParseError(
            f"Nothing in {self._lines} line(s) could be read {named}(line {first.line} is the "
            "first of them).",
            line=first.text,
            remedy=f"Name its format: --format NAME, of {known}",
        )


def _has_matrices(parser: Parser) -> bool:
    return type(parser).expects is not Parser.expects


def _reads_later(parser: Parser) -> bool:
    return not parser.rows_interrupted


def _impossible(parser: Parser, line: str = "") -> ParseError:
    """Return the error for a log with a number that its program cannot have printed."""
    return ParseError(
        f"This log has a number that {parser.name} cannot have printed.",
        line=line,
        remedy="Look for a line that was changed or cut off, and remove it.",
    )


def _outlived(result: Parsed, all_: Sequence[Parsed]) -> Parsed:
    """Turn a failure of another job step into a note, if the figures of the job are complete."""
    helpers = result.format == JOB and all(map(_HELPER.match, result.failures))
    if not result.failures or not helpers or not any(map(_is_whole, all_)):
        return result
    notes = tuple(f"{text}: another step, as the figures are whole" for text in result.failures)
    return structs.replace(result, failures=(), notes=(*result.notes, *notes))


def _is_whole(result: Parsed) -> bool:
    cut = any("missing" in note or "cut off" in note for note in result.notes)
    return bool(result.measurements) and not result.failures and not cut


def _unusable(result: Parsed) -> Parsed:
    why = (
        "its rows are mixed with those of another program, and cannot be separated, so none of "
        "them is used"
    )
    return structs.replace(
        result, measurements=(), definitions=(), detail=None, failures=(*result.failures, why)
    )


@cache
def _parser(name: str) -> type[Parser]:
    """Import a parser once: thousands of files may be read one after another."""
    return plugins.find(Parser, name)


@cache
def _numbered_marks() -> tuple[bytes, ...]:
    """Return the words of parsers that contain digits, as they are in shapes."""
    marks = {mark for name in _names() for mark in _parser(name).marks}
    return tuple(shape for mark in sorted(marks) if (shape := shape_of(mark)) != mark.encode())


def _names() -> tuple[str, ...]:
    return plugins.names(Parser)


def _shape(line: str) -> list[str]:
    """Return what kind each column is, and how many decimals the last has."""
    cells = line.split()
    kinds = [_kind(cell) for cell in cells]
    return [*kinds[:-1], kinds[-1] + "d" * len(cells[-1].partition(".")[2])] if cells else []


def _kind(cell: str) -> str:
    if parsed_number(cell) is None:
        return "word"
    return "decimal" if "." in cell else "whole"
