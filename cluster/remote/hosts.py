"""The hosts of a cluster: shells to them, and operations on all of them in parallel."""

import shlex
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NoReturn

from cluster.core import plugins
from cluster.core.errors import ClusterError, ShellError, Unreachable
from cluster.core.model.hosts import SIMULATED, Completed, Machine, ssh_words
from cluster.core.model.value import LineCallback
from cluster.remote.parallel import results, try_each, unanswering
from cluster.remote.sessions.leftovers import MARK
from cluster.remote.sessions.tmux import attach_words
from cluster.remote.shells import Shell

# Seconds within which every host must run `true`. Once some hosts have answered, the others get 10
# times as long as these took, but at least 4 s and never more than this (`parallel.unanswering`).
DEAD_AFTER = 7.0


def distinct(machines: tuple[Machine, ...]) -> tuple[Machine, ...]:
    """Return each real machine once: all hosts of the provider `local` are the same machine."""
    return tuple({place_of(machine): machine for machine in reversed(machines)}.values())[::-1]


def place_of(machine: Machine) -> Hashable:
    """Return the identity of a real machine: two may share an address, with different ports."""
    return machine.shell, machine.access, machine.address


class DeadShell(Shell):
    """A shell to a host that is considered dead: every call fails immediately."""

    def __init__(self, error: Unreachable) -> None:
        super().__init__()
        self._error = error

    def _fail(self, *_: object, **__: object) -> NoReturn:
        raise self._error

    connect = run = write = put = fetch = exists = remove = _fail


class SimulatedShell(Shell):
    """A shell to a simulated host: it answers, but runs nothing."""

    def run(
        self,
        argv: str | Sequence[str],
        *,
        timeout: float | None = None,
        on_line: LineCallback | None = None,
    ) -> Completed:
        """Run `true`, which checks whether a host answers, and refuse all other commands."""
        del timeout, on_line
        if list(argv) != ["true"]:
            self._fail()
        return Completed(argv=tuple(argv), status=0, stdout="", stderr="")

    def exists(self, path: str) -> bool:
        del path
        return False

    def _fail(self, *_: object, **__: object) -> NoReturn:
        name = self.machine.name if self.machine else "A simulated host"
        raise ShellError(
            f"{name} is simulated: it runs no programs, and has no files.",
            remedy="Measure it by its model: cluster check NAME",
            host=name,
        )

    write = put = fetch = remove = _fail


class Hosts:
    """The machines of a cluster, each with one shell to it."""

    def __init__(self, name: str, machines: Callable[[], tuple[Machine, ...]]) -> None:
        self.name = name
        self._machines = machines
        self._shells: dict[Hashable, Shell] = {}
        self.absent: frozenset[str] = frozenset()  # names of machines that are left out
        # adds to an error what is known of a host, by its name, that does not answer
        self.explain: Callable[[Unreachable, str], None] = lambda *_: None

    @property
    def machines(self) -> tuple[Machine, ...]:
        return self._machines()

    def shells(self) -> dict[str, Shell]:
        machines = (m for m in distinct(self.machines) if m.name not in self.absent)
        return {machine.name: self.shell(machine) for machine in machines}

    def leave_out_dead(self, seconds: float | None) -> None:
        """Leave out hosts that do not answer in time (Unreachable: the first); None ends that."""
        self.absent = frozenset()
        dead = {} if seconds is None else self.omit_dead(seconds)
        if dead and (first := self.machines[0].name) in dead:
            self.absent = frozenset()
            raise dead[first]

    def omit_dead(self, seconds: float) -> dict[str, Unreachable]:
        """Leave out hosts that do not answer in time, and return the reasons, by their names."""
        self.absent = frozenset()
        dead = unanswering(self.shells(), seconds)
        errors = {place_of(m): dead[m.name] for m in self.machines if m.name in dead}
        dead = {m.name: errors[place_of(m)] for m in self.machines if place_of(m) in errors}
        self.absent = frozenset(dead)
        return dead

    def give_up_dead(self, seconds: float) -> None:
        """Make every further call to a host that does not answer in time fail immediately."""
        alive = {p: s for p, s in self._shells.items() if not isinstance(s, DeadShell)}
        self._shells = alive  # hosts that were considered dead may be back
        names = {machine.name: machine for machine in distinct(self.machines)}
        for name, error in unanswering(self.shells(), seconds).items():
            self._shells[place_of(names[name])] = DeadShell(error)

    @contextmanager
    def omit(self, names: Collection[str]) -> Iterator[None]:
        """Make every call to some hosts, by name, fail immediately during a block."""
        places = {m.name: place_of(m) for m in distinct(self.machines) if m.name in names}
        for name, place in places.items():
            if place in self._shells:
                self._shells[place].close()
            self._shells[place] = DeadShell(
                Unreachable(
                    f"{name} does not answer any more.", state="broken", transient=True, host=name
                )
            )
        try:
            yield
        finally:
            for place in places.values():
                self._shells.pop(place, None)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float | None = None,
        on_line: Callable[[str, str], None] | None = None,
    ) -> dict[str, Completed]:
        """Run a command on every host, as `try_run`; raise ShellError, or HostErrors of several."""
        return results(self.try_run(argv, timeout=timeout, on_line=on_line))

    def try_run(
        self,
        argv: str | Sequence[str],
        *,
        timeout: float | None = None,
        on_line: Callable[[str, str], None] | None = None,
    ) -> dict[str, Completed | ClusterError]:
        """Run a command on every host in parallel; return how it ended on each, or the error.

        A text is a line for `sh`; `on_line` gets a machine's name and each line as it comes.
        """
        command = ("sh", "-c", argv) if isinstance(argv, str) else argv

        def do(name: str, shell: Shell) -> Completed:
            hear = None if on_line is None else partial(on_line, name)
            mark = f"{MARK}={shell.machine.folder}" if shell.machine else ""
            words = ("env", mark, *command) if mark else command
            return shell.run(words, timeout=timeout, on_line=hear)

        return try_each(self.shells(), do)

    def shell(self, machine: Machine) -> Shell:
        place = place_of(machine)
        if place not in self._shells:
            is_simulated = machine.shell == SIMULATED
            kind = SimulatedShell if is_simulated else plugins.find(Shell, machine.shell)
            self._shells[place] = kind(machine)
        return self._shells[place]

    def close(self) -> None:
        for shell in self._shells.values():
            shell.close()

    def attach_command(
        self, machine: Machine | None = None, session: str = "", *, inside: bool = False
    ) -> list[str]:
        """Return the command that logs in to a machine, and attaches to a session of tmux there.

        By default, on the first machine, that of the newest benchmark. `inside` of a tmux session,
        tmux would not attach. After detaching, the user is in a shell there.
        """
        machine = machine or next(iter(self.machines), None)
        if machine is None or machine.access is None:
            return attach_words(session or self.name, inside=inside)
        command = ["ssh", "-t", *ssh_words(machine.access)]
        if session or machine == self.machines[0]:
            attach = shlex.join(attach_words(session or self.name))
            command.append(f'{attach} 2> /dev/null; exec "${{SHELL:-/bin/sh}}" -l')
        return command
