"""Which stage limits training: stalls by difference of runs, bounds, the verdict."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.analysis.models.step_limits import (
    Trained,
    fetch_stall_expected,
    judge,
    said,
    split_wait,
    stalls,
)

TIMES = st.floats(0, 1e3)
BUSY = 0.0093  # seconds of a step of 10 ms that a rank works itself
DRIFT = tuple(1 + 0.02 * number for number in range(8))  # of rounds, as on a machine that warms up


def trained(
    resident: float = 0.010,
    memory: float = 0.010,
    asked: float = 0.010,
    busy: tuple[float, ...] = (BUSY, BUSY),
    exposed: float = 0.0,
    **more: float,
) -> Trained:
    """Eight rounds, each a little slower than the one before."""

    def rounds(seconds: float) -> tuple[float, ...]:
        return tuple(seconds * by for by in DRIFT)

    return Trained(
        samples=64,
        resident=rounds(resident),
        memory=rounds(memory),
        asked=rounds(asked),
        busy=tuple(rounds(own) for own in busy),
        exposed=rounds(exposed),
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
        busy=((BUSY,) * 8,),
        exposed=(0.0,) * 8,
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
            "exchange, 50% of what the exchange alone allows, 50% of a step is this stall",
        ),
    ],
)
def test_the_verdict_names_the_stage_and_its_share_of_the_limit(
    case: Trained, stage: str, words: str
) -> None:
    found = judge(case)

    assert found.stage == stage
    assert found.words == words


def test_the_verdict_is_found_among_the_notes_of_a_run() -> None:
    note = judge(trained()).note

    assert note == "5981 samples/s. compute: no stall, 93% of the rate with data resident."
    assert said(("torch 2.13.0 trained", note, "Another.")) == note.removesuffix(".")
    assert said(("torch 2.13.0 trained",)) == ""


def test_rounds_that_are_too_few_say_so() -> None:
    """Of four rounds, one in eight has all differences on the same side by chance."""
    four, five = (
        Trained(
            samples=64,
            resident=(0.010,) * rounds,
            memory=(0.010,) * rounds,
            asked=(0.020,) * rounds,
            busy=((BUSY,) * rounds,),
            exposed=(0.0,) * rounds,
        )
        for rounds in (4, 5)
    )

    assert judge(four).words.endswith("; 4 round(s) are too few to be sure: --rounds 8")
    assert "too few" not in judge(five).words


def test_188_of_220_images_per_second_are_a_slow_input() -> None:
    """Document 002: one GPU with data from an object store, and with synthetic ones."""
    step = 128 / 220
    found = judge(trained(step, step, 128 / 188, busy=(step,), fetch=95.0, preparation=1e4))

    assert found.stage == "fetch"
    assert found.stalls.fetch == pytest.approx(1 - 188 / 220)
    assert found.words.startswith("input: fetch, 9")
    assert found.words.endswith("% of what the link can bring, 15% of a step is this stall")


def test_a_rank_that_computes_longer_is_named_and_the_exchange_is_not_blamed() -> None:
    busy = (BUSY, 3.2 * BUSY, BUSY)
    found = judge(trained(0.0325, 0.0325, 0.0325, busy=busy, exposed=0.0005))

    assert found.stage == "slow rank"
    assert found.slowest == 1
    assert "rank 1 computes 3.2 times as long" in found.words


@pytest.mark.parametrize(
    ("times", "stage"), [(1.1, "compute"), (1.24, "compute"), (1.26, "slow rank")]
)
def test_a_rank_counts_as_slow_from_a_quarter_on(times: float, stage: str) -> None:
    busy = (BUSY, times * BUSY)

    assert judge(trained(0.012, 0.012, 0.012, busy=busy)).stage == stage


def test_a_rank_that_something_else_slows_in_some_rounds_is_not_blamed() -> None:
    """It is 1.6 times as slow over all, but in two of eight rounds the other one was slower."""
    plain = trained(0.020, 0.020, 0.020)
    hit = (0.010, 0.010, 0.015, 0.015, 0.015, 0.019, 0.019, 0.019)
    other = (0.012, 0.012, *(BUSY,) * 6)

    assert judge(msgspec.structs.replace(plain, busy=(other, hit))).stage == "compute"
    assert judge(msgspec.structs.replace(plain, busy=((BUSY,) * 8, hit))).stage == "slow rank"


@pytest.mark.parametrize(
    ("preparation", "words"),
    [
        (5700.0, "input: preparation, 91% of what the workers can prepare, 9% of a step is"),
        (8000.0, "exchange, 18% of a step is this stall"),
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
