"""What the ranks of a job on this host do now: for `cluster hang`.

No process is stopped: all is read from /proc, but for py-spy, which reads the memory of a process,
and for faulthandler, which interrupts it for less than a millisecond.
"""

import contextlib
import os
import platform
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from cluster.agent.hardware import read_text
from cluster.agent.hardware.interfaces import list_interfaces
from cluster.agent.supervise import find_ranks
from cluster.agent.task import find_pids
from cluster.core.model import hang
from cluster.core.model.value import Value

RANKS = (  # the variables of a rank; the first that any process has tell who the ranks are
    *(("OMPI_COMM_WORLD_RANK", ""), ("PMIX_RANK", ""), ("PMI_RANK", "")),
    *(("RANK", "TORCHELASTIC_RUN_ID"), ("RANK", "")),
)
SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE")
WRAPPERS = ("sh", "bash", "dash", "timeout")
STATES: dict[str, hang.ProcessState] = {
    "R": "running",
    "S": "sleeping",
    "I": "sleeping",
    "D": "disk",
    "T": "stopped",
    "t": "stopped",
    "Z": "gone",
    "X": "gone",
}
STACKS = "stacks"  # the folder of stacks below that of a task; python_start/sitecustomize.py
STACK_SIGNAL = signal.SIGRTMIN + 9
WITHIN = 4.0  # seconds for py-spy, and for NCCL to answer
RAS = "localhost:28028"  # unless NCCL_RAS_ADDR says another
RAS_QUESTION = b"CLIENT PROTOCOL 2\nTIMEOUT 3\nSET FORMAT json\nVERBOSE STATUS\n"
RECORDS = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
LARGEST = 1 << 24  # bytes of a dump
HEAD = struct.Struct("=4i")  # `struct calls` of cluster/measure/kernels/profile.c
SLOT = struct.Struct("=Qqqii32sq")
SLOTS = 64
INSPECTED = b"inspector_output_format_version"  # in each line of NCCL's inspector
LATEST = 1 << 22  # bytes of its file, which grows while the job runs
WORLD = "MPI_COMM_WORLD"
MOST_FILES = 8  # that are open, of a process
MOST_LEVELS = 32  # of a stack in the kernel, which only root may read
SEEN = ("/dev/", "/proc/", "/sys/", "/memfd:", "/usr/", "/SYSV")


class _FoundRank(Value, frozen=True, kw_only=True):
    rank: int
    pid: int
    env: dict[str, str]


def report(folder: Path, *, native: bool = False) -> hang.HostReport:
    """Look at the ranks of a job, whose folder it is; `native` stops each for milliseconds."""
    pids = {*find_pids(folder), *find_ranks(folder)}
    ranks = _ranks(pids)
    addresses = tuple(interface.address for interface in list_interfaces())
    processes = [_process(rank, addresses) for rank in ranks]
    calls = [call for rank in ranks if (call := _calls(rank)) is not None]
    sources = [(*_records(rank), *_inspector_dumps(rank), *_stack(rank, folder)) for rank in ranks]
    files = [file for several in sources for file in several]
    files += [file for rank in ranks if native for file in _native(rank)]
    sizes = (rank.env.get(name, "") for rank in ranks for name in SIZES)
    size = max((int(text) for text in sizes if text.isdecimal()), default=0)
    job = (hang.Membership(group="", ranks=tuple(range(size))),) if size else ()
    processes[:1] = [msgspec.structs.replace(first, groups=job) for first in processes[:1]]
    return hang.HostReport(snapshots=(*processes, *calls), files=(*files, *_ras(ranks)), size=size)


def _ranks(pids: set[int]) -> list[_FoundRank]:
    """Return one process of each rank."""
    environments = {pid: _environment(pid) for pid in sorted(pids)}
    parents = {pid: int(_stat(pid)[1]) for pid in environments}
    for name, companion in RANKS:
        ranks = {
            pid: int(env[name])
            for pid, env in environments.items()
            if env.get(name, "").isdecimal() and (not companion or companion in env)
        }
        first = {rank: pid for pid, rank in reversed(ranks.items()) if parents[pid] not in ranks}
        if first:
            processes = ((rank, _below_wrappers(first[rank], parents)) for rank in sorted(first))
            return [
                _FoundRank(rank=rank, pid=pid, env=environments[pid]) for rank, pid in processes
            ]
    return []


def _below_wrappers(pid: int, parents: dict[int, int]) -> int:
    """Return the process that works: not a shell or another that only waits for its child."""
    children = [child for child, parent in parents.items() if parent == pid]
    proc = Path(f"/proc/{pid}")
    waits = read_text(proc / "comm") in WRAPPERS or read_text(proc / "wchan") == "do_wait"
    return _below_wrappers(children[0], parents) if waits and len(children) == 1 else pid


def _environment(pid: int) -> dict[str, str]:
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (word.partition("=") for word in os.fsdecode(raw).split("\0"))
    return {name: value for name, _, value in pairs if name}


def _stat(pid: int) -> list[str]:
    return read_text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split() or ["X", "0"]


def _process(rank: _FoundRank, addresses: tuple[str, ...]) -> hang.Snapshot:
    proc = Path(f"/proc/{rank.pid}")
    paths: list[str] = []
    full: list[str] = []
    for link in (proc / "fd").glob("*"):
        with contextlib.suppress(OSError, ValueError):
            path = str(link.readlink())
            if not path.startswith("/") or path.startswith(SEEN) or f"/{STACKS}/" in path:
                continue
            writes = int(read_text(proc / "fdinfo" / link.name).split()[3], 8) & os.O_ACCMODE
            paths.append(path)
            room = os.statvfs(path)
            if writes and room.f_blocks and not room.f_bavail:
                full.append(path)
    wchan = read_text(proc / "wchan")
    return hang.Snapshot(
        source="processes",
        rank=rank.rank,
        host=platform.node(),
        addresses=addresses,
        pid=rank.pid,
        at=time.time(),
        state=STATES.get(_stat(rank.pid)[0], ""),
        wchan="" if wchan == "0" else wchan,
        kernel=tuple(
            line.split()[-1].partition("+")[0]
            for line in read_text(proc / "stack").splitlines()[:MOST_LEVELS]
        ),
        files=tuple(paths[:MOST_FILES]),
        full=tuple(full),
    )


def _calls(found_rank: _FoundRank) -> hang.Snapshot | None:
    """Read which MPI call a rank is in, as our profile library shows it."""
    name = f"/mpi_calls.{found_rank.rank}"
    lines = read_text(Path(f"/proc/{found_rank.pid}/maps")).splitlines()
    path = next((line.split(maxsplit=5)[-1] for line in lines if line.endswith(name)), "")
    try:
        raw = Path(path).read_bytes()
        pid, rank, size, _ = HEAD.unpack_from(raw)
        slots = list(SLOT.iter_unpack(raw[HEAD.size : HEAD.size + SLOTS * SLOT.size]))
        members = memoryview(raw[HEAD.size + SLOTS * SLOT.size :]).cast("i").tolist()
    except (OSError, struct.error, TypeError):
        return None
    if (pid, rank) != (found_rank.pid, found_rank.rank):
        return None
    all_ranks, offset = tuple(range(size)), 0
    groups = [hang.Membership(group=WORLD, ranks=all_ranks)]
    operations = []
    for slot in slots[1:]:
        ranks = tuple(members[offset : offset + slot[3]])
        offset += slot[3]
        group = WORLD if ranks == all_ranks else f"{slot[0]:016x}"
        if slot[1]:
            operations.append((group, slot))
            groups += [hang.Membership(group=group, ranks=ranks)] if len(ranks) == slot[3] else []
    return hang.Snapshot(
        source="mpi_calls",
        rank=rank,
        pid=pid,
        at=time.time(),
        call=_text(slots[0]) if slots[0][4] else "",
        operations=tuple(
            hang.Operation(
                group=group, number=slot[1], name=_text(slot), done=not slot[4], since=slot[2] / 1e9
            )
            for group, slot in operations
        ),
        groups=tuple(groups),
        pause=max((slot[6] for slot in slots[1:]), default=0) / 1e9,
    )


def _text(slot: tuple[int, int, int, int, int, bytes, int]) -> str:
    return slot[5].partition(b"\0")[0].decode(errors="replace")


def _records(rank: _FoundRank) -> list[hang.DumpFile]:
    """Read the Flight Recorder's dump of a rank, if it has written one."""
    cache = rank.env.get("XDG_CACHE_HOME", f"{rank.env.get('HOME', '')}/.cache")
    names = [f"{rank.env[name]}{rank.rank}" for name in RECORDS if name in rank.env]
    names += [f"{cache}/torch/comm_lib_trace_rank_{rank.rank}", f"/tmp/nccl_trace_rank_{rank.rank}"]  # noqa: S108
    start = Path(f"/proc/{rank.pid}").stat().st_mtime if Path(f"/proc/{rank.pid}").exists() else 0
    for name in names:
        path = Path(name)
        if path.is_file() and path.stat().st_mtime >= start:
            with contextlib.suppress(OSError):
                if path.stat().st_size <= LARGEST:
                    content, mtime = path.read_bytes(), path.stat().st_mtime
                    file = hang.DumpFile(name=f"trace_rank_{rank.rank}", content=content, at=mtime)
                    return [file]
            return []
    return []


def _inspector_dumps(rank: _FoundRank) -> list[hang.DumpFile]:
    """Read the end of what NCCL's inspector, which a rank has open, has written."""
    if "NCCL_INSPECTOR_ENABLE" not in rank.env:
        return []
    for link in Path(f"/proc/{rank.pid}/fd").glob("*"):
        if not link.is_file():  # a pipe or terminal would wait
            continue
        with contextlib.suppress(OSError), link.open("rb") as file:
            if INSPECTED not in file.readline(1024):
                continue
            start = max(0, link.stat().st_size - LATEST)
            file.seek(start)
            content = file.read(LATEST)
            lines = content.partition(b"\n")[2] if start else content
            mtime = link.stat().st_mtime
            return [hang.DumpFile(name=f"inspector_rank{rank.rank}.jsonl", content=lines, at=mtime)]
    return []


def _stack(rank: _FoundRank, folder: Path) -> list[hang.DumpFile]:
    """Return a rank's Python stack: by py-spy, else by faulthandler if we have registered it."""
    name = f"stack_rank{rank.rank}.txt"
    if _stat(rank.pid)[0] in "TtDZX":
        return []
    if spy := shutil.which("py-spy"):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            words = [spy, "dump", "--nonblocking", "--full-filenames", "--pid", str(rank.pid)]
            result = subprocess.run(words, capture_output=True, timeout=WITHIN, check=True)
            return [hang.DumpFile(name=name, content=result.stdout, at=time.time())]
    path = folder / STACKS / str(rank.pid)
    status = read_text(Path(f"/proc/{rank.pid}/status")).splitlines()
    mask = next((line.split()[1] for line in status if line.startswith("SigCgt")), "0")
    if not path.exists() or not int(mask, 16) >> (STACK_SIGNAL - 1) & 1:
        return []
    offset = path.stat().st_size
    os.kill(rank.pid, STACK_SIGNAL)
    deadline = time.monotonic() + 0.5
    size = offset
    while time.monotonic() < deadline and (size == offset or size != path.stat().st_size):
        size = path.stat().st_size
        time.sleep(0.02)
    content = path.read_bytes()[offset:]
    return [hang.DumpFile(name=name, content=content, at=time.time())] if content else []


def _native(rank: _FoundRank) -> list[hang.DumpFile]:
    """Return a rank's native stack: eu-stack stops it for its addresses, and names come later."""
    unwind, name = shutil.which("eu-stack"), shutil.which("eu-addr2line")
    if not (unwind and name) or _stat(rank.pid)[0] in "TtDZX":
        return []
    run = partial(subprocess.run, capture_output=True, text=True, timeout=WITHIN)
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        start = time.perf_counter()
        levels = run([unwind, "-1", "-q", "-p", str(rank.pid)]).stdout
        pause = time.perf_counter() - start
        addresses = re.findall(r"^#\d+ +(0x[0-9a-f]+)", levels, re.MULTILINE)
        if not addresses:  # it may not look at the process; eu-addr2line would read our input
            return []
        names = run([name, "-f", "-C", "-p", str(rank.pid), *addresses]).stdout.splitlines()[::2]
        files = [_mapped_file(rank.pid, int(address, 16)) for address in addresses]
        head = f"Thread 1 (LWP {rank.pid}): stopped for at most {pause * 1000:.0f} ms"
        lines = [
            f"#{level}  {address} in {function} () from {file}"
            for level, (address, function, file) in enumerate(
                zip(addresses, names, files, strict=False)
            )
        ]
        content = "\n".join([head, *lines]).encode()
        return [hang.DumpFile(name=f"native_rank{rank.rank}.txt", content=content, at=time.time())]
    if _stat(rank.pid)[0] == "T":  # eu-stack was ended while it held the process
        os.kill(rank.pid, signal.SIGCONT)
    return []


def _mapped_file(pid: int, address: int) -> str:
    for line in read_text(Path(f"/proc/{pid}/maps")).splitlines():
        start, _, rest = line.partition("-")
        if int(start, 16) <= address < int(rest.partition(" ")[0], 16):
            return (line.split(maxsplit=5)[5:] or ["?"])[0]
    return "?"


def _ras(ranks: Sequence[_FoundRank]) -> list[hang.DumpFile]:
    """Ask NCCL for the state of its communicators, if a process of it listens here."""
    for address in sorted({rank.env.get("NCCL_RAS_ADDR", RAS) for rank in ranks}):
        host, _, port = address.rpartition(":")
        reply = b""
        with (
            contextlib.suppress(OSError, ValueError),
            socket.create_connection((host.strip("[]"), int(port)), 0.2) as connection,
        ):
            connection.settimeout(WITHIN)
            connection.sendall(RAS_QUESTION)
            while (piece := connection.recv(1 << 16)) and len(reply) < LARGEST:
                reply += piece
        if reply:
            return [hang.DumpFile(name="nccl_ras.txt", content=reply, at=time.time())]
    return []
