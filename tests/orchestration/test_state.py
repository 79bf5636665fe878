"""The state of a cluster is the sum of its journal: no host is needed to know it."""

import fcntl
import os
import sys
from pathlib import Path

import msgspec
import pytest

from cluster.core.errors import ClusterError, SpecError
from cluster.core.model.hosts import Machine
from cluster.core.model.resources import Price, Receipt
from cluster.core.model.results.records import JobRecord
from cluster.core.model.spec import ClusterSpec
from cluster.core.state import journal
from cluster.orchestration.hosts.state import ClusterState, StateOnDisk
from tests.plain_values import plain_facts
from tests.snapshots import Snapshot

SPEC = ClusterSpec(name="mine", hosts=2)
PRICE = Price(hourly=3.6, at="2026-11-01", source="a list")
INTENDED = journal.Intended(spec=SPEC, at=100.0, costs=True, price=PRICE, ttl=3600.0)
MACHINES = tuple(
    Machine(name=name, id="i", address=name, shell="ssh", folder="x", bin="y")  # noqa: S604
    for name in ("0.mpi.mine", "1.mpi.mine")
)
CREATED = journal.Created(machines=MACHINES, expires=3700.0)
ORDERED = journal.Requested(provider="aws", region="r", kind="instances", token="t", at=110.0)  # noqa: S106
ANSWERED = journal.Answered(token="t", ids=("i-4", "i-5"))  # noqa: S106


def state(*entries: journal.Entry) -> ClusterState:
    found = ClusterState.from_entries([INTENDED, *entries])
    assert found is not None
    return found


def is_locked(folder: Path) -> bool:
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def started(run: str) -> journal.Started:
    job = JobRecord(session="mine", folder="f", run=run, benchmark="p2p", at=1.0)
    return journal.Started(job=job)


def test_a_journal_without_an_intent_is_of_no_cluster() -> None:
    assert ClusterState.from_entries([]) is None
    assert ClusterState.from_entries([CREATED, journal.LaunchFinished()]) is None


def test_a_launch_that_was_only_intended() -> None:
    known = state()

    assert (known.name, known.spec, known.at) == ("mine", SPEC, 100.0)
    assert (known.costs, known.price, known.ttl) == (True, PRICE, 3600.0)
    assert (known.machines, known.jobs, known.launched) == ((), (), False)
    assert known.receipt(999.0) is None
    assert known.is_unfinished(SPEC)
    assert not known.was_launched_as(SPEC)


def test_a_launch_that_is_over() -> None:
    known = state(CREATED, journal.Timed(phase="ssh", seconds=4.0), journal.LaunchFinished())

    assert known.machines == CREATED.machines
    assert known.phases == {"ssh": 4.0}
    assert known.was_launched_as(SPEC)
    assert not known.is_unfinished(SPEC)
    assert not known.was_launched_as(ClusterSpec(name="mine", hosts=3))
    assert len(known.plan.lines) == 1
    assert "$7.2" in known.plan.lines[0]


@pytest.mark.parametrize(("at", "over"), [(3699.0, False), (3701.0, True)])
def test_the_time_to_live_is_over_when_it_was_said(at: float, over: bool) -> None:  # noqa: FBT001
    assert state(CREATED).has_expired(at) is over
    assert state(journal.Created(machines=())).has_expired(at) is False


def test_what_is_known_of_machines_is_what_was_written_last() -> None:
    moved = journal.Created(machines=CREATED.machines[:1], expires=9.0)

    assert (state(CREATED, moved).machines, state(CREATED, moved).expires) == (moved.machines, 9.0)


def test_cost_counts_from_the_first_time_the_call_was_sent() -> None:
    again = journal.Requested(provider="aws", region="r", kind="instances", token="t", at=150.0)  # noqa: S106
    refused = journal.Answered(token="u")  # noqa: S106
    receipt = state(ORDERED, refused, again, ANSWERED, ANSWERED).receipt(3710.0)

    assert receipt is not None
    assert (receipt.hosts, receipt.seconds, receipt.final) == (2, 3600.0, False)
    assert receipt.dollars == pytest.approx(7.2)


def test_addresses_do_not_count_as_machines() -> None:
    address = journal.Requested(provider="aws", region="r", kind="elastic-ip", token="a", at=10.0)  # noqa: S106
    given = journal.Answered(token="a", ids=("eipalloc-1",))  # noqa: S106
    receipt = state(address, given, ORDERED, ANSWERED, CREATED).receipt(3710.0)

    assert receipt is not None
    assert (receipt.hosts, receipt.seconds) == (2, 3600.0)
    assert state(address, given).receipt(3710.0) is None


def test_no_cost_while_machines_are_switched_off() -> None:
    off, on = journal.Switched(on=False, at=210.0), journal.Switched(on=True, at=1000.0)

    for entries, seconds in (((off,), 100.0), ((off, on), 1100.0)):
        receipt = state(ORDERED, ANSWERED, CREATED, *entries).receipt(2000.0)
        assert receipt is not None
        assert receipt.seconds == seconds


def test_machines_that_were_switched_off_or_replaced_are_not_proven_any_more() -> None:
    """The receipt still says how many were, before the first job."""
    proven = journal.Proven(at=150.0, hosts=2, replaced=0, took=1.0)
    known = state(ORDERED, ANSWERED, CREATED, proven)
    changes = journal.Switched(on=False, at=210.0), journal.Replaced(at=210.0)

    assert known.is_proven
    for change in changes:
        after = state(ORDERED, ANSWERED, CREATED, proven, change)
        receipt = after.receipt(300.0)
        assert not after.is_proven
        assert receipt is not None
        assert receipt.proven == 2


def test_machines_without_a_price_that_were_proven_have_a_receipt() -> None:
    free = ClusterState(spec=SPEC, at=100.0, machines=MACHINES)
    receipt = free.after(journal.Proven(at=150.0, hosts=2, replaced=0, took=1.0)).receipt(300.0)

    assert free.receipt(300.0) is None
    assert receipt == Receipt(hosts=2, seconds=200.0, dollars=0.0, proven=2)


def test_once_it_has_ended_the_receipt_is_final_and_there_are_no_jobs() -> None:
    known = state(ORDERED, ANSWERED, CREATED, started("a")).after_end(510.0)
    receipt = known.receipt(9999.0)

    assert receipt is not None
    assert (receipt.seconds, receipt.final) == (400.0, True)
    assert known.jobs == ()


def test_jobs_are_open_until_their_results_are_home() -> None:
    known = state(started("a"), started("b"), journal.Collected(run="a"))

    assert [job.run for job in known.jobs] == ["a", "b"]
    assert [job.run for job in known.open_jobs] == ["b"]
    assert known.after(journal.Collected(run="b")).open_jobs == ()


def test_a_state_never_changes() -> None:
    before = state(CREATED)
    after = before.after(journal.LaunchFinished())

    assert (before.launched, after.launched) == (False, True)


def test_what_is_recorded_is_what_another_process_reads() -> None:
    mine = journal.for_cluster("mine")
    mine.append(INTENDED)
    disk = StateOnDisk(mine)
    for entry in (ORDERED, ANSWERED, CREATED, started("a"), journal.LaunchFinished()):
        disk.record(entry)

    assert (
        StateOnDisk(journal.for_cluster("mine")).state
        == disk.state
        == state(ORDERED, ANSWERED, CREATED, started("a"), journal.LaunchFinished())
    )


def test_whoever_holds_a_cluster_knows_what_others_wrote_before() -> None:
    mine = journal.for_cluster("mine")
    mine.append(INTENDED)
    disk, other = StateOnDisk(mine), StateOnDisk(mine)
    other.record(CREATED)

    assert disk.state.machines == ()
    with disk.lock():
        assert disk.state.machines == CREATED.machines


@pytest.mark.timeout(30)
@pytest.mark.parametrize("moment", range(1, 11))  # of its calls and returns
def test_ctrl_c_in_the_exit_of_a_lock_leaves_none_to_wait_for(moment: int) -> None:
    """As for `down` afterwards, while the traceback keeps the lock alive."""
    mine = journal.for_cluster("mine")
    mine.append(INTENDED)
    events = 0

    def interrupt(_frame: object, event: str, _value: object) -> None:
        nonlocal events
        events += event in ("call", "return")
        if events == moment:
            sys.setprofile(None)
            raise KeyboardInterrupt

    try:
        with mine.lock():
            sys.setprofile(interrupt)
    except KeyboardInterrupt:
        with mine.lock():
            assert is_locked(mine.folder)
        assert not is_locked(mine.folder)
    finally:
        sys.setprofile(None)
    assert events == moment


def test_a_cluster_that_is_not_there_is_refused(snapshot: Snapshot) -> None:
    with snapshot.raises(SpecError):
        StateOnDisk(journal.for_cluster("mine"))


def test_a_cluster_that_another_process_took_down_cannot_be_changed() -> None:
    mine = journal.for_cluster("mine")
    mine.append(INTENDED)
    disk = StateOnDisk(mine)
    mine.forget()

    with pytest.raises(ClusterError, match="mine"):
        disk.record(CREATED)
    with pytest.raises(ClusterError, match="mine"), disk.lock():
        pytest.fail("it was held")
    assert disk.state.machines == ()


NEW = (MACHINES[0], msgspec.structs.replace(MACHINES[1], id="n"))
AGAIN = journal.Requested(provider="aws", region="r", kind="instances", token="u", at=1000.0)  # noqa: S106
MADE = journal.Answered(token="u", ids=("n",))  # noqa: S106


def test_a_replacement_costs_the_time_in_which_both_machines_exist() -> None:
    up = (ORDERED, ANSWERED, CREATED, journal.LaunchFinished())
    begun = (*up, journal.Replacing(kept=MACHINES), AGAIN, MADE, journal.Created(machines=NEW))
    during = state(*begun).receipt(1100.0)
    over = state(*begun, journal.Replacing(kept=NEW), journal.Replaced(at=1200.0))
    after = over.receipt(1300.0)

    assert during is not None
    assert during.dollars == pytest.approx((2 * 990 + 100) * 3.6 / 3600)
    assert after is not None
    assert after.dollars == pytest.approx((2 * 1190 + 200) * 3.6 / 3600)
    assert (after.hosts, over.machines, over.machines_to_keep) == (2, NEW, ())


def test_a_replacement_that_was_given_up_has_the_machines_of_before() -> None:
    facts = journal.Examined(facts=())
    begun = (CREATED, journal.Replacing(kept=MACHINES), journal.Created(machines=NEW), facts)

    assert (state(*begun).machines, state(*begun).machines_to_keep) == (NEW, MACHINES)
    assert state(*begun, journal.Replaced(at=9.0)).machines == MACHINES


def test_what_is_known_of_hosts_outlives_a_replacement() -> None:
    """A dead host that stays is left out as before: it was examined once."""
    old = (MACHINES[0], msgspec.structs.replace(MACHINES[1], id="o"))
    created, new = journal.Created(machines=old), (MACHINES[0], NEW[1])
    seen = journal.Examined(facts=(plain_facts("a"), plain_facts("old")))
    begun = (created, seen, journal.Replacing(kept=old), journal.Created(machines=new))
    both = (plain_facts("a"), plain_facts("n"))
    again = (journal.Examined(facts=()), journal.Examined(facts=both))
    over = journal.Replaced(at=9.0)

    def hosts(*entries: journal.Entry) -> list[str]:
        return [fact.host for fact in state(*begun, *entries).facts]

    assert hosts(again[0], over) == ["a", "old"]
    assert hosts(*again, over) == ["a", "old"]
    assert hosts(*again, journal.Examined(facts=None, at=2.0)) == ["a", "n"]
    assert hosts(*again, journal.Replacing(kept=new), over) == ["a", "n"]
    assert hosts(again[0], journal.Replacing(kept=new), over) == []
