"""Summaries, against values worked out by hand and simulation."""

import msgspec
import numpy as np
import pytest

from cluster.analysis.statistics.distribution import has_converged, is_precise
from cluster.analysis.statistics.summarize import pool_medians, summarize
from cluster.core.errors import ParseError
from cluster.core.model.results.measurements import (
    Aggregation,
    Definition,
    Distribution,
    Measurement,
    Summary,
)
from cluster.core.model.value import Scalar
from tests.plain_values import plain_definition
from tests.snapshots import Snapshot

TWENTY_ONE = tuple(float(k) for k in range(1, 22))


def definition(
    aggregation: Aggregation = "one rank", unit: str = "s", metric: str = "m"
) -> Definition:
    better = "lower" if unit == "s" else "higher"
    return plain_definition(metric=metric, unit=unit, better=better, aggregation=aggregation)


def measurement(
    of: Definition,
    values: tuple[float, ...],
    *,
    rank: int = 0,
    size: int = 0,
    complete: bool = True,
    **params: Scalar,
) -> Measurement:
    return Measurement(
        metric=of.metric,
        definition=of.id,
        unit="s",
        params=params,
        rank=rank,
        host="h",
        values=values,
        bytes=size,
        complete=complete,
    )


def only(*measurements: Measurement, of: Definition) -> Summary:
    summaries = summarize(measurements, [of])

    assert len(summaries) == 1
    return summaries[0]


def test_the_numbers_of_a_series_of_times() -> None:
    shuffled = TWENTY_ONE[11:] + TWENTY_ONE[:11]
    of = definition()

    # P(6 <= B <= 15) is 0.9734 for n = 21, P(7 <= B <= 15) only 0.9475.
    assert only(measurement(of, shuffled, size=8), of=of) == Summary(
        metric="m",
        unit="s",
        better="lower",
        params={},
        n=21,
        median=11.0,
        ci=(6.0, 16.0),
        p5=2.0,
        p95=20.0,
        p99=20.8,
        converged=False,
        definition=of.id,
        shape=Distribution(
            minimum=1.0,
            p25=6.0,
            p75=16.0,
            maximum=21.0,
            outliers=0,
            drift=6.0 / 16.5 - 1,
            drifts=True,
            modes=(),
            tail=20.8 / 11,
        ),
    )


def test_the_median_of_an_even_number_of_values_is_between_the_middle_two() -> None:
    of = definition()

    assert only(measurement(of, (4.0, 1.0, 3.0, 100.0)), of=of).median == 3.5


def test_one_value_is_its_own_median() -> None:
    of = definition()
    summary = only(measurement(of, (2.5,)), of=of)

    assert (summary.n, summary.median, summary.p5, summary.p99) == (1, 2.5, 2.5, 2.5)
    assert summary.ci is None
    assert not summary.converged


def test_a_rate_is_derived_from_the_summary_of_the_times() -> None:
    """What is slow in seconds is low in bytes per second: both ends change places."""
    of = definition(unit="B/s")
    summary = only(measurement(of, TWENTY_ONE, size=1320), of=of)

    assert (summary.unit, summary.better, summary.n) == ("B/s", "higher", 21)
    assert summary.median == 1320 / 11
    assert summary.ci == (1320 / 16, 1320 / 6)
    assert summary.p5 == 1320 / 20
    assert summary.p95 == 1320 / 2
    assert summary.p99 == pytest.approx(1320 / 1.2, rel=1e-12)
    assert summary.p5 < summary.median < summary.p95 < summary.p99


def test_a_rate_of_few_values_has_no_interval() -> None:
    of = definition(unit="B/s")

    assert only(measurement(of, (1.0, 2.0), size=8), of=of).ci is None


def test_a_rate_is_not_the_median_of_rates() -> None:
    """Of two windows of 1 s and 3 s, the median takes 2 s; the mean of the rates would be 2/3."""
    of = definition(unit="B/s")

    assert only(measurement(of, (1.0, 3.0), size=1), of=of).median == 0.5


def test_what_was_measured_as_a_rate_stays_one() -> None:
    of = definition(unit="B/s")
    rate = Measurement(
        metric="m",
        definition=of.id,
        unit="B/s",
        params={},
        rank=0,
        host="h",
        values=TWENTY_ONE,
        bytes=8,
    )
    summary = only(rate, of=of)

    assert (summary.unit, summary.median, summary.ci) == ("B/s", 11.0, (6.0, 16.0))


def test_each_rank_has_a_series_of_its_own() -> None:
    of = definition("each rank")
    sender = measurement(of, (1.0, 2.0, 3.0), rank=0, window=4)
    receiver = measurement(of, (5.0, 6.0), rank=3, window=4)
    summaries = summarize([receiver, sender], [of])

    assert [(s.params, s.n, s.median) for s in summaries] == [
        ({"window": 4, "rank": 0}, 3, 2.0),
        ({"window": 4, "rank": 3}, 2, 5.5),
    ]
    assert sender.params == {"window": 4}


def test_one_rank_takes_the_values_of_all() -> None:
    of = definition("one rank")
    summary = only(measurement(of, (1.0, 9.0, 2.0), rank=1, window=4), of=of)

    assert (summary.params, summary.n, summary.median) == ({"window": 4}, 3, 2.0)


def test_the_slowest_rank_counts_in_each_repetition() -> None:
    of = definition("slowest rank")
    summary = only(
        measurement(of, (1.0, 5.0, 3.0), rank=0), measurement(of, (4.0, 2.0, 6.0), rank=1), of=of
    )

    assert (summary.params, summary.n) == ({}, 3)
    assert (summary.median, summary.p5, summary.p95) == pytest.approx((5.0, 4.1, 5.9))


def test_the_slowest_rank_of_a_stopped_run_ignores_what_one_rank_has_more() -> None:
    of = definition("slowest rank")
    summary = only(
        measurement(of, (1.0, 1.0, 100.0), rank=0, complete=False),
        measurement(of, (2.0, 3.0), rank=1, complete=False),
        of=of,
    )

    assert (summary.n, summary.median, summary.complete) == (2, 2.5, False)


def test_the_slowest_rate_is_that_of_the_slowest_times() -> None:
    of = definition("slowest rank", unit="B/s")
    summary = only(
        measurement(of, (1.0, 4.0, 2.0), rank=0, size=12),
        measurement(of, (3.0, 1.0, 1.0), rank=1, size=12),
        of=of,
    )

    assert summary.median == 12 / 3.0


@pytest.mark.parametrize(
    ("values", "precise"),
    [
        ([40.0] * 19, False),
        ([40.0] * 20, True),
        ([39.0] * 6 + [40.0] * 8 + [41.0] * 6, True),
        ([39.0] * 6 + [40.0] * 8 + [41.1] * 6, False),
        ([1.0] * 5 + [40.0] * 10 + [99.0] * 5, True),
    ],
    ids=["too few", "just enough", "exactly 2.5 %", "2.6 %", "outliers do not count"],
)
def test_converged_means_20_values_and_half_an_interval_of_2_5_percent(
    values: list[float], *, precise: bool
) -> None:
    """The interval of 20 values is from the 6th to the 15th."""
    of = definition()
    reversed_ = tuple(reversed(values))

    assert is_precise(reversed_) is precise
    assert only(measurement(of, reversed_), of=of).converged is precise


def test_what_drifts_has_not_converged() -> None:
    """Each half is known to a percent, and so is the whole: of no moment."""
    of = definition()
    values = (*(1.0 + 0.001 * k for k in range(20)), *(1.04 + 0.001 * k for k in range(20)))
    mixed = tuple(value for pair in zip(values[:20], values[20:], strict=True) for value in pair)

    assert is_precise(values)
    assert not has_converged(values)
    assert not only(measurement(of, values), of=of).converged
    assert only(measurement(of, mixed), of=of).converged


def test_times_of_zero_have_not_converged() -> None:
    assert not is_precise([0.0] * 20)
    assert not is_precise([-1.0] * 20)


@pytest.mark.parametrize("unit", ["B/s", "B"])
def test_values_in_another_unit_than_that_of_the_definition(unit: str, snapshot: Snapshot) -> None:
    """They are of something else; a rate, though, may be measured as times."""
    other = msgspec.structs.replace(measurement(definition(), (1.0,)), unit=unit)
    with snapshot.raises(ParseError):
        summarize([other], [definition()])


@pytest.mark.parametrize("aggregation", ["one rank", "slowest rank"])
def test_one_incomplete_rank_makes_a_series_incomplete(aggregation: Aggregation) -> None:
    of = definition(aggregation)
    whole = measurement(of, (1.0,), rank=0)
    cut = measurement(of, (1.0,), rank=1, complete=False)

    assert only(whole, of=of).complete
    assert not only(whole, cut, of=of).complete
    assert not only(cut, whole, of=of).complete


@pytest.mark.parametrize("unit", ["s", "B/s"])
def test_rates_keep_the_incomplete_and_converged_flags(unit: str) -> None:
    of = definition(unit=unit)
    summary = only(measurement(of, (40.0,) * 20, size=8, complete=False), of=of)

    assert summary.converged
    assert not summary.complete


def test_the_order_is_that_of_the_definitions_then_of_the_points_as_numbers() -> None:
    second, first = definition(metric="a"), definition(metric="b")
    mixed = [
        measurement(of, (1.0,), size=8, window=window)
        for window in (1024, 8, 64)
        for of in (second, first)
    ]
    summaries = summarize(mixed, [first, second])

    assert [(s.metric, s.params["window"]) for s in summaries] == [
        ("b", 8),
        ("b", 64),
        ("b", 1024),
        ("a", 8),
        ("a", 64),
        ("a", 1024),
    ]


def test_points_may_be_words_and_numbers() -> None:
    of = definition()
    points: list[Scalar] = ["ring", 8, "tree", 0.5]
    summaries = summarize([measurement(of, (1.0,), algorithm=point) for point in points], [of])

    assert {s.params["algorithm"] for s in summaries} == set(points)
    assert len(summaries) == 4


def test_measurements_of_one_point_that_came_apart_are_one_series() -> None:
    of = definition()
    parts = [measurement(of, (1.0, 2.0), a=1, b=2), measurement(of, (3.0,), b=2, a=1)]

    assert (only(*parts, of=of).n, only(*parts, of=of).median) == (3, 2.0)


def test_what_has_no_values_has_no_summary() -> None:
    of = definition()

    assert summarize([], [of]) == ()
    assert summarize([measurement(of, ())], [of]) == ()


def test_launches_are_summed_up_by_their_medians() -> None:
    of = definition(unit="B/s")
    launches = [summarize([measurement(of, (time,) * 9)], [of])[0] for time in (4.0, 1.0, 2.0)]
    bounded = [msgspec.structs.replace(one, bound=200.0, share=0.1) for one in launches]
    middle = launches[2]
    whole, share = pool_medians(launches), pool_medians(bounded).share

    assert (whole.n, whole.median, whole.ci) == (3, middle.median, None)
    assert whole.shape is not None
    assert (whole.shape.minimum, whole.shape.maximum) == (launches[0].median, launches[1].median)
    assert whole.share is None
    assert share == middle.median / 200
    assert pool_medians(launches * 2).ci is not None
    assert pool_medians([*bounded, launches[0]]).bound is None


def test_a_definition_that_is_missing() -> None:
    of = definition(metric="latency")

    with pytest.raises(ParseError, match=of.id) as caught:
        summarize([measurement(of, (1.0,))], [definition(metric="other")])
    assert "latency" in caught.value.what


@pytest.mark.quick(False)  # seconds
@pytest.mark.parametrize("n", [6, 20, 41, 100])
@pytest.mark.parametrize("unit", ["s", "B/s"])
def test_the_interval_covers_the_true_median_of_skewed_series(n: int, unit: str) -> None:
    """Log-normal times with a median of 1 s, as skewed as a busy network makes them."""
    rng = np.random.default_rng(20180626)
    of = definition(unit=unit)
    series = rng.lognormal(mean=0.0, sigma=1.5, size=(2000, n))
    summaries = summarize(
        [
            measurement(of, tuple(values), size=1, number=number)
            for number, values in enumerate(series.tolist())
        ],
        [of],
    )
    hits = sum(s.ci is not None and s.ci[0] <= 1.0 <= s.ci[1] for s in summaries)

    assert len(summaries) == 2000
    assert hits >= 0.94 * 2000
