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
    result = ClusterState.from_entries([INTENDED, *entries])
    assert result is not None
    return result


def is_locked(folder: Path) -> bool:
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def begin(run: str) -> journal.Started:
    job = JobRecord(session="mine", folder="f", run=run, benchmark="p2p", at=1.0)
    return journal.Started(job=job)


def test_a_journal_without_an_intent_is_of_no_cluster() -> None:
    assert ClusterState.from_entries([]) is None
    assert ClusterState.from_entries([CREATED, journal.LaunchFinished()]) is None


def test_a_launch_that_was_only_intended() -> None:
    record = state()

    assert (record.name, record.spec, record.at) == ("mine", SPEC, 100.0)
    assert (record.costs, record.price, record.ttl) == (True, PRICE, 3600.0)
    assert (record.machines, record.jobs, record.launched) == ((), (), False)
    assert record.receipt(999.0) is None
    assert record.is_unfinished(SPEC)
    assert not record.was_launched_as(SPEC)


def test_a_launch_that_is_over() -> None:
    record = state(CREATED, journal.Timed(phase="ssh", seconds=4.0), journal.LaunchFinished())

    assert record.machines == CREATED.machines
    assert record.phases == {"ssh": 4.0}
    assert record.was_launched_as(SPEC)
    assert not record.is_unfinished(SPEC)
    assert not record.was_launched_as(ClusterSpec(name="mine", hosts=3))
    assert len(record.plan.lines) == 1
    assert "$7.2" in record.plan.lines[0]


@pytest.mark.parametrize(("time", "is_over"), [(3699.0, False), (3701.0, True)])
def test_the_time_to_live_is_over_when_it_was_said(time: float, is_over: bool) -> None:  # noqa: FBT001
    assert state(CREATED).has_expired(time) is is_over
    assert state(journal.Created(machines=())).has_expired(time) is False


def test_what_is_known_of_machines_is_what_was_written_last() -> None:
    entry = journal.Created(machines=CREATED.machines[:1], expires=9.0)

    assert (state(CREATED, entry).machines, state(CREATED, entry).expires) == (entry.machines, 9.0)


def test_cost_counts_from_the_first_time_the_call_was_sent() -> None:
    again = journal.Requested(provider="aws", region="r", kind="instances", token="t", at=150.0)  # noqa: S106
    refused = journal.Answered(token="u")  # noqa: S106
    receipt = state(ORDERED, refused, again, ANSWERED, ANSWERED).receipt(3710.0)

    assert receipt is not None
    assert (receipt.hosts, receipt.seconds, receipt.final) == (2, 3600.0, False)
    assert receipt.dollars == pytest.approx(7.2)


def test_addresses_do_not_count_as_machines() -> None:
    address = journal.Requested(provider="aws", region="r", kind="elastic-ip", token="a", at=10.0)  # noqa: S106
    reply = journal.Answered(token="a", ids=("eipalloc-1",))  # noqa: S106
    receipt = state(address, reply, ORDERED, ANSWERED, CREATED).receipt(3710.0)

    assert receipt is not None
    assert (receipt.hosts, receipt.seconds) == (2, 3600.0)
    assert state(address, reply).receipt(3710.0) is None


def test_no_cost_while_machines_are_switched_off() -> None:
    stop, start = journal.Switched(on=False, at=210.0), journal.Switched(on=True, at=1000.0)

    for entries, seconds in (((stop,), 100.0), ((stop, start), 1100.0)):
        receipt = state(ORDERED, ANSWERED, CREATED, *entries).receipt(2000.0)
        assert receipt is not None
        assert receipt.seconds == seconds


def test_machines_that_were_switched_off_or_replaced_are_not_proven_any_more() -> None:
    """The receipt still says how many were, before the first job."""
    proven = journal.Proven(at=150.0, hosts=2, replaced=0, took=1.0)
    record = state(ORDERED, ANSWERED, CREATED, proven)
    changes = journal.Switched(on=False, at=210.0), journal.Replaced(at=210.0)

    assert record.is_proven
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
    record = state(ORDERED, ANSWERED, CREATED, begin("a")).after_end(510.0)
    receipt = record.receipt(9999.0)

    assert receipt is not None
    assert (receipt.seconds, receipt.final) == (400.0, True)
    assert record.jobs == ()


def test_jobs_are_open_until_their_results_are_home() -> None:
    record = state(begin("a"), begin("b"), journal.Collected(run="a"))

    assert [job.run for job in record.jobs] == ["a", "b"]
    assert [job.run for job in record.open_jobs] == ["b"]
    assert record.after(journal.Collected(run="b")).open_jobs == ()


def test_a_state_never_changes() -> None:
    before = state(CREATED)
    after = before.after(journal.LaunchFinished())

    assert (before.launched, after.launched) == (False, True)


def test_what_is_recorded_is_what_another_process_reads() -> None:
    book = journal.for_cluster("mine")
    book.append(INTENDED)
    disk = StateOnDisk(book)
    for entry in (ORDERED, ANSWERED, CREATED, begin("a"), journal.LaunchFinished()):
        disk.record(entry)

    assert (
        StateOnDisk(journal.for_cluster("mine")).state
        == disk.state
        == state(ORDERED, ANSWERED, CREATED, begin("a"), journal.LaunchFinished())
    )


def test_whoever_holds_a_cluster_knows_what_others_wrote_before() -> None:
    book = journal.for_cluster("mine")
    book.append(INTENDED)
    disk, other = StateOnDisk(book), StateOnDisk(book)
    other.record(CREATED)

    assert disk.state.machines == ()
    with disk.lock():
        assert disk.state.machines == CREATED.machines


@pytest.mark.timeout(30)
@pytest.mark.parametrize("moment", range(1, 11))  # of its calls and returns
def test_ctrl_c_in_the_exit_of_a_lock_leaves_none_to_wait_for(moment: int) -> None:
    """As for `down` afterwards, while the traceback keeps the lock alive."""
    book = journal.for_cluster("mine")
    book.append(INTENDED)
    events = 0

    def interrupt(_frame: object, event: str, _value: object) -> None:
        nonlocal events
        events += event in ("call", "return")
        if events == moment:
            sys.setprofile(None)
            raise KeyboardInterrupt

    try:
        with book.lock():
            sys.setprofile(interrupt)
    except KeyboardInterrupt:
        with book.lock():
            assert is_locked(book.folder)
        assert not is_locked(book.folder)
    finally:
        sys.setprofile(None)
    assert events == moment


def test_a_cluster_that_is_not_there_is_refused(snapshot: Snapshot) -> None:
    with snapshot.raises(SpecError):
        StateOnDisk(journal.for_cluster("mine"))


def test_a_cluster_that_another_process_took_down_cannot_be_changed() -> None:
    book = journal.for_cluster("mine")
    book.append(INTENDED)
    disk = StateOnDisk(book)
    book.forget()

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
    entries = (*up, journal.Replacing(kept=MACHINES), AGAIN, MADE, journal.Created(machines=NEW))
    meanwhile = state(*entries).receipt(1100.0)
    end = state(*entries, journal.Replacing(kept=NEW), journal.Replaced(at=1200.0))
    after = end.receipt(1300.0)

    assert meanwhile is not None
    assert meanwhile.dollars == pytest.approx((2 * 990 + 100) * 3.6 / 3600)
    assert after is not None
    assert after.dollars == pytest.approx((2 * 1190 + 200) * 3.6 / 3600)
    assert (after.hosts, end.machines, end.machines_to_keep) == (2, NEW, ())


def test_a_replacement_that_was_given_up_has_the_machines_of_before() -> None:
    facts = journal.Examined(facts=())
    entries = (CREATED, journal.Replacing(kept=MACHINES), journal.Created(machines=NEW), facts)

    assert (state(*entries).machines, state(*entries).machines_to_keep) == (NEW, MACHINES)
    assert state(*entries, journal.Replaced(at=9.0)).machines == MACHINES


def test_what_is_known_of_hosts_outlives_a_replacement() -> None:
    """A dead host that stays is left out as before: it was examined once."""
    old = (MACHINES[0], msgspec.structs.replace(MACHINES[1], id="o"))
    created, new = journal.Created(machines=old), (MACHINES[0], NEW[1])
    facts = journal.Examined(facts=(plain_facts("a"), plain_facts("old")))
    base = (created, facts, journal.Replacing(kept=old), journal.Created(machines=new))
    pair = (plain_facts("a"), plain_facts("n"))
    again = (journal.Examined(facts=()), journal.Examined(facts=pair))
    end = journal.Replaced(at=9.0)

    def hosts(*entries: journal.Entry) -> list[str]:
        return [fact.host for fact in state(*base, *entries).facts]

    assert hosts(again[0], end) == ["a", "old"]
    assert hosts(*again, end) == ["a", "old"]
    assert hosts(*again, journal.Examined(facts=None, at=2.0)) == ["a", "n"]
    assert hosts(*again, journal.Replacing(kept=new), end) == ["a", "n"]
    assert hosts(again[0], journal.Replacing(kept=new), end) == []
