"""A process that is killed, in every cloud: whoever comes after it leaves nothing of ours."""

import itertools
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cluster.core.state import journal, ssh_keys
from cluster.orchestration.cluster import attach
from cluster.remote.parallel import connect_all
from tests import killed_processes
from tests.clouds import AWS, NAME, WORLDS, World
from tests.conftest import LONG, until
from tests.fakes.cloud import Emulated
from tests.fakes.values import Call, Fault, Moment
from tests.killed_processes import WAYS, clear
from tests.orphans import find_orphans

pytestmark = pytest.mark.usefixtures("soon")
by_each_way = pytest.mark.parametrize(
    "ways", [(way,) for way in WAYS] if LONG else [WAYS], ids=" or ".join
)
"""Run a test with all ways, of which it takes one in turn; with --long, with each of them alone."""


def ways_after(fault: Fault, turn: int, ways: tuple[str, ...]) -> tuple[str, ...]:
    """Return by which ways to clear what a killed process left: by that whose turn it is.

    After a call whose reply nobody got, by each of them: only there do they not see the same, as
    it is in the cloud, and its answer in no journal.
    """
    return ways if fault.kill == "after" else (ways[turn % len(ways)],)


def moments(calls: tuple[Call, ...], first: int = 0) -> Iterator[Fault]:
    """Yield when to kill: before each call, and after each that changes something.

    To be killed before a call is to be killed when the reply of the one before was used. A call
    that changes something is told by its name and how often that came before, because how often
    somebody looks in between is a matter of time.
    """
    counts = Counter(call.action for call in calls[:first])
    for number, call in enumerate(calls[first:], first):
        if call.mutating:
            for moment in ("before", "after"):
                yield Fault(action=call.action, kill=moment, skip=counts[call.action], times=1)
        else:
            yield Fault(action="*", kill="before", skip=number, times=1)
        counts[call.action] += 1


@by_each_way
def test_a_launch_that_is_killed_at_any_call_leaves_nothing(
    cloud: Emulated[Any], world: World, ways: tuple[str, ...]
) -> None:
    """Nothing of it is listed any more, whoever looks, and nothing of others is touched."""
    before = cloud.things()
    provider = world.planned()
    plan_calls = cloud.calls()
    planned = len(plan_calls)
    world.create(provider)
    calls = cloud.calls()[planned:]
    clear("down", NAME)
    assert cloud.things() == before
    assert {call.action for call in calls if call.mutating} == set(world.making)

    for turn, fault in enumerate(moments((*plan_calls, *calls), planned)):
        for way in ways_after(fault, turn, ways):
            cloud.fail(fault)
            status = killed_processes.status(killed_processes.launch, world.spec)
            assert status == -signal.SIGKILL, fault
            cloud.mend()
            clear(way, NAME)
            assert cloud.things() == before, f"{fault}, then {way}"


def test_a_launch_that_is_killed_at_an_entry_of_its_journal_leaves_nothing(
    cloud: Emulated[Any], world: World, tmp_path: Path
) -> None:
    """Once the ids of all that was requested are in the journal, also without their tags.

    Before a request, all is as it was after the answer to the one before: left to --long.
    """
    before = cloud.things()
    reached = tmp_path / "reached"
    numbers = () if LONG else range(2, len(world.making) + 1)
    reached.write_text("".join(f"before Requested {number}\n" for number in numbers))
    while "after Created 1" not in (steps := reached.read_text().splitlines()):
        status = killed_processes.status(
            killed_processes.launch_to_a_new_entry, world.spec, reached
        )
        assert status == -signal.SIGKILL, steps
        step = reached.read_text().splitlines()[-1]
        if not _unanswered():
            cloud.lose_tags()
        clear("down", NAME)
        assert cloud.things() == before, step

    assert sum(step.startswith("after Answered") for step in steps) >= len(world.making) - 1


def _unanswered() -> set[str]:
    """Return the tokens of the calls whose answer is not in the journal."""
    entries = journal.for_cluster(NAME).entries()
    answered = {entry.token for entry in entries if isinstance(entry, journal.Answered)}
    return {e.token for e in entries if isinstance(e, journal.Requested)} - answered


@pytest.mark.parametrize(
    ("call", "skip"),
    [("AllocateAddress", 2), ("AssociateAddress", 1)],  # a plan asks whether the first is permitted
)
def test_a_launch_that_is_killed_at_its_second_elastic_ip_leaves_none(
    aws: Emulated[Any], call: str, skip: int
) -> None:
    """By each way in turn; the other calls of such a launch are those of the test above."""
    before = aws.things()
    spec = msgspec.structs.replace(
        AWS.spec, instance="p4d.24xlarge", options={"efa": "1", "elastic_ip": "1"}
    )
    kills: tuple[Moment, ...] = ("before", "after", "after")
    for way, moment in zip(WAYS, kills, strict=True):
        aws.fail(Fault(action=call, kill=moment, skip=skip, times=1))
        assert killed_processes.status(killed_processes.launch, spec) == -signal.SIGKILL
        assert "address" in {thing.kind for thing in aws.things() - before}
        aws.mend()
        clear(way, NAME)
        assert aws.things() == before, f"{way}, {moment}"


def test_a_teardown_that_is_killed_at_any_call_is_finished_by_the_next(
    cloud: Emulated[Any], world: World
) -> None:
    """By each way in turn.

    Of several calls in a row that change nothing, all but the first are left to --long: no part of
    the cloud or of the journal changes between them.
    """
    before = cloud.things()
    provider = world.planned()
    world.create(provider)
    since = len(cloud.calls())
    clear("down", NAME)
    calls = cloud.calls()[since:]
    changing = [number for number, call in enumerate(calls) if call.mutating]
    first = {0, *(number + 1 for number in changing)}

    kills = moments(calls[: changing[-1] + 2])
    faults = [fault for fault in kills if LONG or fault.action != "*" or fault.skip in first]
    for turn, fault in enumerate(faults):
        world.create(provider)
        cloud.fail(fault)
        status = killed_processes.status(killed_processes.down, NAME)
        # It may have looked less often than we did before, and be done.
        assert status == -signal.SIGKILL or (status == 0 and fault.action == "*"), fault
        cloud.mend()
        way = WAYS[turn % len(WAYS)]
        if status:
            clear(way, NAME)
        assert cloud.things() == before, f"{fault}, then {way}"


def test_a_teardown_whose_replies_are_lost_gets_through(cloud: Emulated[Any], world: World) -> None:
    before = cloud.things()
    provider = world.planned()
    for action in world.deleting:
        world.create(provider)
        since = len(cloud.calls(action))
        cloud.fail(Fault(action=action, drop="after", times=2))
        clear("down", NAME)
        cloud.mend()

        assert cloud.things() == before
        assert len(cloud.calls(action)) > since + 1


def connecting() -> Iterator[tuple[World, str, str]]:
    """Yield each milestone of each cloud with a way in turn, and with --long with every way.

    The machines and their journal are there at all of them; what differs is the pins of host keys,
    and whether a launch is over, which only `gc` asks.
    """
    turns = itertools.cycle(WAYS)
    for world in WORLDS:
        for milestone in world.milestones:
            turn = "gc" if milestone == "launched" else next(turns)
            for way in WAYS if LONG else (turn,):
                yield world, milestone, way


@pytest.mark.parametrize(
    ("world", "milestone", "way"),
    [*connecting()],
    ids=lambda part: part if isinstance(part, str) else part.name,
)
def test_a_launch_that_is_killed_while_it_connects_leaves_nothing(
    world: World, request: pytest.FixtureRequest, milestone: str, way: str
) -> None:
    cloud: Emulated[Any] = request.getfixturevalue(f"{world.name}_hosts")
    before = cloud.things()
    cloud.set(boot=0.5)
    with killed_processes.begun(killed_processes.launch, world.spec) as process:
        until(lambda: _is(world, milestone), f"the launch is so far: {milestone}")
        process.kill()
    for orphan in find_orphans() if way == "gc" and milestone == "launched" else ():
        pytest.fail(f"a cluster that is up is taken for forgotten: {orphan}")
    clear("down" if milestone == "launched" and way == "gc" else way, NAME)

    assert cloud.things() == before


def _is(world: World, milestone: str) -> bool:
    """Tell whether a launch is so far."""
    book = journal.for_cluster(NAME)
    if milestone == "rotated":  # the new keys are being written down beside the first one
        path = book.folder / "known_hosts"
        return path.exists() and len(path.read_text().splitlines()) > world.spec.hosts
    kind = journal.Created if milestone == "created" else journal.LaunchFinished
    return any(isinstance(entry, kind) for entry in book.entries())


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_a_launch_that_is_killed_at_each_step_behind_its_machines_goes_on_with_them(
    world: World, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Also right behind the rotation of the host keys: what is pinned for a machine is kept."""
    cloud: Emulated[Any] = request.getfixturevalue(f"{world.name}_hosts")
    before = cloud.things()
    reached = tmp_path / "reached"
    reached.touch()
    statuses: list[int | None] = []
    while not statuses or statuses[-1] == -signal.SIGKILL:
        statuses.append(
            killed_processes.status(killed_processes.launch_to_a_new_step, world.spec, reached)
        )
    steps = reached.read_text().splitlines()
    pins, machines = _pins(), attach(NAME).machines

    assert statuses == [-signal.SIGKILL] * len(steps) + [0]
    assert len(set(steps)) == len(steps)
    assert {"after Created", "before LaunchFinished"} <= set(steps)
    if "rotated" in world.milestones:
        turns = ("before make", "after make", "before use", "after use")
        assert all(f"{turn} {machine.name}" in steps for turn in turns for machine in machines)
        assert {"after 4 pins of 3 keys", "after 2 pins of 2 keys"} <= set(steps)
        first = ssh_keys.load_or_create(journal.for_cluster(NAME).folder / ssh_keys.FIRST).public
        assert first not in pins.values()
    assert len(pins) == world.spec.hosts
    assert len({call.params.get("ClientToken") for call in cloud.calls("RunInstances")}) <= 2
    connect_all(attach(NAME).shells(), 30)
    clear("down", NAME)
    assert cloud.things() == before


def _pins() -> dict[str, str]:
    """Return the only pinned key of each machine."""
    path = journal.for_cluster(NAME).folder / ssh_keys.KNOWN
    lines = [line.partition(" ") for line in path.read_text().splitlines()]
    assert len({alias for alias, _, _ in lines}) == len(lines)
    return {alias: public for alias, _, public in lines}
