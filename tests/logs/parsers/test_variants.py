"""Versions and options of field tools whose output looks a little different."""

import pytest

from cluster.core.errors import ParseError
from cluster.logs.reader import read
from tests.logs.samples import LOGS, results, values


def open_log(name: str) -> str:
    return (LOGS / f"{name}.txt").read_text()


def test_percentiles_of_a_rate_are_no_further_values_of_it() -> None:
    rates, put = results("osu.rates")

    assert values(rates, "bandwidth", size=2) == [10.21e6]
    assert values(rates, "bandwidth_percentile", size=2, percentile=99.0) == [10.4e6]
    assert values(put, "one_sided_time", size=1) == pytest.approx([1.35e-6])
    assert not values(put, "latency")  # it is no half of a round trip


def test_a_column_for_each_window() -> None:
    (table,) = results("osu.windows")

    assert values(table, "multi_bandwidth", window=2, size=1) == [2.3e6]
    assert values(table, "message_rate", window=2, size=1) == [2.3e6]


def test_hello_world_has_no_figures_and_is_no_failure() -> None:
    text = b"# OSU MPI Hello World Test v5.9\nThis is a test with 2 processes\n"

    assert read([text]).results[0].failures == ()


def test_times_of_non_blocking_calls_and_both_ways_of_biband() -> None:
    nonblocking, biband = results("imb.nonblocking")

    assert values(nonblocking, "overall_time", size=8) == pytest.approx([1.9e-6])
    assert values(nonblocking, "pure_time", size=8) == pytest.approx([1.0e-6])
    assert values(biband, "bidirectional", size=4194304) == [20e9]
    assert not values(biband, "bandwidth")


def test_a_document_may_have_a_heading_like_one_of_imb() -> None:
    with pytest.raises(ParseError):
        read([b"# Benchmarking PyTorch MPI speed on AWS\n\nWe do it.\n"])


def test_a_stream_of_json_is_one_test() -> None:
    (test,) = results("iperf3.stream")

    assert values(test, "received") == [1.1e9]
    assert values(test, "retransmits") == [7]
    assert values(test, "interval") == [1.25e9, 1e9]
    assert {s.name: s.value for s in test.settings}["version"] == "3.17.1"


def test_a_stream_of_json_without_its_end_is_a_failure() -> None:
    text = open_log("iperf3.stream").rpartition('{"event":"end"')[0]
    (test,) = read([text.encode()]).results

    assert test.failures
    assert not values(test, "received")


def test_events_of_another_program_are_not_ours() -> None:
    with pytest.raises(ParseError):
        read([b'{"event":"start","data":{}}\n{"event":"end","data":{}}\n'])


def test_what_iperf3_says_of_itself() -> None:
    (test,) = results("iperf3.verbose")

    assert {s.name: s.value for s in test.settings} == {
        "version": "3.9",
        "mss": "1398",
        "congestion": "cubic",
    }
    assert values(test, "retransmits", streams=2) == [30]


def test_a_test_both_ways_of_iperf2_has_a_server_and_a_client() -> None:
    """Both are in one log, and only their ports tell whose a stream is."""
    server, client = results("iperf2.dual")

    assert values(server, "received") == [893e6 / 8]
    assert values(client, "sent") == [936e6 / 8]


def test_both_directions_of_nvbandwidth_are_not_mixed() -> None:
    (test,) = results("nvbandwidth.both_ways")
    name = "device_to_device_bidirectional_memcpy_read_ce"

    assert values(test, "peer_copy_bandwidth", test=f"{name}_read1") == [360e9, 361e9]
    assert values(test, "peer_copy_bandwidth", test=f"{name}_read2") == [362e9, 363e9]
    assert values(test, "peer_copy_bidirectional", test=f"{name}_total") == [722e9, 724e9]
    assert test.devices == ("NVIDIA H100 80GB HBM3",)


def test_the_head_of_nccl_tests_says_who_took_part() -> None:
    (test,) = results("nccl_tests.hopper")

    assert (test.operation, test.ranks, test.hosts) == ("all_reduce", 2, 1)
    assert test.devices == ("NVIDIA H100 80GB HBM3",)


def test_hosts_of_one_name_are_told_apart_by_their_devices() -> None:
    """Containers may all be called `localhost`; a GPU is on each of them only once."""
    log = open_log("nccl_tests.hopper").replace("device  1", "device  0")

    assert read([log.encode()]).results[0].hosts == 2


def test_what_a_table_expected_is_no_rate_that_was_reached() -> None:
    text = "|Description|processing rate|expected results|\n|-|-|-|\n"
    text += "|1 P100|188 images/sec|220 images/sec|\n"
    (table,) = read([text.encode()]).results

    assert values(table, "processing_rate") == [188]
    assert values(table, "expected_rate") == [220]


def test_symptoms_have_their_values_and_are_no_failures() -> None:
    (found,) = results("symptoms.several")

    assert found.failures == ()
    assert found.detail is not None


@pytest.mark.parametrize(
    ("header", "row", "rate", "gpus"),
    [
        ("| GPUs | Images/sec | Scaling efficiency |", "| 2 | 426.5 | 94.2% |", 426.5, 2),
        ("| # GPUs | Throughput (images/sec) |", "| 8 | **1,368.5** |", 1368.5, 8),
        ("GPUs | img/s", "4 | ~330.5 +/- 0.2", 330.5, 4),
        (
            "| GPUs | Total images/sec |",
            "| 16 | [2576 images/sec](https://example.org/log) |",
            2576,
            16,
        ),
    ],
)
def test_tables_of_other_documents(header: str, row: str, rate: float, gpus: int) -> None:
    rule = "|".join(["---"] * header.strip("|").count("|") + ["---"])
    (table,) = read([f"{header}\n{rule}\n{row}\n".encode()]).results

    assert values(table, "processing_rate", gpus=gpus) == [rate]


def test_throughput_of_bytes_is_no_rate_of_images() -> None:
    with pytest.raises(ParseError):
        read([b"| GPUs | Throughput (MB/s) |\n|---|---|\n| 2 | 1000 |\n"])
