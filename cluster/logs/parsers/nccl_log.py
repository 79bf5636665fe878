"""NCCL's log of its decisions (NCCL_DEBUG=INFO), from version 1.3 on, and that of AMD's RCCL.

There are no measurements in it: rings, trees, channels, transports between ranks, networks,
GPUDirect, settings and warnings. Several ranks write at once, so a line may be torn, which means
that another line interrupts it. Torn lines are counted, and read as far as possible.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from msgspec import structs

from cluster.core.model.logs import NcclEdge, NcclLog, NcclRank, NcclTree, Parsed, Setting
from cluster.logs.parsers import Parser, ResultBuilder

INFO = "NCCL INFO "
MOST = 200  # warnings that are kept
MOST_SEEN = 100_000  # messages that are remembered, because they are repeated

_EDGE = re.compile(
    r"\w+ (\d{1,4})(?:/\d+)? : (\d{1,7})(?:\[(\w+)\])?(?: -> (\d{1,7})(?:\[(\w+)\])?)?"
    r"(?: \[(send|receive)\])? via (.+?)(?: comm 0x\w+ nRanks (\d{1,7}))?\s*$"  # RCCL's end
)
_VIA = re.compile(
    r"(?:P2P/(?:IPC|direct pointer|CUMEM|MNNVL|indirect/\d+\[\w+\])"
    r"|SHM(?:/direct|/CE){0,2}|direct shared memory|NVLS"
    r"|(?:COLL)?NET/[A-Za-z][\w.+-]{0,60}+(?: [\w.+()-]{1,40}+){0,6}(?:/\d+(?:\(\d+\))?)?)"
    r"(?:/CE|/read|/GDRDMA(?:\(PCI\))?|/Shared)*"
)
_RING = re.compile(r"\w+ (\d{1,4})(?:/(\d+))? :((?:\s+\d{1,7})+)\s*$")
_TREE = re.compile(r"\[(\d{1,4})\] (-?\d+(?:/-?\d+)*)->(-?\d+)->(-?\d+(?:/-?\d+)*)")
_COMM = re.compile(
    r"comm (?:0x)?\w+ rank (\d{1,7}) n[rR]anks (\d{1,7})(?: nNodes (\d{1,7}))?"
    r"(?:.{0,40}?cudaDev (\d{1,4})(?:.{0,40}?nvmlDev (\d{1,4}))?(?:.{0,40}?busId (\w+))?)?"
)
_PREFIX = re.compile(r"([A-Za-z0-9<][\w.<>-]*):(\d+):\d+ \[(\d+)\]")
_OLD = re.compile(r"\S+:\d+:\d+ \[\d+\] (?:INFO (.*)|\S+:\d+ WARN (.*))")  # until NCCL 2.1
_NETWORK = re.compile(r"NET/([A-Za-z][\w. -]*?) ?: Using (.*)")
_INTERFACE = re.compile(r"\[\d+\](\S+)")
_CHANNELS = re.compile(r"(\d{1,4}) coll channels,(?: \d+ \w+ channels,)*? (\d{1,4}) p2p channels\b")
_FABRIC = re.compile(r"MNNVL 1 cliqueId \w+ cliqueSize (\d+)(?:.* nvlDomainSize (\d+))?")
_AFFINITY = re.compile(r"Setting affinity for GPU (\d{1,4}) to")
_SETTING = re.compile(r"(NCCL_\w+) set (?:by environment )?to (\S+?)\.?\s*$")
# Another line may follow without a newline: the same one again, or one with the name of a host.
_VERSION = re.compile(
    r"([NR]CCL) version (?:: )?"
    r"(\d[\w.+-]*?cuda\d+\.\d{1,2}|\d[\w.+-]*?(?=[NR]CCL version|[^\w.+-]|$))"
)
_OLDEST = re.compile(r"\brank access (\d{1,7}) -> (\d{1,7}) via (.+)")
_SERIOUS = re.compile(
    r"fail|error|time(?:d )?-?out|refused|unhandled|mismatch|invalid|abort|closed|unable|cannot"
    r"|could not|no such|unreachable|duplicate|truncated|no socket interface|got completion"
    r"|vendor.err",
    re.IGNORECASE,
)
# Warnings that are fatal, whatever else the log says.
_FATAL = re.compile(
    r"abort|time(?:d )?-?out|watchdog|async|fatal|got completion|vendor.err", re.IGNORECASE
)
# Warnings after which NCCL continues, with another network, device or path. It has also continued
# if the process that warned reports later that its set-up is complete.
_HARMLESS = re.compile(
    r"open libibverbs|NET/OFI (?:Only EFA|Failed to init|Disabling shared)|"
    r"aws-ofi-nccl initialization failed|find real path of|"
    r"NET/IB : Unable to (?:open|query)|ibv_open_device failed|enable P2P between|"
    r"Got non-fatal async event|Cannot get incoming CPU|falling back to simple order"
)
COMM = "comm 0x"  # messages whose prefix is needed, as it names the host
# What nccl-tests prints around its rows: its start, where its ranks are, and how it ended.
AROUND = re.compile(
    r"^[# \t]*+(?:(nThreads?\b)|Rank +\d+ .*?\bPid +(\d+) +on +(\S+) +device"
    r"|(?:Out of bounds values|Bitwise mismatches|Avg bus bandwidth) *:(.*))"
)
GOOD = "Avg bus bandwidth"


class NcclDebug(Parser):
    """NCCL_DEBUG=INFO: transports, rings, trees, networks, settings, warnings."""

    marks = (
        *("NCCL INFO", "NCCL WARN", "NCCL version", "RCCL version", "rank access"),
        *("] INFO Ring", "] INFO NET"),
    )
    definitions = ()

    def __init__(self) -> None:
        self._first = 0
        self._edges: dict[tuple[str, str | None, str], int] = {}  # a bit per channel
        self._ways: set[tuple[str, bool]] = set()  # directions between hosts, with GPUDirect or not
        self._vias: set[str] = set()  # that matched completely
        self._rings: dict[int, tuple[int, ...]] = {}
        self._messages: set[str] = set()  # messages that were read
        self._trees: dict[tuple[str, str], tuple[str, str]] = {}
        self._size = 0  # of the largest communicator
        self._ranks: dict[int, NcclRank] = {}  # of the largest communicator
        self._places: dict[int, str] = {}  # of ranks, as printed in the lines of edges
        self._gpus: set[int] = set()
        self._nodes: dict[int, int] = {}  # by the size of the communicator
        self._channels = self._p2p_channels = 0
        self._communicators = self._fragments = 0
        self._is_connected = self._fabric = False
        self._trials: list[LoggedTest] = []
        self._set_up: defaultdict[str, list[int]] = defaultdict(list)  # processes, on these lines
        self._library = "NCCL"
        self._versions: dict[str, None] = {}
        self._networks: dict[str, None] = {}  # that were found
        self._used: dict[str, None] = {}  # that NCCL reports to use
        self._interfaces: dict[str, None] = {}
        self._settings: dict[str, str] = {}
        self._warnings: dict[str, set[str]] = {}  # with the processes that did not continue
        self._warned_at: dict[str, int] = {}
        self._words: dict[str, Callable[[str], None]] = {
            "Channel": self._link,
            "Ring": self._link,
            "Coll": self._link,
            "CollNet": self._link,
            "Trees": self._tree,
            "Using": self._network_in_use,
            "Connected": self._connect,
            "Setting": self._affinity,
            "MNNVL": self._join,
        }

    def take(self, line: str, lineno: int) -> bool:
        pos = line.find(INFO)
        if pos < 0:
            return self._other(line, lineno)
        self._first = self._first or lineno
        message = line[pos + len(INFO) :]
        if COMM in message:
            self._comm(message, line[:pos], lineno)
        self._read(message)
        return True

    def look(self, line: str, lineno: int) -> str:
        """Take the lines of NCCL, and follow the tests of nccl-tests, whose parser takes them."""
        if INFO in line and self.take(line, lineno):
            return ""
        mark = AROUND.match(line)
        if mark is not None:
            if mark[1] or not self._trials:
                is_open = any(trial.is_open for trial in self._trials[-1:])
                self._trials.append(LoggedTest(lineno if mark[1] else 0, is_open=is_open))
            self._trials[-1].follow(mark, lineno)
        return line

    def _read(self, message: str) -> None:
        """Read a message once: ranks and communicators repeat most."""
        if message in self._messages:
            return
        self._words.get(message[: message.find(" ")], self._rare)(message)
        self._messages.add(message)
        if len(self._messages) > MOST_SEEN:
            self._messages.clear()  # at worst, messages are read again

    def _keep_versions(self, text: str) -> None:
        """Keep the versions in a text: several processes may print into one line."""
        for library, version in _VERSION.findall(text):
            self._library, self._versions[version] = library, None

    def _other(self, line: str, lineno: int) -> bool:
        version = _VERSION.search(line) if "CCL version" in line else None
        is_warning, warning = line.partition("NCCL WARN ")[1:]
        oldest = _OLDEST.search(line) if "rank access" in line else None
        old = _OLD.match(line) if "INFO " in line or "WARN " in line else None
        if version:
            self._keep_versions(line)
        elif old and old[1]:
            self._read(old[1])
        elif old and old[2]:
            self._warn(old[2].strip(), line, lineno)
        elif is_warning:
            self._warn(warning.strip(), line, lineno)
        elif oldest:
            self._edges[oldest[1], oldest[2], oldest[3].strip()] = 0
        else:
            return False
        self._first = self._first or lineno
        return True

    def _link(self, message: str) -> None:
        """Read the transport of a channel from one rank to another, or the order of its ring."""
        match = _EDGE.match(message)
        if match is None:
            self._ring(message)
            return
        channel, source, place, target, other, way, via, size = match.groups()
        self._size = max(self._size, int(size or 0))
        if via not in self._vias:
            if _VIA.fullmatch(via) is None:
                self._tear(message)
                return
            self._vias.add(via)
        for rank, location in ((source, place), (target, other)):
            if location:
                self._places[int(rank)] = location
        if way and via.startswith("NET/"):
            self._ways.add((way, "GDRDMA" in via))
        key = (source, target, via)
        self._edges[key] = self._edges.get(key, 0) | 1 << int(channel)

    def _tear(self, message: str) -> None:
        """Count a torn line, and read the complete line that may follow in it."""
        self._fragments += 1
        _, info, rest = message.partition(INFO)
        if info:
            self.take(info + rest, self._first)

    def _ring(self, message: str) -> None:
        match = _RING.match(message)
        if match:
            self._rings[int(match[1])] = tuple(int(rank) for rank in match[3].split())
            self._channels = max(self._channels, int(match[2] or 0), int(match[1]) + 1)
        elif "->" not in message or " via" in message or message.rstrip().endswith("->"):
            self._tear(message)  # otherwise it is a line about the search for graphs

    def _tree(self, message: str) -> None:
        for channel, first_end, rank, right in _TREE.findall(message):
            self._trees[channel, rank] = (first_end, right)

    def _comm(self, message: str, before: str, lineno: int) -> None:
        match = _COMM.search(message)
        if match is None:
            return
        rank, size = int(match[1]), int(match[2])
        if match[3]:
            self._nodes[size] = int(match[3])
        prefix = _PREFIX.search(before)
        if "Init COMPLETE" in message:
            for waiting in self._warnings.values() if prefix else ():
                waiting.discard(_process(prefix))
            if prefix:
                self._set_up[_process(prefix)].append(lineno)
            self._is_connected = True
            self._communicators += rank == 0
        if size < self._size:
            return
        if size > self._size:
            self._size = size
            self._ranks.clear()
        old = self._ranks.get(rank, NcclRank(rank=rank))
        self._ranks[rank] = NcclRank(
            rank=rank,
            host=prefix[1] if prefix else old.host,
            device=int(match[4]) if match[4] else old.device,
            gpu=int(match[5]) if match[5] else old.gpu,
            bus=match[6] or old.bus,
        )

    def _network_in_use(self, message: str) -> None:
        network, name = message.partition("etwork ")[1:]
        if network:
            self._used[name.strip()] = None

    def _affinity(self, message: str) -> None:
        if match := _AFFINITY.match(message):
            self._gpus.add(int(match[1]))

    def _join(self, message: str) -> None:
        match = _FABRIC.match(message)
        self._fabric |= match is not None and any(int(size or 0) > 1 for size in match.groups())

    def _connect(self, message: str) -> None:
        self._is_connected |= message.startswith(("Connected all rings", "Connected all trees"))

    def _rare(self, message: str) -> None:
        if "CCL version" in message:
            self._keep_versions(message)
        if message.startswith("NET/"):
            network = _NETWORK.match(message)
            interfaces = _INTERFACE.findall(network[2]) if network else []
            if network and interfaces:  # with only `[RO]; OOB eth0`, no network was found
                self._networks[network[1]] = None
                self._interfaces |= dict.fromkeys(interfaces)
            return
        setting, channels = _SETTING.match(message), _CHANNELS.match(message)
        if setting:
            self._settings[setting[1]] = setting[2]
        elif channels:
            self._channels = max(self._channels, int(channels[1]))
            self._p2p_channels = max(self._p2p_channels, int(channels[2]))

    def _warn(self, text: str, line: str, lineno: int) -> None:
        self._warned_at.setdefault(text, lineno)
        if text in self._warnings or len(self._warnings) < MOST:
            self._warnings.setdefault(text, set()).add(_process(_PREFIX.search(line)))

    def results(self) -> tuple[Parsed, ...]:
        log = self._log()
        if log == NcclLog():
            return ()
        version = " ".join(self._versions)
        builder = ResultBuilder("nccl_log", self._first, f"{self._library} {version}".strip())
        self._judge(builder)
        if log.fabric:
            builder.note("mnnvl")
        if self._edges and not self._is_connected:
            builder.lack("not_connected")
        if self._fragments:
            builder.note("torn_lines", self._fragments)
        return (builder.result(log),)

    def _judge(self, builder: ResultBuilder) -> None:
        """Decide which warnings are failures: those after which nothing shows that NCCL went on."""
        for warning, waiting in self._warnings.items():
            if _SERIOUS.search(warning) is None:
                continue
            if not waiting or _HARMLESS.search(warning):
                builder.note("nccl_went_on", warning)
            elif not _FATAL.search(warning) and all(map(self._has_succeeded, waiting)):
                builder.note("nccl_succeeded", warning)
            else:
                builder.fail(f"NCCL WARN {warning}", self._warned_at[warning])

    def _has_succeeded(self, process: str) -> bool:
        """Tell whether a process belongs to nccl-tests, and all its tests succeeded."""
        trials = [t for t in self._trials if t.covers(process, self._set_up.get(process, ()))]
        if len(self._trials) == 1 and not (self._trials[0].processes or process in self._set_up):
            trials = self._trials  # it names none, and no other test is there
        return bool(trials) and all(trial.has_succeeded for trial in trials)

    def _log(self) -> NcclLog:
        edges = [
            NcclEdge(
                source=int(source),
                target=-1 if target is None else int(target),
                transport=_transport(via),
                via=via,
                channels=tuple(c for c in range(channels.bit_length()) if channels >> c & 1),
                direct="GDRDMA" in via,
            )
            for (source, target, via), channels in self._edges.items()
        ]
        edges.sort(key=lambda edge: (edge.source, edge.target, edge.via))
        places = self._places
        return NcclLog(
            versions=tuple(self._versions),
            size=self._size,
            nodes=self._nodes.get(self._size, 0),
            communicators=self._communicators,
            channels=self._channels,
            p2p_channels=self._p2p_channels,
            rings=tuple(ring for _, ring in sorted(self._rings.items())),
            trees=_trees(self._trees),
            edges=tuple(edges),
            ranks=tuple(
                structs.replace(self._ranks.get(n, NcclRank(rank=n)), place=places.get(n, ""))
                for n in sorted(self._ranks.keys() | places.keys())
            ),
            gpus=tuple(sorted(self._gpus)),
            networks=tuple(self._used or self._networks),
            interfaces=tuple(self._interfaces),
            settings=tuple(Setting(name=k, value=v) for k, v in sorted(self._settings.items())),
            warnings=tuple(self._warnings),
            connected=self._is_connected,
            fabric=self._fabric or any("MNNVL" in edge.via for edge in edges),
            copied_sends=self._ways == {("receive", True), ("send", False)},
            torn=self._fragments,
        )


class LoggedTest:
    """A test of nccl-tests: which processes took part, and whether it reported success.

    A test that begins before another has ended may run at the same time. Then it is not known which
    lines belong to which test, so it proves nothing.
    """

    def __init__(self, first: int, *, is_open: bool) -> None:
        """Begin a test at a line; 0 if its first line is missing."""
        self._first = first
        self._last = 0  # its last line; 0 until it comes
        self._has_failed = is_open
        self.processes: set[str] = set()

    @property
    def is_open(self) -> bool:
        """Whether its last line is still to come."""
        return not self._last

    @property
    def has_succeeded(self) -> bool:
        return bool(self._last) and not self._has_failed

    def follow(self, mark: re.Match[str], lineno: int) -> None:
        if mark[2]:
            self.processes.add(f"{mark[3]}:{mark[2]}")
        elif mark[4] is not None:
            self._has_failed |= "FAILED" in mark[4]
            self._last = lineno if GOOD in mark[0] else self._last

    def covers(self, process: str, set_up: Sequence[int]) -> bool:
        """Tell whether a process took part: it was named, or lines within set it up."""
        return process in self.processes or any(
            self._first <= number and not 0 < self._last < number for number in set_up
        )


def _process(prefix: re.Match[str] | None) -> str:
    return f"{prefix[1]}:{prefix[2]}" if prefix else ""


def _trees(channels: Mapping[tuple[str, str], tuple[str, str]]) -> tuple[NcclTree, ...]:
    """Sort trees; NCCL 2.4 printed parent->rank->children, later versions the reverse."""
    trees = []
    for (channel, rank), (first_end, right) in channels.items():
        is_old = "/" in right and "/" not in first_end
        up, down = (first_end, right) if is_old else (right, first_end)
        children = tuple(int(child) for child in down.split("/") if child != "-1")
        trees.append(NcclTree(channel=int(channel), rank=int(rank), up=int(up), down=children))
    return tuple(sorted(trees, key=lambda tree: (tree.channel, tree.rank)))


def _transport(via: str) -> str:
    """Name the transport; older versions described it in words."""
    if via in ("direct shared memory", "zero-copy host mem"):
        return "SHM"
    if via in ("IPC device mem", "P2P device mem", "common device"):
        return "P2P"
    return via.partition("/")[0]
