"""Tests of pairs of hosts, as logs of other tools have them."""

from __future__ import annotations

from cluster.core.model.fleet import DeviceKind, PairMetric
from cluster.core.model.value import Value


class LoggedPair(Value, frozen=True, kw_only=True):
    """A value of a pair of hosts in a log."""

    hosts: tuple[str, str]  # the two; if the direction is known, the first one sends
    value: float | None  # bytes per second, or seconds; none if the log has none
    reason: str = ""  # why there is no value
    log: str = ""  # the file
    # between two devices of a host, such as `NV18`, `SYS`, or `21`, the distance of two NUMA nodes;
    # empty if it is not known
    path: str = ""


class PairLogs(Value, frozen=True, kw_only=True):
    """Comparable values of pairs of hosts."""

    title: str  # the test, in words
    metric: PairMetric  # that was measured
    # the first host of each pair sends to the second; else a value is of both directions, or the
    # direction is not known
    directed: bool = False
    pairs: tuple[LoggedPair, ...]  # the values, in the order of the logs
    assumptions: tuple[str, ...] = ()  # what the logs do not say, and what is assumed instead
    left_out: tuple[str, ...] = ()  # what is not used, each with the reason
    devices: DeviceKind = ""  # what the pairs are, if they are devices of one host, and not hosts
    sparse: bool = False  # two devices without a log are no pair
