"""Orphans: resources of ours that no cluster uses any more, by the journals and the providers."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from cluster.core import journal, plugins
from cluster.core.errors import ClusterError, SpecError
from cluster.core.model.billing import Resource
from cluster.core.model.value import Value
from cluster.orchestration.cluster import attach
from cluster.orchestration.state import ClusterState
from cluster.orchestration.teardown import destroy
from cluster.providers import Provider

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cluster.core.model.billing import RemoteCluster


AGAIN = "cluster gc -y"


class Orphan(Value, frozen=True, kw_only=True):
    """Resources that are left of a cluster that nobody uses.

    Args:
        name: of the cluster.
        provider: where it is.
        why: it is taken for an orphan.
        resources: what exists of it.
        regions: that were searched, besides those of the journals.

    """

    name: str
    provider: str
    why: str
    resources: tuple[Resource, ...]
    regions: tuple[str, ...] = ()


def find_orphans(regions: Sequence[str] = (), *, everywhere: bool = False) -> tuple[Orphan, ...]:
    """Find launches that nobody finished, clusters that expired, and those that no journal knows.

    Args:
        regions: of clouds to look in, besides those of the journals.
        everywhere: look in every region that there is.

    Returns:
        What was found; a cluster that is being launched right now is not among it.

    """
    known = journal.names()
    half = [orphan for name in known if (orphan := _half_made(name)) is not None]
    return (*half, *_unknown(set(known), tuple(regions), everywhere=everywhere))


def remove(orphan: Orphan) -> None:
    """Delete an orphan's resources.

    Args:
        orphan: that was found.

    Raises:
        ProvisionError: something of it is left.

    """
    if orphan.name in journal.names():
        attach(orphan.name).down(reachable=False)
    else:
        provider = plugins.find(Provider, orphan.provider)(orphan.regions)
        destroy(provider, orphan.name, again=AGAIN)


def take_down(name: str, regions: Sequence[str] = ()) -> tuple[str, ...]:
    """Take away a cluster that no journal here knows of, found by what its machines carry.

    Args:
        name: of the cluster.
        regions: of clouds to look in.

    Returns:
        What was looked for, and where; none if there is no such cluster, and no region was named.

    Raises:
        ProvisionError: something of it is left.

    """
    looked = []
    for kind in plugins.names(Provider):
        with contextlib.suppress(SpecError):  # one that cannot work here made nothing here
            provider = plugins.find(Provider, kind)(tuple(regions))
            what = provider.looked_for(name)
            # Where a region is named, something may still appear there: `destroy` waits for it.
            if (regions and what) or provider.find(name):
                destroy(provider, name, again=AGAIN)
                looked.append(what)
    return tuple(looked)


def _half_made(name: str) -> Orphan | None:
    """Find a launch whose process died before its end, or a cluster that has expired."""
    book = journal.for_cluster(name)
    try:
        state = ClusterState.from_entries(book.entries())
    except ClusterError:
        return None  # of another version: not for us to judge
    if state is None or book.is_launching():
        return None
    expired = state.has_expired(time.time())
    if state.launched and not expired:
        return None
    provider = plugins.load(Provider, state.spec.provider)
    return Orphan(
        name=name,
        provider=state.spec.provider,
        why="its time to live is over" if expired else "its launch was never finished",
        resources=provider.find(name),
    )


def _unknown(known: set[str], regions: tuple[str, ...], *, everywhere: bool) -> tuple[Orphan, ...]:
    found = []
    for kind in plugins.names(Provider):
        with contextlib.suppress(SpecError):  # one that cannot work here made nothing here
            provider = plugins.load(Provider, kind)
            where = provider.all_regions() if everywhere else regions
            provider = plugins.find(Provider, kind)(where) if where else provider
            found += [o for o in _of(provider) if o.name not in known]
    return tuple(found)


def _of(provider: Provider) -> Iterator[Orphan]:
    """Give all that a provider has of ours."""
    live = provider.live()
    seen = {one.name: one for one in live}
    for name in dict.fromkeys([*seen, *provider.names()]):
        regions = tuple(one.region for one in live if one.name == name)
        here = type(provider)(regions)
        yield Orphan(
            name=name,
            provider=provider.name,
            why=_why(seen.get(name)),
            resources=here.find(name),
            regions=regions,
        )


def _why(seen: RemoteCluster | None) -> str:
    if seen is None or not seen.host:
        return "no journal knows of it"
    ended = "; its time to live is over" if seen.expires < time.time() else ""
    return f"no journal here knows of it; it was launched on {seen.host}{ended}"
