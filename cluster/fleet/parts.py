"""The parts of a fleet on the path of each test: hosts, groups, and links if routes are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cluster.fleet.blame import GROUP, HOST, LINK, SPINE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cluster.fleet.fabric_links import FabricLinks

    Numbers = NDArray[np.int64]


class Parts(NamedTuple):
    """The parts on the path of each test.

    Args:
        paths: of the shape (tests, hops), padded with -1.
        endpoints: how many; for endpoint e, part e is its sending direction and part
            `endpoints + e` its receiving direction.

    """

    paths: Numbers
    kinds: Numbers
    endpoints: int
    groups: int


def parts_of(source: Numbers, target: Numbers, groups: Numbers, *, directed: bool = True) -> Parts:
    """Return hosts and groups, if the routes are not known.

    Args:
        directed: which endpoint of a test sends is known; else an endpoint, and a group, is one
            part, its sending direction.

    Returns:
        The parts. A group of one endpoint is not a separate part: it would be the host's twin.

    """
    n, count = len(groups), int(groups.max(initial=0)) + 1
    sizes = np.bincount(groups, minlength=count)
    over = groups[source] != groups[target]
    tx = np.where(over & (sizes[groups[source]] > 1), 2 * n + groups[source], -1)
    far, far_group = (n, count) if directed else (0, 0)
    rx = np.where(over & (sizes[groups[target]] > 1), 2 * n + far_group + groups[target], -1)
    return Parts(
        paths=np.stack([source, far + target, tx, rx], axis=1),
        kinds=np.repeat([HOST, GROUP], [2 * n, 2 * count]),
        endpoints=n,
        groups=count,
    )


def routed_parts(
    fabric_links: FabricLinks, source: Numbers, target: Numbers, paths: Numbers
) -> Parts:
    """Return hosts, groups, links and spine switches, if the routes are known.

    Args:
        paths: the links of each test, as `FabricLinks` numbers them.

    Returns:
        The parts; link l is part `l - 2 * endpoints + 2 * (endpoints + groups)`,
        and the spine switches follow the links.

    """
    n = fabric_links.endpoints
    known = parts_of(source, target, fabric_links.leaf(np.arange(n)))
    first = len(known.kinds)
    links = fabric_links.count - 2 * n
    ways = np.where(paths[:, 1:-1] < 0, -1, paths[:, 1:-1] - 2 * n + first)
    top = fabric_links.spine(paths)
    over = np.where(top < 0, -1, top + first + links)[:, None]
    return Parts(
        paths=np.concatenate([known.paths, ways, over], axis=1),
        kinds=np.concatenate([known.kinds, np.repeat([LINK, SPINE], [links, fabric_links.tops])]),
        endpoints=n,
        groups=known.groups,
    )
