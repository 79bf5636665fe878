"""Run one task of a job on this host: its command, its output, and the end of all its processes.

A task's folder holds `task.json` (what is run), `pid`, `output.N`, and `end` (how it ended). Each N
is the offset at which a part of the output begins; the oldest parts go. A line of the output is the
time in seconds, `o` or `e` for the stream (`O`, `E` if no newline followed), and the text. The
supervisor runs in a tmux pane, but does not end with it.

Every descendant of the command is the task's, also a daemon that left its session and its parents:
the kernel hands orphans to the supervisor (PR_SET_CHILD_SUBREAPER, prctl(2)), and a variable marks
them for the process that ends them once the supervisor itself was killed.
"""

import contextlib
import ctypes
import errno
import math
import os
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from cluster.agent.follow import print_event
from cluster.agent.hardware import read_text
from cluster.agent.hardware.counters import EVERY, UsageMeter
from cluster.agent.protocol import BY_SIGNAL, HEARTBEAT, TIMED_OUT
from cluster.core.model.jobs import State, TaskEnd, TaskOutput, TaskSpec, TaskState

SPEC, PID, OUTPUT, END, STOPPING = "task.json", "pid", "output", "end", "stopping"
MARK = "CLUSTER_TASK"  # the variable of all processes of a task: its folder
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, linux/prctl.h
RESERVED = 4096  # bytes, so that the end of a task can be written on a full disk
PARTS = 8  # of the output that are kept
LONGEST = 1 << 20  # bytes of a line; longer ones are written in parts
PIECE = 1 << 18  # bytes that are read at a time
POLL = 0.05  # seconds
BEGINS_WITHIN = 20.0  # seconds from the session to the supervisor
LEFTOVER_GRACE = 2.0  # seconds between SIGTERM and SIGKILL for what a command leaves behind
DIES_WITHIN = 3.0  # seconds after SIGKILL; what is there then is held by the kernel
NO_COMMAND, CANNOT_RUN = 127, 126  # exit statuses, as of a shell
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run_task(folder: Path) -> int:
    """Run the task of a folder to its end; return its exit status."""
    for number in (signal.SIGHUP, signal.SIGCHLD, *STOP_SIGNALS):
        signal.signal(number, lambda *_: None)  # tmux may be killed: the task goes on
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    (folder / END).write_bytes(b" " * RESERVED)
    _write(folder / PID, f"{os.getpid()} 0")
    spec = msgspec.json.decode((folder / SPEC).read_bytes(), type=TaskSpec)
    output = _Output(folder, spec.most_output)
    try:
        process = _start(spec, folder)
    except OSError as error:
        status = NO_COMMAND if isinstance(error, FileNotFoundError) else CANNOT_RUN
        end = TaskEnd(exit_status=status, state="failed", at=0.0, reason=str(error.strerror))
    else:
        _write(folder / PID, f"{os.getpid()} {time.time()}")
        end = _Supervisor(process, spec, output, folder).watch()
    if output.lost_bytes:
        note = f"{output.lost_bytes} bytes of output were lost: {output.why}."
        end = msgspec.structs.replace(end, reason=f"{end.reason} {note}".strip())
    _record(folder, end)
    return end.exit_status


def _write(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_text(text)
    part.replace(path)


def _record(folder: Path, end: TaskEnd) -> None:
    size = min(_parts(folder), default=0)
    end = msgspec.structs.replace(end, at=time.time(), dropped=size)
    data = msgspec.json.encode(end).ljust(RESERVED)
    with (folder / END).open("r+b") as file:
        file.write(data)


def _start(spec: TaskSpec, folder: Path) -> subprocess.Popen[bytes]:
    """Start the command of a task (OSError: its folder or program does not exist)."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("TMUX")}
    path = os.pathsep.join(filter(None, (spec.env.get("PATH"), variables.get("PATH"))))
    env = {**variables, **spec.env, "PATH": path, MARK: str(folder)}
    if spec.hang_after is not None:
        starts = str(Path(__file__).parent / "python_start")
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (starts, env.get("PYTHONPATH"))))
    cwd = Path.home() / spec.cwd
    if not cwd.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"{cwd} is no folder on this host.")
    try:
        word = next(iter(shlex.split(spec.line, comments=True)), "")
    except ValueError:
        word = ""  # the shell says what is wrong
    # An assignment, a group or an expansion is no command that could be missing.
    if word and all(c.isalnum() or c in "._-+/" for c in word):
        look = ["sh", "-c", 'command -v -- "$1"', "sh", word]
        if subprocess.run(look, cwd=cwd, env=env, capture_output=True, check=False).returncode:
            raise FileNotFoundError(errno.ENOENT, f"{word}: command not found.")
    try:
        return subprocess.Popen(
            spec.argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        reason = "command not found" if error.errno == errno.ENOENT else error.strerror
        raise type(error)(error.errno, f"{spec.argv[0]}: {reason}.") from error


class _Output:
    """The files with what a task prints, and the pane that shows it."""

    def __init__(self, folder: Path, most: int) -> None:
        self._folder, self._most = folder, most
        self._parts: list[int] = []
        self._end = 0
        self._file = -1
        self._next_part()
        self._partial_lines = {"o": b"", "e": b""}
        self.lost_bytes = 0
        self.why = ""
        os.set_blocking(1, False)  # a pane that nobody reads must not hold the task up

    def take(self, stream: str, piece: bytes) -> None:
        """Write the lines that are complete now."""
        with contextlib.suppress(OSError):
            os.write(1, piece)
        *lines, rest = (self._partial_lines[stream] + piece).split(b"\n")
        head = f"{time.time():.6f} {stream} ".encode()
        self._append(b"".join(b"%s%s\n" % (head, line) for line in lines))
        self._partial_lines[stream] = rest
        if len(rest) >= LONGEST:
            self.flush(stream)

    def flush(self, stream: str) -> None:
        """Write what has no newline yet."""
        if rest := self._partial_lines[stream]:
            self._partial_lines[stream] = b""
            self._append(f"{time.time():.6f} {stream.upper()} ".encode() + rest + b"\n")

    def _append(self, text: bytes) -> None:
        try:
            if self._end >= self._parts[-1] + self._most // PARTS:
                self._next_part()
            while text:
                count = os.write(self._file, text)
                self._end += count
                text = text[count:]
        except OSError as error:
            self.lost_bytes += len(text)
            self.why = error.strerror or str(error)

    def _next_part(self) -> None:
        flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY
        file = os.open(_part(self._folder, self._end), flags, 0o600)
        if self._file >= 0:
            os.close(self._file)
        self._file = file
        self._parts.append(self._end)
        while len(self._parts) > PARTS:
            _part(self._folder, self._parts.pop(0)).unlink()


def _part(folder: Path, offset: int) -> Path:
    return folder / f"{OUTPUT}.{offset:015d}"  # their names are in order


def _parts(folder: Path) -> list[int]:
    """Return the offsets at which the parts begin that are kept."""
    return [int(path.suffix[1:]) for path in folder.glob(f"{OUTPUT}.*")]


def _read_output(folder: Path, offset: int) -> tuple[int, bytes]:
    """Read whole lines of the output; return where they begin, later if a part has gone."""
    parts = _parts(folder)
    start = max((part for part in parts if part <= offset), default=min(parts, default=offset))
    offset = max(offset, start)
    with contextlib.suppress(FileNotFoundError), _part(folder, start).open("rb") as file:
        file.seek(offset - start)
        piece = file.read(LONGEST)
        return offset, piece[: piece.rfind(b"\n") + 1] or (piece + file.readline())
    return offset, b""


class _Supervisor:
    """Reads a command's output, and ends it and what it leaves behind."""

    def __init__(
        self, process: subprocess.Popen[bytes], spec: TaskSpec, output: _Output, folder: Path
    ) -> None:
        self._process, self._spec, self._output, self._folder = process, spec, output, folder
        self._signals, writer = os.pipe()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._signals, selectors.EVENT_READ, "")
        for name, pipe in (("o", process.stdout), ("e", process.stderr)):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                self._selector.register(pipe, selectors.EVENT_READ, name)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)

    def watch(self) -> TaskEnd:
        """Return how the command ended, once none of its processes runs."""
        limit = math.inf if self._spec.timeout is None else self._spec.timeout
        deadline = time.monotonic() + limit
        is_signalled, meter = False, UsageMeter()
        while self._process.poll() is None and not is_signalled:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                break
            is_signalled = self._read(min(remaining, EVERY)) == "signal"
            meter.read()
        usage = meter.usage()
        is_late = self._process.poll() is None and not is_signalled
        grace = self._spec.grace if is_signalled or is_late else LEFTOVER_GRACE
        leftovers, survivors = end_all(self._descendants, grace, self._read)
        while self._read(0):
            pass
        for name in ("o", "e"):
            self._output.flush(name)
        status = self._process.poll()
        status = -1 if status is None else status if status >= 0 else BY_SIGNAL - status
        state: State = "stopped" if is_signalled else "failed" if status or is_late else "done"
        if is_signalled:
            reason = read_text(self._folder / STOPPING)
        elif is_late:
            reason = f"It did not end within {limit:g} s."
        else:
            names = ", ".join(leftovers)
            reason = f"It left processes behind, which were ended: {names}." if names else ""
        if survivors:
            reason = (
                f"{reason} The kernel holds {', '.join(survivors)}: SIGKILL did not end it.".strip()
            )
        number = TIMED_OUT if is_late else status
        return TaskEnd(exit_status=number, state=state, at=0.0, reason=reason, usage=usage)

    def _read(self, seconds: float) -> str:
        """Take what comes within some time: `output`, a `signal` to end, or nothing."""
        event = ""
        for key, _ in self._selector.select(seconds):
            try:
                piece = os.read(key.fd, PIECE)
            except BlockingIOError:
                continue
            if key.data == "":
                self._reap()
                event = "signal" if set(piece) & set(STOP_SIGNALS) else event
            elif piece:
                self._output.take(key.data, piece)
                event = event or "output"
            else:
                self._selector.unregister(key.fileobj)
        return event

    def _descendants(self) -> set[int]:
        """Return the processes below this one that run; the orphans that have ended are reaped."""
        self._reap()
        return _find_tree({os.getpid()}) - {os.getpid()}

    def _reap(self) -> None:
        """Take the exit statuses of orphans; that of the command is left to `Popen`."""
        peek = os.WEXITED | os.WNOHANG | os.WNOWAIT
        with contextlib.suppress(ChildProcessError):
            while child := os.waitid(os.P_ALL, 0, peek):
                if child.si_pid == self._process.pid:
                    self._process.poll()
                else:
                    os.waitpid(child.si_pid, 0)


def end_all(
    find: Callable[[], set[int]], grace: float, pause: Callable[[float], object] = time.sleep
) -> tuple[list[str], list[str]]:
    """End processes: SIGTERM, after `grace` seconds SIGKILL until none is left; they may fork.

    `find` returns those that run now. Returns the names of those that were there, and of those that
    are left: the kernel holds them.
    """
    first = find()
    names = [_name(pid) for pid in sorted(first)]
    for pid in first:
        _signal(pid, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while (alive := find()) and time.monotonic() < deadline:
        pause(POLL)
    deadline = time.monotonic() + DIES_WITHIN
    while alive and time.monotonic() < deadline:
        for pid in alive:
            _signal(pid, signal.SIGKILL)
        pause(POLL)
        alive = find()
    return names, [_name(pid) for pid in sorted(alive)]


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _name(pid: int) -> str:
    return f"{read_text(Path(f'/proc/{pid}/comm')) or '?'} ({pid})"


def _find_tree(pids: set[int]) -> set[int]:
    """Return processes with all their descendants, without zombies."""
    pids_: set[int] = set()
    queue = set(pids)
    while queue:
        pid = queue.pop()
        if pid in pids_ or read_text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[:1] in (
            [],
            ["Z"],
        ):
            continue
        pids_.add(pid)
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            queue |= {int(child) for child in read_text(children).split()}
    return pids_


def find_pids(folder: Path) -> set[int]:
    """Return the processes of a task, also adopted ones; not its supervisor."""
    mark = f"{MARK}={folder}".encode()
    pids = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in path.read_bytes().split(b"\0"):
                pids.add(int(path.parent.name))
    return _find_tree(pids) - {os.getpid()}


def task_state(folder: Path) -> TaskState:
    """Return the state of a task, as its files and processes tell it."""
    if not (folder / SPEC).exists():
        reason = "its folder is gone"
    else:
        pid, _, start = read_text(folder / PID).partition(" ")
        is_supervised = False
        with contextlib.suppress(OSError):  # by its command line: process ids are reused
            words = Path(f"/proc/{int(pid or 0)}/cmdline").read_bytes().split(b"\0")
            is_supervised = os.fsencode(folder) in words
        if end := read_text(folder / END):  # after the look for its supervisor, which ends with it
            record = msgspec.json.decode(end, type=TaskEnd)
            start = read_text(folder / PID).partition(" ")[2]
            return TaskState(state=record.state, began=float(start or 0), end=record)
        if is_supervised:
            mtimes = []
            for part in folder.glob(f"{OUTPUT}.*"):
                with contextlib.suppress(FileNotFoundError):  # the oldest may go meanwhile
                    mtimes.append(part.stat().st_mtime)
            now = time.time()
            state: State = "running" if float(start) else "starting"
            quiet = max(0.0, now - max(mtimes, default=now))
            return TaskState(state=state, began=float(start), quiet=quiet)
        if not pid and time.time() - (folder / SPEC).stat().st_mtime < BEGINS_WITHIN:
            return TaskState(state="starting")
        reason = "its supervisor was killed, or the host was restarted" if pid else "it never began"
    loss = TaskEnd(exit_status=-1, state="lost", at=time.time(), reason=f"{reason}.".capitalize())
    return TaskState(state="lost", end=loss, processes=len(find_pids(folder)))


def running_jobs(folder: Path) -> dict[str, float]:
    """Return the jobs that run here, and since how many seconds each has printed nothing.

    `folder` holds those of all jobs of a cluster, whose names end with the time of their start.
    """
    tasks = [path.parent for path in folder.glob(f"*/*/{SPEC}")]
    states = {task: task_state(task) for task in tasks if not read_text(task / END)}
    return {
        task.parent.name.rpartition("-")[0]: round(state.quiet, 1)
        for task, state in states.items()
        if state.state == "running"
    }


def stop_task(folder: Path, reason: str) -> TaskState:
    """End a task, and whatever it left if its supervisor was killed."""
    wait_for_start(folder)
    if reason and folder.is_dir():
        _write(folder / STOPPING, reason)
    pid = read_text(folder / PID).partition(" ")[0]
    grace = msgspec.json.decode((folder / SPEC).read_bytes(), type=TaskSpec).grace if pid else 0.0
    deadline = time.monotonic() + grace + 2 * DIES_WITHIN
    if pid and task_state(folder).end is None:
        _signal(int(pid), signal.SIGTERM)
    while (state := task_state(folder)).state in ("starting", "running"):
        if time.monotonic() > deadline:
            _signal(int(pid or 0), signal.SIGKILL)
            break
        time.sleep(POLL)
    close_task(folder)
    return task_state(folder) if state.end is None else state


def close_task(folder: Path) -> None:
    """End what a killed supervisor left, and record that its task is lost."""
    state = task_state(folder)
    if state.state != "lost" or state.end is None:
        return
    leftovers, survivors = end_all(lambda: find_pids(folder), LEFTOVER_GRACE)
    if not (folder / SPEC).exists():
        return
    parts = [state.end.reason]
    parts += [f"These went on, and were ended: {', '.join(leftovers)}."] if leftovers else []
    parts += [f"The kernel holds {', '.join(survivors)}."] if survivors else []
    (folder / END).touch()
    _record(folder, msgspec.structs.replace(state.end, reason=" ".join(parts)))


def follow_task(folder: Path, offset: int, *, to_end: bool = True) -> None:
    """Print a task's output from an offset on, as events, until it has ended; then its state.

    The state is printed at times, too, so that the reader can tell a quiet task from a dead host.
    """
    beat = time.monotonic()
    while True:
        state = task_state(folder)
        while (output := _read_output(folder, offset))[1]:
            start, piece = output
            text, end = piece.decode(errors="replace"), start + len(piece)
            gap = start - offset
            print_event(TaskOutput(text=text, end=end, now=time.time(), dropped=gap))
            offset = end
        if state.end is not None or not to_end:
            print_event(state)
            return
        if time.monotonic() > beat + HEARTBEAT:
            beat = time.monotonic()
            print_event(state)
        time.sleep(POLL)


def wait_for_start(folder: Path) -> TaskState:
    """Wait until a task's command was started, or could not be."""
    deadline = time.monotonic() + BEGINS_WITHIN
    while (state := task_state(folder)).state == "starting" and time.monotonic() < deadline:
        time.sleep(POLL)
    return state


def main(verb: str, first: str, *words: str) -> int:
    folder = Path(first).absolute()
    match verb:
        case "task":
            return run_task(folder)
        case "task-close":
            close_task(folder)
        case "task-begun":
            print_event(wait_for_start(folder))
        case "task-states":
            for word in (first, *words):
                print_event(task_state(Path(word).absolute()))
        case "task-follow":
            follow_task(folder, int(words[0]), to_end=words[1:] == ())
        case "task-stop":
            print_event(stop_task(folder, " ".join(words)))
    return 0
