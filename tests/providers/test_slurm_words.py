"""What Slurm prints of jobs and partitions, and what is said of it; no Slurm runs for these."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.providers.slurm import mark_of
from cluster.providers.slurm.client import SlurmClient
from cluster.providers.slurm.states import (
    ENDED,
    KNOWN,
    SlurmJob,
    is_hopeless,
    parse_jobs,
    parse_partitions,
    why_closed,
    why_over,
    why_put_back,
    words_of,
)
from tests.conftest import Install
from tests.snapshots import Snapshot

PRINTED = """\
4711|PENDING|Resources|2026-11-22T14:05:00|1-00:00:00||cluster:mine:0a1b@login1
4712|RUNNING|None|2026-11-22T13:05:00|59:58|node[1-3,7]|(null)
4715|RUNNING|None|2026-11-22T13:05:00|INVALID|node9|(null)
4716|RUNNING|None|2026-11-22T13:05:00|UNLIMITED|node8|(null)
4713|CANCELLED by 1000|None|Unknown|Unknown||
4714|REBOOTING_MOON|None|N/A|N/A||a|b
squeue: warning: something else
"""


def test_what_squeue_prints_is_read() -> None:
    waiting, running, late, endless, cancelled, odd = parse_jobs(PRINTED)

    assert waiting.reason == "Resources"
    mark = mark_of(waiting)
    assert mark is not None
    assert (mark.name, mark.token, mark.host) == ("mine", "0a1b", "login1")
    assert (running.state, running.nodes, running.comment) == ("RUNNING", "node[1-3,7]", "")
    assert [job.remaining for job in (waiting, running, late, endless)] == [86400, 3598, 0, None]
    assert (cancelled.state, cancelled.start) == ("CANCELLED", "")
    assert mark_of(odd) is None
    assert odd.comment == "a|b"


def test_states_and_reasons_in_words(snapshot: Snapshot) -> None:
    def job(state: str, reason: str = "", start: str = "") -> SlurmJob:
        return SlurmJob(id="1", state=state, reason=reason, start=start)

    soon = job("PENDING", "Resources", "2026-11-22T14:05:00")
    snapshot(words_of(soon))
    down = job("PENDING", "ReqNodeNotAvail, UnavailableNodes:node7")
    snapshot(words_of(down))
    assert words_of(job("PENDING", "SiteSpecificReason")) == "PENDING: SiteSpecificReason"
    snapshot(words_of(job("MOON")))
    snapshot(why_over(job("TIMEOUT")))
    snapshot(why_over(job("PENDING")))
    snapshot(why_over(job("COMPLETING")))
    assert why_over(job("COMPLETING", "TimeLimit")) == why_over(job("TIMEOUT", "TimeLimit"))
    snapshot(why_over(job("SUSPENDED")))
    snapshot(why_over(job("SUSPENDED")))
    snapshot(why_over(None))
    late = SlurmJob(id="1", state="RUNNING", remaining=0)
    snapshot(why_over(late))
    assert is_hopeless(job("PENDING", "BadConstraints"))
    assert not is_hopeless(job("PENDING", "Resources"))


@settings(max_examples=50)
@given(st.text(max_size=200), st.sampled_from(sorted(KNOWN)))
def test_no_text_runs_by_default(text: str, state: str) -> None:
    """Whatever Slurm prints: only the word RUNNING is a job that runs, and only ends are ends."""
    for job in parse_jobs(f"{text}\n1|{state}|{text.splitlines()[:1]}|||n1|{text}"):
        if job.state == "RUNNING":
            assert "RUNNING" in (f"{text}{state}").upper()
        assert job.is_over == (job.state in ENDED)
        assert words_of(job)
        assert bool(why_over(job)) == (job.state in KNOWN - {"RUNNING"}) or not why_over(job)


def test_a_job_may_go_to_any_partition_that_it_names(snapshot: Snapshot) -> None:
    parts = parse_partitions(
        "PartitionName=a Default=YES State=DOWN\nPartitionName=b Default=NO State=UP\n"
        "PartitionName=c Default=NO State=MOON\nscontrol: warning\n"
    )

    assert why_closed(parts, "a,b") == why_closed(parts, "b") == why_closed(parts, "d") == ""
    snapshot(why_closed(parts, ""))
    snapshot(why_closed(parts, "a,c"))


SACCT = """\
#!/bin/sh
[ "$*" = "--noheader --parsable2 --allocations --jobs=7 --duplicates --format=State" ] || exit 64
printf '%s\\n' {states}
"""


@pytest.mark.parametrize(
    ("states", "text"),
    [
        ("PREEMPTED PENDING", "it was preempted by another job"),
        ("REQUEUED PENDING", "its state before was REQUEUED"),
        ("PENDING", "whether another job preempted it is not known"),
    ],
)
def test_slurms_accounts_say_why_a_job_was_put_back(
    install: Install, states: str, text: str
) -> None:
    """A strict stand-in of sacct; where there are none, the real one above says so."""
    install("sacct", SACCT.format(states=states))

    before = SlurmClient().states_before("7", within=30)
    assert why_put_back(before).startswith(text)
