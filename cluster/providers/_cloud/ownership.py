"""Who launched a cluster: nobody else ends it, or is told that nothing is left of it."""

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
    """What the intents of all clouds have: what everything of the launch carries."""

    tags: Tags = msgspec.field(name="mark")


def owned(cluster: journal.Journal, provider: str, place: str) -> tuple[journal.Owned, ...]:
    """Tell who launched a cluster in a place, one entry for each launch.

    Journals of older revisions do not say it; their intents name the launch, and that is written
    down, because an intent may be abandoned before the cluster is gone.

    Args:
        cluster: its journal.
        provider: the name of the cloud.
        place: in it.

    Returns:
        The entries; none where no journal knows.

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
    """Tell what finds everything of a cluster in a place: the launches of its journal.

    Args:
        cluster: its journal.
        provider: the name of the cloud.
        client: of the place.

    Returns:
        The launches; where no journal knows of any, its name and whoever asks.

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
    """Say that a cluster is somebody else's.

    Args:
        name: of the cluster.
        one: who launched it.
        client: who asks.

    Returns:
        The error.

    """
    return Denied(
        f"The cluster {name} was launched by {one.owner} in the account {one.account}; you are "
        f"{client.owner} in the account {client.account}.",
        means="Your login cannot see what is left of it, so nothing was searched or deleted: "
        "it may still run, and cost money.",
        remedy=f"Log in as {one.owner}, and type the same again.",
    )
