"""What several formats share, and samples with a few words changed."""

import re
from itertools import zip_longest

import pytest

from cluster.analysis.limits.devices import bound
from cluster.analysis.limits.hardware import find
from cluster.core.model.logs import Topology
from cluster.core.model.results.records import Note
from cluster.logs.parsers import number
from cluster.logs.parsers.nvbandwidth import LOCAL
from cluster.logs.reader import read
from tests.logs.parsers.nccl import HEAD, log_of
from tests.logs.samples import LOGS, kinds, parse, results, values


def text_of(name: str) -> str:
    return (LOGS / f"{name}.txt").read_text()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("25.21", 25.21),
        ("1e-06", 1e-6),
        ("25,21", 25.21),
        ("1,234.5", 1234.5),
        ("1,234", None),  # a thousand, or a little more than one
        ("nan", None),
        ("inf", None),
        ("1e999", None),
        ("1_000", None),
        ("", None),
    ],
)
def test_numbers_of_any_locale(text: str, value: float | None) -> None:
    assert number(text) == value


def test_topology_with_nics_and_their_legend() -> None:
    (result,) = results("topology.nics")
    topology = result.detail

    assert isinstance(topology, Topology)
    assert topology.path("GPU0", "GPU1") == topology.path("GPU1", "GPU0") == "NV2"
    assert topology.path("GPU0", "NIC0") == "PIX"
    assert topology.path("GPU0", "GPU9") == "?"
    assert [(d.name, d.cpus, d.numa, d.model) for d in topology.devices][3:5] == [
        ("GPU3", "20-39,60-79", "1", ""),
        ("NIC0", "", "", "mlx5_0"),
    ]
    assert [d.is_gpu for d in topology.devices] == [True] * 4 + [False] * 2


@pytest.mark.parametrize(
    ("steps", "totals", "doubt"),
    [
        (["97.4"], ["97.40"], None),  # ROCm, ResNet-50 on one GPU
        (["82.1"], ["82.40"], None),  # the total also has the time between the steps
        (["213.2"], ["426.20", "426.24"], None),  # two processes, one of which prints its steps
        (["211.0", "215.2"], ["426.20"], None),
        (["213.2"], ["310.00"], Note("other_total_each", (310.0, 213.2))),
        (["213.2"], ["100.00"], Note("other_total_each", (100.0, 213.2))),
        (["211.0", "215.2"], ["213.00"], Note("other_total", (213.0, 426.2))),
        (["213.2"], ["426.20", "99.00"], None),  # of two runs
        (["213.2"], [], None),
    ],
)
def test_a_total_is_held_against_the_last_step(
    steps: list[str], totals: list[str], doubt: Note | None
) -> None:
    rows = "".join(
        f"{step}\timages/sec: {rate} +/- 0.1 (jitter = 0.4)\t7.9\n"
        for step in (10, 20)
        for rate in (["180.0"] * len(steps) if step == 10 else steps)
    )
    ends = "".join(f"total images/sec: {total}\n" for total in totals)
    (result,) = read([f"Step\tImg/sec\ttotal_loss\n{rows}{ends}".encode()]).results
    doubts = [note for note in result.notes if note.kind in ("other_total", "other_total_each")]

    assert doubts == ([doubt] if doubt else [])


def test_horovod_tells_one_gpu_from_all() -> None:
    (result,) = results("horovod.synthetic")
    text = text_of("horovod.synthetic")
    fork = text.replace("226.3 img/sec per GPU", "905.2 img/sec").replace(
        "227.1 img/sec per GPU", "908.4 img/sec"
    )

    assert values(result, "iteration_rate") == [226.3, 227.1]
    assert values(result, "total_rate", devices=4) == [906.8]
    (fork_result,) = read([fork.encode()]).results
    assert values(fork_result, "iteration_total_rate") == [905.2, 908.4]


def test_utf16_as_windows_writes_it() -> None:
    data = text_of("osu.latency").encode("utf-16")

    assert read([data]).results == results("osu.latency")


def test_rows_of_two_tables_that_are_mixed_are_nobodys() -> None:
    """Line by line, without a prefix: a row of two numbers may be of either."""
    logs = [text_of(name) for name in ("osu.device", "bandwidth_test.mb")]
    pairs = zip_longest(*(log.splitlines() for log in logs), fillvalue="")
    tables = read(["\n".join(line for pair in pairs for line in (*pair, "")).encode()]).results

    assert {result.format for result in tables} == {"osu", "bandwidth_test"}
    assert not any(result.measurements for result in tables)
    assert all("mixed" in result.failures[-1] for result in tables)


def test_tables_that_follow_one_another_are_all_read() -> None:
    names = ["osu.device", "bandwidth_test.mb", "imb.new", "p2p_matrix.full", "iperf2.client"]
    one_by_one = [result for name in names for result in results(name)]
    text = "".join(text_of(name) for name in names)

    assert [r.measurements for r in read([text.encode()]).results] == [
        r.measurements for r in one_by_one
    ]


def test_a_size_that_could_not_be_measured_is_a_failure() -> None:
    text = text_of("imb.parts").replace("time-out.; Time limit", "out-of-mem.; needed X= 1 GB")
    failures = read([text.encode()]).results[0].failures

    assert failures[0].startswith("Unidir_Get, 8388608 B: out-of-mem")


def test_small_figures_have_the_megabyte_of_their_version() -> None:
    row = "#bytes #repetitions t[usec] Mbytes/sec\n1 1000 57.71 0.02\n"
    name = "# Benchmarking PingPong\n# #processes = 2\n"
    old = parse(f"#    Intel (R) MPI Benchmark Suite V3.2, MPI-1 part\n{name}{row}")
    new = parse(f"#    Intel (R) MPI Benchmarks 2018, MPI-1 part\n{name}{row}")

    assert values(old, "bandwidth") == pytest.approx([0.02 * 2**20])
    assert values(new, "bandwidth") == pytest.approx([0.02e6])


def test_the_interval_of_a_log_that_is_cut_off_is_not_the_whole() -> None:
    lines = (results_text := text_of("iperf2.parallel")).splitlines()
    (client,) = read(["\n".join(lines[:13]).encode() + b"\n"]).results

    assert "[SUM] 5.0000-10" in results_text
    assert not values(client, "sent")
    assert values(client, "interval", streams=2) == pytest.approx([1.84 * 1e9 / 8] * 2)
    assert kinds(client) == ["only_intervals"]


def test_the_largest_communicator_tells_the_size() -> None:
    sub = "".join(
        f"{HEAD}comm 0x7{n} rank {n} nranks 2 cudaDev {n} nvmlDev {n} - Init COMPLETE\n"
        for n in (0, 1)
    )
    log = log_of(sub + text_of("nccl_log.two_nodes") + sub)

    assert log.size == 4
    assert log.communicators == 3


def test_a_decimal_comma_is_read_unless_it_may_be_something_else() -> None:
    head = "# OSU MPI Latency Test v7.4\n# Size  Latency (us)\n"

    assert values(parse(head + "8  25,21\n"), "latency", size=8) == pytest.approx([25.21e-6])
    assert read([(head + "8  25,213\n").encode()]).unread == 1


def test_columns_of_perftest_per_port_with_service_levels_and_in_cycles() -> None:
    port = "BW Port1[Gb/sec]   MsgRate Port1[Mpps]"
    ports = parse(
        f" #bytes  sl  #iterations  BW peak[Gb/sec]  BW average[Gb/sec]  MsgRate[Mpps]  {port}\n"
        " 65536    0   5000         0.00         196.10        0.374031       98.05       0.187\n"
    )
    cycles = parse(
        " #bytes #iterations    t_min[cycles]    t_avg[cycles]    99% percentile[cycles]\n"
        " 2       1000          4200.00          4300.00          5000.00\n"
    )

    assert values(ports, "untitled_bandwidth") == [196.10 * 1e9 / 8]
    assert values(ports, "message_rate") == [0.374031e6]
    assert not cycles.measurements


@pytest.mark.parametrize(
    ("report", "line"), [("ipm.boxlib", 11), ("mpip.fft", 25), ("mpip.fft", 42)]
)
def test_a_report_that_is_cut_off_takes_no_line_of_what_follows(report: str, line: int) -> None:
    head = text_of(report).splitlines(keepends=True)[:line]
    for other in ("osu.latency", "iperf3.text", "imb.new", "nccl_tests.new"):
        text = text_of(other)
        results = read(["".join([*head, text]).encode()]).results

        assert [r.measurements for r in results if r.format not in ("ipm", "mpip")] == [
            r.measurements for r in read([text.encode()]).results
        ]


def test_a_letter_behind_a_comma_is_no_million() -> None:
    """The last line of a log was cut in the name of what comes next."""
    text = b"RunningAvgSamplesPerSec=41.25, CurrSamplesPerSec=40.50, M"
    (result,) = read([text]).results

    assert values(result, "samples_rate", name="CurrSamplesPerSec") == [40.5]


def test_a_stream_of_json_without_its_end_is_a_failure() -> None:
    text = text_of("iperf3.stream").rpartition('{"event":"end"')[0]
    (test,) = read([text.encode()]).results

    assert test.failures
    assert not values(test, "received")


def test_hosts_of_one_name_are_told_apart_by_their_devices() -> None:
    """Containers may all be called `localhost`; a GPU is on each of them only once."""
    log = text_of("nccl_tests.hopper").replace("device  1", "device  0")

    assert read([log.encode()]).results[0].hosts == 2


def test_older_words_of_rocm_smi_and_a_single_gpu() -> None:
    text = text_of("rocm_topology.mi100")
    older = re.sub(r"GPU\[(\d+)\]\t*", r"GPU \1          ", text)
    single = parse("====== Link Type between two GPUs ======\n       GPU0\nGPU0   0\n")

    assert parse(older).detail == parse(text).detail
    assert isinstance(single.detail, Topology)
    assert single.detail.devices[0].paths == ("X",)


def test_a_copy_within_a_gpu_may_use_half_of_its_memory() -> None:
    h100 = find("h100")
    limit = bound(LOCAL, {"row": 0}, h100)

    assert limit is not None
    assert h100.memory is not None
    assert limit.rate == h100.memory.rate / 2


PEERS_OF_TWO = """
Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
          0         1
0       N/A    370.90
1    370.90       N/A

SUM device_to_device_memcpy_read_ce 741.80
COEFFICIENT_OF_VARIATION device_to_device_memcpy_read_ce 0.00
"""


def test_devices_before_the_first_test_are_its_own_without_the_head_of_nvbandwidth() -> None:
    devices = "Device 0: NVIDIA H100 80GB HBM3\nDevice 1: NVIDIA H100 80GB HBM3\n"
    assert parse(devices + PEERS_OF_TWO).devices == ("NVIDIA H100 80GB HBM3",)
    assert parse(devices + "\n\n\n\n" + PEERS_OF_TWO).devices == ()


def test_the_sum_names_the_test_of_a_matrix() -> None:
    """As in NVIDIA/nvbandwidth issue 50: `Running ...` is missing."""
    matrix = (
        "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n           0         1\n"
        " 0       N/A     26.34\n 1     26.35       N/A\n\n"
    )
    report = parse(f"{matrix}SUM device_to_device_memcpy_read_ce 52.69\n")
    fragment = parse(matrix)

    assert values(report, "peer_copy_bandwidth", test="device_to_device_memcpy_read_ce") == [
        26.34e9,
        26.35e9,
    ]
    assert not values(fragment, "peer_copy_bandwidth")
    assert values(fragment, "copy_bandwidth") == [26.34e9, 26.35e9]
