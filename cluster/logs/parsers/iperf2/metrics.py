"""What iperf 2 measures."""

from __future__ import annotations

from functools import partial

from cluster.core.model.measurements import Definition

_iperf = partial(
    Definition,
    benchmark="iperf2",
    unit="B/s",
    better="higher",
    clock="iperf's own, on the host that wrote the log",
    synchronisation="the client begins when the server listens",
    warm_up="none",
    aggregation="all ranks",
    flow="one way",
    medium="TCP",
)
SENT = _iperf(
    metric="sent",
    what="bytes that the sender's kernel took, all streams together, over the test; in bit/s",
)
RECEIVED = _iperf(
    metric="received",
    what="bytes that the receiver took, all streams together, over the test; printed in bit/s",
)
RATE = _iperf(
    metric="rate",
    what="bytes over the test, all streams together, on a side that the log does not name",
)
INTERVAL = _iperf(
    metric="interval",
    what="bytes of each interval, all streams together, over its seconds, on the side that wrote "
    "the log",
)
LOST = _iperf(
    metric="lost",
    unit="%",
    better="lower",
    what="UDP datagrams that did not arrive, in percent of those sent",
    flow="",
    medium="",
)
JITTER = _iperf(
    metric="jitter",
    unit="s",
    better="lower",
    what="jitter of UDP datagrams; printed in ms",
    flow="",
    medium="",
)
