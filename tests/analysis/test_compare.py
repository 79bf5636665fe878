"""Verdicts, on simulated launches of a known truth."""

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from cluster.analysis.statistics.compare import (
    CellReason,
    Comparison,
    Launch,
    Side,
    compare,
    group_by,
)
from cluster.analysis.statistics.summarize import summarize
from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import Summary
from cluster.core.model.spec import ClusterSpec
from cluster.reports.tables import comparison_tables
from cluster.reports.words.comparison import headline, with_words
from tests.analysis.test_summarize import definition, measurement
from tests.plain_values import plain_record
from tests.snapshots import Snapshot

TIME = definition(metric="latency")
RATE = definition(metric="bandwidth", unit="B/s")
RECORD = plain_record("x", software="1")


def summary(median: float, *, size: int = 8, rate: bool = False) -> Summary:
    metric = RATE if rate else TIME
    [result] = summarize([measurement(metric, (median,) * 6, size=1000)], [metric])
    return msgspec.structs.replace(result, params={"size": size})


def side(name: str, *launches: Sequence[Summary], **record: object) -> Side:
    run_record = msgspec.structs.replace(RECORD, **record)
    return Side(
        name=name, launches=tuple(Launch(record=run_record, summaries=tuple(s)) for s in launches)
    )


def times(name: str, *medians: float, rate: bool = False) -> Side:
    return side(name, *([summary(median, rate=rate)] for median in medians))


def draw_side(
    rng: np.random.Generator, *, launches: int = 5, times: float = 1.0, cells: int = 1
) -> Side:
    """Launch by launch, with an effect of the launch, skewed values and outliers."""
    summaries = []
    for _ in range(launches):
        effect = times * np.exp(0.01 * rng.standard_normal(cells))
        values = [
            e * (1 + 0.02 * rng.exponential(size=60)) * np.where(rng.random(60) < 0.02, 20, 1)
            for e in effect
        ]
        series = [measurement(TIME, tuple(v), size=1, cell=i) for i, v in enumerate(values)]
        summaries.append(summarize(series, [TIME]))
    return side("s", *summaries)


def verdicts(comparison: Comparison) -> list[str]:
    return [cell.verdict for cell in comparison.cells]


STEADY = (1.0, 1.001, 1.002, 1.003, 1.004)


@pytest.mark.parametrize(
    ("times_", "rate", "verdict"),
    [
        (0.9, False, "faster"),
        (1.1, False, "slower"),
        (0.9, True, "faster"),  # the rate of shorter times
        (1.1, True, "slower"),
        (1.0, False, "equivalent"),
        (1.01, True, "equivalent"),
        (1.0299, False, "inconclusive"),  # its interval reaches to both sides of the threshold
    ],
)
def test_a_verdict_is_on_the_second_and_knows_what_is_better(
    times_: float,
    rate: bool,  # noqa: FBT001
    verdict: str,
) -> None:
    other = times("b", *(times_ * median for median in STEADY), rate=rate)
    [cell] = compare(times("a", *STEADY, rate=rate), other).cells

    assert cell.verdict == verdict
    assert cell.ratio == pytest.approx(1 / times_ if rate else times_, rel=1e-3)
    assert bool(cell.reason) is (verdict == "inconclusive")


def test_the_threshold_is_what_matters() -> None:
    base, other = times("a", *STEADY), times("b", *(1.02 * median for median in STEADY))

    assert verdicts(compare(base, other)) == ["equivalent"]
    assert verdicts(compare(base, other, 0.005)) == ["slower"]
    with pytest.raises(SpecError, match="0"):
        compare(base, other, 0.0)


@pytest.mark.parametrize("launches", [1, 2, 4])
def test_fewer_than_five_launches_have_no_verdict(launches: int) -> None:
    base, other = times("a", *STEADY[:launches]), times("b", *([2.0] * 5)[:launches])
    [cell] = compare(base, other).cells

    assert cell.verdict == "inconclusive"
    assert cell.reason == CellReason(kind="too_few_launches", count=launches, other_count=launches)
    assert cell.ratio == pytest.approx(2.0, rel=0.01)


def test_two_launches_have_an_interval_and_a_warning() -> None:
    rng = np.random.default_rng(1)
    first, second = draw_side(rng, launches=1), draw_side(rng, launches=1, times=2.0)
    comparison = compare(first, second)
    [cell] = comparison.cells

    assert cell.interval is not None
    assert cell.interval[0] < cell.ratio < cell.interval[1]  # type: ignore[operator]
    assert [note.kind for note in comparison.notes] == ["two_launches"]


@pytest.mark.quick(False)  # a simulation of seconds
@pytest.mark.parametrize("cells", [1, 8])
def test_equal_conditions_are_hardly_ever_called_different(cells: int) -> None:
    """The whole comparison, whatever the number of its cells: 5 % of the time, if that."""
    rng = np.random.default_rng(20180626)
    trials = 200
    pairs = [(draw_side(rng, cells=cells), draw_side(rng, cells=cells)) for _ in range(trials)]

    def wrong(threshold: float) -> int:
        words = (set(verdicts(compare(*pair, threshold))) for pair in pairs)
        return sum(bool({"faster", "slower"} & verdicts_) for verdicts_ in words)

    assert wrong(0.03) <= 0.05 * trials
    assert wrong(0.001) <= 0.08 * trials  # 5 % is expected; more than 8 % would be rare


@pytest.mark.quick(False)  # a simulation of seconds
def test_equal_conditions_on_a_noisy_machine_with_a_coarse_clock() -> None:
    """Launches that differ by 20 % by themselves: no threshold is of any help there.

    2.5 % of 400 are expected, so that 95 % of any 200 are equal; 19 of these would be at 5 %.
    """
    rng = np.random.default_rng(20261122)

    def simulate() -> Side:
        effects = 1e-6 * np.exp(0.2 * rng.standard_normal((5, 8)))
        ticks = np.maximum(1, np.round(effects / 5e-8)) * 5e-8
        return side("s", *([summary(m, size=i + 1) for i, m in enumerate(row)] for row in ticks))

    words = [set(verdicts(compare(simulate(), simulate()))) for _ in range(400)]

    assert sum(bool({"faster", "slower"} & verdicts_) for verdicts_ in words) <= 15


def test_a_run_compared_with_itself_is_not_different() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        run = draw_side(rng)
        assert set(verdicts(compare(run, run))) <= {"equivalent", "inconclusive"}


@pytest.mark.quick(False)  # a simulation of seconds
def test_a_shift_of_5_percent_is_found_given_enough_launches() -> None:
    rng = np.random.default_rng(20180626)
    words = [
        verdicts(compare(draw_side(rng, launches=8), draw_side(rng, launches=8, times=1.05)))[0]
        for _ in range(60)
    ]

    assert words.count("slower") >= 54
    assert "faster" not in words
    assert "equivalent" not in words


def test_what_is_equal_is_called_so_given_enough_launches() -> None:
    rng = np.random.default_rng(20180626)
    words = [
        verdicts(compare(draw_side(rng, launches=8), draw_side(rng, launches=8)))[0]
        for _ in range(60)
    ]

    assert words.count("equivalent") >= 54


def test_a_cell_that_one_side_lacks_is_shown_with_the_reason() -> None:
    base = side("a", [summary(1.0), summary(2.0, size=64)])
    other = side("b", [summary(1.0)], status="failed", reason="A rank died.")
    comparison = compare(base, other)

    assert [cell.params["size"] for cell in comparison.cells] == [8, 64]
    assert comparison.cells[1].base == 2.0
    assert comparison.cells[1].other is None
    assert with_words(comparison).cells[1].why.endswith("b: A rank died.")


def test_a_cell_that_one_launch_lacks_has_no_verdict() -> None:
    base = side("a", *([summary(s), summary(s, size=64)] for s in STEADY), [summary(1.0)])
    other = side("b", *([summary(2 * s), summary(2 * s, size=64)] for s in (*STEADY, 1.005)))
    comparison = compare(base, other)

    assert verdicts(comparison) == ["slower", "inconclusive"]
    assert comparison.cells[1].reason == CellReason(kind="value_missing")


def test_other_definitions_are_other_metrics() -> None:
    variant = msgspec.structs.replace(summary(1.0), definition="test.latency-other")
    [cell] = compare(side("a", [summary(1.0)]), side("b", [variant])).cells

    assert cell.ratio is None
    assert cell.reason is not None
    assert cell.reason.kind == "definitions"


def test_a_cell_says_what_share_of_its_bound_each_side_reaches() -> None:
    """Faster or slower, it may be far from what is possible."""

    def bound_side(name: str, *shares: float | None) -> Side:
        summaries = (msgspec.structs.replace(summary(1.0), share=share) for share in shares)
        return side(name, *([s] for s in summaries))

    comparison = compare(bound_side("a", 0.5, 0.6, 0.9), bound_side("b", 0.5, None))
    [cell] = comparison.cells
    _, table = comparison_tables(comparison)

    assert cell.shares == (0.6, None)
    assert table.columns[-2:] == ("a, of limit", "b, of limit")
    assert table.rows[0][-2:] == ("60.0%", "none")
    assert "a, of limit" not in comparison_tables(compare(side("a"), side("b")))[1].columns


def test_what_one_run_has_of_two_tools_is_compared_with_the_same_tool() -> None:
    """Two tools may call different things by one name; neither hides the other."""

    def result(tool: str, median: float) -> Summary:
        return msgspec.structs.replace(summary(median), definition=tool)

    base = side("a", *([result("one", s), result("other", 9 * s)] for s in STEADY))
    other = side("b", *([result("one", 2 * s), result("other", 9 * s)] for s in STEADY))
    lacking = side("c", *([result("one", 2 * s)] for s in STEADY))

    assert [cell.base for cell in compare(base, other).cells] == [STEADY[2], 9 * STEADY[2]]
    assert verdicts(compare(base, other)) == ["slower", "equivalent"]
    assert verdicts(compare(base, lacking)) == ["slower", "inconclusive"]
    assert compare(base, lacking).cells[1].reason == CellReason(kind="not_measured", side="c")


def test_launches_that_were_not_in_turn_are_said_to_be() -> None:
    """What changed between two blocks of launches looks like a difference of the conditions."""

    def side_at(name: str, *moments: float) -> Side:
        records = (msgspec.structs.replace(RECORD, at=moment) for moment in moments)
        return Side(
            name=name, launches=tuple(Launch(record=r, summaries=(summary(1.0),)) for r in records)
        )

    in_sequence = compare(side_at("a", 1, 2, 3, 4, 5), side_at("b", 6, 7, 8, 9, 10))
    in_turn = compare(side_at("a", 1, 4, 5, 8, 9), side_at("b", 2, 3, 6, 7, 10))
    few = compare(side_at("a", 1, 2), side_at("b", 3, 4))

    assert [note.kind for note in in_sequence.notes] == ["in_sequence"]
    assert (in_turn.notes, few.notes) == ((), ())


def test_a_median_of_zero_is_no_base_for_a_ratio() -> None:
    [cell] = compare(times("a", *[0.0] * 5), times("b", *STEADY)).cells

    assert (cell.ratio, cell.verdict) == (None, "inconclusive")
    [cell] = compare(times("a", *[-1.0] * 5), times("b", *STEADY)).cells

    assert cell.reason == CellReason(kind="no_positive_median")


def test_the_line_above_all(snapshot: Snapshot) -> None:
    base = times("a", *STEADY)
    other = side("b", *([summary(2 * s), summary(s, size=64)] for s in STEADY))
    wide = side("a", *([summary(s), summary(s, size=64)] for s in STEADY))

    snapshot(headline(compare(base, times("b", *STEADY))))
    snapshot(headline(compare(wide, other)))
    snapshot(headline(compare(wide, wide)))
    snapshot(headline(compare(side("a"), side("b"))))


def test_runs_are_grouped_by_a_factor(snapshot: Snapshot) -> None:
    def launch(*, placement: bool) -> Launch:
        spec = ClusterSpec(name="x", placement=placement)
        return Launch(record=msgspec.structs.replace(RECORD, spec=spec), summaries=())

    launches = [launch(placement=False), launch(placement=True), launch(placement=False)]
    groups = group_by(launches, "placement")

    assert [(g.name, len(g.launches)) for g in groups] == [("placement=0", 2), ("placement=1", 1)]
    with pytest.raises(SpecError, match="placement: 0"):
        group_by(launches[:1], "placement")
    with snapshot.raises(SpecError):
        group_by(launches, "colour")
