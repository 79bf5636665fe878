"""Tests of pairs of hosts, as logs of other tools have them."""

from typing import Literal

from cluster.core.model.fleet import DeviceKind, PairMetric
from cluster.core.model.value import Value

AssumptionCode = Literal[
    # of tests of pairs of hosts
    "both_ways", "row_sends", "alone_or_at_once", "no_limit",
    # of devices of a host
    "same_numbers", "slower_direction", "no_gpu_paths", "inferred_links", "no_nic_paths",
    "nearest_gpu", "other_end", "unknown_nics", "no_node_paths", "memory_bound", "cores",
    "no_distances",
]  # fmt: skip


class PairAssumption(Value, frozen=True):
    """What logs of pairs do not say, and what is assumed instead."""

    code: AssumptionCode
    names: tuple[str, ...] = ()  # of the devices that are meant


NoValueCode = Literal[
    "failed", "no_metric", "empty_cell", "negative", "absurd", "no_copy", "no_log"
]


class NoValue(Value, frozen=True, kw_only=True):
    """Why a pair has no value that counts."""

    code: NoValueCode
    text: str = ""  # of the log, if the test failed
    line: int = 0  # of an empty cell, from 1
    metric: PairMetric = "bandwidth"
    size: int = 0  # of the messages, in bytes; 0 if the test has none
    value: float = 0.0  # that is not believed
    times: float = 0.0  # the median of all pairs; 0 if that is 0


class LoggedPair(Value, frozen=True, kw_only=True):
    """A value of a pair of hosts in a log."""

    hosts: tuple[str, str]  # the two; if the direction is known, the first one sends
    value: float | None  # bytes per second, or seconds; none if the log has none
    reason: NoValue | None = None  # why there is no value
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
    assumptions: tuple[PairAssumption, ...] = ()
    left_out: tuple[str, ...] = ()  # what is not used, each with the reason
    devices: DeviceKind = ""  # what the pairs are, if they are devices of one host, and not hosts
    sparse: bool = False  # two devices without a log are no pair
