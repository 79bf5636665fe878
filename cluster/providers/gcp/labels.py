"""Names, labels and descriptions of resources at Google, by which they are found again.

Names and labels allow few characters, so the full tags are in the description.
"""

import hashlib
import re
import uuid

from cluster.providers._cloud.tags import (
    CLUSTER,
    EXPIRES,
    LAUNCH,
    OWNER,
    Selection,
    Tags,
    parse_tags,
)

REQUESTS = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")  # RFC 9562's name space for OIDs
DIGITS = 4  # of a machine's number: names of one length sort in the order of the numbers
LONGEST = 40  # characters before the hash, so that -ssh, -0001 and the like fit into 63


def is_of(selection: Selection, description: str) -> bool:
    """Tell whether a resource belongs to a selection, by the tags in its description."""
    tags = parse_description(description)
    if tags is None:
        return False
    if selection.launches:
        return tags.launch in selection.launches
    return tags.owner == selection.owner and selection.name in ("", tags.name)


def filter_of(selection: Selection) -> str:
    """Return a filter for lists of labelled resources; `is_of` then decides for each resource.

    A filter of Google cannot name several values, so for several launches it lets all pass.
    """
    match selection.launches:
        case ():
            return f"(labels.{OWNER} = {_hash(selection.owner)})"
        case (launch,):
            return f"(labels.{LAUNCH} = {launch})"
        case _:
            return f'(labels.{LAUNCH} eq ".+")'


def label(tags: Tags) -> str:
    """Return the name of a cluster's resources: the same for every launch of it by this owner."""
    slug = re.sub(r"[^a-z0-9]+", "-", tags.name.lower()).strip("-")
    return f"cluster-{slug}"[:LONGEST].rstrip("-") + f"-{_hash(tags.owner + '/' + tags.name)}"


def labels(tags: Tags) -> dict[str, str]:
    return {
        CLUSTER: re.sub(r"[^-_a-z0-9]", "-", tags.name.lower()),
        OWNER: _hash(tags.owner),
        LAUNCH: tags.launch,
        EXPIRES: f"{tags.expires:.0f}",
    }


def description_of(tags: Tags) -> str:
    """Return the description of a launch's resources: all tags, unabridged."""
    return " ".join(f"{key}={value}" for key, value in tags.as_dict.items())


def parse_description(description: str) -> Tags | None:
    """Read the tags in a description of `description_of`; none if cluster did not create it."""
    words = [word.partition("=") for word in description.split()]
    return parse_tags({key: value for key, _, value in words})


def request_id(tags: Tags, label: str) -> str:
    """Return the request id by which Google recognises a repeated call of a launch."""
    return str(uuid.uuid5(REQUESTS, f"{tags.launch}/{label}"))


def _hash(text: str) -> str:
    return hashlib.blake2s(text.encode(), digest_size=4).hexdigest()
