"""Values of pairs of hosts in one file: rows of two hosts and a value, or a matrix of hosts.

The unit is in the header: `host_a,host_b,GB/s`, or in the first cell of a matrix. mpiGraph's table
is read as it prints it; its MB is 2**20 bytes.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from cluster.core.errors import ParseError

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30}
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "usec": 1e-6, "ns": 1e-9}
MPIGRAPH = "Send\t"  # how its table of senders begins
EMPTY = ("", "-", "--", "x", "na", "n/a", "nan", "none", "null", "inf", "fail", "failed")
LEAST = 2  # hosts of a matrix
ROW = 3  # cells: two hosts and a value
_RATE = re.compile(r"\b([KMGkmg]?i?)(B|b|[Bb]its?|[Bb]ytes?)(?:/s(?:ec)?|ps|s)\b")
_TIME = re.compile(rf"\b({'|'.join(SECONDS)})\b")
_MPIGRAPH_HOST = re.compile(r"(.+?):\d+(?: to)?$")


class HostValue(NamedTuple):
    """A cell: the bytes per second or seconds that one host reached with another; none if empty."""

    source: str
    target: str
    value: float | None
    line: int


class HostValues(NamedTuple):
    """A file with values of pairs of hosts, of the metric `bandwidth` or `latency`."""

    title: str
    metric: str
    cells: tuple[HostValue, ...]


def read_host_values(text: str) -> HostValues | None:
    """Read a table of pairs of hosts, or a matrix of hosts; none if the text is neither.

    Raises:
        ParseError: it names no unit, or one that is not known; a host occurs twice in a matrix; a
            value is negative or no number.
    """
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    at = next((at for at, (_, line) in enumerate(lines) if line.startswith(MPIGRAPH)), None)
    if at is not None and ":0" in lines[at][1]:
        return _mpigraph(lines[at:])
    rows = [(number, _cells(line)) for number, line in lines]
    if len(rows) <= 1:
        return None
    header = rows[0][1]
    _refuse_other_matrix(rows)
    if len(header) == len(rows) - 1 and header == [row[0] for _, row in rows[1:]]:
        header.insert(0, "")  # a matrix without its first cell
    if len(header) >= ROW and len(header) == len(rows) and _is_matrix(rows):
        return _matrix("matrix of hosts", header[0], rows)
    named = [cell.lower() for cell in header]
    if len(header) == ROW and named[0].startswith(("host", "node", "source", "src")):
        return _table(header[2], rows[1:])
    return None


def _cells(line: str) -> list[str]:
    """Split a line at commas, tabs or, if it has none, at spaces."""
    separator = next((mark for mark in (",", "\t", ";") if mark in line), None)
    if separator is None:
        return line.split()
    return [cell.strip() for cell in next(csv.reader([line], delimiter=separator))]


def _is_matrix(rows: Sequence[tuple[int, list[str]]]) -> bool:
    """Tell whether the first cells of the rows are those of the header."""
    return sorted(row[0] for _, row in rows[1:]) == sorted(rows[0][1][1:])


def _refuse_other_matrix(rows: Sequence[tuple[int, list[str]]]) -> None:
    """Refuse what begins as a matrix does, with one host or with others in its rows."""
    unit, *names = rows[0][1]
    if not (names and (_RATE.fullmatch(unit) or _TIME.fullmatch(unit))):
        return
    if len(names) < LEAST:
        raise ParseError(
            f"The matrix has one host, {names[0]}: nothing between two hosts.",
            remedy="Name all hosts in the first row and in the first column.",
        )
    firsts = [row[0] for _, row in rows[1:]]
    _refuse_twice(firsts)
    in_one = set(firsts) ^ set(names)
    if odd := next((name for name in (*firsts, *names) if name in in_one), ""):
        raise ParseError(
            f"The host {odd!r} has {'a row' if odd in firsts else 'a column'} in the matrix, and "
            f"no {'column' if odd in firsts else 'row'}.",
            remedy="Name the same hosts in the first row and in the first column.",
        )


def _refuse_twice(names: Sequence[str]) -> None:
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise ParseError(
            f"The matrix names the host {twice[0]!r} twice.",
            remedy="Give each host a name of its own in the first row and the first column.",
        )


def _mpigraph(lines: Sequence[tuple[int, str]]) -> HostValues:
    """Read the table of senders: a row for each, a column for each receiver."""
    header = ["MiB/s", *lines[0][1].split("\t")[1:]]
    rows = [(lines[0][0], [cell for cell in header if cell])]
    for number, line in lines[1:]:
        if " to\t" not in line:
            break
        rows.append((number, [cell.strip() for cell in line.split("\t") if cell.strip()]))
    plain = [(number, [_plain(cell) for cell in row]) for number, row in rows]
    return _matrix("mpiGraph", "MiB/s", plain)


def _plain(cell: str) -> str:
    match = _MPIGRAPH_HOST.match(cell)
    return match[1] if match else cell


def _matrix(title: str, unit: str, rows: Sequence[tuple[int, list[str]]]) -> HostValues:
    names = rows[0][1][1:]
    metric, scale = _unit(
        unit, "the first word of the matrix", f"GB/s,{','.join(names[:LEAST])},..."
    )
    _refuse_twice(names)
    cells = [
        HostValue(row[0], name, _value(cell, scale, number), number)
        for number, row in rows[1:]
        for name, cell in zip(names, row[1:], strict=False)
        if row[0] != name
    ]
    return HostValues(title, metric, tuple(cells))


def _table(unit: str, rows: Sequence[tuple[int, list[str]]]) -> HostValues:
    metric, scale = _unit(unit, "the header of the third column", "host_a,host_b,GB/s")
    cells = []
    for number, row in rows:
        if len(row) != ROW or not (row[0] and row[1]) or row[0] == row[1]:
            raise ParseError(
                f"Line {number} does not name two hosts and a value: {','.join(row)[:60]!r}",
                remedy="Such as: host_a,host_b,GB/s in the first line, and n1,n2,23.5 in others.",
            )
        cells.append(HostValue(row[0], row[1], _value(row[2], scale, number), number))
    return HostValues("table of pairs", metric, tuple(cells))


def _unit(text: str, where: str, example: str) -> tuple[str, float]:
    rate, time = _RATE.search(text.replace("_", " ")), _TIME.search(text.replace("_", " "))
    if rate is not None:
        bits = rate[2][0] == "b" and not rate[2].startswith("byte")
        return "bandwidth", PREFIXES[rate[1].lower()] / (8 if bits else 1)
    if time is not None:
        return "latency", SECONDS[time[1]]
    raise ParseError(
        f"The unit of the values is not known: {where} is {text!r}.",
        remedy=f"Write it there, such as {example}; also MB/s, Gbit/s, GiB/s or us.",
    )


def _value(cell: str, scale: float, number: int) -> float | None:
    """Read a cell; zero and words for nothing are no values."""
    if cell.lower() in EMPTY:
        return None
    try:
        value = float(cell)
    except ValueError:
        value = -1.0
    if value < 0 or not math.isfinite(value):
        raise ParseError(
            f"Line {number} has {cell!r}, which cannot be a rate or a time.",
            remedy="Correct it, or leave its place empty if that pair was not tested.",
        )
    return value * scale or None
