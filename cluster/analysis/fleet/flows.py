"""How fast flows are that share links: max-min fairness, by filling all links at once.

A flow is as fast as its tightest link lets it be, and no flow can gain but at the cost of one that
is no faster (D. Bertsekas, R. Gallager, "Data Networks", 1992, section 6.5.2). That is not what
TCP or RoCE with congestion control reach, packet by packet; it is what they are meant to approach.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rates = NDArray[np.float64]
    Paths = NDArray[np.int64]

NO_LINK = -1  # fills up the paths that are shorter than the longest
ROUNDING = 1e-9  # of a share: links that fill at the same time


def max_min_rates(paths: Paths, capacities: Rates) -> Rates:
    """Give the rate of each flow.

    In each step, every link that no flow through it leaves sooner is full: its flows have their
    rates, and take them from the other links on their way.

    Args:
        paths: the links of each flow, of the shape (flows, hops); `NO_LINK` where it has fewer.
        capacities: of each link, in bytes per second.

    Returns:
        Bytes per second of each flow; infinite for one without links.

    """
    links = len(capacities)
    hops = np.where(paths < 0, links, paths)  # one more link, which never fills
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
