"""Tests of pairs of hosts, as logs of other tools have them."""

from __future__ import annotations

from cluster.core.model.fleet import DeviceKind, PairMetric
from cluster.core.model.value import Value


class LoggedPair(Value, frozen=True, kw_only=True):
    """A value of a pair of hosts in a log.

    Args:
        hosts: the two; if the direction is known, the first one sends.
        value: bytes per second, or seconds; none if the log has none.
        reason: why there is no value.
        log: the file.
        path: between two devices of a host, such as `NV18`, `SYS`, or `21`, the distance of two
            NUMA nodes; empty if it is not known.
    """

    hosts: tuple[str, str]
    value: float | None
    reason: str = ""
    log: str = ""
    path: str = ""


class PairLogs(Value, frozen=True, kw_only=True):
    """Comparable values of pairs of hosts.

    Args:
        title: the test, in words.
        metric: that was measured.
        directed: the first host of each pair sends to the second; else a value is of both
            directions, or the direction is not known.
        pairs: the values, in the order of the logs.
        assumptions: what the logs do not say, and what is assumed instead.
        left_out: what is not used, each with the reason.
        devices: what the pairs are, if they are devices of one host, and not hosts.
        sparse: two devices without a log are no pair.
    """

    title: str
    metric: PairMetric
    directed: bool = False
    pairs: tuple[LoggedPair, ...]
    assumptions: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    devices: DeviceKind = ""
    sparse: bool = False
