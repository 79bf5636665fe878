"""Published tables of throughput, in GitHub's Markdown, as series that can be checked.

A table is used if a column is a rate. The number of ranks is that in `4 GPUs`, or the first number
of a row; rows with the same work on the same network are one series.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from cluster.analysis.models.efficiency import Series, Throughput

_THINGS = r"images?|imgs?|samples?|tok(?:en)?s?|sequences?|seqs?|sentences?|examples?|items?"
# The rate of all ranks together: no ratio, and no rate per rank.
RATE_COLUMN = re.compile(
    r"^(?!.*(?:speed-?up|efficien|scaling|relative|ratio|improve|gain|learning"
    r"|(?:/ ?|per[ -])(?:gpu|device|rank)))"
    rf".*(?:\brate\b|throughput|\b(?:{_THINGS}) ?(?:/|per) ?s)",
    re.IGNORECASE,
)
RANKS_COLUMN = re.compile(
    r"^\W*(?:(?:num(?:ber)?(?: of)?|total)[ _])?(?:ranks|gpus|processes|workers|world size|devices)"
    r"(?![ _-]?/|[ _-]per)\b",
    re.IGNORECASE,
)
NODES_COLUMN = re.compile(r"^\W*(?:num(?:ber)?(?: of)? )?(?:nodes|hosts)\b", re.IGNORECASE)
EACH_COLUMN = re.compile(
    r"(?:gpus|ranks|processes)[ _-]?(?:/|per)[ _-]?(?:node|host)", re.IGNORECASE
)
PRINTED_COLUMN = re.compile(r"efficiency", re.IGNORECASE)
GROUP_COLUMN = re.compile(
    r"network|cluster|model|batch|precision|d?type\b|^gpu$|instance|framework|seq|dataset|config"
    r"|condition|method|optimi[sz]er|backend",
    re.IGNORECASE,
)
WORK_COLUMN = re.compile(r"batch|model|precision|seq", re.IGNORECASE)  # no number of ranks
RATE = re.compile(r"(\d[\d,]*(?:\.\d+)?)\s*(\S+)/s(?:ec)?\b")
BARE = re.compile(r"^[~\s*]*(\d[\d,]*(?:\.\d+)?) ?([kKM]?)[\s*]*$")
THOUSANDS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6}
UNIT = re.compile(rf"\b({_THINGS}) ?(?:/|per) ?s", re.IGNORECASE)
GPUS = re.compile(r"(\d+)\s*GPUs?\b", re.IGNORECASE)
FIRST = re.compile(r"^\W*(\d+)\b")
BATCH = re.compile(r"\bbatch\s*\d+\b", re.IGNORECASE)
PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")
RULE = re.compile(r"^[\s|:-]+$")
COMMENT = re.compile(r"^<!--.*?-->\n|<!--.*?-->", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+\s*(.*?):?\s*$")


def series(text: str) -> tuple[Series, ...]:
    """Read every table of throughputs."""
    return tuple(
        Series(name=name, unit=unit, throughputs=tuple(group))
        for title, rows in _tables(COMMENT.sub("", text))
        for (name, unit), group in _by_series(title, rows).items()
    )


def _tables(text: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Return the heading above each table, and its rows by column."""
    title, block = "", list[list[str]]()
    for line in [*text.splitlines(), ""]:
        if line.lstrip().startswith("|"):
            if not RULE.match(line):
                block.append([cell.strip() for cell in line.strip().strip("|").split("|")])
            continue
        if len(block) > 1:
            yield title, [dict(zip(block[0], row, strict=False)) for row in block[1:]]
        block = []
        if heading := HEADING.match(line):
            title = heading[1]


def _by_series(title: str, rows: list[dict[str, str]]) -> dict[tuple[str, str], list[Throughput]]:
    groups: dict[tuple[str, str], list[Throughput]] = {}
    growing = _growing(rows)
    for row in rows:
        ranks = _ranks(row)
        cells = [(column, cell) for column, cell in row.items() if RATE_COLUMN.search(column)]
        rates = {column: pair for column, cell in cells if (pair := _rate(column, cell))}
        percent = PERCENT.search(_cell(row, PRINTED_COLUMN)) if len(rates) == 1 else None
        for column, (rate, unit) in rates.items() if ranks else ():
            label = column if len(rates) > 1 else ""
            name = ", ".join(filter(None, [title, _work(row, growing), label]))
            throughput = Throughput(
                ranks=ranks or 0, rate=rate, printed=float(percent[1]) / 100 if percent else None
            )
            groups.setdefault((name, unit), []).append(throughput)
    return groups


def _rate(name: str, cell: str) -> tuple[float, str] | None:
    """Return the rate of a cell, and its unit from the cell or the column."""
    rate, bare, unit = RATE.search(cell), BARE.match(cell), UNIT.search(name)
    if rate:
        return float(rate[1].replace(",", "")), f"{rate[2]}/s"
    if bare is None:
        return None
    value = float(bare[1].replace(",", "")) * THOUSANDS[bare[2]]
    return value, f"{unit[1].lower() if unit else 'items'}/s"


def _cell(row: dict[str, str], column: re.Pattern[str]) -> str:
    return next((cell for name, cell in row.items() if column.search(name)), "")


def _ranks(row: dict[str, str]) -> int | None:
    name, first = next(iter(row.items()), ("", ""))
    nodes, per_node = (FIRST.search(_cell(row, column)) for column in (NODES_COLUMN, EACH_COLUMN))
    if nodes and not FIRST.search(_cell(row, RANKS_COLUMN)):
        return int(nodes[1]) * (int(per_node[1]) if per_node else 1)
    number = FIRST.search(_cell(row, RANKS_COLUMN)) or GPUS.search(first)
    if number is None and not WORK_COLUMN.search(name):
        number = FIRST.search(first)
    return int(number[1]) if number else None


def _growing(rows: Sequence[dict[str, str]]) -> dict[str, str]:
    """Find columns of batches that grow as the ranks do, and what each rank has of them."""
    words = {}
    for name in rows[0] if rows else ():
        counts = [count_ for row in rows if (count_ := FIRST.search(row.get(name, "")))]
        ranks = [ranks_ for row in rows if (ranks_ := _ranks(row))]
        is_batch = "batch" in name.lower() and len(counts) == len(ranks) == len(rows)
        shares = {int(all_[1]) / n for all_, n in zip(counts, ranks, strict=False)}
        if is_batch and len(set(ranks)) > 1 and len(shares) == 1:
            words[name] = f"{name.lower()} {shares.pop():g} per rank"
    return words


def _work(row: dict[str, str], growing: Mapping[str, str]) -> str:
    """Name what all rows of a series have in common: the work and the network."""
    if _cell(row, RANKS_COLUMN) or _cell(row, NODES_COLUMN):
        description = ""
    else:
        first = next(iter(row.values()), "")
        description = GPUS.sub("", first) if GPUS.search(first) else FIRST.sub("", first)
    words = [part.strip() for part in BATCH.sub("", description).split(",")]
    groups = [
        growing.get(name, cell)
        for name, cell in row.items()
        if GROUP_COLUMN.search(name) and not RATE_COLUMN.search(name)
    ]
    unique = dict.fromkeys(filter(None, [*words, *groups]))
    return ", ".join(unique)
