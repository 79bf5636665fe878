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
    metric: Definition,
    values: tuple[float, ...],
    *,
    rank: int = 0,
    size: int = 0,
    complete: bool = True,
    **params: Scalar,
) -> Measurement:
    return Measurement(
        metric=metric.metric,
        definition=metric.id,
        unit="s",
        params=params,
        rank=rank,
        host="h",
        values=values,
        bytes=size,
        complete=complete,
    )


def only(*measurements: Measurement, metric: Definition) -> Summary:
    summaries = summarize(measurements, [metric])

    assert len(summaries) == 1
    return summaries[0]


def test_the_numbers_of_a_series_of_times() -> None:
    shuffled = TWENTY_ONE[11:] + TWENTY_ONE[:11]
    metric = definition()

    # P(6 <= B <= 15) is 0.9734 for n = 21, P(7 <= B <= 15) only 0.9475.
    assert only(measurement(metric, shuffled, size=8), metric=metric) == Summary(
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
        definition=metric.id,
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
    metric = definition()

    assert only(measurement(metric, (4.0, 1.0, 3.0, 100.0)), metric=metric).median == 3.5


def test_one_value_is_its_own_median() -> None:
    metric = definition()
    summary = only(measurement(metric, (2.5,)), metric=metric)

    assert (summary.n, summary.median, summary.p5, summary.p99) == (1, 2.5, 2.5, 2.5)
    assert summary.ci is None
    assert not summary.converged


def test_a_rate_is_derived_from_the_summary_of_the_times() -> None:
    """What is slow in seconds is low in bytes per second: both ends change places."""
    metric = definition(unit="B/s")
    summary = only(measurement(metric, TWENTY_ONE, size=1320), metric=metric)

    assert (summary.unit, summary.better, summary.n) == ("B/s", "higher", 21)
    assert summary.median == 1320 / 11
    assert summary.ci == (1320 / 16, 1320 / 6)
    assert summary.p5 == 1320 / 20
    assert summary.p95 == 1320 / 2
    assert summary.p99 == pytest.approx(1320 / 1.2, rel=1e-12)
    assert summary.p5 < summary.median < summary.p95 < summary.p99


def test_a_rate_of_few_values_has_no_interval() -> None:
    metric = definition(unit="B/s")

    assert only(measurement(metric, (1.0, 2.0), size=8), metric=metric).ci is None


def test_a_rate_is_not_the_median_of_rates() -> None:
    """Of two windows of 1 s and 3 s, the median takes 2 s; the mean of the rates would be 2/3."""
    metric = definition(unit="B/s")

    assert only(measurement(metric, (1.0, 3.0), size=1), metric=metric).median == 0.5


def test_what_was_measured_as_a_rate_stays_one() -> None:
    metric = definition(unit="B/s")
    rate = msgspec.structs.replace(measurement(metric, TWENTY_ONE, size=8), unit="B/s")
    summary = only(rate, metric=metric)

    assert (summary.unit, summary.median, summary.ci) == ("B/s", 11.0, (6.0, 16.0))


def test_each_rank_has_a_series_of_its_own() -> None:
    metric = definition("each rank")
    sender = measurement(metric, (1.0, 2.0, 3.0), rank=0, window=4)
    receiver = measurement(metric, (5.0, 6.0), rank=3, window=4)
    summaries = summarize([receiver, sender], [metric])

    assert [(s.params, s.n, s.median) for s in summaries] == [
        ({"window": 4, "rank": 0}, 3, 2.0),
        ({"window": 4, "rank": 3}, 2, 5.5),
    ]
    assert sender.params == {"window": 4}


def test_one_rank_takes_the_values_of_all() -> None:
    metric = definition("one rank")
    summary = only(measurement(metric, (1.0, 9.0, 2.0), rank=1, window=4), metric=metric)

    assert (summary.params, summary.n, summary.median) == ({"window": 4}, 3, 2.0)


def test_the_slowest_rank_counts_in_each_repetition() -> None:
    metric = definition("slowest rank")
    summary = only(
        measurement(metric, (1.0, 5.0, 3.0), rank=0),
        measurement(metric, (4.0, 2.0, 6.0), rank=1),
        metric=metric,
    )

    assert (summary.params, summary.n) == ({}, 3)
    assert (summary.median, summary.p5, summary.p95) == pytest.approx((5.0, 4.1, 5.9))


def test_the_slowest_rank_of_a_stopped_run_ignores_what_one_rank_has_more() -> None:
    metric = definition("slowest rank")
    summary = only(
        measurement(metric, (1.0, 1.0, 100.0), rank=0, complete=False),
        measurement(metric, (2.0, 3.0), rank=1, complete=False),
        metric=metric,
    )

    assert (summary.n, summary.median, summary.complete) == (2, 2.5, False)


def test_the_slowest_rate_is_that_of_the_slowest_times() -> None:
    metric = definition("slowest rank", unit="B/s")
    summary = only(
        measurement(metric, (1.0, 4.0, 2.0), rank=0, size=12),
        measurement(metric, (3.0, 1.0, 1.0), rank=1, size=12),
        metric=metric,
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
    metric = definition()
    reversed_ = tuple(reversed(values))

    assert is_precise(reversed_) is precise
    assert only(measurement(metric, reversed_), metric=metric).converged is precise


def test_what_drifts_has_not_converged() -> None:
    """Each half is known to a percent, and so is the whole: of no moment."""
    metric = definition()
    values = (*(1.0 + 0.001 * k for k in range(20)), *(1.04 + 0.001 * k for k in range(20)))
    mixed = tuple(value for pair in zip(values[:20], values[20:], strict=True) for value in pair)

    assert is_precise(values)
    assert not has_converged(values)
    assert not only(measurement(metric, values), metric=metric).converged
    assert only(measurement(metric, mixed), metric=metric).converged


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
    metric = definition(aggregation)
    whole = measurement(metric, (1.0,), rank=0)
    cut = measurement(metric, (1.0,), rank=1, complete=False)

    assert only(whole, metric=metric).complete
    assert not only(whole, cut, metric=metric).complete
    assert not only(cut, whole, metric=metric).complete


@pytest.mark.parametrize("unit", ["s", "B/s"])
def test_rates_keep_the_incomplete_and_converged_flags(unit: str) -> None:
    metric = definition(unit=unit)
    summary = only(measurement(metric, (40.0,) * 20, size=8, complete=False), metric=metric)

    assert summary.converged
    assert not summary.complete


def test_the_order_is_that_of_the_definitions_then_of_the_points_as_numbers() -> None:
    second, first = definition(metric="a"), definition(metric="b")
    mixed = [
        measurement(metric, (1.0,), size=8, window=window)
        for window in (1024, 8, 64)
        for metric in (second, first)
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
    time = definition()
    points: list[Scalar] = ["ring", 8, "tree", 0.5]
    summaries = summarize([measurement(time, (1.0,), algorithm=point) for point in points], [time])

    assert {s.params["algorithm"] for s in summaries} == set(points)
    assert len(summaries) == 4


def test_measurements_of_one_point_that_came_apart_are_one_series() -> None:
    metric = definition()
    parts = [measurement(metric, (1.0, 2.0), a=1, b=2), measurement(metric, (3.0,), b=2, a=1)]

    assert (only(*parts, metric=metric).n, only(*parts, metric=metric).median) == (3, 2.0)


def test_what_has_no_values_has_no_summary() -> None:
    metric = definition()

    assert summarize([], [metric]) == ()
    assert summarize([measurement(metric, ())], [metric]) == ()


def test_launches_are_summed_up_by_their_medians() -> None:
    rate = definition(unit="B/s")
    launches = [summarize([measurement(rate, (time,) * 9)], [rate])[0] for time in (4.0, 1.0, 2.0)]
    bounded = [msgspec.structs.replace(launch, bound=200.0, share=0.1) for launch in launches]
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
    metric = definition(metric="latency")

    with pytest.raises(ParseError, match=metric.id) as error:
        summarize([measurement(metric, (1.0,))], [definition(metric="other")])
    assert "latency" in error.value.what


@pytest.mark.quick(False)  # seconds
@pytest.mark.parametrize("n", [6, 20, 41, 100])
@pytest.mark.parametrize("unit", ["s", "B/s"])
def test_the_interval_covers_the_true_median_of_skewed_series(n: int, unit: str) -> None:
    """Log-normal times with a median of 1 s, as skewed as a busy network makes them."""
    rng = np.random.default_rng(20180626)
    metric = definition(unit=unit)
    series = rng.lognormal(mean=0.0, sigma=1.5, size=(2000, n))
    summaries = summarize(
        [
            measurement(metric, tuple(values), size=1, number=number)
            for number, values in enumerate(series.tolist())
        ],
        [metric],
    )
    hits = sum(s.ci is not None and s.ci[0] <= 1.0 <= s.ci[1] for s in summaries)

    assert len(summaries) == 2000
    assert hits >= 0.94 * 2000
