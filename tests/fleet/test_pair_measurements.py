"""Tests of pairs in a run's folder, and back."""

import pytest
from msgspec.structs import replace

from cluster.benchmarks.pairs import BANDWIDTH
from cluster.core.model.network.fleet import PairTest
from cluster.fleet.pair_measurements import measurements_of, pair_tests

WORDS = "host:4 is lost: no route"
TEST = PairTest(round=0, source=0, target=1, value=0.0, reason=WORDS)


@pytest.mark.parametrize(
    "test", [TEST, replace(TEST, value=None), replace(TEST, lost=4), replace(TEST, value=9.0)]
)
def test_the_words_of_a_reason_name_no_host_that_was_lost(test: PairTest) -> None:
    expected = test if not test.value else replace(test, reason="")

    assert pair_tests(measurements_of([test], BANDWIDTH, "ab")) == (expected,)


def test_runs_in_which_only_the_words_say_who_was_lost_are_read() -> None:
    (old,) = measurements_of([TEST], BANDWIDTH, "ab")
    params = {name: value for name, value in old.params.items() if name != "lost"}

    (test,) = pair_tests([replace(old, params=params)])

    assert (test.lost, test.reason) == (4, "no route")
