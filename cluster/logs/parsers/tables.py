"""Markdown tables of training throughput, such as those of the DLaaS documents.

Each row is a measurement of all GPUs together, with its other cells as parameters. The efficiency
in a table is kept as printed. Some tables round it and others truncate it, so recompute it.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from cluster.core.model.results.measurements import Definition
from cluster.core.model.value import Scalar
from cluster.logs.parsers import ResultBuilder, RunParser, count, define, number

MOST = 1000  # names of columns that are kept
LONGEST = 60  # characters of a cell that is kept as a parameter
PERCENT = 100.0
THOUSANDS = {"k": 1e3, "K": 1e3, "M": 1e6}
ABOUT = (
    *("description", "cluster", "network", "notes", "gpus", "condition", "model", "batch size"),
    *("nodes", "workers", "precision"),
)
# Other columns that describe what was run.
_SETTING = re.compile(
    r"gpus?\b|nodes|hosts|ranks|processes|workers|devices|batch|precision|d?type$|model|network|config"
    r"|instance|framework|seq|dataset|method|optimi[sz]er|backend|zero|parallel|\b[tpd]p$|version"
    r"|provider|placement|setup|world|platform|accelerator|interconnect"
)

(RATE, SAMPLES, TOKENS, SENTENCES, EACH, EXPECTED, EFFICIENCY, TOP1, TOP5) = DEFINITIONS = define(
    "tables",
    """
    processing_rate (images/s): images of all GPUs per second, as the document states it
    sample_rate (samples/s): samples of all GPUs per second, as the document states it
    token_rate (tokens/s): tokens of all GPUs per second, as the document states it
    sentence_rate (sentences/s): sentences of all GPUs per second, as the document states it
    rate_per_gpu (items/s): images, samples or tokens of one GPU per second, as the document states
        it
    expected_rate (images/s): images per second that the document expected
    printed_efficiency (%): the scaling efficiency as the document prints it, in percent, however it
        was rounded
    top1 (fraction): top-1 accuracy, of 1
    top5 (fraction): top-5 accuracy, of 1
    """,
    clock="not known",
    synchronisation="not known",
    warm_up="not known",
    aggregation="all ranks",
)

_RULE = re.compile(r"\|?[\s:|-]*-[\s:|-]*$")
_COLUMN = re.compile(
    r"processing rate|throughput(?! is)\b|scaling efficiency|expected results"
    r"|(?:total |global )?(?:images?|imgs?|tok(?:en)?s?|samples?|sequences?|sentences?)"
    r" ?(?:/|per) ?s(?:ec(?:ond)?)?\b"
)
_HEAD_WORDS = re.compile(  # each header has one of them
    r"/ ?s|per ?s|processing|throughput|efficiency|expected", re.IGNORECASE
)
_KINDS = (
    (re.compile(r"\b(?:images?|imgs?) ?(?:/|per) ?s"), RATE),
    (re.compile(r"\b(?:samples?|examples?) ?(?:/|per) ?s"), SAMPLES),
    (re.compile(r"\btok(?:en)?s? ?(?:/|per) ?s"), TOKENS),
    (re.compile(r"\b(?:sentences?|sequences?|seqs?) ?(?:/|per) ?s"), SENTENCES),
)
_RESULT = re.compile(r"throughput|rate|efficien|time|memory|util|mfu|flops|top-|accuracy|loss|/ ?s")
_RATIO = re.compile(r"speed-?up|relative|ratio|improve|gain|scaling(?! efficiency)|factor|\bx\b|%")
_PER_GPU = re.compile(r"/ ?(?:s(?:ec)? ?/ ?)?(?:gpu|device|chip)\b|per[ -](?:gpu|device|chip)")
_UNIT = re.compile(r"/ ?s|per sec|[kmgt]i?b(?:ps|its?|ytes?)?\b")  # of another quantity
_EMPHASIS = re.compile(r"</?\w+>|[*`]+")
_FIGURE = re.compile(r":\s*[\d.]+")  # in lines of logs that contain bars, but never in a header
_COMMENT = re.compile(r"\s*<!--\s*(.*?)\s*-->\s*$")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_RATE = re.compile(r"~?\s*(\d[\d.,]*)\s*(?:images?|img)/s(?:ec)?\b", re.IGNORECASE)
_BARE = re.compile(
    r"~?\s*(\d[\d.,]*)(?: ?([kKM])\b)?\s*(?:(?:\+/?-|±)\s*[\d.]+[kKM]?\s*)?(?:\(([^)]*)\))?\s*$"
)
_PERCENT = re.compile(r"~?\s*(\d[\d.]*)\s*%")
_SENTENCE = re.compile(
    r"Throughput is (?:about )?(\d[\d.]*) images/s(?:ec)?, expected (\d[\d.]*)", re.IGNORECASE
)
_HEADING = re.compile(r"\s*#{1,6}\s+(.*\S)")
_GPUS = re.compile(r"^(\d{1,6})\s+[A-Z]\d|(\d{1,6})\s*GPUs?\b")

_Params = tuple[tuple[str, "Scalar"], ...]


class Tables(RunParser):
    """Markdown tables with a throughput column."""

    marks = (
        *("rocessing rate", "hroughput", "mages/s", "mage/s", "mg/s", "mgs/s", "mages per s"),
        *("ok/s", "oks/s", "okens/s", "amples/s", "entences/s", "equences/s", "okens per s"),
    )
    definitions = DEFINITIONS
    title = "table"

    def __init__(self) -> None:
        super().__init__()
        self._heading = ""
        self._columns: tuple[str, ...] = ()
        self._is_new = False  # the header was the last line
        self._rows: dict[_Params, int] = {}  # settings, and how often they came
        self._is_closed = False  # its rows end with a bar

    def take(self, line: str, lineno: int) -> bool:
        if "#" in line and (heading := _HEADING.match(line)):
            self._heading = heading[1].rstrip(":")
            return False  # any document may have headings
        comment = _COMMENT.match(line) if "<!--" in line else None
        cells = _cells(comment[1] if comment else line)
        if len(cells) < 2:  # noqa: PLR2004 - a table has columns
            if not comment and line.strip():
                self._columns = ()
            return False
        has_word = _HEAD_WORDS.search(line) is not None
        names = [_name(cell) for cell in cells if not cell[:1].isdigit()] if has_word else []
        if any(map(_COLUMN.match, names)) and not _FIGURE.search(line):
            self._columns, self._is_new = tuple(map(_name, cells)), True
            self._is_closed = line.rstrip().endswith("|")
            self._begin(lineno, self._heading)
            self._rows = {}
            return True
        if _RULE.match(line.strip()):
            if not self._is_new:  # the line before was the header of another table
                self._columns = ()
            return self._is_new
        self._is_new = False
        if self._is_closed and not (comment or line.rstrip().endswith("|")):
            return False  # its last cell may be cut
        is_row = len(cells) <= len(self._columns)  # else it is one of another table
        return is_row and self._row(cells, is_comment=comment is not None)

    def _finish(self, run: ResultBuilder) -> None:
        """A table without figures is none of ours."""

    def _row(self, cells: list[str], *, is_comment: bool) -> bool:
        """Read a row; if it has fewer cells than the header, the last ones are missing."""
        builder = self._run
        if builder is None:
            return False
        row = dict(zip(self._columns, cells, strict=False))
        settings = _settings(self._columns)
        params = {name: _value(cell) for name in settings if (cell := row.get(name))}
        if gpus := _GPUS.search(row.get("description", "")):
            params["gpus"] = int(gpus[1] or gpus[2])
        if is_comment:
            builder.note("html_comments")
            params["commented"] = 1
        else:  # number a row that differs from an earlier one only in its figures
            key = tuple(params.items())
            self._rows[key] = self._rows.get(key, 0) + 1
            if self._rows[key] > 1:
                params["row"] = self._rows[key]
        has_unit = "/s" in "".join(cells).lower()
        names = row if has_unit else _with_figures(tuple(row))
        rates = [name for name, cell in row.items() if _RATE.match(cell)]
        ambiguous = _with_common_metric(self._columns)
        several = sum(not name.startswith("expected") for name in rates) > 1
        is_any = False
        for name in names:
            is_one = not (several or name in ambiguous) or name.startswith("expected")
            point = params if is_one else {**params, "heading": name}  # of several rates in a row
            for definition, text, scale, more in _figures(name, row[name]):
                if (value := number(text)) is not None:
                    builder.add(definition, value * scale, {**point, **more})
                    is_any = True
        return is_any


def _figures(name: str, cell: str) -> Iterator[tuple[Definition, str, float, dict[str, Scalar]]]:
    """Find the figures of a cell: metric, text, what it is multiplied by, more parameters."""
    sentence = _SENTENCE.search(cell) if "expected" in cell.lower() else None
    percent = _PERCENT.match(cell) if "%" in cell else None
    rate = _RATE.match(cell) if "/s" in cell or "/S" in cell else None
    bare, definition = _BARE.match(cell), _kind(name)
    if sentence:
        yield from ((RATE, sentence[1], 1.0, {}), (EXPECTED, sentence[2], 1.0, {}))
    elif "efficiency" in name:
        yield from ((EFFICIENCY, percent[1], 1.0, {}),) if percent else ()
    elif name.startswith("top-") and bare and not bare[2]:
        yield TOP1 if name == "top-1" else TOP5, bare[1], 1.0, {}
    elif rate:
        yield EXPECTED if name.startswith("expected") else RATE, rate[1], 1.0, {}
    elif bare and definition:
        more: dict[str, Scalar] = {"remark": bare[3]} if bare[3] else {}
        if name.startswith("throughput") or definition is EACH:  # it does not say what was counted
            more = {"column": name, **more}
        yield definition, bare[1], THOUSANDS.get(bare[2], 1.0), more


@lru_cache(MOST)
def _kind(column: str) -> Definition | None:
    """Find the metric of bare numbers in a column; none if they are not rates, or of bytes."""
    if _RATIO.search(column) or column[:1].isdigit():  # it is a figure, and no name
        return None
    kinds = [definition for pattern, definition in _KINDS if pattern.search(column)]
    is_throughput = column.startswith("throughput") and (kinds or _UNIT.search(column) is None)
    if not kinds and not is_throughput:
        return None
    if _PER_GPU.search(column):
        return EACH
    return kinds[0] if kinds else RATE


def _cells(line: str) -> list[str]:
    cells = list(map(_plain, line.strip().strip("|").split("|"))) if "|" in line else []
    return cells if len(cells) > 1 else []


def _plain(text: str) -> str:
    """Return a cell without links and emphasis."""
    if "](" in text:
        text = _LINK.sub(r"\1", text)
    if "*" in text or "`" in text or "<" in text:
        text = _EMPHASIS.sub("", text)
    return text.strip()


@lru_cache(MOST)
def _settings(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns that describe what was run."""
    other_columns = (name for name in columns if name not in ABOUT and _SETTING.search(name))
    names = (name for name in other_columns if not _RESULT.search(name) and _kind(name) is None)
    return *(name for name in ABOUT if name in columns), *dict.fromkeys(names)


@lru_cache(MOST)
def _with_common_metric(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of bare numbers that have their metric in common with another."""
    kinds = {name: kind for name in columns if (kind := _kind(name))}
    return tuple(name for name, kind in kinds.items() if [*kinds.values()].count(kind) > 1)


@lru_cache(MOST)
def _with_figures(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns that may have figures without their unit."""
    percentages = {c for c in columns if "efficiency" in c or c.startswith("top-")}
    return tuple(c for c in columns if c in percentages or _kind(c) is not None)


def _name(cell: str) -> str:
    return cell.lower().removeprefix("#").strip()


@lru_cache(MOST)
def _value(cell: str) -> Scalar:
    return int(cell) if count(cell) is not None else cell[:LONGEST]
