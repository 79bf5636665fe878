"""`c.hosts[0]`, `c.hosts[1:]`, `c.hosts["worker"]`: hosts as values, with the same verbs on all.

Each host runs a set-up script once: a file there marks what ran, by its content.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import shlex
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypedDict, TypeVar, Unpack, overload
from uuid import uuid4

import msgspec

from cluster.core.errors import (
    TAIL_LINES,
    ClusterError,
    JobError,
    ShellError,
    SpecError,
    Unreachable,
)
from cluster.core.model.hosts import Completed, Machine, group_of
from cluster.core.model.jobs import TaskSpec
from cluster.orchestration.jobs.job import Job
from cluster.orchestration.sync import Sync, SyncReport, read_tree
from cluster.remote.files import spread
from cluster.remote.hosts import Hosts
from cluster.remote.parallel import on_each, results, try_each
from cluster.remote.sessions.leftovers import MARK, end_leftovers
from cluster.remote.shells import Shell
from cluster.runs.store import root as runs_root

Command = str | Sequence[str]
T = TypeVar("T")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NUMBER = re.compile("-?[0-9]+")
COMMAND_MARK = "CLUSTER_COMMAND"  # the variable by which a command that is given up is ended
RUN = (  # a machine's folder may be relative to the home folder
    'PATH=$(cd "$1" 2> /dev/null && pwd):$PATH; export PATH; cd -- "${2:-.}" && shift 2 && '
    'exec env "$@"'
)


class StartOptions(TypedDict, total=False):
    """The options of a job, as `Cluster.start` describes them."""

    name: str
    cwd: str
    env: Mapping[str, str] | None
    timeout: float | None
    hang_after: float | None
    grace: float
    restarts: int
    most_output: int
    runs: str | Path | None


class CommandOptions(TypedDict, total=False):
    """The options of a command, as `HostGroup.run` describes them."""

    cwd: str
    env: Mapping[str, str] | None
    timeout: float | None
    check: bool
    on_line: Callable[[str, str], None] | None


class HostGroup(Sequence["Host"]):
    """Some hosts of a cluster, in the order of their numbers; each verb acts on all in parallel."""

    def __init__(
        self, remote: Hosts, start: Callable[..., Job], machines: tuple[Machine, ...] | None = None
    ) -> None:
        self._remote = remote
        self._start = start  # a job on some hosts, as `Cluster.start` does
        self._machines = machines

    @property
    def machines(self) -> tuple[Machine, ...]:
        """The machines of the hosts, in the order of the ranks."""
        return self._remote.machines if self._machines is None else self._machines

    @property
    def names(self) -> tuple[str, ...]:
        """The names of their machines, such as `0.mpi.mine`."""
        return tuple(machine.name for machine in self.machines)

    def __len__(self) -> int:
        return len(self.machines)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(self.names)}>"

    @overload
    def __getitem__(self, key: int) -> Host: ...

    @overload
    def __getitem__(self, key: slice | str) -> HostGroup: ...

    def __getitem__(self, key: int | slice | str) -> Host | HostGroup:
        """Return a host by its number, or those of a slice, of a name, or of a selection.

        A selection is what `--on` takes: `0`, `1:`, `0,2`, the name of a machine, or of a group.

        Raises:
            IndexError: there is no host of this number.
            SpecError: the selection names no host.
        """
        if isinstance(key, int):
            return Host(HostGroup(self._remote, self._start, (self.machines[key],)))
        if isinstance(key, slice):
            return HostGroup(self._remote, self._start, self.machines[key])
        names = select(self.names, key)
        machines = tuple(machine for machine in self.machines if machine.name in names)
        return HostGroup(self._remote, self._start, machines)

    def run(
        self,
        command: Command,
        *,
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        check: bool = True,
        on_line: Callable[[str, str], None] | None = None,
    ) -> dict[str, Completed]:
        """Run a command on each host in parallel, and wait for it.

        Example: `c.hosts[1:].run("pip install -r requirements.txt", cwd="adder")`

        Args:
            command: a line for `sh`, or the words of a command, unquoted. What a line leaves in the
                background with `&` is not waited for.
            cwd: a folder on the hosts; by default the home folder, on `local` one for each host.
            env: environment variables, in addition to those of the login.
            timeout: seconds.
            check: raise if the exit status is not 0.
            on_line: called with a machine's name and each line that it prints, as it comes.

        Returns:
            How the command ended on each host, by the name of its machine.

        Raises:
            JobError: the exit status was not 0 on one host.
            ShellError: the command could not be started on one host, or did not end in time.
            HostErrors: several hosts failed; each is listed.
        """
        ends = self.try_run(command, cwd=cwd, env=env, timeout=timeout, on_line=on_line)
        if not check:
            return results(ends)
        return results({name: _check_status(name, command, end) for name, end in ends.items()})

    def try_run(
        self,
        command: Command,
        *,
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        on_line: Callable[[str, str], None] | None = None,
    ) -> dict[str, Completed | ClusterError]:
        """Run as `run` does, with a result or error for each host: `c.hosts.try_run("nproc")`."""
        check_seconds(timeout=timeout)
        mark = uuid4().hex

        def do(name: str, shell: Shell) -> Completed:
            hear = None if on_line is None else partial(on_line, name)
            variables = {**(env or {}), COMMAND_MARK: mark}
            words = command_words(self._by_name[name], command, self.path(name, cwd), variables)
            result = shell.run(words, timeout=timeout, on_line=hear)
            argv = (command,) if isinstance(command, str) else tuple(command)
            return msgspec.structs.replace(result, argv=argv)

        def end(_: str, shell: Shell) -> None:
            end_leftovers(shell, mark, COMMAND_MARK)

        try:
            return self._try_each(do)
        except KeyboardInterrupt:
            try_each(self.shells(), end)  # sshd ends no command whose connection was closed
            raise

    def start(self, command: Command, **options: Unpack[StartOptions]) -> Job:
        """Start a job on these hosts that goes on without this process; see `Cluster.start`.

        Example: `c.hosts["worker"].start("python train.py", name="train")`
        """
        return self._start(command, hosts=self, **options)

    def put(self, path: str | Path, to: str) -> None:
        """Copy a file or folder to each host; hosts pass large ones on to one another.

        Example: `c.hosts[1:].put("train.py", "work/")`

        Args:
            to: the path on the hosts; with a `/` at the end, the folder that it goes into.
                Nothing there is ever removed; files of the same name are replaced.

        Raises:
            SpecError: there is no such file or folder on this machine.
            ShellError: it could not be read, or could not be written on one host.
            HostErrors: on several.
        """
        if not Path(path).exists():
            raise SpecError(f"{path} does not exist on this machine.")
        place = to + Path(path).resolve().name if to.endswith("/") else to
        places = {name: self.path(name, place) for name in self.names}
        spread.put(self.shells(), Path(path), places, self._remote.name)

    def sync(
        self,
        here: str | Path,
        there: str = "",
        *,
        delete: bool = False,
        runs: str | Path | None = None,
    ) -> SyncReport:
        """Bring a folder of each host to the state of one here, by sending only what differs.

        What `.gitignore` files name is left out, as are `.git`, caches, Python environments and the
        folder of all runs. Example: `print(c.sync(".", "adder"))`

        Args:
            there: the folder on the hosts, created if missing; by default, named as the one here.
            delete: remove what is there and not here, but nothing that `.gitignore` names.
            runs: the folder of all runs, if it is not the usual one.

        Returns:
            What was sent, what was left out, and what changed meanwhile; `print` words it.

        Raises:
            SpecError: the folder here does not exist or cannot be read.
            ShellError: a host could not be brought to that state.
            HostErrors: several could not.
        """
        place = there or Path(here).resolve().name
        places = {name: self.path(name, place) for name in self.names}
        read = partial(read_tree, here, runs_root(runs).resolve())
        name = self._remote.name
        return Sync(self.shells(), name, read, place, places).run(delete=delete)

    def get(self, path: str, to: str | Path) -> dict[str, Path]:
        """Download a file or folder from each host: `c.hosts["worker"].get("out", "results")`.

        Args:
            to: a local folder; it gets one folder per host, by the name of its machine.

        Raises:
            ShellError: it could not be downloaded from one host.
            HostErrors: from several.
        """

        def fetch(name: str, shell: Shell) -> Path:
            shell.fetch(self.path(name, path), Path(to) / name)
            return Path(to) / name

        return self._on_hosts(fetch)

    def write(self, text: str, path: str) -> None:
        """Write a small file on each host, atomically: `c.hosts.write("lr = 0.1", "conf.toml")`.

        ShellError: it could not be written on one host; HostErrors: on several.
        """
        self._on_hosts(lambda name, shell: shell.write(text, self.path(name, path)))

    def read(self, path: str) -> dict[str, str]:
        """Return the text of a small file of each host: `c.hosts["worker"].read("out/loss")`.

        ShellError: there is none on one host, or it cannot be read; HostErrors: on several.
        """

        def read(name: str, shell: Shell) -> str:
            result = shell.run(["cat", "--", self.path(name, path)])
            if result.status != 0:
                raise ShellError(
                    f"{path} cannot be read on {name}: {result.stderr.strip()}", host=name
                )
            return result.stdout

        return self._on_hosts(read)

    def exists(self, path: str) -> dict[str, bool]:
        """Return whether a path exists, for each host: `all(c.hosts.exists("data").values())`."""
        return self._on_hosts(lambda name, shell: shell.exists(self.path(name, path)))

    def path(self, name: str, path: str) -> str:
        """Return a path on a host, as its shell takes it: `c.hosts.path("0.mpi.mine", "data")`.

        On `local`, all hosts are this machine: relative paths begin in a folder for each of them.
        """
        machine = self._by_name[name]
        if machine.shell != "local" or posixpath.isabs(path):
            return path
        return posixpath.normpath(posixpath.join(machine.folder, "hosts", name, path))

    @property
    def _by_name(self) -> dict[str, Machine]:
        return {machine.name: machine for machine in self.machines}

    def shells(self) -> dict[str, Shell]:
        """Return a shell to each host by its name, `c.hosts[1:].shells()` (SpecError: no host)."""
        if not self.machines:
            raise SpecError(
                f"None of the {len(self._remote.machines)} hosts is selected.",
                means="Nothing was done.",
                remedy="Select some: c.hosts[0], c.hosts[1:], c.hosts.names",
            )
        shells = {machine.name: self._remote.shell(machine) for machine in self.machines}
        for name, shell in shells.items():
            if shell.name == "local" and not shell.exists(folder := self.path(name, ".")):
                Path(folder).mkdir(parents=True, exist_ok=True)
        return shells

    def _on_hosts(self, do: Callable[[str, Shell], T]) -> dict[str, T]:
        return results(self._try_each(do))

    def _try_each(self, do: Callable[[str, Shell], T]) -> dict[str, T | ClusterError]:
        def attempt(name: str, shell: Shell) -> T:
            try:
                return do(name, shell)
            except Unreachable as error:
                self._remote.explain(error, name)
                raise

        return try_each(self.shells(), attempt)


class Host:
    """One host of a cluster."""

    def __init__(self, group: HostGroup) -> None:
        self.group = group  # of this host alone

    @property
    def machine(self) -> Machine:
        """The machine: its id, its address, and how it is reached."""
        return self.group.machines[0]

    @property
    def name(self) -> str:
        """The name of its machine, such as `0.mpi.mine`."""
        return self.machine.name

    @property
    def ip(self) -> str:
        """The address at which the other hosts reach it."""
        return self.machine.address

    def __repr__(self) -> str:
        return f"<Host {self.name}>"

    def run(self, command: Command, **options: Unpack[CommandOptions]) -> Completed:
        """Run a command on this host, and wait for it; see `HostGroup.run`.

        Example: `c.hosts[0].run("nproc").stdout`
        """
        return self.group.run(command, **options)[self.name]

    def start(self, command: Command, **options: Unpack[StartOptions]) -> Job:
        """Start a job on this host that goes on without this process; see `Cluster.start`.

        Example: `c.hosts[0].start("tensorboard --logdir logs", name="tb").forward(6006)`
        """
        return self.group.start(command, **options)

    def put(self, path: str | Path, to: str) -> None:
        """Copy as `HostGroup.put` does: `c.hosts[0].put("train.py", "work/")`."""
        self.group.put(path, to)

    def sync(
        self,
        here: str | Path,
        there: str = "",
        *,
        delete: bool = False,
        runs: str | Path | None = None,
    ) -> SyncReport:
        """Bring a folder of this host to the state of a local one; see `HostGroup.sync`.

        Example: `print(c.hosts[0].sync(".", "adder"))`
        """
        return self.group.sync(here, there, delete=delete, runs=runs)

    def get(self, path: str, to: str | Path) -> Path:
        """Download into a local folder: `c.hosts[0].get("out", "results")`."""
        (shell,) = self.group.shells().values()
        shell.fetch(self.group.path(self.name, path), Path(to))
        return Path(to)

    def read(self, path: str) -> str:
        """Return the text of a small file: `c.hosts[0].read("out/loss")` (ShellError)."""
        return self.group.read(path)[self.name]

    def write(self, text: str, path: str) -> None:
        """Write as `HostGroup.write` does: `c.hosts[0].write("lr = 0.1", "conf.toml")`."""
        self.group.write(text, path)

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists: `c.hosts[0].exists("data")`."""
        return self.group.exists(path)[self.name]


def command_words(
    machine: Machine, command: Command, cwd: str, env: Mapping[str, str]
) -> list[str]:
    """Return the words that run a command with the Python and the programs of benchmarks."""
    words = ["sh", "-c", command] if isinstance(command, str) else list(command)
    check_command(words, env)
    variables = {**env, MARK: machine.folder}
    assignments = [f"{name}={value}" for name, value in variables.items()]
    return ["sh", "-c", RUN, "sh", machine.bin, cwd, *assignments, *words]


def check_command(words: Sequence[str], env: Mapping[str, str]) -> None:
    """Refuse a command without words, and bytes or names that no host can take (SpecError)."""
    if not words or not words[-1 if words[0] == "sh" else 0].strip():
        raise SpecError("There is no command.", remedy='Name one: c.run("hostname")')
    if any("\0" in word for word in (*words, *env.values())):
        raise SpecError("A command or variable cannot hold a NUL byte.")
    if wrong := [name for name in env if not VARIABLE.fullmatch(name)]:
        raise SpecError(f"{wrong[0]!r} cannot be the name of a variable.")


def check_task(spec: TaskSpec, restarts: int) -> None:
    """Refuse a command or options that no job can have (SpecError)."""
    check_command(spec.argv, spec.env)
    check_seconds(timeout=spec.timeout, hang_after=spec.hang_after)
    for option, value in (("grace", spec.grace), ("restarts", restarts)):
        if not value >= 0:
            raise SpecError(f"{option} is {value:g}; it must be 0 or more.")
    try:
        "".join((*spec.argv, spec.cwd, *spec.env.values())).encode()
    except UnicodeEncodeError as error:
        raise SpecError(
            "The command, folder or a variable of a job is not UTF-8.",
            remedy="Write such bytes into a file, and send that: cluster put",
        ) from error


def check_seconds(**values: float | None) -> None:
    """Refuse options that are not a positive number of seconds (SpecError)."""
    for name, value in values.items():
        if value is not None and not value > 0:
            raise SpecError(f"{name} is {value:g}; it must be a number of seconds above 0.")


def _check_status(
    name: str, command: Command, end: Completed | ClusterError
) -> Completed | ClusterError:
    """Return how a command ended on a host, or the error of its failure."""
    if isinstance(end, ClusterError) or end.status == 0:
        return end
    line = command if isinstance(command, str) else shlex.join(command)
    return JobError(
        f"{name}: {line!r} ended with exit status {end.status}.",
        stdout=end.stdout,
        stderr=end.stderr,
    )


def select(names: tuple[str, ...], text: str) -> tuple[str, ...]:
    """Return the names of a selection: numbers, ranges `1:`, names, commas (SpecError)."""
    selection = {name for part in text.split(",") for name in _part(names, part.strip())}
    return tuple(name for name in names if name in selection)


def _part(names: tuple[str, ...], part: str) -> tuple[str, ...]:
    first, colon, last = part.partition(":")
    if all(not end or NUMBER.fullmatch(end) for end in (first, last)) and (first or colon):
        bounds = [int(end) if end else None for end in (first, last)]
        is_low = not colon and int(first) < -len(names)  # a slice would take the first host
        selection = () if is_low else names[slice(*bounds)] if colon else names[int(first) :][:1]
    else:
        selection = tuple(name for name in names if part in (name, name.split(".")[1]))
    if not selection:
        groups = dict.fromkeys(name.split(".")[1] for name in names)
        all_ = [*(groups if len(groups) > 1 else ()), *names]
        examples = ", ".join(all_[:4])
        more = ", ..." if len(all_) > 4 else ""  # noqa: PLR2004 - as many as a line shows
        raise SpecError(
            f"{part!r} names none of the {len(names)} hosts.",
            remedy=f"Name them by number, range or name: 0, 1:, 0:2, {examples}{more}",
        )
    return selection


SETUP = "setup"  # of our folder on a host
# What the script prints goes to one stream, in the order in which it comes.
RUN_SCRIPT = 'case $(head -c 2 "$1") in "#!") exec "$1" 2>&1;; *) exec sh -e "$1" 2>&1;; esac'


def read_script(script: str | Path) -> str:
    """Return the text of a script, or of the file that it names (SpecError: it is unreadable)."""
    text = str(script)
    is_path = isinstance(script, Path) or ("\n" not in text and " " not in text)
    if is_path and (Path(text).exists() or isinstance(script, Path) or text.endswith(".sh")):
        try:
            text = Path(text).read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise SpecError(f"The set-up script {script} cannot be read: {reason}.") from error
    if not text.strip():
        raise SpecError("The set-up script is empty.", remedy="Leave it out.")
    return text


def repeat_setup(new: HostGroup, hosts: HostGroup) -> None:
    """Run on a new host the set-up scripts that have run on another of its group."""
    group = group_of(new.machines[0])
    neighbours = [m for m in hosts.machines if group_of(m) == group and m.name not in new.names]
    if neighbours:
        machine = neighbours[0]
        shell = hosts.shells()[machine.name]
        folder = posixpath.join(machine.folder, SETUP, machine.name)
        names = shell.run(["sh", "-c", 'cd -- "$1" 2> /dev/null && ls -tr', "sh", folder]).stdout
        keys = [name.removesuffix(".done") for name in names.split() if name.endswith(".done")]
        scripts = [shell.run(["cat", f"{folder}/{key}"]).stdout for key in keys]
        for script in scripts:
            run_once(new, script)


def run_once(
    hosts: HostGroup, text: str, on_line: Callable[[str, str], None] | None = None
) -> tuple[str, ...]:
    """Run a script on the hosts that have not run it; return their names (JobError, HostErrors)."""
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    machines = {machine.name: machine for machine in hosts.machines}
    folders = {n: posixpath.join(machine.folder, SETUP, n) for n, machine in machines.items()}

    result = on_each(hosts.shells(), lambda n, shell: shell.exists(f"{folders[n]}/{key}.done"))
    shells = {name: shell for name, shell in hosts.shells().items() if not result[name]}

    def run(name: str, shell: Shell) -> None:
        path, lines = f"{folders[name]}/{key}", deque[str](maxlen=TAIL_LINES)

        def hear(line: str) -> None:
            lines.append(line)
            if on_line is not None:
                on_line(name, line)

        shell.write(text, path, mode=0o700)
        words = command_words(
            machines[name], ["sh", "-c", RUN_SCRIPT, "sh", path], hosts.path(name, ""), {}
        )
        end = shell.run(words, on_line=hear)
        if end.status != 0:
            raise JobError(
                f"The set-up of {name} ended with exit status {end.status}.",
                means="What it did there stays; the next set-up runs it again.",
                stdout="\n".join(lines),
                stderr=end.stderr,
                host=name,
            )
        shell.write("", f"{path}.done")

    on_each(shells, run)
    return tuple(shells)
