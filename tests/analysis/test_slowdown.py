"""Runs whose time was up: what their values say about a link that became slower."""

import pytest

from cluster.analysis.statistics.launches import find_slowdown
from cluster.core.model.results.measurements import Measurement
from cluster.reports.words.launches import slowdown_words
from tests.snapshots import Snapshot

KIB = 1024


def series(size: int, *values: float, complete: bool = True, rank: int = 0) -> Measurement:
    return Measurement(
        metric="bandwidth",
        definition="d",
        unit="s",
        params={"size": size},
        rank=rank,
        host="h",
        values=values,
        bytes=size,
        complete=complete,
    )


def test_repetitions_that_took_much_longer_at_the_end_are_counted(snapshot: Snapshot) -> None:
    last = series(64 * KIB, *[0.01] * 30, 0.5, 0.6, 0.4, complete=False)

    slowdown = find_slowdown([series(KIB, 0.001, 0.001), last])
    assert slowdown is not None
    assert (slowdown.count, slowdown.before) == (3, None)
    assert slowdown.ratio == pytest.approx(50)
    snapshot(slowdown_words(slowdown))


def test_one_slow_repetition_is_enough_if_the_run_ended_in_it() -> None:
    slowdown = find_slowdown([series(KIB, *[1e-3] * 4, 9.0, complete=False)])
    assert slowdown is not None
    assert slowdown.count == 1


def test_a_series_that_was_slow_from_its_beginning_is_compared_with_the_one_before() -> None:
    before = series(KIB, 0.001, 0.001, 0.001)
    last = series(4 * KIB, 0.4, 0.4, complete=False)

    slowdown = find_slowdown([before, last])
    assert slowdown is not None
    assert (slowdown.count, slowdown.before) == (0, before)
    assert slowdown.ratio == pytest.approx(100)


@pytest.mark.parametrize(
    "measurements",
    [
        [series(KIB, *[0.01] * 30, complete=False)],
        [series(KIB, *[0.01] * 10, 0.5, *[0.01] * 9, complete=False)],  # it passed
        [series(KIB, 0.001, 0.001), series(64 * KIB, 0.06, 0.07, complete=False)],  # more bytes
        [series(KIB, 0.001, 0.001, rank=1), series(KIB, 0.1, 0.1, complete=False)],
        [series(KIB, 0.001, 0.001), series(KIB, *[0.001] * 9, 5.0)],  # it was complete
        [series(KIB, 0.5, complete=False)],
        [],
    ],
)
def test_what_does_not_show_it_is_not_blamed_on_a_link(measurements: list[Measurement]) -> None:
    assert find_slowdown(measurements) is None
