"""What several launches say together, by numbers that are known."""

import msgspec
import pytest

from benchmarks.p2p.definitions import LATENCY
from cluster.agent.facts import host_facts
from cluster.analysis.statistics.launches import likeliest_cause, spread
from cluster.analysis.statistics.summarize import pool_launches
from cluster.core.model.hosts import Facts, Tuning
from cluster.core.model.results.measurements import Summary
from cluster.reports.tables import launches_table
from cluster.reports.words.launches import launch_notes
from tests.plain_values import plain_summary
from tests.snapshots import Snapshot


def launch(median: float, **changes: object) -> tuple[Summary, ...]:
    words = {"params": {"size": 8}, "n": 10_000, "ci": (median, median), **changes}
    return (plain_summary(median, LATENCY, **words),)


MODES = pool_launches([launch(m) for m in (110e-9, 400e-9, 112e-9)])
STEADY = pool_launches([launch(m) for m in (110e-9, 111e-9, 112e-9)])


def facts(*, virtual: bool = False, cores: int = 2) -> Facts:
    tuning = Tuning(virtual=virtual)
    return msgspec.structs.replace(host_facts(), tuning=tuning, usable_cores=cores)


def test_the_spread_is_of_the_medians_of_launches() -> None:
    assert MODES[0].median == pytest.approx(112e-9)
    assert spread(MODES[0]) == pytest.approx(290 / 112)
    assert spread(launch(110e-9)[0]) is None, "one launch has none"


def test_three_launches_have_no_interval_and_six_have_one() -> None:
    """P(all six on one side of the median) = 2 / 64: with six, the extremes are a 95% interval."""
    assert MODES[0].ci is None
    six = pool_launches([launch(m * 1e-9) for m in (110, 400, 112, 111, 420, 113)])

    assert six[0].ci == pytest.approx((110e-9, 420e-9))
    assert "--launches 6" in " ".join(launch_notes(MODES, 3, 2, [facts()]))
    assert "--launches" not in " ".join(launch_notes(six, 6, 2, [facts()]))


def test_steady_launches_need_no_explanation() -> None:
    assert list(launch_notes(STEADY, 6, 2, [facts(virtual=True)])) == []


@pytest.mark.parametrize(
    ("host", "ranks", "cause"),
    [
        (facts(virtual=True), 2, "virtual_cores"),
        (facts(virtual=True, cores=2), 4, "shared_cores"),
        (facts(), 2, "busy"),
    ],
)
def test_launches_that_differ_are_named_with_their_likeliest_cause(
    snapshot: Snapshot, host: Facts, ranks: int, cause: str
) -> None:
    first, _ = launch_notes(MODES, 6, ranks, [host])

    snapshot(first)
    assert likeliest_cause(ranks, [host]) == cause


def test_bounds_that_differ_from_launch_to_launch_give_the_middle_one() -> None:
    bounds = (10e9, 12e9, 20e9)
    pooled = pool_launches(
        [launch(6e9, unit="B/s", better="higher", bound=b, share=6e9 / b) for b in bounds]
    )

    assert pooled[0].bound == 12e9
    assert pooled[0].share == pytest.approx(0.5)


def test_the_table_shows_the_medians_range_and_spread() -> None:
    table = launches_table(MODES, 3, ["a note"])

    assert "3" in table.title
    assert table.columns == ("metric", "parameters", "median", "lowest .. highest", "spread")
    assert table.rows == (("latency", "8 B", "112.0 ns", "110.0 ns .. 400.0 ns", "259%"),)
