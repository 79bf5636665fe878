"""Random series without a change; `scripts/bench` counts how often one is seen in them."""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LENGTH = 60  # runs
SECOND = 0.3  # of the values of a bimodal series are of the second mode


def normal(chance: Generator) -> Floats:
    """Normal values with a deviation of 2%."""
    return 1 + 0.02 * chance.standard_normal(LENGTH)


def log_normal(chance: Generator) -> Floats:
    """Values of which a few are twice as large as the others."""
    return np.exp(0.3 * chance.standard_normal(LENGTH))


def bimodal(chance: Generator) -> Floats:
    """Three of ten values are 5% larger."""
    modes = np.where(chance.random(LENGTH) < SECOND, 1.05, 1.0)
    return modes + 0.005 * chance.standard_normal(LENGTH)


def autoregressive(chance: Generator) -> Floats:
    """AR(1) with 0.5: a value resembles the one before."""
    values = [0.0]
    for noise in chance.standard_normal(LENGTH + 50):
        values.append(0.5 * values[-1] + noise)
    return 1 + 0.02 * np.array(values[-LENGTH:])


KINDS: tuple[Callable[[Generator], Floats], ...] = (normal, log_normal, bimodal, autoregressive)
