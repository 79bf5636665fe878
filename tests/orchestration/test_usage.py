"""What hosts do: who stops to answer is said and asked again; what checks proved of links."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

import cluster
from cluster.cli.commands.top import usage_text
from cluster.core.errors import ClusterError, Unreachable
from cluster.core.model.hosts import Completed, HostUsage, Machine
from cluster.orchestration.usage import link_rates, watch_usage
from cluster.remote.shell import Shell
from tests.conftest import command

ANSWER, END = "a line", "the end"
USAGE = HostUsage(at=1.0, seconds=2.0, processor=0.5, memory=0.1, sent=1e6, received=1e6)
LINE = msgspec.json.encode(USAGE).decode()


class Scripted:
    """A host: each time that it is asked, it prints so many lines, and then fails or ends."""

    def __init__(self, *attempts: tuple[int, str]) -> None:
        self._attempts = list(attempts)
        self.is_closed = False

    def run(self, argv: Sequence[str], *, on_line: Callable[[str], None]) -> Completed:
        lines, reason = self._attempts.pop(0)
        for _ in range(lines):
            on_line(LINE)
        if reason:
            raise Unreachable(reason)
        return Completed(argv=tuple(argv), status=0, stdout="", stderr="")

    def close(self) -> None:
        self.is_closed = True


def watched(
    hosts: dict[str, Scripted], absent: Sequence[str] = (), count: int = 0
) -> tuple[dict[str, list[bool]], dict[str, ClusterError]]:
    """Return of each host whether each of its rows has a reason, and what failed."""
    machines = tuple(
        Machine(name=name, id=name, address=name, shell="ssh", folder="", bin="")  # noqa: S604
        for name in hosts
    )
    shells = cast("dict[str, Shell]", hosts)
    stub = SimpleNamespace(
        machines=machines,
        shells=lambda: {name: host for name, host in shells.items() if name not in absent},
        install=lambda: None,
        state=SimpleNamespace(jobs=()),
        remote=SimpleNamespace(  # noqa: S604 - no shell of a system
            omit_dead=lambda _: {name: Unreachable("away", host=name) for name in absent},
            shell=lambda machine: shells[machine.name],
        ),
    )
    rows: dict[str, list[bool]] = defaultdict(list)
    failed = watch_usage(
        cast("Any", stub), 0.01, count, lambda usage: rows[usage.host].append(bool(usage.reason))
    )
    return dict(rows), failed


def test_a_host_that_stops_to_answer_is_said_and_asked_again() -> None:
    hosts = {
        "stays": Scripted((3, "")),
        "dies": Scripted((2, "gone"), (0, "gone"), (1, "")),
        "late": Scripted((1, "")),
    }
    rows, failed = watched(hosts, absent=("late",))

    assert rows == {
        "stays": [False] * 3,
        "dies": [False, False, True, True, False],
        "late": [True, False],
    }
    assert not failed


def test_nobody_is_asked_again_once_none_answers() -> None:
    rows, failed = watched(
        {"a": Scripted((1, "gone")), "b": Scripted(*[(0, "away")] * 999)}, absent=("b",)
    )

    assert (rows["a"], set(failed)) == ([False, True], {"a", "b"})


def test_hosts_are_asked_as_often_as_was_said() -> None:
    hosts = {"a": Scripted((1, "")), "b": Scripted((0, "gone")), "c": Scripted()}
    rows, failed = watched(hosts, absent=("c",), count=1)

    assert rows == {"a": [False], "b": [True], "c": [True]}
    assert set(failed) == {"b", "c"}
    assert [host.is_closed for host in hosts.values()] == [True, True, False]


@pytest.mark.usefixtures("home")
def test_what_a_check_proved_stays_known_after_other_checks(tmp_path: Path) -> None:
    c = cluster.launch("kept", provider="sim", options={"fabric": "leafspine:4x4"})

    def proven(*flags: str) -> dict[str, tuple[float, float]]:
        command("check", "kept", *flags)
        runs = sorted(tmp_path.glob("runs/kept/*"), key=lambda run: run.stat().st_mtime)
        jobs = [SimpleNamespace(benchmark="pairs", run=str(run)) for run in runs]
        state = SimpleNamespace(jobs=jobs)
        return link_rates(cast("Any", SimpleNamespace(machines=c.machines, state=state)))

    first = proven()
    names = {machine.name for machine in c.machines}
    assert set(first) == names
    assert proven("--near") == first
    pair = proven("--pairs", "0-1")
    assert {name for name in names if pair[name] != first[name]} <= {m.name for m in c.machines[:2]}


def test_a_share_that_is_shown_as_none_is_no_error() -> None:
    usages = [
        msgspec.structs.replace(USAGE, host="calm", trouble={"cpu.steal": 0.004}),
        msgspec.structs.replace(USAGE, host="robbed", trouble={"cpu.steal": 0.2, "cpu.wait": 0}),
    ]
    text = usage_text(usages, "")

    assert [word for word in text.split() if "%" in word].count("0%") == 0
    assert ("cpu.steal 20%" in text, "more" in text) == (True, False)
