"""Collectives of PyTorch and DeepSpeed, and AMD's GPUs: units, and what lacks.

The samples beside it are shortened from stas00/ml-engineering, DeepSpeed's tutorial on its
communication logger, and issues of ROCm/rocm_bandwidth_test (129) and
ROCm/rocm_smi_lib (108); that of ds_bench from a log in public notes. The rows of
PARAM are printed by the formats of its comms.py, as no log of it was at hand.
"""

import re

import pytest

from cluster.core.model.logs import Topology
from tests.logs.samples import LOGS, of, results, values

GBIT = 1e9 / 8


def test_all_reduce_bench_new_and_old() -> None:
    new, old = results("all_reduce_bench.both")

    assert (new.operation, new.ranks, old.ranks) == ("all_reduce", 256, 8)
    assert values(new, "busbw", size=16 * 2**30) == [224.86e9]
    assert values(new, "algbw", size=32 * 2**10) == [0.46e9]
    assert values(old, "busbw", size=4 * 10**9) == [68.778e9]


def test_all_reduce_bench_of_today() -> None:
    means, trials = results("all_reduce_bench.today")

    assert values(means, "busbw", size=32 * 2**10) == [1.18e9]
    assert values(means, "algbw", size=4 * 2**20) == [pytest.approx(66.43e9)]
    assert values(trials, "busbw", size=4 * 2**30) == [470.12e9, 468.98e9]
    assert trials.ranks == 8


def test_deepspeed_in_its_three_forms() -> None:
    logger, bench = results("deepspeed_comm.several")

    assert values(logger, "busbw", operation="reduce_scatter_tensor", calls=40) == [1376.31 * GBIT]
    assert values(logger, "time", operation="broadcast", size=2048) == [pytest.approx(0.08e-3)]
    assert values(logger, "time", size=0) == [pytest.approx(0.1e-3)]
    assert values(bench, "busbw", operation="all_reduce") == [149.863 * GBIT]
    assert (bench.operation, bench.ranks) == ("all_reduce", 8)


def test_the_table_of_stragglers_is_none_of_throughput() -> None:
    rate = "      1.0 MB      24      2.05    0.08    197.06    172.24"
    wait = "      1.0 MB      24      1.05    1.00    0.04      0.04"
    result = of(
        "Comm. Op  Message Size  Count  Total Latency(ms)  Avg Latency(ms)  tput_avg (Gbps)\n"
        f"all_reduce\n{rate}\n"
        "_______________________________\nBreakdown with straggler effect\n"
        "Comm. Op  Message Size  Count  Total comm lat(ms)  Total straggler(ms)  Avg comm lat(ms)\n"
        f"all_reduce\n{wait}\n"
    )

    assert values(result, "throughput") == [197.06 * GBIT]


def test_ds_bench_without_units() -> None:
    head = "---- Performance of all_reduce on 4 devices ----\n"
    names = "Size (Bytes)  Description  Duration (us)  Throughput (GBps)  BusBW (GBps)\n"
    result = of(f"{head}{names}4194304  1048576x4  172.352  48.671  36.504\n")

    assert values(result, "time", size=4194304) == [pytest.approx(172.352e-6)]
    assert values(result, "busbw") == [36.504e9]


def test_param_comms() -> None:
    reduce, pair, quantised = results("param_comms.all_reduce")

    assert values(reduce, "busbw", size=2**30) == [77.226e9]
    assert values(reduce, "time_max", size=2**30) == [pytest.approx(26080.2e-6)]
    assert (reduce.operation, pair.operation) == ("all_reduce", "pt2pt")
    assert values(pair, "pair_bandwidth", type="float32") == [11.025e9]
    assert values(pair, "ping_pong_latency") == [pytest.approx(188.2e-6)]
    assert {m.metric for m in quantised.measurements} == {"time_p95"}


def test_a_table_of_param_whose_names_touch_and_whose_rows_have_a_tag() -> None:
    head = "COMMS-RES size (B) nElementsPerRank Latency(us):p50 p75 p95 Min Max AlgBW(GB/s)"
    names = " BusBW(GB/s)TotalLatency(us):p50CompLatency(us):p50"
    row = "COMMS-RES-all_gather_base-bfloat16-a1 8388608 524288 260.7 261.0 262.5 259.1 270.2"
    result = of(f"\t{head}{names}\n\t{row} 32.177 28.155 300.1 40.2\n")

    assert values(result, "busbw", type="bfloat16", size=2**23) == [28.155e9]


def test_a_matrix_of_rocm_bandwidth_test() -> None:
    (result,) = results("rocm_bandwidth.mi210")

    assert values(result, "peer_copy_bandwidth", row=1, column=2) == [41.233e9]
    assert values(result, "peer_copy_both_ways", row=2, column=1) == [77.102e9]
    assert values(result, "host_copy_bandwidth", row=0, column=1) == [27.917e9]
    assert values(result, "local_copy_bandwidth", row=1) == [1001.204e9]
    assert result.devices == ("AMD Instinct MI210",)


def test_an_old_matrix_of_rocm_bandwidth_test_both_ways() -> None:
    (result,) = results("rocm_bandwidth.old")

    assert values(result, "host_copy_bandwidth", row=0, column=1) == [13.377405e9]
    assert values(result, "host_copy_both_ways", row=0, column=1) == [25.912159e9]
    assert values(result, "local_copy_bandwidth", row=1) == [404.438375e9]


def test_a_processor_that_is_called_radeon_is_no_gpu() -> None:
    result = of(
        "Device: 0,  AMD RYZEN AI MAX+ 395 w/ Radeon 8060S\n"
        "Device: 1,  AMD Radeon Graphics,  GPU-XX,  c3:0.0\n"
        "Unidirectional copy peak bandwidth GB/s\n"
        "D/D       0           1\n0         N/A         83.715\n1         85.476      212.588\n"
    )

    assert values(result, "host_copy_bandwidth") == [83.715e9, 85.476e9]
    assert not values(result, "peer_copy_bandwidth")


def test_the_links_of_rocm_smi() -> None:
    (result,) = results("rocm_topology.mi100")

    assert isinstance(result.detail, Topology)
    assert result.detail.path("GPU0", "GPU1") == "XGMI"
    assert result.detail.path("GPU2", "GPU0") == "PCIE"
    assert [device.numa for device in result.detail.devices] == ["0", "0", "1"]


def test_older_words_of_rocm_smi_and_a_single_gpu() -> None:
    text = (LOGS / "rocm_topology.mi100.txt").read_text()
    older = re.sub(r"GPU\[(\d+)\]\t*", r"GPU \1          ", text)
    single = of("====== Link Type between two GPUs ======\n       GPU0\nGPU0   0\n")

    assert of(older).detail == of(text).detail
    assert isinstance(single.detail, Topology)
    assert single.detail.devices[0].paths == ("X",)


def test_the_summary_of_deepspeed_between_backticks() -> None:
    """As in deepspeedai/DeepSpeed issue 7019."""
    result = of(
        "`Comm. Op            Message Size        Count               Total Latency(ms)   "
        "Avg Latency(ms)     tput_avg (Gbps)     busbw_avg (Gbps)    \n"
        "broadcast\n                    50.0 MB             1                   6.61        "
        "        6.61                63.47               63.47               \n"
    )

    assert values(result, "busbw", size=50 * 2**20) == [pytest.approx(63.47 * GBIT)]
