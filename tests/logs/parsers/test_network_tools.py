"""ucx_perftest, fabtests, qperf, netperf and sockperf: their units, and what lacks.

The samples beside it are shortened from issues of openucx/ucx
(10532, 10649), ofiwg/libfabric (5568, 10394), Mellanox/sockperf (106), grpc/grpc (7988) and
InfraBuilder/k8s-bench-suite (6), and from notes and mails in which people show what their network
does with qperf and netperf.
"""

import pytest

from cluster.logs.reader import read
from tests.logs.samples import LOGS, kinds, of, results, values

GBIT = 1e9 / 8


def test_ucx_perftest() -> None:
    latency, rate = results("ucx_perftest.boxes")

    assert values(latency, "latency", size=30000, send_memory="cuda") == [pytest.approx(16.073e-6)]
    assert not values(latency, "bandwidth")
    assert values(rate, "bandwidth") == [46743.62 * 2**20]
    assert rate.title == "tag_bw"


def test_ucx_perftest_without_its_last_row_has_no_figure() -> None:
    lines = (LOGS / "ucx_perftest.boxes.txt").read_text().splitlines(keepends=True)
    result = of("".join(line for line in lines[:15] if "Final" not in line))

    assert not result.measurements
    assert result.failures


def test_the_last_row_of_old_tables_of_ucx_perftest() -> None:
    text = (LOGS / "ucx_perftest.old.txt").read_text()
    streamed = of(text.replace("589339      587686", "1178678    1175088"))

    assert values(of(text), "latency") == [pytest.approx(0.851e-6)]
    assert values(streamed, "overhead") == [pytest.approx(0.851e-6)]
    assert values(streamed, "bandwidth") == [4.48 * 2**20]
    assert not of(text.rpartition("     1000000")[0]).measurements  # the row of one second


def test_fabtests_in_both_forms() -> None:
    first, second = results("fabtests.pingpong")

    assert values(first, "bandwidth", size=2**20) == [3187.16e6]
    assert values(first, "transfer_time", size=64) == [pytest.approx(23.75e-6)]
    assert values(second, "transfer_time", size=8) == [pytest.approx(15.63e-6)]


def test_qperf() -> None:
    (result,) = results("qperf.both")

    assert values(result, "bandwidth", test="tcp_bw") == [2.66e9]
    assert values(result, "rdma_bandwidth", test="rc_rdma_read_bw") == [3.51e9]
    sizes = {m.bytes for m in result.measurements if m.params["test"] == "rc_rdma_read_bw"}
    assert sizes == {65536}
    assert values(result, "latency", test="tcp_lat") == [pytest.approx(17.7e-6)]
    assert values(result, "message_rate", test="tcp_lat") == [56.5e3]
    assert values(result, "other_bandwidth", test="udp_bw", side="recv") == [626e6]
    assert read([(LOGS / "qperf.both.txt").read_bytes()]).unread == 0


def test_a_size_of_qperf_that_is_no_power_of_two() -> None:
    result = of("tcp_bw:\n    bw        =   111 MB/sec\n    msg_size  =  1.46 KB\n")

    assert result.measurements[0].bytes == 1460


def test_qperf_over_sizes_is_not_pooled() -> None:
    text = "rc_bw:\n    bw = {} GB/sec\n    msg_size = {} KiB ({})\n"
    first, second = read([(text.format(1, 1, 1024) + text.format(2, 4, 4096)).encode()]).results

    assert (values(first, "rdma_bandwidth"), values(second, "rdma_bandwidth")) == ([1e9], [2e9])
    assert second.measurements[0].bytes == 4096


def test_netperf() -> None:
    stream, requests, datagrams = results("netperf.several")

    assert values(stream, "stream_bandwidth") == [4742.36 * 1e6 / 8]
    assert values(requests, "transaction_rate", request=1) == [58764.13]
    assert values(datagrams, "sent_bandwidth") == [7583.56 * 1e6 / 8]
    assert values(datagrams, "stream_bandwidth") == [1.68 * 1e6 / 8]


def test_omni_tests_of_netperf_as_a_table_and_as_keys() -> None:
    table, keys = results("netperf.omni")

    assert values(table, "throughput") == [25220.39 * 1e6 / 8]
    assert values(keys, "throughput") == [11540.09 * 1e6 / 8]
    assert values(keys, "transaction_time", statistic="p99") == [123e-6]


UDP_LOAD = """Socket  Message  Elapsed      Messages                   CPU      Service
Size    Size     Time         Okay Errors   Throughput   Util     Demand
bytes   bytes    secs            #      #   10^6bits/sec % SS     us/KB
--- Before
212992    1400   10.00     2100620      0     2351.7     36.69    5.112
212992           10.00     2100539            2351.6     26.18    3.648
--- After
212992    1400   10.00     2108972      0     2361.5     21.73    3.015
212992           10.00     2097038            2348.1
"""


def test_tables_of_netperf_without_their_title() -> None:
    before, after = read([UDP_LOAD.encode()]).results
    stream = (LOGS / "netperf.several.txt").read_text().partition("AF_INET\n")[2]

    assert values(before, "stream_bandwidth") == [2351.6e6 / 8]
    assert values(after, "sent_bandwidth", size=1400) == [2361.5e6 / 8]
    assert values(read([stream.encode()]).results[0], "stream_bandwidth") == [4742.36e6 / 8]


def test_netperf_in_mebibytes() -> None:
    text = (LOGS / "netperf.several.txt").read_text().partition("MIGRATED TCP REQ")[0]

    result = of(text.replace("10^6bits/sec", "MBytes/sec"))

    assert values(result, "stream_bandwidth") == [4742.36 * 2**20]


def test_sockperf() -> None:
    latency, rate = results("sockperf.both")

    assert values(latency, "latency") == [pytest.approx(121.880e-6)]
    assert values(latency, "latency_percentile", percentile=50.0) == [pytest.approx(121.01e-6)]
    assert values(rate, "bandwidth") == [1069.782 * 2**20]


def test_sockperf_that_prints_round_trips_is_halved() -> None:
    (result,) = results("sockperf.round_trips")

    assert values(result, "latency") == [pytest.approx(47.395e-6)]
    assert values(result, "latency_percentile", percentile=50.0) == [pytest.approx(46.778e-6)]
    assert values(result, "max_latency") == [pytest.approx(1064.626e-6)]
    assert kinds(result)[0] == "round_trips"


def test_k8s_netperf() -> None:
    (result,) = results("k8s_netperf.two_drivers")

    assert values(result, "stream_bandwidth", driver="iperf3") == [2483.078229e6 / 8]
    assert values(result, "stream_bandwidth", host_network="false") == [2702.23e6 / 8]


BORDER = f"+{'-' * 14}+{'-' * 14}+{'-' * 30}+{'-' * 21}+{'-' * 23}+\n"


def test_ucx_perftest_with_names_of_tests_and_only_the_last_row() -> None:
    """As in openucx/ucx issue 7880: `-f` prints no other rows."""
    units = "||||       overhead (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |"
    names = "|     Test     | # iterations | 50.0%ile | average | overall |  average |  overall  |"
    rows = f"{units}\n{BORDER}{names}\n{BORDER}"
    result = of(
        f"{BORDER}{rows}                     1000000     13.231    13.470    13.697     4639.95    "
        "4562.94       74239       73007\n"
    )

    assert values(result, "bandwidth") == [4562.94 * 2**20]
    assert values(result, "overhead") == [13.697e-6]
    assert not result.failures


def test_ucx_perftest_says_that_its_final_row_is_missing() -> None:
    lines = (LOGS / "ucx_perftest.boxes.txt").read_text().splitlines(keepends=True)
    result = of("".join(line for line in lines[:15] if "Final" not in line))

    assert len(result.failures) == 1


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
    inside = of(text)
    others = text.replace("localhost", "10.0.0.7").replace("127.0.0.1", "10.0.0.7", 1)
    between = of(others.replace("127.0.0.1", "10.0.0.8").replace("10.0.0.5", "10.0.0.6", 1))

    assert inside.hosts == 1
    assert "within_host" in kinds(inside)
    assert between.hosts == 0
    assert inside.measurements[0].values == between.measurements[0].values


def test_paths_within_a_node_of_kubernetes_pass_no_network() -> None:
    table = (LOGS / "k8s_netperf.two_drivers.txt").read_text()
    same = of(table.replace("| false     | 10 ", "| true      | 10 "))
    assert all(m.params["hosts"] == 1 for m in same.measurements)
    assert not any("hosts" in m.params for m in of(table).measurements)


def test_columns_that_were_asked_of_netperf_are_separated_by_commas() -> None:
    """As PerfKitBenchmarker's pull request 2075 shows them."""
    result = of(
        "MIGRATED UDP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 20001 AF_INET to "
        "10.240.31.117 () port 20001 AF_INET : +/-2.500% @ 99% conf.  : first burst 0\n"
        "Throughput,Throughput Units,Stddev Latency Microseconds,"
        "50th Percentile Latency Microseconds,Minimum Latency Microseconds\n"
        "3313.49,Trans/s,214.64,295,200\n"
    )

    assert not result.failures
    assert values(result, "transaction_rate") == [3313.49]
    assert values(result, "transaction_time", statistic="p50") == [295e-6]
    assert values(result, "transaction_time", statistic="min") == [200e-6]


def test_rows_of_fabtests_for_programs() -> None:
    """As in ofiwg/fabtests pull request 501, before it and after it."""
    row = "xfer_size: 64, iterations: 10000, total: 1280000, time: 1.199910, MB/sec: 1.066747"
    for comma in ("", ", "):
        result = of(f"{{ {row}, usec/xfer: 59.995499{comma}Mxfers/sec: 0.016668 }}\n")

        assert values(result, "transfer_time", size=64) == [pytest.approx(59.995499e-6)]
        assert values(result, "bandwidth", size=64) == [1.066747e6]


def test_a_summary_of_sockperf_in_bold_type() -> None:
    """As in Mellanox/sockperf issue 172, whose times are round trips."""
    result = of(
        "sockperf: ====> avg-rtt=1892.600 (std-dev=422.741)\n"
        "**sockperf: Summary: Round trip is 1892.600 usec**\n"
        "sockperf: ---> MAX observation = **11541.068**\n"
    )

    assert values(result, "latency") == [pytest.approx(1892.6e-6 / 2)]
    assert values(result, "max_latency") == [pytest.approx(11541.068e-6 / 2)]


def test_bursts_of_k8s_netperf_are_not_pooled() -> None:
    head = "|    TYPE    | DRIVER  | HOST NETWORK | MESSAGE SIZE | BURST | AVG VALUE |\n"
    rows = (
        f"| Rr Results | netperf | false | 1024 | {burst} | {rate} (OP/s) |\n"
        for burst, rate in ((0, 698.5), (16, 9000.5))
    )
    result = of(head + "".join(rows))

    assert values(result, "transaction_rate", burst=16) == [9000.5]
    assert [len(m.values) for m in result.measurements] == [1, 1]
