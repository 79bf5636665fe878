"""Who launched a cluster. Nobody else may delete it, or be told that nothing of it is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cluster.core import journal
from cluster.core.errors import Denied
from cluster.core.model.value import Value
from cluster.providers._cloud.launch import intent_file
from cluster.providers._cloud.tags import Selection, Tags

if TYPE_CHECKING:
    from cluster.providers._cloud.client import Client


class TaggedIntent(Value, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """The part of an intent that is the same for all clouds: the tags of the launch's resources."""

    tags: Tags = msgspec.field(name="mark")


def owned(cluster: journal.Journal, provider: str, place: str) -> tuple[journal.Owned, ...]:
    """Return the owner of each launch of a cluster in a place.

    Journals of older revisions have no such entries. For these, the owner is read from the intent
    and added to the journal, because an intent may be deleted before the cluster is gone.

    Returns:
        One entry for each launch; empty if the journal has none.

    """
    entries = cluster.entries()
    known = [one for one in entries if isinstance(one, journal.Owned)]
    if not known and entries and (path := intent_file(cluster, provider)).exists():
        tags = msgspec.json.decode(path.read_bytes(), type=TaggedIntent).tags
        places = {one.region for one in entries if isinstance(one, journal.Requested)}
        known = [
            journal.Owned(
                provider=provider, region=one, account="", owner=tags.owner, launch=tags.launch
            )
            for one in sorted(places)
        ]
        for entry in known:
            cluster.append(entry)
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
        if one.account and (one.account, one.owner) != (client.account, client.owner):
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
