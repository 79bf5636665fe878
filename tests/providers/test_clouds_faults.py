"""Calls that go wrong, in every cloud: the error says what, and nothing is left."""

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from cluster.core.errors import ClusterError, Denied, Timeout
from cluster.core.state import journal
from cluster.core.state.journal import Answered
from cluster.orchestration.launch.launch import launch_spec
from tests.clouds import NAME, WORLDS, World, permission_calls
from tests.fakes import gcp as google
from tests.fakes.cloud import Emulated
from tests.fakes.values import Fault

PATIENCE = 0.7  # seconds
OFTEN = 0.3  # of all calls
AT_RANDOM = {  # Google takes the call, and its operation fails later
    "aws": Fault(action="mutating", code="InternalError", status=500, chance=OFTEN),
    "gcp": google.Fault(action="mutating", operation=True, code="INTERNAL_ERROR", chance=OFTEN),
}


@pytest.fixture(autouse=True)
def impatient(soon: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lose patience sooner than with a real cloud."""
    monkeypatch.setenv("CLUSTER_LATE", "0.3")
    monkeypatch.setattr("cluster.providers._cloud.api_errors.PATIENCE", PATIENCE)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat what passes until it does, however slow a busy machine makes each call."""
    monkeypatch.setattr("cluster.providers._cloud.api_errors.PATIENCE", 60.0)


def calls(calls_of: Callable[[World], Iterable[str]]) -> pytest.MarkDecorator:
    """Test with each call of some of each cloud."""
    rows = [(world, call) for world in WORLDS for call in calls_of(world)]
    names = [f"{world.name}-{call}" for world, call in rows]
    return pytest.mark.parametrize(("world", "call"), rows, ids=names)


worlds = pytest.mark.parametrize("world", WORLDS, ids=[world.name for world in WORLDS])


def refused(cloud: Emulated[Any], world: World, fault: Fault) -> ClusterError:
    """Let a call of a launch go wrong, see that nothing is left, and give what is said."""
    before = cloud.things()
    provider = world.planned()
    cloud.fail(fault)
    with pytest.raises(ClusterError) as error:
        world.create(provider)
    assert "Nothing is left." in error.value.means
    assert cloud.things() == before
    return error.value


def fault(world: World, call: str, **harm: Any) -> Fault:
    return Fault(action=call, where=world.in_earnest if call in world.making else {}, **harm)


@calls(lambda world: (*world.making, *world.looking))
def test_who_may_not_is_told_what_to_type(cloud: Emulated[Any], world: World, call: str) -> None:
    """Who may never look could not take anything away either: such a call is refused once."""
    times = {} if call in world.making else {"times": 1}
    error = refused(cloud, world, fault(world, call, **times, **world.denied))

    assert type(error) is Denied
    assert call in str(error)
    assert world.permit in error.remedy


@calls(lambda world: world.making)
def test_too_many_calls(cloud: Emulated[Any], world: World, call: str) -> None:
    error = refused(cloud, world, fault(world, call, **world.throttled))

    assert type(error) is Timeout
    assert call in str(error)
    assert "Wait a minute" in error.remedy


@pytest.mark.parametrize("moment", ["before", "after", "hangs"])
@calls(lambda world: world.making)
def test_replies_that_never_come(
    cloud: Emulated[Any], world: World, monkeypatch: pytest.MonkeyPatch, call: str, moment: str
) -> None:
    harm: dict[str, Any] = {"drop": moment}
    if moment == "hangs":
        monkeypatch.setattr(world.timeout, 3.0)
        harm = {"delay": 30.0}
    error = refused(cloud, world, fault(world, call, **harm))

    assert type(error) is Timeout
    assert call in str(error)
    assert "gc" in error.remedy


PAGE = "<html><head><title>Bad gateway</title></head></html>"
BROKEN: dict[str, dict[str, Any]] = {
    "before": {"drop": "before"},
    "after": {"drop": "after"},
    **{str(status): {"body": PAGE, "status": status} for status in (502, 503, 504)},
}


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("harm", BROKEN)
@calls(lambda world: world.making)
def test_a_call_without_an_answer_makes_nothing_twice(
    cloud: Emulated[Any], world: World, call: str, harm: str
) -> None:
    """It is sent again with its token; what a proxy says is neither XML nor JSON, and no answer."""
    provider = world.planned()
    before = cloud.things()
    cloud.fail(fault(world, call, times=1, **BROKEN[harm]))

    assert len(world.create(provider)) == world.spec.hosts
    assert tuple(sorted(thing.kind for thing in cloud.things() - before)) == world.kinds


@pytest.mark.usefixtures("patient")
@worlds
def test_an_endpoint_that_refuses_for_a_while_loses_nothing(
    cloud: Emulated[Any], world: World
) -> None:
    provider = world.planned()
    before = cloud.things()
    cloud.fail(fault(world, world.making[-1], refuse=2.0, times=1))

    assert len(world.create(provider)) == world.spec.hosts
    assert tuple(sorted(thing.kind for thing in cloud.things() - before)) == world.kinds


@worlds
def test_a_failed_launch_is_cleaned_up_by_an_endpoint_that_comes_back(
    cloud: Emulated[Any], world: World
) -> None:
    """The launch gives up before that; its clean-up does not."""
    error = refused(cloud, world, fault(world, world.making[-1], refuse=2.5, times=1))

    assert type(error) is Timeout


@worlds
def test_a_clean_up_that_gives_up_says_what_remains(
    cloud: Emulated[Any], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = world.planned()
    # The machines are made; then neither they nor their end can be seen.
    for call in world.after:
        cloud.fail(fault(world, call, **world.throttled))

    with monkeypatch.context() as impatient:
        impatient.setattr("cluster.providers._cloud.deletion.WITHIN", 0.5)
        with pytest.raises(Timeout) as error:
            world.create(provider)
    machines = [thing.id for thing in cloud.things() if thing.kind in ("instance", "instances")]
    own_ids = [id_ for id_ in machines if id_ in error.value.means]
    assert len(own_ids) == world.spec.hosts
    assert re.search(r" 20\d\d-\d\d-\d\dT", error.value.means)
    assert f"cluster down {NAME}" in error.value.means
    cloud.mend()
    provider.destroy(NAME)


class NoThread(RuntimeError):
    """What Python raises where a system has no more threads: no cloud is to blame."""


def no_thread(*_: object, **__: object) -> None:
    raise NoThread


@worlds
def test_an_error_of_this_machine_leaves_no_machines(cloud: Emulated[Any], world: World) -> None:
    before = cloud.things()
    provider = world.planned()
    with pytest.raises(NoThread):
        world.create(provider, on_state=no_thread)  # it is called once the machines exist

    assert cloud.calls(world.making[-1])
    assert cloud.things() == before


@worlds
def test_an_error_of_this_machine_while_it_connects_leaves_no_machines(
    cloud: Emulated[Any], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = cloud.things()
    monkeypatch.setattr("cluster.orchestration.hosts.machines.connect_all", no_thread)
    with pytest.raises(NoThread):
        launch_spec(world.spec)

    assert cloud.calls(world.making[-1])
    assert cloud.things() == before
    assert not journal.for_cluster(NAME).entries()


@calls(lambda world: world.planning)
def test_what_may_not_be_looked_at_is_refused_before_any_change(
    cloud: Emulated[Any], world: World, call: str
) -> None:
    cloud.fail(fault(world, call, **world.denied))

    with pytest.raises(Denied, match=call) as error:
        world.planned()
    assert world.permit in error.value.remedy
    assert not cloud.mutating()


@worlds
def test_these_are_all_calls_of_a_launch(cloud: Emulated[Any], world: World) -> None:
    """A call that is new wants its word in `tests/clouds.py`."""
    provider = world.planned()
    questions = permission_calls(cloud)
    plan = {call.action for call in cloud.calls()} - questions
    since = len(cloud.calls())
    world.create(provider)

    assert (plan | permission_calls(cloud)) - {*world.optional, *world.making} == set(
        world.planning
    )
    call_names = {call.action for call in cloud.calls()[since:]}
    assert call_names == {*world.making, *world.looking}


PATIENT, IMPATIENT = 600.0, 0.0  # seconds that a clean-up may take


@worlds
@pytest.mark.parametrize(
    ("seed", "within"), [(0, PATIENT), (1, PATIENT), (2, PATIENT), (4, IMPATIENT)]
)
def test_what_fails_at_random_leaves_nothing_but_what_is_told(
    cloud: Emulated[Any], world: World, monkeypatch: pytest.MonkeyPatch, seed: int, within: float
) -> None:
    """During the launch, its clean-up, and a first attempt to take it down."""
    before = cloud.things()
    provider = world.planned()
    cloud.fail(msgspec.structs.replace(AT_RANDOM[world.name], seed=seed))
    report = ""
    with monkeypatch.context() as clean_up:
        clean_up.setattr("cluster.providers._cloud.deletion.WITHIN", within)
        try:
            machines = world.create(provider)
        except ClusterError as error:
            report = error.means
        else:
            assert len(machines) == world.spec.hosts
    if "Nothing is left." in report:
        assert cloud.things() == before
    elif report:
        entries = journal.for_cluster(NAME).entries()
        machine_ids = [id_ for entry in entries if isinstance(entry, Answered) for id_ in entry.ids]
        assert all(id_ in report for id_ in machine_ids)
        assert f"cluster down {NAME}" in report
    with suppress(ClusterError):
        provider.destroy(NAME)
        assert cloud.things() == before
    cloud.mend()
    provider.destroy(NAME)

    assert cloud.things() == before
