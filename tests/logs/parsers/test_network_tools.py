"""ucx_perftest, fabtests, netperf and k8s-netperf: samples with other words, and their ends."""

from pathlib import Path

import pytest

from cluster.logs.reader import read
from tests.logs.samples import LOGS, kinds, parse, values


def test_ucx_perftest_without_its_last_row_has_no_figure() -> None:
    lines = (LOGS / "ucx_perftest.boxes.txt").read_text().splitlines(keepends=True)
    result = parse("".join(line for line in lines[:15] if "Final" not in line))

    assert not result.measurements
    assert len(result.failures) == 1


def test_the_last_row_of_old_tables_of_ucx_perftest() -> None:
    text = (LOGS / "ucx_perftest.old.txt").read_text()
    stream = parse(text.replace("589339      587686", "1178678    1175088"))

    assert values(parse(text), "latency") == [pytest.approx(0.851e-6)]
    assert values(stream, "overhead") == [pytest.approx(0.851e-6)]
    assert values(stream, "bandwidth") == [4.48 * 2**20]
    assert not parse(text.rpartition("     1000000")[0]).measurements  # the row of one second


def test_tables_of_netperf_without_their_title() -> None:
    before, after = read([Path(__file__).with_name("netperf_udp.txt").read_bytes()]).results
    stream = (LOGS / "netperf.several.txt").read_text().partition("AF_INET\n")[2]

    assert values(before, "stream_bandwidth") == [2351.6e6 / 8]
    assert values(after, "sent_bandwidth", size=1400) == [2361.5e6 / 8]
    assert values(read([stream.encode()]).results[0], "stream_bandwidth") == [4742.36e6 / 8]


LOOPBACKS = {
    "iperf3": "Connecting to host 127.0.0.1, port 5201\n"
    "[  5]   0.00-2.00   sec  9.86 GBytes  42.3 Gbits/sec    0             sender\n",
    "iperf2": "Client connecting to localhost, TCP port 5001\n"
    "[  3] local 127.0.0.1 port 49340 connected with 127.0.0.1 port 5001\n"
    "[  3]  0.0-10.0 sec  53.0 GBytes  45.5 Gbits/sec\n",
    "iperf2 -y C": "20240101000000,10.0.0.5,40000,10.0.0.5,5001,3,0.0-10.0,"
    "12500000000,10000000000\n",
    "netperf": "MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to localhost () "
    "port 0 AF_INET : demo\nRecv   Send    Send\nSocket Socket  Message  Elapsed\n"
    "Size   Size    Size     Time     Throughput\n"
    "bytes  bytes   bytes    secs.    10^6bits/sec\n\n"
    "131072  16384  16384    10.00    45213.51\n",
    "iperf3 -J": '{"start": {"connected": [{"socket": 5, "local_host": "10.0.0.5", '
    '"local_port": 1, "remote_host": "10.0.0.5", "remote_port": 5201}], "version": "iperf 3.12", '
    '"test_start": {"protocol": "TCP", "num_streams": 1}}, "intervals": [], '
    '"end": {"sum_received": {"seconds": 1, "bytes": 5000000000, "bits_per_second": 4e10}}}\n',
}


@pytest.mark.parametrize("tool", LOOPBACKS)
def test_a_test_whose_ends_are_on_one_host_says_so(tool: str) -> None:
    text = LOOPBACKS[tool]
    loopback = parse(text)
    remote_text = text.replace("localhost", "10.0.0.7").replace("127.0.0.1", "10.0.0.7", 1)
    link = parse(remote_text.replace("127.0.0.1", "10.0.0.8").replace("10.0.0.5", "10.0.0.6", 1))

    assert loopback.hosts == 1
    assert "within_host" in kinds(loopback)
    assert link.hosts == 0
    assert loopback.measurements[0].values == link.measurements[0].values


def test_paths_within_a_node_of_kubernetes_pass_no_network() -> None:
    table = (LOGS / "k8s_netperf.two_drivers.txt").read_text()
    result = parse(table.replace("| false     | 10 ", "| true      | 10 "))
    assert all(m.params["hosts"] == 1 for m in result.measurements)
    assert not any("hosts" in m.params for m in parse(table).measurements)


def test_rows_of_fabtests_for_programs() -> None:
    """As in ofiwg/fabtests pull request 501, before it and after it."""
    row = "xfer_size: 64, iterations: 10000, total: 1280000, time: 1.199910, MB/sec: 1.066747"
    for comma in ("", ", "):
        result = parse(f"{{ {row}, usec/xfer: 59.995499{comma}Mxfers/sec: 0.016668 }}\n")

        assert values(result, "transfer_time", size=64) == [pytest.approx(59.995499e-6)]
        assert values(result, "bandwidth", size=64) == [1.066747e6]
