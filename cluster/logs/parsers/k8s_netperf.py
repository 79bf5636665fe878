"""k8s-netperf: a row for each test. https://github.com/cloud-bulldozer/k8s-netperf."""

from cluster.logs.parsers import SizeColumn, TableParser, define

STREAM, _, TAIL = DEFINITIONS = define(
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
_UNITS = {"(Mb/s)": "stream_bandwidth", "(OP/s)": "transaction_rate", "(usec)": "latency_p99"}
_PARAMS = ("DRIVER", "SCENARIO", "PARALLELISM", "HOST NETWORK", "SERVICE", "SAME NODE", "BURST")


class K8sNetperf(TableParser):
    """k8s-netperf: Mb/s of 1e6 bits and transactions per second, with client and server."""

    marks = ("HOST NETWORK",)
    definitions = DEFINITIONS
    title = "k8s-netperf"
    header = r"(?P<_names>.*\| HOST NETWORK .*)"
    counts = ("size", "burst", "hosts")
    columns = (SizeColumn(STREAM, 1e6 / 8), SizeColumn(TAIL, 1e-6))

    def read(self, line: str) -> dict[str, str] | None:
        names, cells = ([c.strip() for c in t.split("|")] for t in (self._heading["_names"], line))
        row = dict(zip(names, cells, strict=False))
        value, _, unit = row.get("AVG VALUE", "").partition(" ")
        point = {"size": row.get("MESSAGE SIZE", "")}
        point |= {name.lower().replace(" ", "_"): row.get(name, "") for name in _PARAMS}
        point["hosts"] = point["same_node"].replace("true", "1")
        is_row = len(names) == len(cells) and unit in {"", *_UNITS}
        return {**point, _UNITS.get(unit, "_"): value} if is_row else None
