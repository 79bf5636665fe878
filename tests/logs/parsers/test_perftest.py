"""Perftest of linux-rdma: ib_write_bw and its siblings, as text and as JSON.

The samples beside it are shortened from issues of linux-rdma/perftest (234, 65), and from notes and
mails in which people show what their network does with it.
"""

import pytest

from cluster.logs.reader import read
from tests.logs.samples import LOGS, kinds, of, results, values

GBIT = 1e9 / 8


def test_perftest_counts_megabytes_of_2_to_the_20() -> None:
    (result,) = results("perftest.rates")

    assert values(result, "bandwidth", size=65536, qps=2) == [11728.47 * 2**20]
    assert values(result, "peak_bandwidth") == [11732.50 * 2**20]  # 0.00 was not measured
    assert values(result, "message_rate", size=1024) == [5.677343e6]


def test_perftest_of_today_prints_mebibytes_under_their_name() -> None:
    (result,) = results("perftest.mib")

    assert values(result, "bandwidth", size=8192) == [8909.75 * 2**20]
    assert values(result, "peak_bandwidth", size=2) == [4.42 * 2**20]
    assert not result.failures


def test_columns_of_perftest_per_port_with_service_levels_and_in_cycles() -> None:
    port = "BW Port1[Gb/sec]   MsgRate Port1[Mpps]"
    ports = of(
        f" #bytes  sl  #iterations  BW peak[Gb/sec]  BW average[Gb/sec]  MsgRate[Mpps]  {port}\n"
        " 65536    0   5000         0.00         196.10        0.374031       98.05       0.187\n"
    )
    cycles = of(
        " #bytes #iterations    t_min[cycles]    t_avg[cycles]    99% percentile[cycles]\n"
        " 2       1000          4200.00          4300.00          5000.00\n"
    )

    assert values(ports, "untitled_bandwidth") == [196.10 * GBIT]
    assert values(ports, "message_rate") == [0.374031e6]
    assert not cycles.measurements


def test_each_direction_of_perftest_alone() -> None:
    head = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
    result = of(
        f"                    Send Bidirectional BW Test\n{head}"
        " 65536      5000             0.00               390.00              0.743866\n"
        f" Local results: \n{head}"
        " 65536      5000             0.00               196.00              0.373840\n"
        f" Remote results: \n{head}"
        " 65536      5000             0.00               194.00              0.370026\n"
    )

    assert values(result, "bidirectional") == [390.0 * GBIT]
    assert values(result, "bandwidth", side="remote") == [194.0 * GBIT]


def test_each_direction_of_perftest_in_json() -> None:
    results_ = "".join(
        f'"results_{side}": {{"MsgSize": 65536, "BW_average": {rate}, "MsgRate": {messages}}},'
        for side, rate, messages in (("local", 196.0, 0.37384), ("remote", 194.0, 0.370026))
    )
    info = '"test_info": {"test": "Send_Bidirectional_BW_Test", "Number_of_qps": 2},'
    result = of(f'{{\n{info}\n{results_}\n"end": 0\n}}\n')

    assert values(result, "bandwidth", side="local", qps=2) == [196.0 * GBIT]
    assert values(result, "bandwidth", side="remote") == [194.0 * GBIT]
    assert not values(result, "bidirectional")


def test_percentiles_of_perftest_in_json() -> None:
    times = (
        '"t_typical": 1.02,\n"t_avg": 1.02,\n"t_99_percentile": 1.10,\n"t_99.9_percentile": 3.70\n'
    )
    result = of(f'{{\n"results": {{\n"MsgSize": 2,\n{times}}}\n}}\n')

    assert values(result, "latency_percentile", percentile=99.9) == [3.7e-6]
    assert values(result, "latency", size=2) == [1.02e-6]


def test_perftest_in_gigabits_both_ways() -> None:
    (result,) = results("perftest.gbits")

    assert values(result, "bidirectional") == [391.84 * GBIT]
    assert not values(result, "bandwidth")


def test_times_of_perftest() -> None:
    (result,) = results("perftest.times")

    assert values(result, "latency", size=2) == [1.03e-6]
    assert values(result, "latency_percentile", percentile=99.9) == [5.46e-6, 3.46e-6]


@pytest.mark.parametrize(
    ("rate", "expected"), [("18.70", 18.70 * GBIT), ("2229.27", 2229.27 * 2**20)]
)
def test_the_unit_of_perftest_in_json_is_that_of_its_messages(rate: str, expected: float) -> None:
    text = (LOGS / "perftest.json.txt").read_text().replace("2229.27", rate)

    assert values(of(text), "bandwidth") == [expected]


def test_a_rate_of_perftest_in_json_without_any_unit_is_none() -> None:
    result = of((LOGS / "perftest.json.txt").read_text().replace("2229.27", "50.00"))

    assert not values(result, "bandwidth")
    assert result.failures


def test_a_connection_that_perftest_did_not_get() -> None:
    text = "                    Send BW Test\nCouldn't connect to 10.0.0.2:18515\n"
    (result,) = (r for r in read([text.encode()]).results if r.format == "perftest")

    assert result.failures[0] == "Couldn't connect to 10.0.0.2:18515"


def test_a_head_of_perftest_that_contradicts_its_messages_per_second() -> None:
    """96.25 Gbit/s under MB/sec, as some versions print it: 0.183585e6 messages of 64 KiB."""
    found = of(
        " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
        " 65536      1101500          0.00               96.25  \t\t   0.183585\n"
    )
    assert values(found, "untitled_bandwidth") == [pytest.approx(96.25e9 / 8)]
    assert "wrong_head" in kinds(found)


def test_perftest_without_the_mark_of_its_iterations() -> None:
    """As pasted into openucx/ucx issue 8852."""
    result = of(
        "                    RDMA_Read BW Test\n Number of qps   : 1\n"
        " #bytes     iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
        " 256        1000             609.71              391.49             1.603553\n"
    )

    assert values(result, "bandwidth", size=256) == [391.49 * 2**20]
    assert values(result, "message_rate") == [1.603553e6]
    assert not result.failures


def test_a_figure_in_bold_type_is_a_figure() -> None:
    """As in linux-rdma/perftest issue 65."""
    result = of(
        "#bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
        "1024       1000             0.00               **5544.28**\t\t   5.677340\n"
    )

    assert values(result, "untitled_bandwidth", size=1024) == [5544.28 * 2**20]
    assert not result.failures


def test_keys_of_perftest_in_json_that_have_no_quotes() -> None:
    """As in linux-rdma/perftest issue 216."""
    result = of(
        "{\ntest_info: {\ntest: RDMA_Write_Latency_Test,\nNumber_of_qps: 1,\nTX_depth : 1,\n},\n"
        "results: {\nMsgSize: 128,\nt_min: 2.37,\nt_max: 5.39,\nt_typical: 2.42,\nt_avg: 2.42,\n"
        "percentile_99.9: 4.03,\n},\n}\n"
    )

    assert result.title == "RDMA Write Latency Test"
    assert values(result, "latency", size=128, qps=1) == [2.42e-6]
    assert values(result, "latency_percentile", percentile=99.9) == [4.03e-6]
