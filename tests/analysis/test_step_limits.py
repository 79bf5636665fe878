"""Which stage limits training: stalls by difference of runs, bounds, the verdict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.analysis.step_limits import (
    StepParts,
    Trained,
    fetch_stall_expected,
    judge,
    split_wait,
    stalls,
)

TIMES = st.floats(0, 1e3)
COMPUTE = StepParts(copy=0.001, compute=0.008, exchange=0.0005, update=0.001)


def trained(
    resident: float = 0.010,
    memory: float = 0.010,
    asked: float = 0.010,
    parts: tuple[StepParts, ...] = (COMPUTE, COMPUTE),
    **more: float,
) -> Trained:
    """Eight rounds, each a little slower than the one before, as on a machine that gets warm."""
    drift = [1 + 0.02 * number for number in range(8)]
    return Trained(
        samples=64,
        resident=tuple(resident * by for by in drift),
        memory=tuple(memory * by for by in drift),
        asked=tuple(asked * by for by in drift),
        parts=parts,
        **more,
    )


@pytest.mark.parametrize(
    ("waited", "fetched", "parts"),
    [
        ((1.0, 3.0), (0.0, 2.5), (1.5, 0.5)),  # fetched in the wait, then prepared
        ((1.0, 3.0), (0.0, 1.0), (0.0, 2.0)),  # there already: all of it is preparation
        ((1.0, 3.0), (1.5, 2.0), (0.5, 1.5)),  # also before its fetch, the worker was busy
        ((3.0, 3.0), (0.0, 9.0), (0.0, 0.0)),
    ],
)
def test_a_wait_is_divided_by_the_clock_of_the_loader(
    waited: tuple[float, float], fetched: tuple[float, float], parts: tuple[float, float]
) -> None:
    assert split_wait(waited, fetched) == pytest.approx(parts)


@given(TIMES, TIMES, TIMES, TIMES)
def test_the_two_parts_of_a_wait_add_up_and_are_never_negative(
    begin: float, length: float, fetch: float, lasted: float
) -> None:
    found = split_wait((begin, begin + length), (fetch, fetch + lasted))

    assert sum(found) == pytest.approx(begin + length - begin, abs=1e-9)
    assert min(found) >= 0


def test_stalls_are_differences_of_rounds_and_not_of_medians() -> None:
    found = stalls(trained(resident=0.010, memory=0.012, asked=0.020))

    assert found.fetch == pytest.approx(0.4)
    assert found.preparation == pytest.approx(0.1)


def test_a_difference_that_chance_may_make_is_no_stall() -> None:
    noise = Trained(
        samples=64,
        resident=(0.010,) * 8,
        memory=(0.010, 0.014, 0.009, 0.016, 0.010, 0.015, 0.008, 0.014),
        asked=(0.010,) * 8,
        parts=(COMPUTE,),
    )

    assert stalls(noise).preparation == 0
    assert judge(noise).stage == "compute"


@pytest.mark.parametrize(
    ("case", "stage", "words"),
    [
        (trained(), "compute", "compute: no stall, 93% of the rate with data resident"),
        (
            trained(asked=0.020, fetch=3225.0, preparation=1e5),
            "fetch",
            "input: fetch, 93% of what the link can bring, 50% of a step is this stall",
        ),
        (
            trained(memory=0.020, asked=0.020, fetch=1e5, preparation=3300.0),
            "preparation",
            "input: preparation, 91% of what the workers can prepare, 50% of a step is this stall",
        ),
        (
            trained(resident=0.020, memory=0.020, asked=0.020, exposed=0.010, exchange=6000.0),
            "exchange",
            "exchange, 50% of what the exchange alone allows, 47% of a step is this stall",
        ),
    ],
)
def test_the_verdict_names_the_stage_and_its_share_of_the_limit(
    case: Trained, stage: str, words: str
) -> None:
    found = judge(case)

    assert found.stage == stage
    assert found.words == words


def test_188_of_220_images_per_second_are_a_slow_input() -> None:
    """Document 002: one GPU with data from an object store, and with synthetic ones."""
    step = 128 / 220
    parts = (StepParts(compute=0.98 * step, update=0.02 * step),)
    stored = 128 / 188
    found = judge(trained(step, step, stored, parts=parts, fetch=95.0, preparation=1e4))

    assert found.stage == "fetch"
    assert found.stalls.fetch == pytest.approx(1 - 188 / 220)
    assert found.words.startswith("input: fetch, 9")
    assert found.words.endswith("% of what the link can bring, 15% of a step is this stall")


def test_a_rank_that_computes_longer_is_named_and_the_exchange_is_not_blamed() -> None:
    slow = StepParts(copy=0.001, compute=0.030, exchange=0.0005, update=0.001)
    waiting = StepParts(copy=0.001, compute=0.008, exchange=0.0225, update=0.001)
    found = judge(trained(0.0325, 0.0325, 0.0325, parts=(waiting, slow, waiting), exposed=0.0005))

    assert found.stage == "slow rank"
    assert found.slowest == 1
    assert "rank 1 computes 3.2 times as long" in found.words


@pytest.mark.parametrize(
    ("preparation", "words"),
    [
        (5700.0, "input: preparation, 91% of what the workers can prepare, 9% of a step is"),
        (8000.0, "exchange, 17% of a step is this stall"),
    ],
)
def test_an_exchange_that_the_input_hides_is_not_blamed(preparation: float, words: str) -> None:
    """The exchange is the larger part of a step, but the workers prepare all the while."""
    found = judge(
        trained(0.0105, 0.0115, 0.0115, exposed=0.0021, preparation=preparation, exchange=3e4)
    )

    assert found.words.startswith(words)


@pytest.mark.parametrize(("rate", "stall"), [(2e6, 0.0), (1e6, 0.0), (0.5e6, 0.5), (0.2e6, 0.8)])
def test_what_a_link_takes_beyond_the_computing(rate: float, stall: float) -> None:
    assert fetch_stall_expected(264e-6, 264, rate) == pytest.approx(stall)
