"""What hosts do to a rate: ranks without a core of their own, credits, an MPI that knows no GPU."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from cluster.analysis.verdict.evidence import Evidence
from cluster.analysis.verdict.rules import diagnose, hosts
from cluster.core.model.hosts import ProcessorTimes, RankProcess
from cluster.core.model.results.measurements import Distribution, Summary
from tests.analysis.evidence import Look, facts, host, summary
from tests.conftest import PATIENCE


def test_more_ranks_than_cores() -> None:
    few = (host("a", cores=2),)

    finding = hosts.oversubscribed(facts(hosts=few, ranks_per_host=4))
    assert finding is not None
    assert (finding.count, finding.other_count, finding.name) == (4, 2, "a")
    assert hosts.oversubscribed(facts(hosts=few, ranks_per_host=2)) is None


@pytest.mark.usefixtures("openssh")  # without it mpirun says less
def test_what_mpirun_says_of_too_few_cores(look: Look) -> None:
    """Open MPI's own words, whichever version is here: they are two lines long."""
    cores = os.sched_getaffinity(0)
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    count = str(len(cores) + 1)
    place = ["--host", f"localhost:{count}", "--map-by", "core", "--bind-to", "core"]
    mpirun = str(Path(sys.executable).with_name("mpirun"))
    words = [mpirun, *root, "-np", count, *place, "true"]
    result = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
    finding = hosts.oversubscribed(look(result.stdout + result.stderr))

    assert result.returncode != 0
    assert finding is not None
    assert finding.confidence == "certain"


@pytest.mark.parametrize(
    ("used", "stolen", "took", "load"),
    [
        (5.0, 0.0, 2.0, 1.5),  # seconds of processors, of which the two ranks took 1 s each
        (2.6, 0.0, 2.0, None),
        (2.0, 1.0, 2.0, 0.0),
        (5.6, 0.0, 0.1, None),  # too short to count
    ],
)
def test_what_else_runs_on_a_host_is_seen_beside_its_ranks(
    used: float, stolen: float, took: float, load: float | None
) -> None:
    times = ProcessorTimes(took=took, processors=2, used=used, own=1.0, stolen=stolen)
    ranks = tuple(RankProcess(rank=n, host="a", boot="x", times=times) for n in (0, 1))
    finding = hosts.other_load(facts(hosts=(host("a"),), processes=ranks))

    assert (finding.used if finding else None) == load
    assert finding is None or (finding.host, finding.stolen) == ("a", stolen / took)


def test_what_ran_before_ranks_competed_with_it_counts_too() -> None:
    """The ranks had 0.4 processors each of 2: they may be 2.5 times slower, and no more."""
    load = ProcessorTimes(took=10.0, processors=2, used=20.0, own=4.0)
    before = ProcessorTimes(took=0.25, processors=2, used=0.475)
    finding = hosts.other_load(
        facts(
            hosts=(host("a"),),
            processes=tuple(
                RankProcess(rank=n, host="a", boot="x", times=load, before=before) for n in (0, 1)
            ),
        )
    )

    assert finding is not None
    assert [finding.used, finding.slowdown] == pytest.approx([1.9, 2.5])


CORES = ((0, 4), (1, 5), (2, 6), (3, 7))  # four, with hyper-threads


def bound(*masks: tuple[int, ...], cores: tuple[tuple[int, ...], ...] = CORES) -> Evidence:
    """Return a run whose ranks on one host have these affinity masks."""
    machine = msgspec.structs.replace(host("a"), boot="x", physical_cores=cores)
    ranks = (
        RankProcess(rank=rank, host="a", boot="x", processors=mask)
        for rank, mask in enumerate(masks)
    )
    return facts(hosts=(machine,), processes=tuple(ranks), ranks_per_host=len(masks))


ALL = tuple(range(8))


@pytest.mark.parametrize(
    ("masks", "crowd"),  # the ranks that share cores, how many these are, and how many are free
    [
        (((0,), (0,)), ([0, 1], 1, 3)),
        (((0,), (4,)), ([0, 1], 1, 3)),  # its two threads
        (((0, 4), (1, 5), (0, 4, 1, 5)), ([0, 1, 2], 2, 2)),
        (((2,), ALL, (6,)), ([0, 2], 1, 3)),
        (((0,), (1,)), None),
        (((0, 4), (0, 4, 1, 5)), None),  # the second one may move on
        ((ALL, ALL), None),  # bound nowhere
        (((0,), ALL), None),
        ((ALL,) * 9, None),
        (((0,), (1,), (2,), (3,), (4,)), None),  # no core is free
        (((0,), (9,)), None),  # a processor that nobody knows
        (((), ()), None),
    ],
)
def test_ranks_that_share_a_core(
    masks: tuple[tuple[int, ...], ...], crowd: tuple[list[int], int, int] | None
) -> None:
    finding = hosts.shared_core(bound(*masks))

    group = finding and ([p.rank for p in finding.ranks], finding.count, finding.other_count)
    assert group == crowd
    assert finding is None or finding in diagnose(bound(*masks))


def test_cores_that_nobody_can_tell_apart_say_nothing() -> None:
    assert hosts.shared_core(bound((0,), (0,), cores=())) is None


def test_hosts_of_one_kernel_share_its_cores() -> None:
    """As those of the lab, and containers."""
    run = bound((0,), (0,))
    first, second = run.processes
    moved_rank = msgspec.structs.replace(second, host="b")
    elsewhere = msgspec.structs.replace(moved_rank, boot="y")
    finding = hosts.shared_core(msgspec.structs.replace(run, processes=(first, moved_rank)))

    assert finding is not None
    assert finding.ranks == (first, moved_rank)
    assert not hosts.shared_core(msgspec.structs.replace(run, processes=(first, elsewhere)))


def reshape(**words: object) -> Summary:
    whole = {
        "minimum": 1.0,
        "p25": 1.0,
        "p75": 1.0,
        "maximum": 1.0,
        "outliers": 0,
        "drift": None,
        "drifts": False,
        "modes": (),
        "tail": 1.0,
    }
    shape = msgspec.convert({**whole, **words}, Distribution)
    return msgspec.structs.replace(summary(1e9), shape=shape)


def test_what_got_slower_while_it_ran() -> None:
    fell = hosts.burst_credits(facts(reshape(drift=-0.4, drifts=True), instance="t3.large"))

    assert fell is not None
    assert fell.confidence == "likely"
    assert fell.name == "t3.large"
    assert hosts.burst_credits(facts(reshape(drift=0.4, drifts=True))) is None  # it got faster
    assert hosts.burst_credits(facts(reshape(), instance="t3.large")) is None


def test_threads_that_share_cores(look: Look) -> None:
    results = look("Thread(s) per core:   2\n").results

    assert hosts.hyper_threads(facts(reshape(tail=3.0), results=results)) is not None
    assert hosts.hyper_threads(facts(reshape(tail=1.1), results=results)) is None
    assert hosts.hyper_threads(facts(reshape(tail=3.0))) is None
