"""What iperf3 measures."""

from __future__ import annotations

from functools import partial

from cluster.core.model.measurements import Definition

NO_STREAMS = "lines of streams are missing: how many [SUM] counts is not known"
ONLY_SENT = "there is only the sender's figure: some of its bytes may not have arrived"

_iperf = partial(
    Definition,
    benchmark="iperf3",
    clock="iperf3's own, on the host that counted",
    synchronisation="the sender begins when the receiver listens",
    warm_up="the seconds of --omit are not counted; none unless said otherwise",
    unit="B/s",
    better="higher",
)
RECEIVED = _iperf(
    metric="received",
    what="bytes that the receiver took, all streams together, over its seconds; printed in bit/s",
    aggregation="all ranks",
    flow="one way",
    medium="TCP",
)
SENT = _iperf(
    metric="sent",
    what="bytes that the sender's kernel took, all streams together, over its seconds; in bit/s",
    aggregation="all ranks",
    flow="one way",
    medium="TCP",
)
INTERVAL = _iperf(
    metric="interval",
    what="bytes of each interval, all streams together, over its seconds, on the side that wrote "
    "the log; omitted intervals are left out",
    aggregation="all ranks",
    flow="one way",
    medium="TCP",
)
LOST = _iperf(
    metric="lost",
    unit="%",
    better="lower",
    what="UDP datagrams that did not arrive, in percent of those sent",
    aggregation="all ranks",
)
RETRANSMITS = _iperf(
    metric="retransmits",
    unit="segments",
    better="lower",
    what="segments of TCP that the sender sent again, all streams together",
    aggregation="all ranks",
)
JITTER = _iperf(
    metric="jitter",
    unit="s",
    better="lower",
    what="jitter of UDP datagrams (RFC 1889); printed in ms",
    aggregation="all ranks",
)
STOPPED = "interrupt - the server has terminated"  # as every server is in the end
