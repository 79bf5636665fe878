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
    """Tell whether two ends of a connection are on one host.

    Args:
        local: the address of this end; empty if it is not known.

    Returns:
        Whether they are; two hosts that are simulated on one are not recognised.

    """
    return (local == peer and bool(peer)) or _LOOPBACK.match(peer) is not None


def is_within_host(line: str) -> bool:
    """Tell whether a line of iperf or netperf says that both ends are on one host.

    Args:
        line: such as `local 127.0.0.1 port 47 connected to 127.0.0.1 port 5201`.

    """
    if ends := _ENDS.search(line):
        return stays_within(ends[1], ends[2])
    peer = _PEER.search(line)
    return peer is not None and any(stays_within("", name) for name in peer.groups() if name)
