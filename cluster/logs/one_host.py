"""Whether a test of TCP or UDP stayed within one host, so that it passed no network."""

from __future__ import annotations

import re

_ENDS = re.compile(r"\blocal (\S+) port \d+ connected (?:to|with) (\S+) port \d+")
_PEER = re.compile(
    r"(?:Connecting to host|Client connecting to|AF_INET6? to) (\S+?),?(?: \(([^()\s]*)\))?(?= |$)"
)
_LOOPBACK = re.compile(r"localhost\b|127\.\d|::1(?:%\w+)?$|::ffff:127\.", re.IGNORECASE)

WITHIN = "both ends are on one host: its figures are of no network"


def stays_within(local: str, peer: str) -> bool:
    """Tell whether two addresses are of one host; the own one (`local`) may be empty.

    Two hosts that are simulated on one are not recognised.
    """
    return (local == peer and bool(peer)) or _LOOPBACK.match(peer) is not None


def is_within_host(line: str) -> bool:
    """Tell whether a line such as `local ::1 port 4 connected to ::1 port 5201` is of one host."""
    if ends := _ENDS.search(line):
        return stays_within(ends[1], ends[2])
    peer = _PEER.search(line)
    return peer is not None and any(stays_within("", name) for name in peer.groups() if name)
