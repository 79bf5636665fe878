"""A table for a terminal."""

import io
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table as Grid

from cluster.core.model.results.measurements import Summary
from cluster.core.model.value import Scalar
from cluster.core.text.units import format_point
from cluster.reports.formats import Report
from cluster.reports.table import Table, summaries_table

BARS = "▁▂▃▄▅▆▇█"
ENOUGH_TO_SKETCH = 4  # sizes
WIDE = 100_000  # characters: nothing is squeezed
WIDE_SCREEN = 140  # from this number of characters, a table of summaries has all its columns
LEAST_REMARKS = 24  # characters of the column of remarks, whose words wrap
JOINT = "\ue000"  # for private use: no text has it
UNITS = r"(?:[kMGT]i?)?(?:B|bit)(?:/s)?|[nµum]?s|h|min|%|launches|hosts|ranks|values|x"
VALUE = re.compile(rf"(?<=\d) (?=(?:{UNITS})(?![\w/]))")
NAME_ENDS = re.compile(r"(?<=[._/])(?=[^\s._/])")
GAP, EDGES = 3, 2  # characters between two columns, and at both ends of a row


class Terminal(Report):
    """Aligned columns with notes below; nothing is wrapped or left out."""

    def render(self, summaries: Sequence[Summary], *, notes: Sequence[str] = ()) -> str:
        return summaries_text(summaries, notes)


def summaries_text(
    summaries: Sequence[Summary], notes: Sequence[str] = (), width: int | None = None
) -> str:
    """Show summaries: a row each, sparklines, and notes.

    `width` is that of the screen, in characters; below 140 the table has fewer columns. None is no
    screen, such as a pipe.
    """
    if not summaries:
        text = "No values were measured.\n"
    elif width is None or width >= WIDE_SCREEN:
        text = _grid_of(summaries_table(summaries), width)
    else:
        full = summaries_table(summaries, wide=False)
        table = _without_spare(full, width, _squeezed_width)
        text = _grid_of(table, width)
        unsure = sum(summary.n > 1 and not summary.converged for summary in summaries)
        if unsure:
            text += f"{unsure} of {len(summaries)} series are not converged.\n"
        if table is not full:
            hint = "The other columns: cluster show RUN --wide, or a wider window."
            text += "".join(f"{part}\n" for part in wrap_line(hint, width))
    lines = [*sparklines(summaries), *(f"Note: {note}" for note in notes)]
    return text + "".join(f"{part}\n" for line in lines for part in wrap_line(line, width))


def table_text(table: Table, width: int | None = None) -> str:
    """Show any table, with its title above and its notes below."""
    fitting = table
    if width is not None:
        fitting = _without_spare(table, width, lambda table: _total(_least_widths(table)))
    hidden = [name for name in table.columns if name not in fitting.columns]
    notes = [*table.notes, *([f"Not shown at this width: {', '.join(hidden)}."] if hidden else [])]
    title = wrap_line(table.title, width) if table.title else []
    grid = _grid_of(fitting, width).splitlines() if table.rows else []
    footer = [part for note in notes for part in wrap_line(f"Note: {note}", width)]
    return "".join(f"{line}\n" for line in (*title, *grid, *footer))


def _without_spare(table: Table, width: int, needs: Callable[[Table], int]) -> Table:
    """Leave out spare columns until the rest fits."""
    for group in table.spare:
        if needs(table) <= width:
            break
        places = [i for i, name in enumerate(table.columns) if name not in group]
        table = msgspec.structs.replace(
            table,
            columns=tuple(table.columns[i] for i in places),
            rows=tuple(tuple(row[i] for i in places) for row in table.rows),
        )
    return table


def _squeezed_width(table: Table) -> int:
    """Return the width of a table in which only a last column of remarks wraps."""
    last = max(len(texts[-1]) for texts in (table.columns, *table.rows))
    savings = max(0, last - LEAST_REMARKS) if table.columns[-1] == "remarks" else 0
    return natural_width(table) - savings


def _grid_of(table: Table, width: int | None) -> str:
    """Lay rows out in a width: in full, with wrapped words, or as records below another."""
    if width is None or natural_width(table) <= width:
        return _grid(table, WIDE)
    if _total(_least_widths(table)) <= width:
        return _grid(table, width)
    return "".join(f"{line}\n" for line in _records(table, width))


def _texts_by_column(table: Table) -> Iterator[tuple[str, ...]]:
    return zip(table.columns, *table.rows, strict=True)


def natural_width(table: Table) -> int:
    """Return the width of a table in which nothing wraps."""
    return _total([max(map(len, texts)) for texts in _texts_by_column(table)])


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1) + EDGES


def _least_widths(table: Table) -> list[int]:
    """Return the least width of each column: words wrap, numbers do not."""
    return [
        max(
            _longest_word(NAME_ENDS.sub(" ", text) if texts[0] in table.foldable else text)
            if texts[0] in table.left_aligned
            else len(text)
            for text in texts
        )
        for texts in _texts_by_column(table)
    ]


def _longest_word(text: str) -> int:
    return max(map(len, _whole_values(text).split()), default=0)


def _whole_values(text: str) -> str:
    """Join each number with its unit, so that no line ends between them."""
    return VALUE.sub(JOINT, text)


def _grid(table: Table, width: int) -> str:
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    widths = _least_widths(table)
    free = max(0, width - _total(widths))
    columns = sorted(
        enumerate(_texts_by_column(table)), key=lambda column: column[1][0] not in table.foldable
    )
    for index, texts in columns:  # what is free goes to names, then to the first columns
        more = min(free, max(map(len, texts)) - widths[index])
        widths[index] += more
        free -= more
    for name, size in zip(table.columns, widths, strict=True):
        justify: Literal["left", "right"] = "left" if name in table.left_aligned else "right"
        wraps = name in table.left_aligned and width < WIDE
        grid.add_column(name, justify=justify, no_wrap=not wraps, width=size)
    for texts in table.rows:
        cells = zip(table.columns, map(_whole_values, texts), widths, strict=True)
        grid.add_row(*(_fold(t, size) if name in table.foldable else t for name, t, size in cells))
    return plain_text(grid, width).replace(JOINT, " ")


def _fold(text: str, width: int) -> str:
    """Break words longer than a line behind `.`, `_` or `/`."""
    parts = (
        textwrap.wrap(NAME_ENDS.sub(" ", word), width) if len(word) > width else [word]
        for word in text.split()
    )
    return " ".join("\n".join(line.replace(" ", "") for line in lines) for lines in parts)


def _records(table: Table, width: int) -> Iterator[str]:
    """Return each row as lines of `column: cell`, with an empty line between two rows."""
    for number, texts in enumerate(table.rows):
        if number:
            yield ""
        for name, text in zip(table.columns, texts, strict=True):
            if text:
                yield from wrap_line(f"{name}: {text}", width)


def wrap_line(line: str, width: int | None) -> list[str]:
    """Wrap a line of prose between words."""
    if width is None or len(line) <= width:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()))
    lines = textwrap.wrap(
        _whole_values(line),
        width,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace(JOINT, " ") for part in lines]


def sparklines(summaries: Sequence[Summary]) -> Iterator[str]:
    """Draw each metric of four message sizes or more as a line of bars, on a log scale."""
    for metric in dict.fromkeys(summary.metric for summary in summaries):
        points = [s for s in summaries if s.metric == metric and 0 < s.median < math.inf]
        sweeps: dict[tuple[tuple[str, Scalar], ...], list[Summary]] = {}
        for summary in points:
            rest = tuple((k, v) for k, v in summary.params.items() if k != "size")
            sweeps.setdefault(rest, []).append(summary)
        for rest, sweep in sweeps.items():
            if len(sweep) >= ENOUGH_TO_SKETCH and all("size" in s.params for s in sweep):
                label = ", ".join([metric, *(f"{key} {value}" for key, value in rest)])
                yield f"{label}, {_ends(sweep)} (log): {sparkline([s.median for s in sweep])}"


def _ends(sweep: Sequence[Summary]) -> str:
    first, last = (format_point({"size": s.params["size"]}) for s in (sweep[0], sweep[-1]))
    return f"{first} .. {last}"


def sparkline(values: Sequence[float]) -> str:
    logs = [math.log(value) for value in values]
    low, span = min(logs), max(logs) - min(logs)
    return "".join(BARS[round((v - low) / span * (len(BARS) - 1)) if span else 0] for v in logs)


def plain_text(grid: Grid, width: int = WIDE, *, is_coloured: bool = False) -> str:
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=is_coloured,
        color_system="standard" if is_coloured else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(grid)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().strip("\n").splitlines())
