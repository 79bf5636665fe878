"""Many lines of a log at once, offered to a parser one after another."""

from __future__ import annotations

from cluster.logs.parsers import Parser
from cluster.logs.text import LONGEST


class Portion:
    """Many lines of a log, and which of them is next.

    Args:
        first: the number of the first in the log, from 1.

    """

    def __init__(self, text: str, first: int) -> None:
        self.text = text
        self.first = first
        self.lines = text.split("\n")
        self.next = 0
        self._known = 0, 0  # a line, and where it begins in the text

    def offer_to(self, parser: Parser) -> bool:
        """Offer one line after another to a parser, until it does not take one.

        Returns:
            Whether it refused the next line; false at the end, and if that line is too long.

        """
        if type(parser).take_rows is Parser.take_rows:
            return self._offer_lines(parser)
        return self._offer_rows(parser)

    def last_since(self, begin: int) -> int | None:
        """Return the last line before the next that is not empty.

        Returns:
            Its place among the lines; none if there is none.

        """
        found = range(self.next - 1, begin - 1, -1)
        return next((at for at in found if self.lines[at]), None)

    def _offer_lines(self, parser: Parser) -> bool:
        take, lines, at, first = parser.take, self.lines, self.next, self.first
        end = len(lines)
        try:
            while at < end:
                line = lines[at]
                if line and (len(line) > LONGEST or not take(line, first + at)):
                    return len(line) <= LONGEST
                at += 1
        finally:
            self.next = at
        return False

    def _offer_rows(self, parser: Parser) -> bool:
        """Offer many rows at once, and other lines one after another."""
        take, take_rows = parser.take, parser.take_rows
        lines, text, at, first = self.lines, self.text, self.next, self.first
        offset, end = self._offset(), len(lines)
        try:
            while at < end:
                line = lines[at]
                if line:
                    rows = take_rows(text, offset, first + at)
                    if rows > offset:
                        at, offset = at + text.count("\n", offset, rows), rows
                        continue
                    if len(line) > LONGEST or not take(line, first + at):
                        return len(line) <= LONGEST
                at, offset = at + 1, offset + len(line) + 1
        finally:
            self.next, self._known = at, (at, offset)
        return False

    def _offset(self) -> int:
        """Tell where the next line begins in the text."""
        at, offset = self._known
        return offset + sum(map(len, self.lines[at : self.next])) + self.next - at
