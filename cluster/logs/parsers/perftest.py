"""perftest: `ib_write_bw`, `ib_read_bw`, `ib_send_lat` and their siblings, text and `--out_json`.

MB/sec, which newer versions call MiB/sec, are 2**20 bytes; with `--report_gbits`, Gb/sec are 1e9
bits. The JSON names no unit, so it is found by comparing the rate with the messages per second. The
latency of a write or a send is half a round trip, that of a read or an atomic operation a whole.
https://github.com/linux-rdma/perftest
"""

import re

from cluster.core.model.value import Scalar
from cluster.logs.parsers import (
    MIB,
    MICRO,
    ResultBuilder,
    RunParser,
    SizeColumn,
    count,
    define,
    number,
    numbers,
)

(ONE_WAY, BOTH, UNTITLED, PEAK, RATE, TYPICAL, MEAN, LEAST, MOST, TAIL) = DEFINITIONS = define(
    "perftest",
    """
    bandwidth (B/s, one way, RDMA): all bytes of the queue pairs over the time, one way; MB/sec of
        2**20 bytes, or Gb/sec
    bidirectional (B/s, both ways, RDMA): bytes of both directions at once over the time; MB/sec of
        2**20 bytes, or Gb/sec
    untitled_bandwidth (B/s): bytes per second of a test whose title is missing: in one direction,
        or in both together
    peak_bandwidth (B/s): the best of all windows of messages; MB/sec of 2**20 bytes, or Gb/sec
    message_rate (messages/s): messages of all queue pairs per second; printed in millions
    latency (s): the median of the times of a message; printed in usec
    mean_latency (s): the mean of the times of a message; printed in usec
    min_latency (s): the shortest time of a message; printed in usec
    max_latency (s): the longest time of a message; printed in usec
    latency_percentile (s): the percentile of the times of a message; printed in usec
    """,
    clock="cycles of the client's processor",
    synchronisation="a handshake before each size",
    warm_up="none, unless the test runs for a time (-D): then its first and last seconds",
)


_TIMES = {"t_typical": TYPICAL, "t_avg": MEAN, "t_min": LEAST, "t_max": MOST}

_TITLE = re.compile(
    r"\s*((?:RDMA_(?:Write|Read|Atomic)|Send|Write|Read|Atomic|Raw[ _]Ethernet)\b.*"
    r"\b(?:BW|Latency)(?: forwarding| Multicast)* Test)\b"
)
_HEAD = re.compile(r"\s*#bytes\s+(?:sl\s+)?#?iterations\b")
_SIDE = re.compile(r"\s*(Local|Remote) results:\s*$")  # --report-both: each direction alone
_COLUMN = re.compile(
    r"#bytes|#?\biterations|\bsl\b|tps average"
    r"|(?:BW|MsgRate|t_\w|CPU_Util|[\d.]+% percentile)[^\[\]]*\[[^\]]+\]"
)
_NAMED = re.compile(
    r"(?<!\S)(Number of qps|Transport type|Connection type|Mtu|Link type)\s*:\s*(\S+)"
)
_KNOWN = re.compile(
    r"\s*(?:-{20,}|\*{20,}|\* Waiting for client|(?:local|remote) address:|GID:|"
    r"(?:Dual-port|PCIe relax order|TX depth|RX depth|CQ Moderation|GID index|Max inline data|"
    r"rdma_cm QPs|Data ex\. method|ibv_wr\* API|Post List|Use ROCm|Use CUDA|"
    r"Outstand reads|Using SRQ|Using DDP|Lock-free|CQE Poll Batch|Using Enhanced Reorder)\s*:"
    r"|WARNING: BW peak won't be measured|Conflicting CPU frequency|Using \w+ memory)"
)
# An InfiniBand end has a LID; a RoCE end has a GID, below a LID of 0.
_ADDRESS = re.compile(
    r"\s*(?:(?:local|remote) address: LID (0x0*[1-9a-f]\w*|0*[1-9a-f]\w*)|GID: (\S+))"
)
PAIR = 2  # ends
_FAILED = re.compile(
    r"\s*(Couldn't (?:connect|read|get|listen|create|allocate|initialize).*"
    r"|Unable to (?:init|open|find|Connect|create|perform).*|Completion with error at .*"
    r"|Failed status \d+:.*|IB device \S+ not found|ethernet_\w+ failed.*"
    r"|Failed to (?:exchange|complete|modify|create|connect) .*)"
)
_PAIR = re.compile(r"\"?(\w[\w.%]*)\"?\s*:\s*\"?([^\s\",{}]+)")
_RESULTS = re.compile(r"\"results(_local|_remote)?\"\s*:\s*\{([^{}]*)\}")
_GIGABIT = 1e9 / 8
_SCALES = {"MB/sec": MIB, "MiB/sec": MIB, "Gb/sec": _GIGABIT}
_TAIL_KEY = re.compile(r"(?:t_|percentile_)(\d\d(?:[._]\d+)?)_?(?:percentile)?")
SLACK = 0.02  # by which a rate and messages per second may differ, as both are rounded
MILLION = 1e6
GBITS, MEBI = "Gb/sec", "MB/sec"
MESSAGES = "MsgRate[Mpps]"


class Perftest(RunParser):
    """perftest (ib_write_bw, ib_send_lat, ...): MB/sec of 2**20 bytes or Gb/sec; times in usec."""

    marks = (*("#iterations", "#bytes", "BW Test", "Latency Test", "BW_average", "t_typical"),)
    has_rows = True
    definitions = DEFINITIONS

    def _reset(self) -> None:
        self._columns: list[str] = []
        self._params: dict[str, Scalar] = {}
        self._ends: list[str] = []  # addresses

    def take(self, line: str, lineno: int) -> bool:
        if title := _TITLE.match(line):
            self._begin(lineno, title[1])
        elif (side := _SIDE.match(line)) and self._run:
            self._params, self._columns = {**self._params, "side": side[1].lower()}, []
        elif _HEAD.match(line):
            if self._columns:
                self._begin(lineno)  # of another test, whose title is missing
            self._open(lineno)
            self._columns = _COLUMN.findall(line)
        elif line.lstrip()[:1].isdigit():
            return self._run is not None and self._row(self._run, line.split())
        else:
            return self._run is not None and self._read_note(self._run, line)
        return True

    def _read_note(self, run: ResultBuilder, line: str) -> bool:
        pairs, failure = _NAMED.findall(line), _FAILED.match(line)
        # keep the addresses of both ends: the same one twice is a test within a host
        if end := _ADDRESS.match(line):
            self._ends.append(end[1] or end[2])
            if len(self._ends) == PAIR:
                run.hosts = len(set(self._ends))
        for name, value in pairs:
            if name == "Number of qps" and count(value):
                self._params = {"qps": int(value)}
            else:
                run.set(name.lower(), value)
        if failure:
            run.fail(failure[1].strip())
        return bool(pairs or failure or _KNOWN.match(line))

    def _row(self, run: ResultBuilder, cells: list[str]) -> bool:
        values, size = numbers(cells), count(cells[0])
        if not values or size is None or len(cells) != len(self._columns):
            return False
        row = dict(zip(self._columns, values, strict=True))
        rate, messages = row.get(f"BW average[{MEBI}]"), row.get(MESSAGES)
        if rate and messages and _unit(size, rate, messages) == GBITS:
            run.note("wrong_head", GBITS)
            row = {name.replace(MEBI, GBITS): value for name, value in row.items()}
        self._add(run, size, row)
        return True

    def _add(self, run: ResultBuilder, size: int, row: dict[str, float]) -> None:
        point = {**self._params, "size": size}
        for name, value in row.items():
            column = self._column(run, name)
            if column and (value or column.definition is not PEAK):  # 0: it was not measured
                column.add(run, value, point, size)

    def _column(self, run: ResultBuilder, head: str) -> SizeColumn | None:
        name, _, unit = head.rstrip("]").partition("[")
        if name == "BW peak" and unit in _SCALES:
            return SizeColumn(PEAK, _SCALES[unit], moved=True)
        if name == "BW average" and unit in _SCALES:
            both_ways = "Bidirectional" in run.title and "side" not in self._params
            rate = BOTH if both_ways else ONE_WAY
            if run.title == self.name:
                run.lack("perftest_no_title")
                rate = UNTITLED
            return SizeColumn(rate, _SCALES[unit], moved=True)
        if name == "MsgRate":
            return SizeColumn(RATE, MILLION, moved=True)
        if name in _TIMES and unit == "usec":
            return SizeColumn(_TIMES[name], over=MICRO, moved=True)
        if "percentile" in name and unit == "usec":
            return SizeColumn(TAIL, over=MICRO, more=(("percentile", float(name.split("%")[0])),))
        return None

    def take_document(self, text: str, lineno: int) -> bool:
        """Read what `--out_json` wrote; newer versions may write each direction alone."""
        info: dict[str, str] = dict(_PAIR.findall(text))
        sections = _RESULTS.findall(text) or [("", text)]
        is_own = "MsgSize" in info and ("BW_average" in info or "t_avg" in info)
        if not is_own or not text.rstrip().endswith("}"):
            return False
        run = self._begin(lineno, info.get("test", self.name).replace("_", " "))
        if info.get("Bidirectional", "OFF") != "OFF" and "Bidirectional" not in run.title:
            run.title += " Bidirectional"
        qps = count(info.get("Number_of_qps", ""))
        for side, section in sections:
            self._params = {"qps": qps} if qps else {}
            self._params |= {"side": side.strip("_")} if side else {}
            self._results(run, dict(_PAIR.findall(section)))
        self._end()
        return True

    def _results(self, run: ResultBuilder, columns: dict[str, str]) -> None:
        size, unit = count(columns.get("MsgSize", "")), ""
        if size is None:
            return
        row = {f"{name}[usec]": number(columns.get(name, "")) for name in _TIMES}
        for key, tail in ((key, _TAIL_KEY.fullmatch(key)) for key in columns):
            if tail:
                row[f"{tail[1].replace('_', '.')}% percentile[usec]"] = number(columns[key])
        if "BW_average" in columns:
            rates = (number(columns.get(name, "")) or 0.0 for name in ("BW_average", "MsgRate"))
            unit = _unit(size, *rates)
        if unit:
            row[f"BW peak[{unit}]"] = number(columns.get("BW_peak", ""))
            row[f"BW average[{unit}]"] = number(columns["BW_average"])
        elif "BW_average" in columns:
            run.fail("its rates have no unit, and agree with its messages per second in none")
        row["MsgRate[Mpps]"] = number(columns.get("MsgRate", ""))
        self._add(run, size, {name: v for name, v in row.items() if v is not None})


def _unit(size: int, rate: float, messages: float) -> str:
    """Find the unit in which a rate agrees with messages per second of a size, in millions."""
    if not rate or not messages:
        return ""
    fits = (
        unit
        for unit, scale in _SCALES.items()
        if abs(messages * MILLION * size / (rate * scale) - 1) < SLACK
    )
    return next(fits, "")
