"""Intel MPI Benchmarks: the parts beside MPI-1, groups, and what a row's megabyte is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster.logs.reader import read
from tests.logs.samples import LOGS, results, values

if TYPE_CHECKING:
    from cluster.core.model.logs import Parsed


def open_log(name: str) -> str:
    return (LOGS / f"{name}.txt").read_text()


def unmarked(text: str) -> Parsed:
    (result,) = read([text.encode()]).results
    return result


def test_the_modes_of_a_one_sided_test_are_two_series() -> None:
    one_sided = results("imb.parts")[0]

    assert values(one_sided, "bandwidth", size=4194304, mode="aggregate") == [2097.15e6]
    assert values(one_sided, "bandwidth", size=4194304, mode="non-aggregate") == pytest.approx(
        [1048.58e6]
    )
    assert values(one_sided, "call_time_max", size=0, mode="aggregate") == pytest.approx([0.5e-6])
    assert not values(one_sided, "latency")  # a get is no half of a round trip


def test_a_size_that_took_too_long_is_named() -> None:
    one_sided = results("imb.parts")[0]

    assert one_sided.notes[0].kind == "quoted"
    assert one_sided.failures == ()


def test_a_size_that_could_not_be_measured_is_a_failure() -> None:
    text = open_log("imb.parts").replace("time-out.; Time limit", "out-of-mem.; needed X= 1 GB")
    failures = read([text.encode()]).results[0].failures

    assert failures[0].startswith("Unidir_Get, 8388608 B: out-of-mem")


def test_the_rates_of_p2p_are_of_all_pairs_and_its_time_is_of_one_way() -> None:
    p2p = results("imb.parts")[1]

    assert values(p2p, "multi_bandwidth", processes=4) == [1310.72e6]
    assert values(p2p, "message_rate") == [20000]
    assert values(p2p, "latency", size=65536) == pytest.approx([100e-6])
    assert not values(p2p, "bandwidth")


def test_a_barrier_that_does_not_block_has_no_size() -> None:
    assert values(results("imb.parts")[2], "overlap", test="Ibarrier") == [40]


def test_what_goes_to_files_is_no_bandwidth_of_a_network() -> None:
    files = results("imb.parts")[3]

    assert values(files, "file_bandwidth") == pytest.approx([1048.58e6])
    assert not [d for d in files.definitions if d.medium]


def test_threads_are_kept_and_a_test_without_a_success_is_a_failure() -> None:
    threads = results("imb.parts")[4]

    assert values(threads, "bandwidth", threads=4, size=4096) == [1024e6]
    assert threads.failures == ("BcastMT: NO SUCCESSFUL EXECUTIONS",)


def test_each_group_has_its_own_figures() -> None:
    (groups,) = results("imb.groups")
    mib = 2**20

    assert values(groups, "bandwidth", size=4194304, group=0) == pytest.approx([1000 * mib])
    assert values(groups, "latency", test="Multi-PingPong", size=0, group=1) == [10.5e-6]
    assert values(groups, "multi_bandwidth", test="Uniband") == [16e6]


def test_small_figures_have_the_megabyte_of_their_version() -> None:
    row = "#bytes #repetitions t[usec] Mbytes/sec\n1 1000 57.71 0.02\n"
    name = "# Benchmarking PingPong\n# #processes = 2\n"
    old = unmarked(f"#    Intel (R) MPI Benchmark Suite V3.2, MPI-1 part\n{name}{row}")
    new = unmarked(f"#    Intel (R) MPI Benchmarks 2018, MPI-1 part\n{name}{row}")

    assert values(old, "bandwidth") == pytest.approx([0.02 * 2**20])
    assert values(new, "bandwidth") == pytest.approx([0.02e6])


def test_a_pasted_table_without_its_name_is_that_of_pingpong() -> None:
    table = unmarked("#bytes #repetitions t[usec] Mbytes/sec\n1048576 40 100.00 10485.76\n")

    assert values(table, "latency") == pytest.approx([100e-6])
    assert values(table, "bandwidth") == [10485.76e6]


def test_wrong_data_are_a_failure() -> None:
    table = (
        "#bytes #repetitions t_min[usec] t_max[usec] t_avg[usec] defects\n4 9 1.0 1.2 1.1 1.00\n"
    )
    checked = unmarked(f"# Benchmarking Allreduce\n# #processes = 2\n{table}")

    assert "1 defects" in checked.failures[0]


def test_a_check_that_found_wrong_data_is_a_failure() -> None:
    table = "       #bytes #repetitions t_ovrl[usec] t_pure[usec]  t_CPU[usec]   overlap[%]\n"
    head = f"# Benchmarking Ireduce_scatter\n# #processes = 2\n{table}"
    checked = unmarked(
        f"{head}  0  1000  0.63  0.30  0.30  0.00\n1: Error Ireduce_scatter_pure,size = 4\n"
    )

    assert checked.failures == ("Ireduce_scatter: 1: Error Ireduce_scatter_pure,size = 4",)
