"""How what we make is named and marked: names and labels take few characters; descriptions, all."""

from __future__ import annotations

import hashlib
import re
import uuid
from typing import TYPE_CHECKING

from cluster.providers._cloud.tags import CLUSTER, EXPIRES, LAUNCH, OWNER, parse_tags

if TYPE_CHECKING:
    from cluster.providers._cloud.tags import Selection, Tags

REQUESTS = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")  # RFC 9562's name space for OIDs
DIGITS = 4  # of a machine's number: names are of one length, and so sorted
LONGEST = 40  # characters of a name, so that -ssh, -0001 and the like fit into 63


def is_of(whose: Selection, description: str) -> bool:
    """Tell whether something belongs to a selection by its description."""
    tags = parse_description(description)
    if tags is None:
        return False
    if whose.launches:
        return tags.launch in whose.launches
    return tags.owner == whose.owner and whose.name in ("", tags.name)


def filter_of(whose: Selection) -> str:
    """Give what narrows a list of things that have labels; `is_of` decides.

    Google's filters have no word for one of several values, so several launches are not told apart.
    """
    match whose.launches:
        case ():
            return f"(labels.{OWNER} = {_hash(whose.owner)})"
        case (launch,):
            return f"(labels.{LAUNCH} = {launch})"
        case _:
            return f'(labels.{LAUNCH} eq ".+")'


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
