"""The hosts, NICs and NUMA nodes that a log is about: from its lines, or the name of its file.

Also on how many hosts its ranks ran, by what launchers and batch systems print.
"""

import csv
import math
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Literal, NamedTuple

from cluster.core.errors import ParseError, SpecError
from cluster.logs.text import LONGEST

Pair = tuple[str, str]
NEAR = 2  # lines between the lines of two ranks that belong to one list
IP = 4  # parts of an IPv4 address
MOST = 10_000  # hosts of a range such as `node[1-2]`

# Of a line, which is at most `LONGEST` long: each pattern takes time in proportion to its length.
_RANK = re.compile(
    r"\s*+#?\s*+(?:\[\d+\]\s*+)?Rank:?\s+\d++\b.*?\bon\s++(?:host\s+|node\s+)?([\w.-]+)"
)
_STARTED = re.compile(r"\s*(?:\[\d+\] )?MPI startup\(\):\s+\d+\s+\d+\s+([\w.-]+)\s+[{\d]")
_NAMED = re.compile(
    r"\b(?:nodes?|hosts?|pair)\b[:= ]++([\w.-]++)(?:\s*+[,;]\s*+|\s++(?:(?:and|to|vs\.?|->)\s++)?)"
    r"([\w.-]++)\s*+$",
    re.IGNORECASE,
)
_STARTER = re.compile(r"\b(?:srun|mpirun|mpiexec|prun|flux run)\b")
_HOST_FLAG = re.compile(r"(?:^|\s)(?:-w|--nodelist|-H|-host|--hosts?)[= ]\s*['\"]?([\w.:,\[\]-]+)")
_JSON_HOSTS = re.compile(r'"(?:hostlist|nodelist)":\s*+\[?\s*+"([^"]+)"(?:\s*+,\s*+"([^"]+)")?')
_CONNECTED = re.compile(r"\blocal ([\w.:-]+) port \d+ connected (?:to|with) ([\w.:-]+) port \d+")
_JSON_END = re.compile(r'"(local|remote)_host":\s*+"([^"]+)"')  # of a connection of iperf3
_BRACKETS = re.compile(r"([\w.-]*)\[([\d,-]+)\]([\w.-]*)")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_SEPARATED = re.compile(r"[^\W_]+|[\W_]")
_SUFFIXES = re.compile(r"(?:\.(?:log|out|txt|err|json|csv|gz|result))+$", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")
_BETWEEN = re.compile(r"([_.-])(?:to|vs|and)\1|__+|--+")
NO_PROCESS = "Num procs: 0"
_MARKS = ("NODELIST", "odelist", "Data for node", "ank ", "NODEFILE")
# Each line of a list of ranks names one host; the list of a batch system names all at once.
_LIST = re.compile(
    r"\b(?:SLURM_(?:JOB_|STEP_)?NODELIST|SLURM_NODELIST|[Nn]ode ?[Ll]ist)\b['\"]?\s?[=:]\s{0,4}"
    r"['\"]?([\w.,\[\]-]{1,1000})"
)
_RANK_LINE = re.compile(
    r"^(?:[ \t]*+Data for node: (\S{1,100})\s.{0,80}Num procs: \d"
    r"|\[([\w.-]{1,100}):\d+\] (?:MCW )?[Rr]ank \d+ (?:is )?(?:not )?bound\b"
    r"|[ \t]*+#?[ \t]*+(?:MPI )?[Rr]ank:? ++\d++(?: (?:of|/) *+\d++)?,? *+(?:is |running )?on "
    r"(?:host |node )?([\w.-]{1,100})[ \t]*$)",
    re.MULTILINE,
)


class HostLine(NamedTuple):
    """The hosts that a line, or a list of ranks, names."""

    line: int  # its number, from 1
    hosts: tuple[str, ...]
    # whether the results that follow were measured between them (`ahead`), the result in which the
    # line is (`inside`), or all results of the log (`anywhere`)
    place: Literal["ahead", "inside", "anywhere"]


def host_lines(text: str) -> list[HostLine]:
    """Find the lines that say on which hosts a log was measured; a list of ranks is one line."""
    by_line = [
        *_rank_lists(text),
        *(
            HostLine(number, hosts, place)
            for number, line in enumerate(text.splitlines(), 1)
            for hosts, place in (_of_line(line) if len(line) <= LONGEST else ())
        ),
        *_json_ends(text),
    ]
    return sorted(by_line)


def _json_ends(text: str) -> Iterator[HostLine]:
    """Return both ends of each connection in a document of iperf3."""
    local = ""
    for number, line in enumerate(text.splitlines(), 1):
        for end, host in _JSON_END.findall(line):
            if end == "local":
                local = host
            elif local:
                yield HostLine(number, (local, host), "inside")
                local = ""


def _rank_lists(text: str) -> Iterator[HostLine]:
    hosts: dict[str, None] = {}
    first = last = 0
    for number, line in enumerate(text.splitlines(), 1):
        match = len(line) <= LONGEST and (_RANK.match(line) or _STARTED.match(line))
        if not match:
            continue
        if hosts and number > last + NEAR:
            yield HostLine(first, tuple(hosts), "inside")
            hosts = {}
        first = first if hosts else number
        hosts[match[1]] = None
        last = number
    if hosts:
        yield HostLine(first, tuple(hosts), "inside")


def _of_line(line: str) -> Iterator[tuple[tuple[str, ...], Literal["ahead", "inside", "anywhere"]]]:
    if (match := _CONNECTED.search(line)) is not None:
        yield (match[1], match[2]), "inside"
    elif (match := _JSON_HOSTS.search(line)) is not None:
        yield tuple(expand(",".join(filter(None, match.groups())))), "anywhere"
    elif _STARTER.search(line) and (match := _HOST_FLAG.search(line)) is not None:
        yield tuple(expand(match[1])), "ahead"
    elif (match := _NAMED.search(line)) is not None and _differ_in_numbers(match[1], match[2]):
        yield (match[1], match[2]), "ahead"


def expand(text: str) -> Iterator[str]:
    """Return the hosts of a list such as `a:1,b:1` or `node[1-2]`, each once."""
    words = re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text)
    yield from dict.fromkeys(name.partition(":")[0] for word in words for name in _names(word))


def _names(word: str) -> Iterator[str]:
    match = _BRACKETS.fullmatch(word)
    if not match:
        yield word
        return
    for low, high in _RANGE.findall(match[2]):
        for number in range(int(low), min(int(high or low), int(low) + MOST) + 1):
            yield f"{match[1]}{number:0{len(low)}}{match[3]}"


def _differ_in_numbers(first: str, other: str) -> bool:
    """Tell whether two words differ in their numbers only, as names of hosts do."""
    return first != other and _DIGITS.sub("0", first) == _DIGITS.sub("0", other)


def hosts_of_results(lines: Sequence[HostLine], firsts: Sequence[int]) -> list[tuple[str, ...]]:
    """Return the hosts that each result of a log was measured on; none if no line says it."""
    ends = [*firsts[1:], float("inf")]
    only = {frozenset(line.hosts) for line in lines}
    hosts_by_result = []
    for first, end in zip(firsts, ends, strict=True):
        own_lines = [line for line in lines if first <= line.line < end]
        inside = [line.hosts for line in own_lines if line.place == "inside"]
        ahead = [line.hosts for line in lines if line.place == "ahead" and line.line <= first]
        candidates = (
            inside[:1] or ahead[-1:] or [line.hosts for line in lines[:1] if len(only) == 1]
        )
        hosts_by_result.append(candidates[0] if candidates else ())
    return hosts_by_result


def hosts_in_name(name: str) -> Pair | None:
    """Find the hosts in the name of a file, such as `nccl_N2_gpu-001_gpu-002.log`.

    They are side by side, and differ in their numbers only; none if there are several such pairs.
    """
    stem = _BETWEEN.sub("_", _SUFFIXES.sub("", name))
    parts = _SEPARATED.findall(stem)
    by_form: defaultdict[tuple[bool, int], set[Pair]] = defaultdict(set)
    for start, size in product(range(len(parts)), range(1, len(parts) // 2 + 1, 2)):
        near, other = parts[start : start + size], parts[start + size + 1 : start + 2 * size + 1]
        if len(other) < size or parts[start + size].isalnum():
            continue
        pair = "".join(near), "".join(other)
        if not _differ_in_numbers(*pair) or not (near[0].isalnum() and near[-1].isalnum()):
            continue
        alpha = _has_letters(pair[0])
        if alpha or size == 2 * IP - 1 or "".join(pair) == stem.replace(parts[start + size], "", 1):
            by_form[alpha, size].add(pair)
    best = by_form[max(by_form)] if by_form else set()
    if len(best) != 1 or any(_has_letters(half) and hosts_in_name(half) for half in min(best)):
        return None
    return best.pop()


def _has_letters(text: str) -> bool:
    return any(c.isalpha() for c in text)


def hosts_by_pattern(pattern: str, name: str) -> Pair | None:
    """Find two hosts in the name of a file, by a pattern such as `*bw_{a}_{b}.log` (SpecError)."""
    if pattern.count("{a}") != 1 or pattern.count("{b}") != 1:
        raise SpecError(
            f"--pairs-pattern {pattern} does not say where both hosts are.",
            remedy="Write {a} and {b} in their places, such as: --pairs-pattern 'bw_{a}_{b}.log'",
        )
    words = {"{a}": r"(?P<a>[\w.-]+?)", "{b}": r"(?P<b>[\w.-]+?)", "*": ".*"}
    parts = re.split(r"(\{a\}|\{b\}|\*)", pattern)
    match = re.fullmatch("".join(words.get(part, re.escape(part)) for part in parts), name)
    return (match["a"], match["b"]) if match else None


def host_order(names: Iterable[str]) -> list[str]:
    """Sort names of hosts: node2 before node10."""
    return sorted(
        set(names),
        key=lambda name: [(int(p) if p.isdecimal() else -1, p) for p in re.split(r"(\d+)", name)],
    )


_NAME = r"(?:mlx[45]_(?:bond_)?\d+|bnxt_re\d+|irdma\d+|hfi1_\d+|NIC\d+|(?:eth|ib)\d+|en[opsx]\w+)"
_INSIDE = re.compile(r"\"?\bDevice\"?\s*:\s*\"?(\w+)\"?")  # below the title of perftest
_AHEAD = re.compile(
    r"\bib_\w+_(?:bw|lat)\b.*\s(?:-d\s*|--ib-dev[= ])(\w+)"
    r"|\bNCCL_IB_HCA\s*=+\s*\"?(\w+)(?::\d+)?\"?(?![\w,])"
    r"|\bNET/IB : Using \[0\](\w+):\d+/\w+(?!.*\[1\])"
)
_IN_NAME = re.compile(rf"(?<![a-zA-Z0-9])({_NAME})(?![a-zA-Z0-9])")
_VISIBLE = re.compile(r"\bCUDA_VISIBLE_DEVICES\s*=\s*\"?(\d{1,3})\"?(?![\w,])")
_GPU = re.compile(r"--use_cuda[= ](\d{1,3})\b|\bPicking device No\. (\d{1,3})\b")
_GPU_IN_NAME = re.compile(r"(?<![a-zA-Z0-9])gpu[_-]?(\d{1,3})(?![a-zA-Z0-9])", re.IGNORECASE)


class NamedNic(NamedTuple):
    """The NIC, such as `mlx5_0`, and the GPU, where the log names them, of one result."""

    nic: str
    gpu: int | None


def nics_of_results(text: str, file: str, firsts: Sequence[int]) -> list[NamedNic]:
    """Find the NIC of each result of a log, and the GPU if there is one."""
    inside, ahead = _mentions(_INSIDE, text), _mentions(_AHEAD, text)
    visible, gpus = _mentions(_VISIBLE, text), _mentions(_GPU, text)
    match, gpu_match = _IN_NAME.search(file), _GPU_IN_NAME.search(file)
    names = []
    for before, first, end in zip((0, *firsts), firsts, (*firsts[1:], math.inf), strict=False):
        inner_name = next((name for line, name in inside if first <= line < end), "")
        nic = inner_name or _last(ahead, 0, first) or (match[1] if match else "")
        # perftest names the GPU before its title, or below it
        span = (before, first) if gpus and gpus[0][0] < firsts[0] else (first, end)
        number = _last(visible, 0, first) or _last(gpus, *span)
        number = number or (gpu_match[1] if gpu_match else "")
        names.append(NamedNic(nic, int(number) if number else None))
    return names


def _last(mentions: Sequence[tuple[int, str]], first: int, end: float) -> str:
    return next((name for line, name in reversed(mentions) if first <= line < end), "")


def _mentions(pattern: re.Pattern[str], text: str) -> list[tuple[int, str]]:
    """Return the lines that name something, and the name in each."""
    return [
        (number, next(filter(None, match.groups())))
        for number, line in enumerate(text.splitlines(), 1)
        if (match := pattern.search(line))
    ]


PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30}
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "usec": 1e-6, "ns": 1e-9}
MPIGRAPH = "Send\t"  # how its table of senders begins
EMPTY = ("", "-", "--", "x", "na", "n/a", "nan", "none", "null", "inf", "fail", "failed")
LEAST = 2  # hosts of a matrix
ROW = 3  # cells: two hosts and a value
_RATE = re.compile(r"\b([KMGkmg]?i?)(B|b|[Bb]its?|[Bb]ytes?)(?:/s(?:ec)?|ps|s)\b")
_TIME = re.compile(rf"\b({'|'.join(SECONDS)})\b")
_MPIGRAPH_RANK = re.compile(r"(?<=.):\d+(?: to)?$")  # after the name of its host


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

    ParseError: it names no unit, or one that is not known; a host occurs twice in a matrix; a value
    is negative or no number.
    """
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    i = next((i for i, (_, line) in enumerate(lines) if line.startswith(MPIGRAPH)), None)
    if i is not None and ":0" in lines[i][1]:
        return _mpigraph(lines[i:])
    rows = [(number, _cells(line)) for number, line in lines]
    if len(rows) <= 1:
        return None
    header = rows[0][1]
    _refuse_other_matrix(rows)
    if len(header) == len(rows) - 1 and header == [row[0] for _, row in rows[1:]]:
        header.insert(0, "")  # a matrix without its first cell
    firsts = sorted(row[0] for _, row in rows[1:])
    if len(header) >= ROW and len(header) == len(rows) and firsts == sorted(header[1:]):
        return _matrix("matrix of hosts", header[0], rows)
    heads = [cell.lower() for cell in header]
    if len(header) == ROW and heads[0].startswith(("host", "node", "source", "src")):
        return _table(header[2], rows[1:])
    return None


def _cells(line: str) -> list[str]:
    """Split a line at commas, tabs or, if it has none, at spaces."""
    separator = next((mark for mark in (",", "\t", ";") if mark in line), None)
    if separator is None:
        return line.split()
    return [cell.strip() for cell in next(csv.reader([line], delimiter=separator))]


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
    if twice := sorted(name for name, times in Counter(names).items() if times > 1):
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
    plain = [(number, [_MPIGRAPH_RANK.sub("", cell) for cell in row]) for number, row in rows]
    return _matrix("mpiGraph", "MiB/s", plain)


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


def _unit(text: str, place: str, example: str) -> tuple[str, float]:
    rate, time = _RATE.search(text.replace("_", " ")), _TIME.search(text.replace("_", " "))
    if rate is not None:
        bits = rate[2][0] == "b" and not rate[2].startswith("byte")
        return "bandwidth", PREFIXES[rate[1].lower()] / (8 if bits else 1)
    if time is not None:
        return "latency", SECONDS[time[1]]
    raise ParseError(
        f"The unit of the values is not known: {place} is {text!r}.",
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


_ONE = r"(\d{1,3})(?![\d,\-])"  # of several nodes, none is meant
_NODE = re.compile(  # that of the memory rather than that of the cores
    rf"\bnumactl\b(?:.*?\s(?:--membind[= ]|-m\s*){_ONE}|.*?\s(?:--cpunodebind[= ]|-N\s*){_ONE})"
)
_NODE_IN_NAME = re.compile(r"(?<![a-zA-Z0-9])numa[_-]?(\d{1,3})(?![a-zA-Z0-9])", re.IGNORECASE)


def nodes_of_results(text: str, file: str, firsts: Sequence[int]) -> list[int | None]:
    """Find the NUMA node whose memory each result used, as the last numactl above it says."""
    mentions, match = _mentions(_NODE, text), _NODE_IN_NAME.search(file)
    nodes = [_last(mentions, 0, first + 1) or (match[1] if match else "") for first in firsts]
    return [int(node) if node else None for node in nodes]


class _NamedHosts(NamedTuple):
    line: int
    hosts: tuple[str, ...]
    is_whole: bool  # it names all hosts, and no other line adds one


class Participants:
    """Collects the hosts that lines of a log name as those of its ranks."""

    def __init__(self) -> None:
        self._mentions: list[_NamedHosts] = []
        self._lines: set[int] = set()  # of them

    def scan(self, text: str, first: int, short: str) -> None:
        """Look for hosts in a text; `short` has the shapes of its lines, with 0 for each digit."""
        pos, line, mentions = 0, first, []
        for pattern in (_LIST, _RANK_LINE) if any(mark in short for mark in _MARKS) else ():
            pos, line = 0, first
            for match in pattern.finditer(text) if pattern.search(short) else ():
                if match[0].endswith(NO_PROCESS):
                    continue
                line, pos = line + text.count("\n", pos, match.start()), match.start()
                name = next(filter(None, match.groups()))
                whole = pattern is _LIST
                mentions.append(_NamedHosts(line, tuple(expand(name)) if whole else (name,), whole))
        self._mentions += sorted(mentions)
        self._lines.update(mention.line for mention in mentions)

    def names_at(self, line: int) -> bool:
        return line in self._lines

    def count(self, firsts: Sequence[int]) -> list[tuple[int, bool]]:
        """Return on how many hosts each result ran, by their first lines; 0 if no line says so.

        A list of ranks is of the result that follows; the hosts of a job are of all its results,
        whose ranks may be on fewer: each has also whether these are only the hosts of the job.
        """
        starts = sorted(set(firsts))
        lists: dict[int, set[str]] = {}  # by the result that follows, or the last one
        for mention in self._mentions:
            if not mention.is_whole:
                index = min(bisect_right(starts, mention.line - 1), len(starts) - 1)
                lists.setdefault(index, set()).update(mention.hosts)
        jobs = {mention.hosts for mention in self._mentions if mention.is_whole}
        of_job = len(set(jobs.pop())) if len(jobs) == 1 else 0  # else several jobs of other hosts
        counts = []
        for first in firsts:  # several results may follow one list
            index = bisect_right(starts, first) - 1
            number = len(
                lists[max(earlier)] if (earlier := [key for key in lists if key <= index]) else ()
            )
            counts.append((number or of_job, not number))
        return counts
