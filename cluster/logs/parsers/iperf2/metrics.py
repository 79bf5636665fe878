"""What iperf 2 measures."""

from __future__ import annotations

from cluster.logs.parsers import define

SENT, RECEIVED, RATE, INTERVAL, LOST, JITTER = DEFINITIONS = define(
    "iperf2",
    """
    sent (B/s, one way, TCP): bytes that the sender's kernel took, all streams together, over the
        test; in bit/s
    received (B/s, one way, TCP): bytes that the receiver took, all streams together, over the test;
        printed in bit/s
    rate (B/s, one way, TCP): bytes over the test, all streams together, on a side that the log does
        not name
    interval (B/s, one way, TCP): bytes of each interval, all streams together, over its seconds, on
        the side that wrote the log
    lost (%, lower): UDP datagrams that did not arrive, in percent of those sent
    jitter (s): jitter of UDP datagrams; printed in ms
    """,
    clock="iperf's own, on the host that wrote the log",
    synchronisation="the client begins when the server listens",
    warm_up="none",
    aggregation="all ranks",
)
