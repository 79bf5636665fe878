"""The statistics of `scripts/bench starting_by_srun`: launches by two starters, as pairs."""

from __future__ import annotations

import importlib.util
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.conftest import ROOT

if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture(scope="module")
def paired() -> ModuleType:
    """The module, which is beside the benchmarks and in no package."""
    spec = importlib.util.spec_from_file_location(
        "paired", ROOT / "scripts" / "bench" / "paired.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("pairs", "critical"), [(6, 0), (8, 3), (11, 10), (20, 52), (30, 137)])
def test_wilcoxons_table(paired: ModuleType, pairs: int, critical: int) -> None:
    """The published table for two sides and 5 %: the largest sum that is still significant."""
    below = list(accumulate(paired.signed_ranks(pairs)))

    assert below[critical] <= 0.025 < below[critical + 1]
    assert below[-1] == pytest.approx(1)


def test_drift_that_both_have_does_not_widen_the_interval(paired: ModuleType) -> None:
    """Pairs drift by half; within a pair the second value takes 1 % longer, with 0.2 % noise."""
    rng = np.random.default_rng(18)
    drift = np.linspace(1, 1.5, 20)
    base = drift * (1 + 0.002 * rng.standard_normal(20))
    other = 1.01 * drift * (1 + 0.002 * rng.standard_normal(20))
    ratio, low, high = paired.paired_ratio(base.tolist(), other.tolist(), 0.95)

    assert low < 1.01 < high
    assert high - low < 0.005
    assert low < ratio < high


def test_the_interval_covers_the_true_ratio(paired: ModuleType) -> None:
    rng = np.random.default_rng(20181)
    hits = 0
    for _ in range(1000):
        base, other = rng.lognormal(0, 0.1, (2, 11))
        _, low, high = paired.paired_ratio(base.tolist(), (1.02 * other).tolist(), 0.95)
        hits += low <= 1.02 <= high
    assert hits / 1000 >= 0.93  # 0.95, less three standard errors of 1000 trials


def test_few_pairs_have_no_interval(paired: ModuleType) -> None:
    _, low, high = paired.paired_ratio([1.0] * 5, [1.0] * 5, 0.95)
    assert (low, high) == (0.0, float("inf"))
