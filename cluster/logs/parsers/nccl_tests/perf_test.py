"""One test of nccl-tests: its rows, and the lines before and after them."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from cluster.core.model.logs import Parsed
from cluster.core.model.results.records import NoteKind
from cluster.core.model.value import Scalar
from cluster.logs.parsers import GB, MICRO, MILLI, ResultBuilder, count, define, number, numbers

ABSENT = "N/A"  # a cell without a value
HALF = 4  # columns of each half of a row, counted from the right: time algbw busbw error
LEAST = 3  # columns before them: size, count, type
FOREVER = 1e18  # us, longer than any test
COARSE = 0.05  # by which times of 10 s and more are rounded: they are printed as 1.7e+07

RANK = re.compile(
    r"#?\s*Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?(?:Pid\s+\d+\s+)?on\s+(\S+)\s+device\s+(\d+)"
    r"(?:\s+\[\w+(?::\w+)*(?:\.\d)?\]\s+(\S.*))?"
)
ROWS = "rows of size, count, type, and time, algbw, busbw of each place"
CONCLUDED = "Collective test concluded"
ENDS = ("# Out of bounds values", "# Avg bus bandwidth", f"# {CONCLUDED}")  # how last lines begin

FOOT = re.compile(
    r"#?\s*(Out of bounds values|Bitwise mismatches|Avg bus bandwidth|"
    rf"{CONCLUDED})\s*:\s*(.*)"
)
AVERAGE_LINE = re.compile(r"#?\s*Avg bus bandwidth\s*:\s*(\S+)")
FAILED = re.compile(
    r".*: Test (?:NCCL|CUDA|HIP|MPI) failure|.*: Test failure |# error: \S|"
    r"(?:NCCL|Cuda|CUDA|HIP) failure (?!\S*p2pBandwidth)\S+:\d+|Invalid number of GPUs"
)
_TIMES = ("time", "cputime")
_OLDEST = "res"  # a column of NCCL's own tests and of nccl-tests until 2019: times are in ms
TIME, ALGBW, AVERAGE, BUSBW = DEFINITIONS = define(
    "nccl_tests",
    """
    time (s): one collective call, mean over iterations and ranks; printed in us
    algbw (B/s): algorithm bandwidth: the size over the time; printed in GB/s of 1e9 bytes, to 0.01
    average_busbw (B/s): mean of the bus bandwidths of all sizes, as the last line of a test says
        it; in GB/s
    busbw (B/s, one way, collective): bus bandwidth: algorithm bandwidth times 2(n-1)/n
        (all_reduce), (n-1)/n (all_gather, reduce_scatter, alltoall, gather, scatter) or 1
        (broadcast, reduce, sendrecv) of n ranks: what the slowest link carries per direction;
        printed in GB/s of 1e9 bytes, to 0.01
    """,
    clock="std::chrono of each process, around all iterations and the synchronisation of streams",
    synchronisation="a barrier of all processes before the iterations of a size",
    warm_up="the warmup iters of the log's first line (5 unless said otherwise)",
    aggregation="mean of ranks",
)

ALL_REDUCE = "all_reduce"
_OPERATIONS = {
    **{name.replace("_", ""): name for name in (ALL_REDUCE, "all_gather", "reduce_scatter")},
    **{name: name for name in ("broadcast", "reduce", "alltoall", "gather", "scatter")},
    "sendrecv": "sendrecv",
}
SHARED, WHOLE = "all_gather or reduce_scatter or alltoall", "broadcast or reduce or sendrecv"
_FACTORS = (
    (ALL_REDUCE, lambda n: 2 * (n - 1) / n),
    (SHARED, lambda n: (n - 1) / n),
    (WHOLE, lambda _: 1.0),
)
_FAMILIES = {
    ALL_REDUCE: ALL_REDUCE,
    **dict.fromkeys(("all_gather", "reduce_scatter", "alltoall", "gather", "scatter"), SHARED),
    **dict.fromkeys(("broadcast", "reduce", "sendrecv"), WHOLE),
}
SLACK = 0.02  # by which a printed rate may differ from the other columns
RESOLUTION = 0.01  # GB/s, to which rates are printed
HALF_STEP = 0.51 * RESOLUTION  # a little more than half, for rounding of floats


class HalfRow(NamedTuple):
    """Half a row: out of place, or in place; time in us, both rates in GB/s."""

    params: dict[str, Scalar]
    time: float
    algbw: float
    busbw: float

    @property
    def size(self) -> int:
        """Bytes, as its first column says."""
        return int(self.params["size"])


def places(cells: Sequence[str], halves: int = 2) -> tuple[dict[str, Scalar], ...]:
    """Return the parameters of a row's halves, out of place and in place; none if it is no row."""
    size, elements = count(cells[0]), number(cells[1]) if len(cells) > 1 else None
    if len(cells) < LEAST or size is None or elements is None or number(cells[2]) is not None:
        return ()
    redop = cells[3] if len(cells) > LEAST and number(cells[3]) is None else ""  # or the root
    return tuple(params_of(size, cells[2], redop, place) for place in ("out", "in")[:halves])


def params_of(size: int, type_: str, redop: str, place: str) -> dict[str, Scalar]:
    """Return the parameters of half a row: bytes, type, reduction (if any), `out` or `in`."""
    reduction = {"redop": redop} if redop not in ("", "none", ABSENT) else {}
    return {"size": size, "place": place, "type": type_, **reduction}


def agrees(size: float, time: float, algbw: float, busbw: float, slack: float) -> bool:
    """Check that the figures of half a row agree, which torn or shifted columns do not.

    The algorithm bandwidth may differ from size over time by `slack`, a share.
    """
    if not 0 <= time < FOREVER or algbw < 0 or not 0 <= busbw <= 2 * algbw + 2 * RESOLUTION:
        return False
    expected = size / time * MICRO / GB if time else 0.0
    return abs(algbw - expected) <= RESOLUTION + slack * expected


class PerfTest:
    """One test: its rows, and the lines before and after them."""

    def __init__(self, first: int) -> None:
        self.builder = ResultBuilder("nccl_tests", first)
        self.name = ""
        self.is_checked = True
        self.is_mixed = False  # it began before another one had ended: its rows may be of that
        self.follows = False  # it began below rows of another test, which may go on
        self._head = ""  # what it was run with
        self.is_headed = False
        self.headers = 0  # how often its columns were named
        self.is_over = False
        self.ranks: dict[int, tuple[str, int]] = {}  # the host of each rank, and its device there
        self._groups: dict[int, str] = {}  # of ranks, each of which is a communicator
        self._halves: list[HalfRow] = []
        self._width = HALF
        self._counts = True  # the last column of a half counts wrong values
        self._scale = MICRO  # of its times
        self._alone = False  # each process ran its own test
        self._partial = False  # algorithm bandwidth was printed without each rank's own part
        self.rejects = 0  # rows whose figures do not agree
        self.hidden = ""  # the first line that would be a row without the text around it
        self.open_size = -1  # size of the last row, if it was begun and never finished
        self._average: float | None = None
        self._ends = 0  # how many last lines it has: one, or one for each process that ran alone

    def _count_hosts(self, ranks: int) -> int:
        """Count the hosts; containers with one name differ by repeated devices."""
        if self._alone:
            return 1
        if len(self._members) < ranks:
            return 0  # some of its lines are missing
        places = list(self._members.values())
        names = {host for host, _ in places}
        has_repeats = len(set(places)) < len(places)
        return max(len(names), max(Counter(places).values()) if has_repeats else 0)

    def _count_ranks(self) -> int:
        """Count the ranks; 0 if the log does not say.

        Lines of ranks may be missing: then the last rank and the two bandwidths show how many.
        """
        if self._alone:
            return len(self.ranks)
        if len(set(self._groups.values())) > 1:
            return len(self._members)
        estimate = 0 if self._partial else ranks_of((h.algbw, h.busbw) for h in self._halves)
        return max(1 + max(self.ranks, default=-1), estimate)

    @property
    def _members(self) -> dict[int, tuple[str, int]]:
        """The ranks of one communicator: NCCL_TESTS_SPLIT makes several, which run at once."""
        ((largest, _),) = Counter(self._groups.values()).most_common(1) or (("", 0),)
        return {r: place for r, place in self.ranks.items() if self._groups.get(r, "") == largest}

    def ends_before(self, cells: list[str]) -> bool:
        """Tell whether a row is of another test: this one has ended, and sizes begin again."""
        is_done = self.is_over and bool(self._halves) and not (self._alone or self.is_mixed)
        size = count(cells[0]) if is_done and self.headers <= 1 else None
        return size is not None and size <= self._halves[0].size

    @property
    def is_begun(self) -> bool:
        return bool(self._halves or self.is_over)

    def head(self, text: str) -> None:
        self._head = self._head or (text if "minBytes" in text else "")

    def differs(self, text: str) -> bool:
        """Tell whether a first line has other settings, and so begins another test."""
        return bool(self._head) and "minBytes" in text and text != self._head

    @property
    def is_any(self) -> bool:
        foot = self._average is not None or self.name
        return bool(
            self.is_headed or self._halves or self.builder.has_failures or (self.is_over and foot)
        )

    @property
    def is_mean_alone(self) -> bool:
        """Whether it is only the mean that the last line of a test says."""
        return self._average is not None and not (self.is_headed or self._halves)

    def header(self, text: str, *, counts: bool = True) -> None:
        """Find the width of each half of a row, to which options add columns."""
        self.is_headed = True
        self.headers += 1
        self._counts = counts
        words = text.lstrip("# ").split()
        starts = [index for index, word in enumerate(words) if word in _TIMES]
        ends = [*starts[1:2], *([len(words)] if words[-1:] == ["busbw"] else [])]
        width = ends[0] - starts[0] if starts and ends else HALF
        self._width, self._scale = width, MILLI if _OLDEST in words else MICRO

    def take(self, text: str, lineno: int = 0) -> bool:
        if rank := RANK.match(text):
            self._alone |= int(rank[1]) in self.ranks
            self.ranks[int(rank[1])] = rank[3], int(rank[4])
            self._groups[int(rank[1])] = rank[2] or ""
            if rank[5]:
                self.builder.set_device(rank[5])
        elif (foot := FOOT.match(text)) and foot[1] == CONCLUDED:
            self.is_over = True
            self.name = self.name or foot[2].strip()
        elif foot:
            self.is_over = True
            average = AVERAGE_LINE.match(text)
            self._ends += average is not None
            self._average = number(average[1]) if average else self._average
            if "FAILED" in foot[2]:
                self.builder.fail(text.lstrip("# "))
        elif FAILED.match(text):
            self.builder.fail(text.lstrip("# "), lineno)
        else:
            return False
        return True

    def row(self, cells: list[str]) -> bool:
        """Read a row from the right, because the columns in its middle vary."""
        if self._row(cells, self._width):
            return True
        bare = not self.is_headed and self._row(cells, HALF - 1)  # a build that counts no errors
        self._width -= bare
        return bare

    def _row(self, cells: list[str], width: int) -> bool:
        halves = 2 if len(cells) >= LEAST + 2 * width else 1
        head = len(cells) - halves * width
        cell_places = places(cells[:head], halves) if head >= LEAST else ()
        if not cell_places:
            return False
        size = int(cell_places[0]["size"])
        parts = [cells[head + index * width :][: min(width, HALF)] for index in range(halves)]
        figures = [self._half(size, part) for part in parts]
        if not all(figures):
            return False
        for params, part, values in zip(cell_places, parts, figures, strict=True):
            wrong = part[3] if self._counts and len(part) == HALF else ABSENT
            self.add(params, values or [], wrong)
        return True

    def _half(self, size: int, half: list[str]) -> list[float] | None:
        """Read time (in us), algorithm and bus bandwidth, if they agree with the size.

        hypercube_perf, and until 2020 all_gather_perf and reduce_scatter_perf, do not count the
        part that each rank already has: both bandwidths are then what others call bus bandwidth.
        """
        values = numbers(half[:3])
        if not values:
            return None
        time, algbw, busbw = values[0] * MICRO / self._scale, values[1], values[2]
        slack = COARSE if "e" in half[0] else SLACK
        if agrees(size, time, algbw, busbw, slack):
            return [time, algbw, busbw]
        rank_count = len(self.ranks)
        part = 1 - 1 / max(2, rank_count)
        if rank_count > 1 and algbw == busbw and agrees(size * part, time, algbw, busbw, slack):
            self._partial = True
            return [time, algbw / part, busbw]
        return None

    def add(self, params: dict[str, Scalar], values: list[float], wrong: str) -> None:
        """Add half a row, whose last column is a count of wrong values or an error like 1e-06."""
        self._halves.append(HalfRow(params, *values))
        errors = number(wrong)
        if errors is not None and errors >= 1:
            place = f"{params['size']} B, {params['place']} of place"
            self.builder.fail(f"{place}: {errors:.0f} values were wrong")

    def result(self) -> Parsed:
        builder = self.builder
        builder.title = self.name or "nccl-tests"
        groups = len(set(self._groups.values()))
        several: dict[str, Scalar] = {"groups": groups} if groups > 1 else {}
        for half in self._halves:
            params = {**half.params, **several}
            builder.add(TIME, half.time / MICRO, params, size=half.size)
            builder.add(ALGBW, half.algbw * GB, params, size=half.size)
            builder.add(BUSBW, half.busbw * GB, params, size=half.size)
        # Rows of two tests may come by turns: then their columns were named twice, as each size.
        points = {tuple(half.params.items()) for half in self._halves}
        is_doubled = self.headers > 1 and not self._alone and len(points) < len(self._halves)
        is_torn = self.follows and not self._rises
        if (self.is_mixed and (self._ends != 1 or not self._rises)) or is_doubled or is_torn:
            builder.doubt()
        self._say(builder)
        return builder.result()

    @property
    def _rises(self) -> bool:
        """Whether its sizes rise, as those of one test do; cycles start over at the smallest."""
        sizes = [half.size for half in self._halves]
        least = min(sizes, default=0)
        return all(a <= b or b == least for a, b in pairwise(sizes))

    def _say(self, builder: ResultBuilder) -> None:
        ranks = builder.ranks = self._count_ranks()
        builder.hosts = self._count_hosts(ranks)
        if ranks and builder.hosts:
            builder.note("ranks_on_hosts", ranks, builder.hosts)
        elif ranks:
            builder.note("unknown_hosts", ranks, len(self.ranks))
        algbw, busbw = max(((h.algbw, h.busbw) for h in self._halves), default=(0.0, 0.0))
        if family := family_of(algbw, busbw, ranks):
            builder.note("family", family, ranks)
        builder.operation = operation(self.name, family)
        oddities: tuple[tuple[bool, NoteKind], ...] = (
            (not self.is_checked, "unchecked"),
            (self._alone, "each_alone"),
            (ranks == 1 and bool(self._halves), "one_rank"),
            (self._partial, "partial_algbw"),
        )
        for applies, kind in oddities:
            if applies:
                builder.note(kind)
        if self.open_size >= 0:
            builder.note("unfinished_row", self.open_size)
        self._end(builder)

    def _end(self, builder: ResultBuilder) -> None:
        if self.is_mean_alone and self._average is not None:
            builder.add(AVERAGE, self._average * GB, {})
            builder.note("only_mean")
            return
        if self._halves and not self.is_headed:
            builder.lack("no_header")
        if builder.empty and self.rejects:
            builder.lack_rows(
                f"none of its {self.rejects} row(s) has size, count, type, time, algbw and busbw "
                "that agree with one another in B, us and GB/s",
                ROWS,
            )
        elif builder.empty and self.hidden:
            builder.fail(
                "its rows cannot be read, because of other text around their columns: remove it "
                f"({self.hidden[:60]!r})"
            )
        elif builder.empty and (self.is_headed or not builder.has_failures):
            builder.lack_rows("there is no row: it ended before its first size", ROWS)
        elif not self.is_over:
            builder.lack("no_foot")


def operation(program: str, family: str) -> str:
    """Tell the collective, such as `all_reduce`, from the program's name, such as `AllReduce`.

    If its own factor contradicts that, it is one of the `family`, the collectives which have it.
    """
    stem = program.removesuffix("_mpi").removesuffix("_perf").lower()
    name = _OPERATIONS.get(stem.replace("_", ""), "")
    return name if not family or _FAMILIES.get(name) == family else family


def ranks_of(rates: Iterable[tuple[float, float]]) -> int:
    """Tell the number of ranks from bus bandwidth over algorithm bandwidth; 0 if several fit.

    The ratio is 2(n-1)/n or (n-1)/n; a ratio of 1 fits any number. Both rates are printed to 0.01
    GB/s, so each row allows a range of ratios.
    """
    large = [(algbw, busbw) for algbw, busbw in rates if algbw >= 100 * RESOLUTION]
    if not large:
        return 0
    low = max((busbw - HALF_STEP) / (algbw + HALF_STEP) for algbw, busbw in large)
    high = min((busbw + HALF_STEP) / (algbw - HALF_STEP) for algbw, busbw in large)
    whole = 2 if low > 1 else 1
    if low > high or low <= 0 or low <= 1 <= high or high >= whole:
        return 0
    fewest, most = whole / (whole - low), whole / (whole - high)
    return math.floor(most) if math.ceil(fewest) == math.floor(most) else 0


def family_of(algbw: float, busbw: float, ranks: int) -> str:
    """Name the collectives with the factor of two bandwidths; empty if several fit, or none."""
    if ranks < 3 or algbw < 100 * RESOLUTION:  # noqa: PLR2004 - of two, factors are the same
        return ""
    fits = (f for f, factor in _FACTORS if abs(busbw / algbw - factor(ranks)) < SLACK)
    return next(fits, "")
