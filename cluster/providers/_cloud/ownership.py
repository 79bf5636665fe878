"""Who launched a cluster. Nobody else may delete it, or be told that nothing of it is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core import journal
from cluster.core.errors import Denied
from cluster.providers._cloud.tags import Selection

if TYPE_CHECKING:
    from cluster.providers._cloud.client import Client


def owned(cluster: journal.Journal, provider: str, place: str) -> tuple[journal.Owned, ...]:
    """Return the owner of each launch of a cluster in a place; empty if the journal has none."""
    known = (one for one in cluster.entries() if isinstance(one, journal.Owned))
    return tuple(one for one in known if (one.provider, one.region) == (provider, place))


def select(cluster: journal.Journal, provider: str, client: Client) -> Selection:
    """Select the resources of a cluster in a place: those of the launches in its journal.

    Returns:
        The launches; if the journal has none, the cluster's name and the caller as its owner.

    Raises:
        Denied: somebody else launched it.

    """
    launches = owned(cluster, provider, client.name)
    for one in launches:
        if (one.account, one.owner) != (client.account, client.owner):
            raise not_yours(cluster.name, one, client)
    if not launches:
        return Selection(owner=client.owner, name=cluster.name)
    return Selection(launches=tuple(one.launch for one in launches))


def not_yours(name: str, one: journal.Owned, client: Client) -> Denied:
    """Return the error for a cluster that somebody else launched."""
    return Denied(
        f"The cluster {name} was launched by {one.owner} in the account {one.account}; you are "
        f"{client.owner} in the account {client.account}.",
        means="Your login cannot see what is left of it, so nothing was searched or deleted: "
        "it may still run, and cost money.",
        remedy=f"Log in as {one.owner}, and type the same again.",
    )
