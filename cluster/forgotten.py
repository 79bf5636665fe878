"""What is ours and belongs to nobody any more: found from the journals, and at the providers."""

from __future__ import annotations

import contextlib

from cluster import journal, plugins
from cluster.clusters import attach
from cluster.errors import ClusterError, ProvisionError, SpecError
from cluster.model import Resource, Value
from cluster.providers import Provider


class Orphan(Value, frozen=True, kw_only=True):
    """Something that was made, and that nobody looks after.

    Args:
        name: of the cluster.
        provider: where it is.
        why: it is thought forgotten.
        resources: what exists of it.

    """

    name: str
    provider: str
    why: str
    resources: tuple[Resource, ...]


def forgotten() -> tuple[Orphan, ...]:
    """Look for launches that nobody finished, and for what no journal knows of.

    Returns:
        What was found; a cluster that is being launched right now is not among it.

    """
    known = journal.names()
    half = [orphan for name in known if (orphan := _half_made(name)) is not None]
    return (*half, *_unknown(set(known)))


def remove(orphan: Orphan) -> None:
    """Take away what was forgotten.

    Args:
        orphan: what.

    Raises:
        ProvisionError: something of it is left.

    """
    if orphan.name in journal.names():
        attach(orphan.name).down(reachable=False)
        return
    provider = plugins.load(Provider, orphan.provider)
    provider.destroy(orphan.name)
    if left := provider.find(orphan.name):
        raise ProvisionError(
            f"{len(left)} thing(s) of {orphan.name} still exist.", remedy="Try again: cluster gc -y"
        )


def _half_made(name: str) -> Orphan | None:
    """Tell of a launch whose process died before it was over."""
    book = journal.of(name)
    try:
        entries = book.entries()
    except ClusterError:
        return None  # of another version: not for us to judge
    if book.is_launching() or any(isinstance(entry, journal.Launched) for entry in entries):
        return None
    specs = [entry.spec for entry in entries if isinstance(entry, journal.Intended)]
    if not specs:
        return None
    provider = plugins.load(Provider, specs[-1].provider)
    return Orphan(
        name=name,
        provider=specs[-1].provider,
        why="its launch was never finished",
        resources=provider.find(name),
    )


def _unknown(known: set[str]) -> tuple[Orphan, ...]:
    found = []
    for kind in plugins.names(Provider):
        with contextlib.suppress(SpecError):  # one that cannot work here made nothing here
            provider = plugins.load(Provider, kind)
            found += [
                Orphan(
                    name=name,
                    provider=kind,
                    why="no journal knows of it",
                    resources=provider.find(name),
                )
                for name in provider.names()
                if name not in known
            ]
    return tuple(found)
