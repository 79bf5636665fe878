"""Which stage limits training: stalls by difference of runs, bounds, the verdict."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.analysis.models.step_limits import (
    PART_METRICS,
    Trained,
    from_measurements,
    judge,
    split_wait,
    stalls,
)
from cluster.core.model.results.measurements import Measurement
from cluster.core.model.value import Scalar
from cluster.reports.words.step_limits import training_answer
from tests.snapshots import Snapshot

TIMES = st.floats(0, 1e3)
BUSY = 0.0093  # seconds of a step of 10 ms that a rank works itself
DRIFT = tuple(1 + 0.02 * number for number in range(8))  # of rounds, as on a machine that warms up


def train(
    resident: float = 0.010,
    memory: float = 0.010,
    disk: float = 0.010,
    busy: tuple[float, ...] = (BUSY, BUSY),
    exposed: float = 0.0,
    **more: float,
) -> Trained:
    """Eight rounds, each a little slower than the one before."""

    def rounds(seconds: float) -> tuple[float, ...]:
        return tuple(seconds * drift for drift in DRIFT)

    return Trained(
        samples=64,
        resident=rounds(resident),
        memory=rounds(memory),
        actual=rounds(disk),
        busy=tuple(rounds(share) for share in busy),
        waits=rounds(exposed),
        **more,
    )


@pytest.mark.parametrize(
    ("wait", "load", "parts"),
    [
        ((1.0, 3.0), (0.0, 2.5), (1.5, 0.5)),  # fetched in the wait, then prepared
        ((1.0, 3.0), (0.0, 1.0), (0.0, 2.0)),  # there already: all of it is preparation
        ((1.0, 3.0), (1.5, 2.0), (0.5, 1.5)),  # also before its fetch, the worker was busy
        ((3.0, 3.0), (0.0, 9.0), (0.0, 0.0)),
    ],
)
def test_a_wait_is_divided_by_the_clock_of_the_loader(
    wait: tuple[float, float], load: tuple[float, float], parts: tuple[float, float]
) -> None:
    assert split_wait(wait, load) == pytest.approx(parts)


@given(TIMES, TIMES, TIMES, TIMES)
def test_the_two_parts_of_a_wait_add_up_and_are_never_negative(
    begin: float, length: float, fetch: float, duration: float
) -> None:
    parts = split_wait((begin, begin + length), (fetch, fetch + duration))

    assert sum(parts) == pytest.approx(begin + length - begin, abs=1e-9)
    assert min(parts) >= 0


def test_stalls_are_differences_of_rounds_and_not_of_medians() -> None:
    result = stalls(train(resident=0.010, memory=0.012, disk=0.020))

    assert result.fetch == pytest.approx(0.4)
    assert result.preparation == pytest.approx(0.1)


def test_a_difference_that_chance_may_make_is_no_stall() -> None:
    noise = Trained(
        samples=64,
        resident=(0.010,) * 8,
        memory=(0.010, 0.014, 0.009, 0.016, 0.010, 0.015, 0.008, 0.014),
        actual=(0.010,) * 8,
        busy=((BUSY,) * 8,),
        waits=(0.0,) * 8,
    )

    assert stalls(noise).preparation == 0
    assert judge(noise).stage == "compute"


@pytest.mark.parametrize(
    ("case", "stage", "words"),
    [
        (train(), "compute", "compute: no stall, 93% of the rate with data resident"),
        (
            train(disk=0.020, fetch=3225.0, preparation=1e5),
            "fetch",
            "input: fetch, 93% of what the link can bring, 50% of a step is this stall",
        ),
        (
            train(memory=0.020, disk=0.020, fetch=1e5, preparation=3300.0),
            "preparation",
            "input: preparation, 91% of what the workers can prepare, 50% of a step is this stall",
        ),
        (
            train(resident=0.020, memory=0.020, disk=0.020, exposed=0.010, exchange=6000.0),
            "exchange",
            "exchange, 50% of what the exchange alone allows, 50% of a step is this stall",
        ),
    ],
)
def test_the_verdict_names_the_stage_and_its_share_of_the_limit(
    case: Trained, stage: str, words: str
) -> None:
    verdict = judge(case)

    assert verdict.stage == stage
    assert training_answer(verdict).endswith(f" samples/s. {words}")


def of_parameters(case: Trained, steps: int = 3) -> tuple[list[Measurement], bytes]:
    """Return the series that a run of `training` records of such rounds: 32 samples a batch."""

    def series(metric: str, values: list[float], rank: int = 0, **params: Scalar) -> Measurement:
        return Measurement(
            metric=metric, definition=metric, unit="s", params=params, rank=rank, host="h",
            values=tuple(values),
        )  # fmt: skip

    results = [
        series("samples_rate", [case.samples / seconds for seconds in times], data=data)
        for data, times in (("resident", case.resident), ("memory", case.memory),
                          ("disk", case.actual))
    ]  # fmt: skip
    for rank, times in enumerate(case.busy):
        halves = [seconds / 2 for seconds in times for _ in range(steps)]
        zeros = [0.0] * len(halves)
        parts = {"compute": halves, "update": halves, "copy": zeros}
        results += [series(PART_METRICS[p], v, rank, data="resident") for p, v in parts.items()]
        waits = [seconds + rank for seconds in case.waits for _ in range(steps)]
        results.append(series("exposed_exchange", waits, rank, data="resident"))
    probes = {"preparation_rate": case.preparation, "exchange_rate": case.exchange}
    results += [series(metric, [rate]) for metric, rate in probes.items() if rate]
    results += [series("store_requests", [10.0]), series("bytes_read", [10 * 64 * 264.0])]
    if case.fetch:
        results.append(series("link_rate", [case.fetch * 264]))
    return results, b'{"batch": 32, "shard": 64, "steps": 3, "width": 512}'


def test_the_verdict_is_recomputed_from_the_series_of_a_run() -> None:
    case = train(disk=0.020, fetch=3225.0, preparation=1e5, exchange=6000.0, exposed=0.001)
    result = from_measurements(*of_parameters(case))

    assert result is not None
    assert result.samples == case.samples
    assert result.fetch == pytest.approx(case.fetch)
    assert (result.preparation, result.exchange) == (case.preparation, case.exchange)
    assert result.busy == tuple(pytest.approx(share) for share in case.busy)
    assert result.waits == pytest.approx(case.waits)
    assert judge(result).stage == "fetch"
    assert judge(result).rate == pytest.approx(judge(case).rate)
    ended_early = [m for m in of_parameters(case)[0] if m.metric != "bytes_read"]
    assert from_measurements(ended_early, of_parameters(case)[1]) is None


def test_the_note_of_a_run_says_rate_stage_and_share(snapshot: Snapshot) -> None:
    snapshot(training_answer(judge(train())))


def test_rounds_that_are_too_few_say_so() -> None:
    """Of four rounds, one in eight has all differences on the same side by chance."""
    four, five = (
        Trained(
            samples=64,
            resident=(0.010,) * rounds,
            memory=(0.010,) * rounds,
            actual=(0.020,) * rounds,
            busy=((BUSY,) * rounds,),
            waits=(0.0,) * rounds,
        )
        for rounds in (4, 5)
    )

    assert (judge(four).sure, judge(four).rounds) == (False, 4)
    assert judge(five).sure


def test_rounds_that_contradict_one_another_name_no_stage(snapshot: Snapshot) -> None:
    """Steps with data in memory were quicker than those with data resident: by other work."""
    verdict = judge(train(resident=0.021, memory=0.010, disk=0.010))

    assert verdict.contradiction == pytest.approx(1.1)
    snapshot(training_answer(verdict).split(". ")[1])
    assert not judge(train()).contradiction


def test_188_of_220_images_per_second_are_a_slow_input() -> None:
    """Document 002: one GPU with data from an object store, and with synthetic ones."""
    step = 128 / 220
    verdict = judge(train(step, step, 128 / 188, busy=(step,), fetch=95.0, preparation=1e4))

    assert verdict.stage == "fetch"
    assert verdict.stalls.fetch == pytest.approx(1 - 188 / 220)
    assert verdict.limit == "fetch"
    assert 0.9 < verdict.share < 1


def test_one_rank_exchanges_with_nobody() -> None:
    verdict = judge(train(0.0325, 0.0325, 0.0325, busy=(0.0275,), exposed=0.005))

    assert verdict.stage == "compute"
    assert verdict.stalls.exchange == 0


def test_a_rank_that_computes_longer_is_named_and_the_exchange_is_not_blamed() -> None:
    busy = (BUSY, 3.2 * BUSY, BUSY)
    verdict = judge(train(0.0325, 0.0325, 0.0325, busy=busy, exposed=0.0005))

    assert verdict.stage == "slow_rank"
    assert verdict.slowest == 1
    assert verdict.times_slower == pytest.approx(3.2)


@pytest.mark.parametrize(
    ("times", "stage"), [(1.1, "compute"), (1.24, "compute"), (1.26, "slow_rank")]
)
def test_a_rank_counts_as_slow_from_a_quarter_on(times: float, stage: str) -> None:
    busy = (BUSY, times * BUSY)

    assert judge(train(0.012, 0.012, 0.012, busy=busy)).stage == stage


def test_a_rank_that_something_else_slows_in_some_rounds_is_not_blamed() -> None:
    """It is 1.6 times as slow over all, but in two of eight rounds the other one was slower."""
    plain = train(0.020, 0.020, 0.020)
    hit = (0.010, 0.010, 0.015, 0.015, 0.015, 0.019, 0.019, 0.019)
    other = (0.012, 0.012, *(BUSY,) * 6)

    assert judge(msgspec.structs.replace(plain, busy=(other, hit))).stage == "compute"
    assert judge(msgspec.structs.replace(plain, busy=((BUSY,) * 8, hit))).stage == "slow_rank"


@pytest.mark.parametrize(("preparation", "stage"), [(5700.0, "preparation"), (8000.0, "exchange")])
def test_an_exchange_that_the_input_hides_is_not_blamed(preparation: float, stage: str) -> None:
    """The exchange is the larger part of a step, but the workers prepare all the while."""
    verdict = judge(
        train(0.0105, 0.0115, 0.0115, exposed=0.0021, preparation=preparation, exchange=3e4)
    )

    assert verdict.stage == stage
