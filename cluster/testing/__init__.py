"""Hosts for tests of your own: they play a script, and no process starts.

It is strict: a command that the script does not know fails the test. What `cluster` itself runs on
a host (facts, tmux, the agent) is known; so `launch`, `run`, `bench`, `down` and all between work.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self
from unittest import mock

import msgspec

from cluster import providers
from cluster.agent.protocol import Ended, Lost, Running, Wrote
from cluster.core.errors import ClusterError, ProvisionError, Unreachable
from cluster.core.model.hosts import Facts, Interface, Machine
from cluster.core.model.value import Value
from cluster.remote import shells
from cluster.remote.sessions import jobs, leftovers
from cluster.remote.sessions.tmux import AS_IT_IS

__all__ = ["Answer", "FakeHosts", "FakeJob", "Reply", "UnknownCommand"]

PLUGINS = Path(__file__).parent / "plugins"
LINE = ("sh", "-c")  # before a line of shell
KNOWN_SCRIPTS = frozenset({jobs.SWEEP, jobs.REMOVE_SCRATCH, leftovers.END})
PREFIX = 24  # bits of the hosts' network, 192.0.2.0 (RFC 5737)


class Reply(Value, frozen=True, kw_only=True):
    """How a command ends."""

    status: int = 0
    stdout: str = ""
    stderr: str = ""


class FakeJob(Value, frozen=True, kw_only=True):
    """What a job leaves."""

    status: int | None = 0  # its exit status; None if it is lost
    stdout: str = ""
    stderr: str = ""
    files: Mapping[str, str] = {}  # of its folder on the first host, such as `measurements.0.jsonl`
    reason: str = "its processes are gone"  # why it is lost

    @classmethod
    def of_run(cls, raw: Path) -> FakeJob:
        """Read the job of a recorded run from its folder `raw`."""
        return cls(files={p.name: p.read_text() for p in raw.iterdir() if p.is_file()})


Answer = str | Reply | ClusterError | Callable[[str], str | Reply | ClusterError]


class UnknownCommand(AssertionError):
    """A host was asked to run what its script does not know."""


class FakeHosts:
    """A block in which `launch(..., provider="fake")` has hosts that play a script.

    Args:
        replies: to commands, each by its words as one line: the output, a `Reply`, an error that is
            raised, or a function of the machine's name that returns one of them.
        jobs: how the jobs end, in their order; all that follow end as the last one.
        silent: numbers of the hosts that do not answer.
        facts: fields of `Facts` that differ from those of a plain host.
        refuses: the error with which the provider refuses a launch.
    """

    active: FakeHosts | None = None

    def __init__(
        self,
        replies: Mapping[str, Answer] = {},
        jobs: Sequence[FakeJob] = (FakeJob(),),
        silent: Collection[int] = (),
        facts: Mapping[str, object] = {},
        refuses: ProvisionError | None = None,
    ) -> None:
        self.replies = dict(replies)
        self.silent = set(silent)
        self.refuses = refuses
        self.made: dict[str, tuple[Machine, ...]] = {}
        """The machines that exist, by their cluster."""
        self.commands: list[tuple[str, str]] = []
        """The machine and the words of each command that a reply was for."""
        self.files: dict[str, dict[str, bytes]] = {}
        """The files of each machine, by its id."""
        self._jobs = list(jobs)
        self._facts = dict(facts)
        self._sessions: dict[str, tuple[str, FakeJob, bool]] = {}  # folder, job, whether it runs
        self._unknown: list[str] = []
        self._lock = threading.RLock()
        self._stack = ExitStack()

    @property
    def sessions(self) -> dict[str, bool]:
        """The sessions of jobs, by their cluster, and whether each job runs."""
        return {name: runs for name, (_, _, runs) in self._sessions.items()}

    def __enter__(self) -> Self:
        """Put the provider and the shell `fake` among the others."""
        for package, kind in ((providers, "providers"), (shells, "shells")):
            paths = [*package.__path__, str(PLUGINS / kind)]
            self._stack.enter_context(mock.patch.object(package, "__path__", paths))
        self._stack.enter_context(mock.patch.object(FakeHosts, "active", self))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Fail if a command was not known, even where its error was caught."""
        self._stack.close()
        if self._unknown and kind is None:
            raise UnknownCommand("\n".join(self._unknown))

    def connect(self, machine: Machine) -> None:
        """Refuse a silent host."""
        if int(machine.name.partition(".")[0]) in self.silent:
            raise Unreachable(
                f"{machine.name} does not answer.",
                state="timeout",
                transient=True,
                host=machine.name,
            )

    def run(self, machine: Machine, argv: tuple[str, ...]) -> Reply:
        """Run a command: of the script, or of `cluster` itself."""
        self.connect(machine)
        marks = [index for index, word in enumerate(argv) if word.startswith(f"{leftovers.MARK}=")]
        words = (argv[marks[0] + 1 :] if marks else ()) or argv  # what a caller ran is behind it
        is_line = len(words) == len(LINE) + 1 and words[: len(LINE)] == LINE
        line = words[-1] if is_line else shlex.join(words)
        if line in self.replies:
            with self._lock:
                self.commands.append((machine.name, line))
            answer = self.replies[line]
            value = answer(machine.name) if callable(answer) else answer
            if isinstance(value, ClusterError):
                raise value
            return Reply(stdout=value) if isinstance(value, str) else value
        with self._lock:
            reply = self._answer(machine, words)
        if reply is None:
            self._unknown.append(f"{machine.name} does not know: {line}")
            raise UnknownCommand(self._unknown[-1])
        return reply

    def _answer(self, machine: Machine, words: tuple[str, ...]) -> Reply | None:
        """Reply to a command of `cluster`; None to any other."""
        reply: Reply | None = None
        match words:
            case ("true",):
                reply = Reply()
            case ("tmux", option, verb, *rest) if option == AS_IT_IS:
                reply = self._tmux(verb, rest)
            case ("cat", path):
                text = self.files.get(machine.id, {}).get(path)
                reply = Reply(status=1) if text is None else Reply(stdout=text.decode())
            case ("sh" | "/bin/sh", "-c", script, *_) if script in KNOWN_SCRIPTS:
                reply = Reply()
            case ("sh", "-c", jobs.MAKE_SCRATCH, *_):
                reply = Reply(status=1)  # no shared memory
            case (_, "-P", "-m", "cluster.agent", "facts", _, *programs):
                reply = Reply(stdout=self._facts_of(machine, programs))
            case (_, "-P", "-m", "cluster.agent", verb, folder):
                reply = self._agent(machine, verb, folder)
        return reply

    def _tmux(self, verb: str, rest: list[str]) -> Reply | None:
        session = rest[rest.index("-t") + 1].strip("=:$") if "-t" in rest else ""
        folder, _, runs = self._sessions.get(session, ("", None, False))
        match verb:
            case "new-session":
                session, folder = rest[rest.index("-s") + 1], rest[rest.index("-c") + 1]
                job = self._jobs[0] if len(self._jobs) == 1 else self._jobs.pop(0)
                self._sessions[session] = (folder, job, True)
                return Reply()
            case "display-message":
                return Reply(stdout=f"${session} {int(not runs)}\n" if folder else "")
            case "show-options":
                return Reply(stdout=f"{folder}\n" if folder and rest[-1] == "@cluster" else "")
            case "kill-session":
                self._sessions.pop(session, None)
                return Reply()
            case "has-session":
                return Reply(status=int(not folder))
            case _:
                return None

    def _agent(self, machine: Machine, verb: str, folder: str) -> Reply | None:
        sessions = [
            (name, session) for name, session in self._sessions.items() if session[0] == folder
        ]
        match verb:
            case "watch" | "look" if sessions:
                [(name, (_, job, runs))] = sessions
                if verb == "look" and runs:
                    return Reply(stdout=_json(Running()))
                self._end(name, machine)
                texts = (Wrote(file=n, text=getattr(job, n)) for n in ("stdout", "stderr"))
                events = [text for text in texts if text.text and verb == "watch"]
                end = Lost(reason=job.reason) if job.status is None else Ended(status=job.status)
                return Reply(stdout="\n".join(map(_json, [*events, end])))
            case "stop" | "halt" | "results":
                for name, _ in sessions:
                    self._end(name, machine)
                return Reply()
            case _:
                return None

    def _end(self, name: str, machine: Machine) -> None:
        """End the job of a session: what it leaves is on its host."""
        folder, job, _ = self._sessions[name]
        self._sessions[name] = (folder, job, False)
        texts = {"stdout": job.stdout, "stderr": job.stderr, **job.files}
        files = self.files.setdefault(machine.id, {})
        files |= {f"{folder}/{file}": text.encode() for file, text in texts.items()}

    def _facts_of(self, machine: Machine, programs: Sequence[str]) -> str:
        network = Interface(
            name="eth0", address=machine.address, prefix=PREFIX, mtu=1500, speed=None
        )
        facts = Facts(
            host=machine.name,
            home="/home/fake",
            user="fake",
            system="fake",
            kernel="Linux",
            cpu="fake",
            cores=4,
            usable_cores=4,
            cgroup_cpus=None,
            cgroup_memory=None,
            memory=2**34,
            clock="tsc",
            python="3.11.2",
            mpi="mpirun (Open MPI) 5.0.8",
            tmux="3.3a",
            libraries={},
            variables={},
            interfaces=(network,),
            reached=machine.address,
            boot=machine.id,
            programs=dict.fromkeys(programs, "fake"),
        )
        return _json(msgspec.structs.replace(facts, **self._facts))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
