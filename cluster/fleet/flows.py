"""The rates of flows that share links: max-min fairness, by progressive filling.

A flow is as fast as its tightest link allows, and no flow can get more without taking from one that
is no faster (D. Bertsekas, R. Gallager, "Data Networks", 1992, section 6.5.2). TCP, and RoCE with
congestion control, do not reach these rates packet by packet; they are designed to approach them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rates = NDArray[np.float64]
    Paths = NDArray[np.int64]

NO_LINK = -1  # pads the paths that are shorter than the longest
ROUNDING = 1e-9  # of a share: links that differ by less are full at the same time


def max_min_rates(paths: Paths, capacities: Rates) -> Rates:
    """Return the rate of each flow.

    Each step finds the links that limit all flows through them. These flows have their rates now,
    which are subtracted from the other links on their paths.

    Args:
        paths: the links of each flow, of the shape (flows, hops), padded with `NO_LINK`.
        capacities: of each link, in bytes per second.

    Returns:
        Bytes per second of each flow; infinite for one without links.

    """
    links = len(capacities)
    hops = np.where(paths < 0, links, paths)  # an additional link, which is never full
    left = np.append(capacities.astype(np.float64), np.inf)
    rates = np.full(len(paths), np.inf)
    open_ = np.flatnonzero((paths >= 0).any(axis=1))
    while open_.size:
        way = hops[open_]
        flat = way.ravel()
        counts = np.bincount(flat, minlength=links + 1)
        shares = np.full(links + 1, np.inf)
        used = counts[:links] > 0
        shares[:links][used] = np.maximum(left[:links][used], 0.0) / counts[:links][used]
        tightest = shares[way].min(axis=1)
        lowest = np.full(links + 1, np.inf)
        np.minimum.at(lowest, flat, np.repeat(tightest, way.shape[1]))
        full = shares <= lowest * (1 + ROUNDING)
        full[links] = False
        done = full[way].any(axis=1)
        rates[open_[done]] = tightest[done]
        taken = np.repeat(tightest[done], way.shape[1])
        left -= np.bincount(way[done].ravel(), weights=taken, minlength=links + 1)
        left[links] = np.inf
        open_ = open_[~done]
    return rates
