"""Removes secrets from text that comes from elsewhere, and leaves everything else unchanged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cluster.logs.secret_patterns import GONE, NAME, has_token, has_word, without_secrets
from cluster.logs.text import as_utf8

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST = 50_000  # shapes that are kept
# Lines that differ only in digits have the same shape: no pattern depends on a certain digit.
_SHAPE = bytes.maketrans(b"123456789", b"0" * 9)
_BEGIN = re.compile(r"----[- ]?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?[- ]?----")
_END = re.compile(r"----[- ]?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?[- ]?----")
_PUTTY = re.compile(r"^[ \t]{0,40}Private-Lines:[ \t]{0,9}(\d{1,4})[ \t\r]{0,9}$")
# YAML: the value is on the next lines.
_BLOCK = re.compile(r":[ \t]{0,9}[|>][-+0-9]{0,2}[ \t\r]{0,9}$")
_VARIABLE = re.compile(r"\bname[\"']?[ \t]{0,9}:[^:]{0,200}$", re.IGNORECASE)
_ITS_VALUE = re.compile(
    r"(^[ \t]{0,200}[\"']?value[\"']?[ \t]{0,9}:[ \t]{0,9}[\"']?)(?!\[redacted\])[^\s\"']+",
    re.IGNORECASE,
)


def redact(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Remove keys, tokens and passwords from a log.

    Args:
        chunks: its bytes, in portions of any size.

    Yields:
        The same bytes, with each secret replaced by `[redacted]`; the number of lines does not
        change. A log in UTF-16 becomes UTF-8.

    """
    waiting: list[bytes] = []
    redactor = _Redactor()
    for chunk in as_utf8(chunks):
        head, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            waiting.append(chunk)
            continue
        yield redactor.clean(b"".join((*waiting, head))) + b"\n"
        waiting = [rest]
    if any(waiting):
        yield redactor.clean(b"".join(waiting))


def secret_lines(text: bytes) -> tuple[int, ...]:
    """Find the lines that contain a secret; return their numbers, from 1."""
    before = b"".join(as_utf8([text])).split(b"\n")
    after = b"".join(redact([text])).split(b"\n")
    pairs = zip(before, after, strict=True)
    return tuple(number for number, (old, new) in enumerate(pairs, 1) if old != new)


class _Redactor:
    """Cleans line by line, so that the portions in which lines arrive do not matter.

    It remembers what a line says about the lines below it, and the shapes of lines without a
    secret, because a log repeats a few shapes.
    """

    def __init__(self) -> None:
        self._plain: set[bytes] = set()  # shapes of lines without a secret
        self._inside_key = False
        self._lines_of_key = 0  # lines that are left of a PuTTY key, which names their number
        # The indentation of a YAML name whose value is on the next lines.
        self._block: int | None = None
        self._variable = False  # Kubernetes has the value of a variable on the line after its name

    def clean(self, data: bytes) -> bytes:
        """Clean complete lines, the last one without its newline."""
        lines, shapes = data.split(b"\n"), data.translate(_SHAPE).split(b"\n")
        at = 0
        while at < len(lines):
            if not self._is_waiting:
                at = next((n for n in range(at, len(lines)) if shapes[n] not in self._plain), -1)
                if at < 0:
                    break
            lines[at] = self._cleaned(lines[at], shapes[at])
            at += 1
        return b"\n".join(lines)

    @property
    def _is_waiting(self) -> bool:
        """Whether an earlier line shows that more lines of a secret follow."""
        is_inside = self._inside_key or bool(self._lines_of_key)
        return is_inside or self._variable or self._block is not None

    def _cleaned(self, data: bytes, shape: bytes) -> bytes:
        """Clean a line, and remember its shape if there is nothing to clean."""
        was_waiting = self._is_waiting
        line = data.decode("latin-1")  # any bytes, and back
        cleaned = self._clean(line)
        if cleaned == line and not was_waiting and not self._is_waiting:
            if len(self._plain) > MOST:
                self._plain.clear()
            self._plain.add(shape)
        return cleaned.encode("latin-1")

    def _clean(self, line: str) -> str:
        if self._inside_key or self._lines_of_key:
            return self._key_line(line)
        if (self._block is not None or self._variable) and line.strip():
            if self._block is not None and _indentation(line) > self._block:
                return line[: _indentation(line)] + GONE
            if self._variable:
                line = _ITS_VALUE.sub(rf"\1{GONE}", line)
            self._block, self._variable = None, False
        if has_token(line) or has_word(line.lower()):
            return self._suspect(line)
        return line

    def _key_line(self, line: str) -> str:
        if self._lines_of_key:
            self._lines_of_key -= 1
        else:
            self._inside_key = _END.search(line) is None
        return ""

    def _suspect(self, line: str) -> str:
        if _BEGIN.search(line):
            self._inside_key = _END.search(line) is None
            return GONE
        if putty := _PUTTY.match(line):
            self._lines_of_key = int(putty[1])
            return line
        if NAME.search(line):
            self._variable = _VARIABLE.search(line) is not None
            if _BLOCK.search(line):
                self._block = _indentation(line)
                return line
        return without_secrets(line)


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))
