"""k8s-netperf: a row for each test. https://github.com/cloud-bulldozer/k8s-netperf."""

from cluster.logs.parsers import SizeColumn, TableParser, define

STREAM, RATE, TAIL = DEFINITIONS = define(
    "k8s_netperf",
    """
    stream_bandwidth (B/s, one way, TCP): mean over the samples, of all parallel streams; printed in
        Mb/s of 1e6 bits
    transaction_rate (transactions/s): requests with their responses per second, mean over the
        samples
    latency_p99 (s): 99th percentile of a request with its response, mean over the samples; in usec
    """,
    clock="that of the driver: netperf, iperf3 or uperf",
    synchronisation="each test alone",
    warm_up="none",
)


class K8sNetperf(TableParser):
    """k8s-netperf: Mb/s of 1e6 bits and transactions per second, with client and server."""

    marks = ("HOST NETWORK",)
    definitions = DEFINITIONS
    title = "k8s-netperf"
    header = r"\s*\|.*\| HOST NETWORK "
    rows = r"""
        \s*\|[^|]+\| *(?P<driver>[a-z]\w*|)[ |]*(?P<scenario>[A-Z]\w*|)[ |]*(?P<parallelism>\d*)
            [ |]*(?P<host_network>true|false)[ |]+(?P<service>true|false|)[ |]*(?P<size>\d{1,18})
            [ |]+(?:(?:0|(?P<burst>\d{1,18})) (?=\| [tf]|\| \S+ \())?[ |]*(?P<same_node>
            (?P<hosts>true)|false|)[ |\d]*\| (?:(?P<stream_bandwidth>[\d.]+) \(Mb/s\)|
            (?P<transaction_rate>[\d.]+) \(OP/s\)|(?P<latency_p99>[\d.]+) \(usec\)|[\d.]+ )
    """
    params = (("burst", int), ("hosts", lambda _: 1))
    columns = (
        SizeColumn(STREAM, 1e6 / 8, moved=True),
        SizeColumn(RATE, moved=True),
        SizeColumn(TAIL, 1e-6, moved=True),
    )
