"""All hosts at once: every result, every failure, one deadline."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from cluster.core.errors import ClusterError, HostErrors, ShellError, Timeout, Unreachable
from cluster.core.model.hosts import Completed, Machine
from cluster.remote import parallel
from cluster.remote.hosts import Hosts
from cluster.remote.shells import Shell
from cluster.remote.shells.local import LocalShell
from cluster.remote.shells.ssh import SshShell
from tests.conftest import COMMAND, command, processes, until
from tests.contracts.sshd import Sshd, befriend, listener, servers, sshd
from tests.snapshots import Snapshot

__all__ = ["servers", "sshd"]


class Slow(LocalShell):
    """A host that becomes reachable at the third attempt, or never."""

    def __init__(self, *, attempts: int = 0, error: Unreachable | None = None) -> None:
        super().__init__()
        self.attempts = attempts
        self.error = error or Unreachable("It refuses.", state="refused", transient=True)

    def connect(self) -> None:
        if self.attempts != 0:
            self.attempts -= 1
            raise self.error


def hosts(**shells: Shell) -> dict[str, Shell]:
    return shells


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "BETWEEN_ATTEMPTS", 0.01)


def test_they_really_run_at_once() -> None:
    """Each waits for the other; one after another would never end."""
    barrier = threading.Barrier(2, timeout=30)

    def meet(name: str, _: Shell) -> str:
        barrier.wait()
        return name.upper()

    assert parallel.on_each(hosts(a=LocalShell(), b=LocalShell()), meet) == {"a": "A", "b": "B"}


def test_one_failure_is_itself_and_several_stay_together(snapshot: Snapshot) -> None:
    def fail(name: str, _: Shell) -> None:
        if name != "good":
            raise ShellError(f"{name} broke.", host=name)

    with pytest.raises(ShellError, match="bad"):
        parallel.on_each(hosts(good=LocalShell(), bad=LocalShell()), fail)
    with snapshot.raises(HostErrors) as group:
        parallel.on_each(hosts(good=LocalShell(), bad=LocalShell(), worse=LocalShell()), fail)
    assert [str(error) for error in group.value.exceptions] == ["bad broke.", "worse broke."]


def test_what_one_gives_the_failure_of_another_does_not_take(snapshot: Snapshot) -> None:
    """The error names its host, which the shell itself does not know."""

    def fail(name: str, _: Shell) -> str:
        if name == "bad":
            raise ShellError("/data could not be written.")
        return name.upper()

    results = parallel.try_each(hosts(good=LocalShell(), bad=LocalShell()), fail)
    assert results["good"] == "GOOD"
    snapshot(str(results["bad"]))


def test_a_mistake_of_ours_is_not_hidden() -> None:
    def mistake(name: str, _: Shell) -> None:
        raise KeyError(name)

    with pytest.raises(KeyError, match="only"):
        parallel.on_each(hosts(only=LocalShell()), mistake)


def test_a_host_that_boots_is_waited_for() -> None:
    """Each state is told once."""
    states: list[tuple[str, str]] = []
    parallel.connect_all(hosts(a=Slow(attempts=3)), 30.0, lambda *news: states.append(news))

    assert states == [("a", "refused"), ("a", "ready")]


def test_one_deadline_for_all_names_who_is_late(snapshot: Snapshot) -> None:
    with snapshot.raises(Timeout):
        parallel.connect_all(hosts(ready=LocalShell(), late=Slow(attempts=-1)), 0.05)


def test_what_waiting_does_not_help_is_not_waited_for() -> None:
    """The other host would be tried for an hour."""
    wrong = Unreachable("The key has changed.", state="host key")
    shells = hosts(booting=Slow(attempts=-1), wrong=Slow(attempts=1, error=wrong))
    with pytest.raises(HostErrors) as group:
        parallel.connect_all(shells, 3600.0)

    assert {type(error) for error in group.value.exceptions} == {Timeout, Unreachable}
    assert all(isinstance(error, ClusterError) for error in group.value.exceptions)


def test_hosts_that_hang_are_not_waited_for_beyond_the_deadline(sshd: Sshd) -> None:
    """Each in a state of its own; one that is ready does not help them."""
    lines = b"220 smtp\r\n" * 200  # after 100 of them, paramiko waits for no more
    with listener(b"") as mute, listener(lines) as garbage:
        shells = hosts(
            mute=SshShell(sshd.machine(port=mute)),
            good=SshShell(sshd.machine()),
            garbage=SshShell(sshd.machine(port=garbage)),
            nobody=SshShell(sshd.machine(port=1)),
        )
        start = time.monotonic()
        with pytest.raises(HostErrors) as group:
            parallel.connect_all(shells, 3.0)
        took = time.monotonic() - start

    assert took < 6
    messages = [str(error) for error in group.value.exceptions]
    assert "3 of 4" in group.value.message
    assert [line.split()[0] for line in messages] == ["mute", "garbage", "nobody"]
    assert "banner" in messages[0]
    assert "booting" in messages[2]
    for shell in shells.values():
        shell.close()


def test_every_unknown_key_is_shown_at_once(servers: Callable[..., Sshd]) -> None:
    """Though one alone is enough to give up."""
    daemons = [servers() for _ in range(3)]
    for server in daemons:
        (server.folder / "known_hosts").write_text("")
    shells = {str(server.port): SshShell(server.machine()) for server in daemons}
    with pytest.raises(HostErrors, match="3 of 3") as group:
        parallel.connect_all(shells, 60.0)

    assert [type(error) for error in group.value.exceptions] == [Unreachable] * 3
    assert len({str(error) for error in group.value.exceptions}) == 3


def test_states_are_told_as_they_come(sshd: Sshd) -> None:
    sshd.stop()
    states: list[str] = []

    def on_state(_: str, state: str) -> None:
        states.append(state)
        if state == "refused":
            sshd.start()

    shell = SshShell(sshd.machine())
    parallel.connect_all({"a": shell}, 60.0, on_state)
    assert states == ["refused", "ready"]
    assert shell.state == "ready"
    shell.close()


@pytest.mark.parametrize("provider", ["local", "ssh"])
def test_an_interrupt_ends_at_once(sshd: Sshd, home: Path, provider: str) -> None:
    """Neither we nor a command here goes on; that it was interrupted is told by the status."""
    options = ["--option", f"hosts={befriend(sshd, home)}", "--option", "trust=first-use"]
    command("up", "mine", "--provider", provider, *(options if provider == "ssh" else []))
    mark = f"62{sshd.port}.5"
    script = f"echo go; sleep {mark}"
    with subprocess.Popen(
        # Whoever started this may ignore SIGINT.
        ["env", "--default-signal", COMMAND, "run", "mine", "--", "sh", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().endswith(": go\n")
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        _, errors = process.communicate(timeout=60)

    if provider == "local":  # killed; the kernel may still be at it
        until(lambda: processes(mark) == [], "the command has ended")
    assert time.monotonic() - start < 10
    assert process.returncode == 130
    assert "Traceback" not in errors
    for pid in processes(mark):
        os.kill(pid, signal.SIGKILL)


class Closed(LocalShell):
    """A shell that tells when it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closed = threading.Event()

    def close(self) -> None:
        super().close()
        self.is_closed.set()


def test_a_call_that_begins_while_the_others_are_interrupted_is_ended_too() -> None:
    seconds = "20.625"

    def do(name: str, shell: Shell) -> None:
        assert isinstance(shell, Closed)
        if name == "first":
            time.sleep(0.3)  # until the main thread waits
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        else:
            shell.is_closed.wait(10)
            shell.run(["sleep", seconds])

    with pytest.raises(KeyboardInterrupt):
        parallel.try_each({"first": Closed(), "second": Closed()}, do)
    assert processes(f"sleep\0{seconds}") == []


class Silent(LocalShell):
    """A host that swallows what is sent, until the connection is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = threading.Event()

    def run(self, *_: object, **__: object) -> NoReturn:
        self.closed.wait()
        raise ShellError("It was closed.")

    def close(self) -> None:
        self.closed.set()


class Refuses(LocalShell):
    def run(self, *_: object, **__: object) -> NoReturn:
        raise Unreachable("It refuses.", state="refused", remedy="Look at it.")


def test_hosts_that_do_not_answer_are_found_in_the_time_of_one() -> None:
    shells = hosts(a=Silent(), b=LocalShell(), c=Refuses(), d=Silent())
    start = time.monotonic()
    dead = parallel.unanswering(shells, 1.0)

    assert time.monotonic() - start < 10
    assert {name: (error.state, error.remedy) for name, error in dead.items()} == {
        "a": ("connecting", ""),
        "c": ("refused", "Look at it."),
        "d": ("connecting", ""),
    }
    assert all(shell.closed.is_set() for shell in shells.values() if isinstance(shell, Silent))


def test_a_host_that_was_given_up_fails_at_once_until_it_is_back(
    snapshot: Snapshot, tmp_path: Path
) -> None:
    machines = tuple(
        Machine(name=name, id="i", address=name, shell="local", folder="x", bin="y")  # noqa: S604
        for name in ("a", "b")
    )
    fleet = Hosts("mine", lambda: machines)
    dead, alive = fleet.shells()["a"], fleet.shells()["b"]
    fleet._shells = {
        key: Silent() if shell is dead else shell for key, shell in fleet._shells.items()
    }
    fleet.give_up_dead(1.0)
    (tmp_path / "there").mkdir()

    start = time.monotonic()
    for _ in range(3):
        results = fleet.try_run(["echo", "there"])
        assert isinstance(results["a"], Unreachable)
        assert isinstance(results["b"], Completed)
        assert results["b"].stdout == "there\n"
        with snapshot.raises(Unreachable):
            fleet.shells()["a"].fetch(str(tmp_path / "there"), tmp_path / "home")
    assert time.monotonic() - start < 10
    assert fleet.shells()["b"] is alive

    fleet.give_up_dead(20.0)
    assert {name: end.status for name, end in fleet.run(["true"]).items()} == {"a": 0, "b": 0}


def test_each_host_of_a_machine_that_does_not_answer_is_left_out() -> None:
    machines = tuple(
        Machine(name=name, id="i", address=address, shell="local", folder="x", bin="y")  # noqa: S604
        for name, address in (("a", "dead"), ("b", "dead"), ("c", "alive"))
    )
    all_hosts = Hosts("mine", lambda: machines)
    dead = all_hosts.shells()["a"]
    all_hosts._shells = {
        key: Silent() if shell is dead else shell for key, shell in all_hosts._shells.items()
    }

    assert list(all_hosts.omit_dead(1.0)) == ["a", "b"]
    assert list(all_hosts.shells()) == ["c"]


class Answers(LocalShell):
    """A host that has run each command as soon as it is asked, without a process."""

    def run(self, argv: Sequence[str], **_: object) -> Completed:
        return Completed(argv=tuple(argv), status=0, stdout="", stderr="")


def test_a_silent_host_holds_up_no_host_that_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour is what it might take; nobody waits for it once the others are there."""
    monkeypatch.setattr(parallel, "AT_LEAST", 1.0)
    shells = hosts(a=Answers(), b=Silent(), c=Answers())

    assert parallel.unanswering(shells, 3600.0).keys() == {"b"}


def test_where_nobody_answers_all_have_the_whole_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "AT_LEAST", 0.0)
    shells = hosts(a=Silent(), b=Silent())
    start = time.monotonic()
    dead = parallel.unanswering(shells, 0.3)

    assert time.monotonic() - start >= 0.3
    assert [(name, error.state) for name, error in dead.items()] == [
        ("a", "connecting"),
        ("b", "connecting"),
    ]


def test_a_host_may_be_many_times_as_slow_as_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that is slower than the first within the factor SLOWER is alive."""
    monkeypatch.setattr(parallel, "AT_LEAST", 0.0)
    monkeypatch.setattr(parallel, "SLOWER", 1e9)
    first = threading.Event()

    class Later(Answers):
        def run(self, argv: Sequence[str], **_: object) -> Completed:
            first.wait()
            return super().run(argv)

    class First(Answers):
        def run(self, argv: Sequence[str], **_: object) -> Completed:
            first.set()
            return super().run(argv)

    assert parallel.unanswering(hosts(a=First(), b=Later()), 3600.0) == {}
