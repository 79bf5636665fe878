"""The tags of all resources that cluster creates in a cloud, by which any machine finds them."""

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
    """The tags of a launch: which cluster, who owns it, and when it ends."""

    name: str  # of the cluster
    owner: str  # who launched it: the name of the caller in the cloud
    launch: str  # the id of the launch, different for each
    expires: float  # when it ends, in seconds since the epoch
    host: str = ""  # the machine that launched it
    user: str = ""  # the owner's name in the cloud's policies, if it differs

    @property
    def as_dict(self) -> dict[str, str]:
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
        """The name of resources that need one: the same for every launch by this owner.

        So only one of two launches at the same time can create it.
        """
        digest = hashlib.blake2s(self.owner.encode(), digest_size=4).hexdigest()
        return f"cluster-{self.name}-{digest}"


class Selection(Value, frozen=True, kw_only=True):
    """Which resources are meant: those of some launches, or else those of an owner."""

    owner: str = ""  # of the resources; ignored if there are launches
    name: str = ""  # of the cluster; any, if empty; ignored if there are launches
    launches: tuple[str, ...] = ()  # that created the resources; any, if empty


def new_tags(name: str, owner: str, expires: float, *, user: str = "") -> Tags:
    """Create the tags of a new launch, which ends at `expires`, in seconds since the epoch."""
    return Tags(
        name=name,
        owner=owner,
        launch=secrets.token_hex(8),
        expires=float(round(expires)),
        host=platform.node(),
        user=user,
    )


def parse_tags(tags: dict[str, str]) -> Tags | None:
    """Read the tags of a resource; none if cluster did not create it."""
    if not tags.keys() >= {CLUSTER, OWNER, LAUNCH}:
        return None
    return Tags(
        name=tags[CLUSTER],
        owner=tags[OWNER],
        launch=tags[LAUNCH],
        expires=parse_timestamp(tags.get(EXPIRES, "")),
        host=tags.get(HOST, ""),
    )


def timestamp(seconds: float) -> str:
    """Format seconds since the epoch as ISO 8601 in UTC, such as `2026-11-21T16:00:00Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def parse_timestamp(text: str) -> float:
    """Read a time in the format of `timestamp`; 0 if the text is in another."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0
