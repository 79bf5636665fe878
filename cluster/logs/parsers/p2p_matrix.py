"""CUDA's p2pBandwidthLatencyTest: matrices of bandwidth (GB/s, 1e9 bytes) and latency (us).

Bidirectional bandwidth counts both directions. The diagonal is a copy within one device, without a
link. Rows and columns are CUDA devices; which of the two sends is not printed.

A matrix whose title is missing is one of bandwidth if copies within a device are faster, and one of
latency if they take less time.
"""

import re

from cluster.core.model.logs import PeerAccess
from cluster.core.model.value import Scalar
from cluster.logs.parsers import GB, MICRO, ResultBuilder, RunParser, count, define, numbers

ONE_WAY, BOTH_WAYS, LOCAL, LATENCY, LOCAL_LATENCY, UNTITLED = DEFINITIONS = define(
    "p2p_matrix",
    """
    p2p_bandwidth (B/s, one way, GPU to GPU): copies between two GPUs in one direction; printed in
        GB/s of 1e9 bytes
    p2p_bidirectional (B/s, both ways, GPU to GPU): copies between two GPUs in both directions at
        once, both counted; in GB/s of 1e9 bytes
    device_copy (B/s, GPU memory): the diagonal: copies within one GPU's memory, no link, each byte
        counted twice (read and written); printed in GB/s of 1e9 bytes
    p2p_latency (s): a copy of 16 bytes between two GPUs, one way, as the GPU or the CPU saw it; in
        us
    device_latency (s): the diagonal: a copy of 16 bytes within one GPU's memory; printed in us
    copy_bandwidth (B/s): copies between two GPUs, of a matrix without its title: in one direction
        or in both, with or without peer-to-peer; printed in GB/s of 1e9 bytes
    """,
    clock="CUDA events on the stream that copies",
    synchronisation="a kernel holds the stream until all copies are queued",
    warm_up="none",
)

_TITLE = re.compile(
    r"\s*(Unidirectional|Bidirectional)?\s*P2P=(Disabled|Enabled)\s+(Bandwidth|Latency)"
    r"(?:\s*\(P2P (Writes|Reads)\))?\s*Matrix\s*\((GB/s|us)\)"
)
_HEADER = re.compile(r"\s*(D\\D|GPU|CPU)((?:\s+\d{1,3})+)\s*$")
_PEERS = re.compile(r"\s*P2P Connectivity Matrix")
_DEVICE = re.compile(r"\s*Device: (\d+), (.+?), pciBusID: (\w+)")
_FIRST = re.compile(r"\s*\[P2P \(Peer-to-Peer\) GPU Bandwidth")
_KNOWN = re.compile(
    r"\s*(?:\[P2P \(Peer-to-Peer\) GPU Bandwidth|Device=\d+ CAN(?:NOT)? Access Peer|\*+NOTE|"
    r"So you can see|NOTE: The CUDA Samples)"
)
_FAILED = re.compile(r"\s*(?:Cuda failure|CUDA error at) \S*p2pBandwidthLatencyTest\.cu:\d+")
CORNER = "D\\D"  # of a matrix


class P2PMatrix(RunParser):
    """p2pBandwidthLatencyTest: between all pairs of GPUs, with and without peer-to-peer."""

    marks = (
        *("P2P=", "P2P Connectivity", "P2P (Peer-to-Peer)", "p2pBandwidthLatencyTest", "D\\D"),
    )
    has_rows = True
    definitions = DEFINITIONS
    title = "p2pBandwidthLatencyTest"

    def _reset(self) -> None:
        self._title: re.Match[str] | None = None
        self._clock = ""  # whose clock a latency is measured with: GPU or CPU
        self._columns: list[str] = []
        self._in_peers = False
        self._corners: set[str] = set()  # of the matrices below the title: one, or GPU and CPU
        self._rows: set[int] = set()  # of the open matrix
        self._untitled_rows: dict[int, list[float]] = {}  # rows of a matrix without a title
        self._peers: dict[int, list[str]] = {}
        self._models: dict[int, str] = {}  # of the devices

    def take(self, line: str, lineno: int) -> bool:
        if "[P2P" in line and _FIRST.match(line):
            self._end()  # another run begins
        title = _TITLE.match(line) if "P2P=" in line else None
        peers = _PEERS.match(line) if "P2P C" in line else None
        if title or peers:
            self._open_table(title.groups() if title else "peers", lineno)
            self._untitle()
            self._title, self._in_peers, self._columns = title, title is None, []
            self._corners.clear()
            return True
        header = _HEADER.match(line)
        if header and (self._title or self._in_peers or header[1] == CORNER):
            self._open(lineno)
            self._begin_matrix(header[1])
            self._columns = header[2].split()
            return True
        if "Device:" in line and (device := _DEVICE.match(line)):
            self._open(lineno).note("device_at", *device.groups())
            self._open(lineno).set_device(device[2])
            self._models[int(device[1])] = device[2]
            return True
        if ("failure" in line or "error" in line) and _FAILED.match(line):
            self._open(lineno).fail(line.strip())
            return True
        return bool(_KNOWN.match(line)) or self._row(line.split())

    def _begin_matrix(self, corner: str) -> None:
        self._untitle()
        # Of the matrices below a title, only those of latencies are several: one for each clock.
        fits = corner == CORNER or (self._title is not None and self._title[3] == "Latency")
        if corner in self._corners or not fits:
            self._title, self._in_peers = None, False  # of another matrix: its title is missing
        self._corners.add(corner)
        self._rows.clear()
        self._clock = corner if corner != CORNER else "GPU"

    def expects(self, line: str) -> bool:
        cells = line.split()
        is_next = bool(self._columns) and cells[:1] == [str(len(self._rows))]
        return is_next and len(self._rows) < len(self._columns) == len(cells) - 1

    def _row(self, cells: list[str]) -> bool:
        row = count(cells[0]) if cells else None
        if row is None or not self._columns or len(cells) != len(self._columns) + 1:
            return False
        if row in self._rows:
            self._columns = []  # of another matrix, whose first lines are missing
            return False
        self._rows.add(row)
        values = numbers(cells[1:])
        if values is None or min(values) < 0:
            return False
        if self._in_peers:
            self._peers[row] = cells[1:]
        elif self._title and self._run:
            for column, value in zip(self._columns, values, strict=True):
                self._add(self._run, self._title, (row, int(column)), value)
        elif not self._title:
            self._untitled_rows[row] = values
        return True

    def _untitle(self) -> None:
        """End a matrix without a title: its diagonal shows what it is."""
        rows, columns, self._untitled_rows = self._untitled_rows, list(map(int, self._columns)), {}
        cells = [(a, b, value) for a in rows for b, value in zip(columns, rows[a], strict=True)]
        inside = [value for a, b, value in cells if a == b]
        between = [value for a, b, value in cells if a != b]
        if not inside or not between or self._run is None:
            return
        is_rate, is_time = min(inside) > max(between), max(inside) < min(between)
        for a, b, value in cells if is_rate or is_time else ():
            pair: dict[str, Scalar] = {"row": a, "column": b}
            if is_rate:
                self._run.add(UNTITLED if a != b else LOCAL, value * GB, pair)
            else:
                self._run.add(LATENCY if a != b else LOCAL_LATENCY, value / MICRO, pair)
            self._run.lack("p2p_matrix_no_title")

    def _add(
        self, builder: ResultBuilder, title: re.Match[str], pair: tuple[int, int], value: float
    ) -> None:
        params: dict[str, Scalar] = {"row": pair[0], "column": pair[1]}
        params["p2p"] = "on" if title[2] == "Enabled" else "off"
        if title[4]:
            params["by"] = title[4].lower()
        model = self._models.get(pair[0], "")
        is_one = bool(model) and model == self._models.get(pair[1])
        if is_one and len(set(self._models.values())) > 1:
            params["gpu"] = model  # between two models, the slower one decides
        is_link = pair[0] != pair[1]
        if title[3] == "Latency":
            params["clock"] = self._clock
            builder.add(LATENCY if is_link else LOCAL_LATENCY, value / MICRO, params)
            return
        params["ways"] = 2 if title[1] == "Bidirectional" else 1
        definition = BOTH_WAYS if title[1] == "Bidirectional" else ONE_WAY
        builder.add(definition if is_link else LOCAL, value * GB, params)

    def _end(self) -> None:
        self._untitle()
        run, self._run = self._run, None
        if run is None:
            return
        if run.empty and not self._peers:
            text = "there is no matrix: it was stopped, or the log is cut off"
            run.lack_rows(text, "rows of a GPU and a figure for each of its peers")
        self._runs.append(run.result(self._access()))
        self._reset()

    def _access(self) -> PeerAccess | None:
        size = len(self._peers)
        if not size or sorted(self._peers) != list(range(size)):
            return None
        rows = [self._peers[row] for row in range(size)]
        return PeerAccess(
            devices=tuple(f"GPU{row}" for row in range(size)),
            status=tuple(
                tuple(
                    "X" if i == j else "OK" if cell == "1" else "NS" for j, cell in enumerate(row)
                )
                for i, row in enumerate(rows)
            ),
        )
