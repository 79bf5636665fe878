"""All hosts at once: every result, every failure, one deadline."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from cluster import fanout
from cluster.errors import ClusterError, ShellError, Timeout, Unreachable
from cluster.shells.local import Local

if TYPE_CHECKING:
    from cluster.shells import Shell


class Slow(Local):
    """A host that becomes reachable at the third attempt, or never."""

    def __init__(self, *, attempts: int = 0, error: Unreachable | None = None) -> None:
        super().__init__()
        self.attempts = attempts
        self.error = error or Unreachable("It refuses.", state="refused", passing=True)

    def connect(self) -> None:
        if self.attempts != 0:
            self.attempts -= 1
            raise self.error


def hosts(**shells: Shell) -> dict[str, Shell]:
    return shells


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fanout, "BETWEEN_ATTEMPTS", 0.01)


def test_they_really_run_at_once() -> None:
    """Each waits for the other; one after another would never end."""
    both = threading.Barrier(2, timeout=30)

    def meet(name: str, _: Shell) -> str:
        both.wait()
        return name.upper()

    assert fanout.on_each(hosts(a=Local(), b=Local()), meet) == {"a": "A", "b": "B"}


def test_one_failure_is_itself_and_several_stay_together() -> None:
    def fail(name: str, _: Shell) -> None:
        if name != "good":
            raise ShellError(f"{name} broke.")

    with pytest.raises(ShellError, match=r"bad broke\."):
        fanout.on_each(hosts(good=Local(), bad=Local()), fail)
    with pytest.raises(ExceptionGroup, match="2 of 3 hosts failed") as failed:
        fanout.on_each(hosts(good=Local(), bad=Local(), worse=Local()), fail)
    assert [str(error) for error in failed.value.exceptions] == ["bad broke.", "worse broke."]


def test_a_mistake_of_ours_is_not_hidden() -> None:
    def mistake(name: str, _: Shell) -> None:
        raise KeyError(name)

    with pytest.raises(KeyError, match="only"):
        fanout.on_each(hosts(only=Local()), mistake)


def test_a_host_that_boots_is_waited_for() -> None:
    """Each state is told once."""
    told: list[tuple[str, str]] = []
    fanout.connect_all(hosts(a=Slow(attempts=3)), 30.0, lambda *news: told.append(news))

    assert told == [("a", "refused"), ("a", "ready")]


def test_one_deadline_for_all_names_who_is_late() -> None:
    with pytest.raises(Timeout, match=r"late is not reachable: It refuses\."):
        fanout.connect_all(hosts(ready=Local(), late=Slow(attempts=-1)), 0.05)


def test_what_waiting_does_not_help_is_not_waited_for() -> None:
    """The other host would be tried for an hour."""
    wrong = Unreachable("The key has changed.", state="host key")
    shells = hosts(booting=Slow(attempts=-1), wrong=Slow(attempts=1, error=wrong))
    with pytest.raises(ExceptionGroup) as failed:
        fanout.connect_all(shells, 3600.0)

    assert {type(error) for error in failed.value.exceptions} == {Timeout, Unreachable}
    assert all(isinstance(error, ClusterError) for error in failed.value.exceptions)
