"""How what we make is named and marked: names and labels take few characters; descriptions, all."""

from __future__ import annotations

import hashlib
import re
import uuid
from typing import TYPE_CHECKING

from cluster.core.model.value import Value
from cluster.providers._cloud.tags import CLUSTER, EXPIRES, LAUNCH, OWNER, parse_tags

if TYPE_CHECKING:
    from cluster.providers._cloud.tags import Tags

REQUESTS = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")  # RFC 9562's name space for OIDs
DIGITS = 4  # of a machine's number: names are of one length, and so sorted
LONGEST = 40  # characters of a name, so that -ssh, -0001 and the like fit into 63


class OwnerFilter(Value, frozen=True, kw_only=True):
    """Whose things are meant.

    Args:
        owner: of them.
        name: of the cluster; any, if empty.
        launch: one launch of it; any, if empty.

    """

    owner: str
    name: str = ""
    launch: str = ""

    def has(self, description: str) -> bool:
        """Tell whether something is theirs by its description."""
        tags = parse_description(description)
        return (
            tags is not None
            and tags.owner == self.owner
            and self.name in ("", tags.name)
            and self.launch in ("", tags.launch)
        )

    @property
    def filter(self) -> str:
        """What finds it among things that have labels."""
        launch = f" (labels.{LAUNCH} = {self.launch})" if self.launch else ""
        return f"(labels.{OWNER} = {_hash(self.owner)}){launch}"


def label(tags: Tags) -> str:
    """Give the name of things of a cluster: the same for every launch of it by this owner."""
    slug = re.sub(r"[^a-z0-9]+", "-", tags.name.lower()).strip("-")
    return f"cluster-{slug}"[:LONGEST].rstrip("-") + f"-{_hash(tags.owner + '/' + tags.name)}"


def labels(tags: Tags) -> dict[str, str]:
    """Give the labels of a launch, by which lists are filtered."""
    return {
        CLUSTER: re.sub(r"[^-_a-z0-9]", "-", tags.name.lower()),
        OWNER: _hash(tags.owner),
        LAUNCH: tags.launch,
        EXPIRES: f"{tags.expires:.0f}",
    }


def description_of(tags: Tags) -> str:
    """Give the description of everything of a launch: all that is to be known, in full."""
    return " ".join(f"{key}={value}" for key, value in tags.as_dict.items())


def parse_description(description: str) -> Tags | None:
    """Read what `described` gave.

    Args:
        description: of something that exists.

    Returns:
        The tags; none if it is not ours.

    """
    words = [word.partition("=") for word in description.split()]
    return parse_tags({key: value for key, _, value in words})


def request_id(tags: Tags, what: str) -> str:
    """Give the id by which Google knows a call again: the same for the same call of a launch."""
    return str(uuid.uuid5(REQUESTS, f"{tags.launch}/{what}"))


def _hash(text: str) -> str:
    return hashlib.blake2s(text.encode(), digest_size=4).hexdigest()
