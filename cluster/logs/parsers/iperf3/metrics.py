"""What iperf3 measures."""

from cluster.logs.parsers import define

RECEIVED, SENT, INTERVAL, LOST, RETRANSMITS, JITTER = DEFINITIONS = define(
    "iperf3",
    """
    received (B/s, one way, TCP): bytes that the receiver took, all streams together, over its
        seconds; printed in bit/s
    sent (B/s, one way, TCP): bytes that the sender's kernel took, all streams together, over its
        seconds; in bit/s
    interval (B/s, one way, TCP): bytes of each interval, all streams together, over its seconds, on
        the side that wrote the log; omitted intervals are left out
    lost (%, lower): UDP datagrams that did not arrive, in percent of those sent
    retransmits (segments, lower): segments of TCP that the sender sent again, all streams together
    jitter (s): jitter of UDP datagrams (RFC 1889); printed in ms
    """,
    clock="iperf3's own, on the host that counted",
    synchronisation="the sender begins when the receiver listens",
    warm_up="the seconds of --omit are not counted; none unless said otherwise",
    aggregation="all ranks",
)
STOPPED = "interrupt - the server has terminated"  # as every server is in the end
