"""What everything that we make in a cloud carries, so that it is found again from any machine."""

from __future__ import annotations

import hashlib
import platform
import secrets
import time
from datetime import UTC, datetime

from cluster.core.model.value import Value

CLUSTER, OWNER, USER, LAUNCH, EXPIRES, HOST = (  # keys of tags
    "cluster",
    "cluster-owner",
    "cluster-user",
    "cluster-launch",
    "cluster-expires",
    "cluster-host",
)


class Tags(Value, frozen=True, kw_only=True):
    """Whose it is, and until when.

    Args:
        name: of the cluster.
        owner: who pays for it, as the cloud calls them.
        launch: one launch of it: a new one for each.
        expires: when it ends, in seconds since the epoch.
        host: the machine that launched it.
        user: what the cloud's policies call the owner, where that is another name.

    """

    name: str
    owner: str
    launch: str
    expires: float
    host: str = ""
    user: str = ""

    @property
    def as_dict(self) -> dict[str, str]:
        """The tags by their keys."""
        return {
            **({USER: self.user} if self.user else {}),
            CLUSTER: self.name,
            OWNER: self.owner,
            LAUNCH: self.launch,
            EXPIRES: timestamp(self.expires),
            HOST: self.host,
        }

    @property
    def label(self) -> str:
        """A name for things that need one: the same for every launch by this owner.

        So two launches at once cannot both have it.
        """
        whose = hashlib.blake2s(self.owner.encode(), digest_size=4).hexdigest()
        return f"cluster-{self.name}-{whose}"


class Selection(Value, frozen=True, kw_only=True):
    """Whose things are meant: those of some launches, else those of an owner.

    Args:
        owner: of them.
        name: of the cluster; any, if empty.
        launches: that made them; any, if there is none.

    """

    owner: str = ""
    name: str = ""
    launches: tuple[str, ...] = ()


def new_tags(name: str, owner: str, expires: float, *, user: str = "") -> Tags:
    """Make the tags of a new launch.

    Args:
        name: of the cluster.
        owner: who pays for it.
        expires: when it ends, in seconds since the epoch.
        user: what the cloud's policies call the owner, where that is another name.

    Returns:
        The tags.

    """
    return Tags(
        name=name,
        owner=owner,
        launch=secrets.token_hex(8),
        expires=float(round(expires)),
        host=platform.node(),
        user=user,
    )


def parse_tags(tags: dict[str, str]) -> Tags | None:
    """Read the tags of something that exists.

    Args:
        tags: that it carries.

    Returns:
        The tags; none if it is not ours.

    """
    if not tags.keys() >= {CLUSTER, OWNER, LAUNCH}:
        return None
    return Tags(
        name=tags[CLUSTER],
        owner=tags[OWNER],
        launch=tags[LAUNCH],
        expires=parse_timestamp(tags.get(EXPIRES, "")),
        host=tags.get(HOST, ""),
    )


def timestamp(at: float) -> str:
    """Give a moment as people and programs both read it (ISO 8601, UTC).

    Args:
        at: seconds since the epoch.

    Returns:
        Such as `2026-11-21T16:00:00Z`.

    """
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def parse_timestamp(text: str) -> float:
    """Read what `timestamp` gave.

    Args:
        text: such as `2026-11-21T16:00:00Z`.

    Returns:
        Seconds since the epoch; 0, which is long ago, if it is not one.

    """
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0
