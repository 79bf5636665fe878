"""Lines through sweeps, on sweeps of a known truth."""

import math

import numpy as np
import pytest

from cluster.analysis.models.fit import fit_launches, fits, pieces
from cluster.analysis.models.predict import (
    ALGORITHMS,
    MeasuredCollective,
    measured_collectives,
    predict,
    predictions,
    without_prediction,
)
from cluster.analysis.statistics.compare import Launch
from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import Definition, Fit, FitPoint, Summary
from tests.analysis.test_compare import summary
from tests.analysis.test_summarize import definition
from tests.plain_values import plain_record
from tests.snapshots import Snapshot

ALPHA, BETA = 1e-6, 1e10
SIZES = [2**k for k in range(3, 23)]


def sweep(
    rng: np.random.Generator, noise: float, sizes: list[int] = SIZES, later: float = 0.0
) -> list[FitPoint]:
    """Take a sweep of a known line; above 8 KiB each message costs something more."""
    return [
        FitPoint(
            size=size,
            seconds=(ALPHA + later * (size > 8192) + size / BETA)
            * (1 + noise * float(rng.standard_normal())),
        )
        for size in sizes
    ]


def exact(alpha: float = ALPHA, beta: float = BETA) -> Fit:
    points = tuple(FitPoint(size=size, seconds=alpha + size / beta) for size in SIZES)
    return Fit(metric="latency", params={}, points=points, pieces=pieces(points))


def test_an_exact_line_is_found_exactly() -> None:
    [piece] = exact().pieces

    assert (piece.first, piece.last, piece.points) == (8, 2**22, 20)
    assert piece.alpha == pytest.approx(ALPHA)
    assert piece.beta == pytest.approx(BETA)
    assert piece.half == pytest.approx(ALPHA * BETA)
    assert piece.alpha_ci == pytest.approx((ALPHA, ALPHA), rel=1e-3)
    assert piece.worst < 1e-9


@pytest.mark.quick(False)  # a simulation of seconds
def test_one_line_is_hardly_ever_cut() -> None:
    rng = np.random.default_rng(20180626)
    counts = [len(pieces(sweep(rng, noise))) for noise in (0.003, 0.01, 0.03) for _ in range(20)]

    assert counts.count(1) >= 56


@pytest.mark.quick(False)  # a simulation of seconds
def test_a_protocol_switch_is_found_where_it_is() -> None:
    rng = np.random.default_rng(20180626)
    fits = [pieces(sweep(rng, 0.01, later=3e-6)) for _ in range(20)]
    right = [p for p in fits if [piece.last for piece in p][:1] == [8192]]

    assert len(right) >= 18
    assert right[0][0].alpha == pytest.approx(ALPHA, rel=0.1)
    assert right[0][1].alpha == pytest.approx(ALPHA + 3e-6, rel=0.1)


@pytest.mark.quick(False)  # a simulation of seconds
@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_the_intervals_cover_the_truth(noise: float) -> None:
    rng = np.random.default_rng(20180626)
    sizes = [2**k for k in range(8, 18)]
    trials = hits = 0
    while trials < 200:
        fit = pieces(sweep(rng, noise, sizes))
        if len(fit) == 1 and fit[0].alpha_ci and fit[0].beta_ci:
            trials += 2
            hits += fit[0].alpha_ci[0] <= ALPHA <= fit[0].alpha_ci[1]
            hits += fit[0].beta_ci[0] <= BETA <= fit[0].beta_ci[1]

    assert hits >= 0.9 * trials


def test_one_size_that_is_far_off_does_not_bend_the_line() -> None:
    points = sweep(np.random.default_rng(1), 0.002)
    points[12] = FitPoint(size=points[12].size, seconds=1.5 * points[12].seconds)
    [piece] = pieces(points)

    assert piece.alpha == pytest.approx(ALPHA, rel=0.02)
    assert piece.beta == pytest.approx(BETA, rel=0.02)
    assert piece.worst == pytest.approx(1 / 3, abs=0.02)


def test_time_that_does_not_grow_has_no_beta() -> None:
    [piece] = pieces([FitPoint(size=size, seconds=1e-6 - size * 1e-18) for size in SIZES[:8]])

    assert piece.beta == math.inf
    assert piece.half is None


def test_few_sizes_have_a_line_and_no_interval_and_three_have_none(snapshot: Snapshot) -> None:
    points = sweep(np.random.default_rng(1), 0.01, SIZES[:5])

    assert pieces(points)[0].alpha_ci is None
    with snapshot.raises(SpecError):
        pieces(points[:3])


def test_nothing_is_said_beyond_four_times_the_range() -> None:
    fit = exact()

    assert fit.seconds(2**24) == pytest.approx(ALPHA + 2**24 / BETA)
    assert fit.seconds(2**24 + 1) is None
    assert fit.seconds(2) == pytest.approx(ALPHA, rel=0.01)
    assert fit.seconds(1) is None


def test_a_rate_is_fitted_as_the_time_of_a_message() -> None:
    [fit] = fits([summary(1e-6 * k, size=1000 * k, rate=True) for k in range(1, 9)])

    assert fit.metric == "bandwidth"
    assert len(fit.points) == 8
    assert fit.points[0].seconds == pytest.approx(1e-6)  # 1000 B took 1 us: 1e9 B/s


def test_what_is_no_sweep_is_not_fitted() -> None:
    assert fits([summary(1.0, size=8), summary(2.0, size=16)]) == ()


@pytest.mark.parametrize(
    ("collective", "ranks", "size", "algorithm", "seconds"),
    [
        ("allreduce", 8, 64, "recursive doubling", 3 * (ALPHA + 64 / BETA)),
        ("allreduce", 4, 2**22, "halving and doubling", 4 * ALPHA + 1.5 * 2**22 / BETA),
        ("alltoall", 4, 2**20, "pairwise", 3 * (ALPHA + 2**18 / BETA)),
        ("alltoall", 64, 1024, "Bruck", 6 * (ALPHA + 512 / BETA)),
        ("bcast", 2, 1024, "binomial tree", ALPHA + 1024 / BETA),
        ("barrier", 8, 0, "dissemination", 3 * (ALPHA + 2 / BETA)),
    ],
)
def test_a_collective_is_the_sum_of_its_messages(
    collective: str, ranks: int, size: int, algorithm: str, seconds: float
) -> None:
    best = predict(exact(), collective, ranks, size)

    assert best is not None
    assert best[0] == algorithm
    assert best[1] == pytest.approx(seconds)


@pytest.mark.quick(False)  # a simulation of seconds
def test_no_prediction_is_below_what_the_links_allow() -> None:
    """2 (n - 1) / n of the bytes for an allreduce, and a message per doubling."""
    for ranks in (2, 4, 8, 16):
        for size in SIZES:
            best = predict(exact(), "allreduce", ranks, size)
            assert best is not None
            assert best[1] >= 2 * (ranks - 1) / ranks * size / BETA
            assert best[1] >= math.log2(ranks) * ALPHA


def test_what_cannot_be_predicted_is_not() -> None:
    assert predict(exact(), "gossip", 4, 64) is None
    assert predict(exact(), "allreduce", 1, 64) is None
    assert predict(exact(), "bcast", 2, 2**30) is None
    assert set(ALGORITHMS) >= {"allreduce", "allgather", "reduce_scatter", "alltoall", "barrier"}


def test_measured_over_predicted() -> None:
    def summary(**params: int) -> Summary:
        return Summary(
            metric="bcast_time",
            unit="s",
            better="lower",
            params=dict(params),
            n=9,
            median=2 * (ALPHA + 1024 / BETA),
            ci=None,
            p5=0.0,
            p95=0.0,
            p99=0.0,
            converged=False,
        )

    operations = measured_collectives([summary(size=1024), summary(size=1024, ranks=4)], 2)
    [by_record, by_param] = predictions(exact(), operations)

    assert by_record.ratio == pytest.approx(2.0)
    assert by_param.ranks == 4
    assert by_param.ratio == pytest.approx(1.0)
    assert without_prediction(exact(), operations) == ()


def test_what_has_no_prediction_is_not_passed_over() -> None:
    """Nothing is said beyond four times the sizes, and that is said."""
    bcast = MeasuredCollective(collective="bcast", ranks=2, size=2**30, seconds=1.0)

    assert predictions(exact(), [bcast]) == ()
    assert without_prediction(exact(), [bcast]) == (bcast,)


def run(time: float, scale: float, condition: str = "", **definitions: Definition) -> Launch:
    """A run of a sweep, all of whose times are scaled."""
    record = plain_record(id=f"r{time:g}", at=time, condition=condition, definitions=definitions)
    times = ((size, scale * (ALPHA + size / BETA)) for size in SIZES)
    return Launch(record=record, summaries=tuple(summary(t, size=size) for size, t in times))


def test_launches_that_repeat_one_another_are_one_fit_of_their_medians() -> None:
    """Each launch counts once, whatever one of them was disturbed by."""
    [fit] = fit_launches([run(1, 1.0), run(2, 1.01), run(3, 9.0)])
    [piece] = fit.pieces

    assert (fit.launches, fit.of) == (3, "r1")
    assert piece.alpha == pytest.approx(1.01 * ALPHA)
    assert piece.beta == pytest.approx(BETA / 1.01)


def test_launches_that_differ_are_put_apart() -> None:
    """A condition, or a definition, is not averaged over."""
    other = definition(metric="other")
    fits = fit_launches(
        [run(1, 1.0, "A"), run(2, 2.0, "B"), run(3, 1.0, "A"), run(4, 4.0, o=other)]
    )

    assert [(fit.of, fit.launches) for fit in fits] == [("A", 2), ("B", 1), ("r4", 1)]
    assert [fit.pieces[0].alpha for fit in fits] == pytest.approx([ALPHA, 2 * ALPHA, 4 * ALPHA])
