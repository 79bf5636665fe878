"""OSU Micro-Benchmarks: what each column of each test is."""

import pytest

from cluster.logs.reader import read
from tests.logs.samples import LOGS, results, values


def read_all(text: str) -> dict[tuple[str, object, object], float]:
    return {
        (m.metric, m.params["test"], m.params.get("size")): m.values[0]
        for result in read([text.encode()]).results
        for m in result.measurements
    }


def test_a_latency_is_one_way_and_a_collective_is_not() -> None:
    latency = read_all((LOGS / "osu.latency.txt").read_text())
    found = read_all((LOGS / "osu.collectives.txt").read_text())

    assert latency["latency", "Latency", 1048576] == pytest.approx(112.75e-6)
    assert found["collective_time", "Allreduce Latency", 8] == pytest.approx(12.95e-6)
    assert found["collective_time_max", "Allreduce Latency", 8] == pytest.approx(14.89e-6)
    assert found["collective_time_min", "Barrier Latency", None] == pytest.approx(9.11e-6)


def test_a_rate_is_in_mb_of_1e6_bytes_and_says_which_way() -> None:
    (one, both) = read([(LOGS / "osu.device.txt").read_bytes()]).results

    assert one.measurements[1].values == (12033.71e6,)
    assert one.measurements[1].params["buffers"] == "DEVICE-DEVICE"
    assert [r.definitions[0].flow for r in (one, both)] == ["one way", "both ways"]
    assert [r.definitions[0].metric for r in (one, both)] == ["bandwidth", "bidirectional"]


def test_pairs_and_their_rate() -> None:
    found = read([(LOGS / "osu.collectives.txt").read_bytes()]).results[-1]

    assert [m.metric for m in found.measurements[:2]] == ["multi_bandwidth", "message_rate"]
    assert found.measurements[0].params["pairs"] == 4
    assert found.measurements[1].values == (7020341.12,)


def test_parts_of_a_non_blocking_call() -> None:
    found = read_all((LOGS / "osu.collectives.txt").read_text())
    test = "Non-blocking Allreduce Latency"

    assert found["overall_time", test, 4] == pytest.approx(30.21e-6)
    assert found["compute_time", test, 4] == pytest.approx(14.10e-6)
    assert found["pure_time", test, 4] == pytest.approx(14.02e-6)
    assert found["overlap", test, 8] == -5.31


def test_percentiles() -> None:
    (result,) = read([(LOGS / "osu.percentiles.txt").read_bytes()]).results
    tails = [m for m in result.measurements if m.metric == "time_percentile"]

    assert [m.params["percentile"] for m in tails[:3]] == [50, 90, 99]
    assert tails[2].values == pytest.approx((4.11e-6,))


def test_a_failed_validation_is_a_failure() -> None:
    text = (
        (LOGS / "osu.percentiles.txt").read_text().replace("4.20              Pass", "4.20  Fail")
    )

    assert "8 B says Fail" in read([text.encode()]).results[0].failures[0]


def test_rows_of_two_programs_are_not_told_apart() -> None:
    """Nobody can know whose row it is, so none of them is used."""
    text = (
        "# OSU MPI Latency Test v7.4\n# OSU MPI Bandwidth Test v7.4\n# Size Latency (us)\n"
        "# Size Bandwidth (MB/s)\n1 1.31\n1 3.30\n2 1.30\n2 6.60\n"
    )
    found = read([text.encode()])

    assert not any(result.measurements for result in found.results)
    assert all(result.failures for result in found.results)


def test_a_test_without_a_row_is_a_failure() -> None:
    (result,) = read([b"# OSU MPI Latency Test v7.4\n# Size  Latency (us)\n"]).results

    assert result.failures


def test_a_decimal_comma_is_read_unless_it_may_be_something_else() -> None:
    head = "# OSU MPI Latency Test v7.4\n# Size  Latency (us)\n"

    assert read_all(head + "8  25,21\n")["latency", "Latency", 8] == pytest.approx(25.21e-6)
    assert read([(head + "8  25,213\n").encode()]).unread == 1


def test_one_sided_tests_are_told_apart_by_operation_and_synchronisation() -> None:
    put, get, device, shmem, barrier = results("osu.one_sided")

    assert values(put, "bidirectional", size=4096) == [1.5e9]
    assert put.measurements[0].params["test"] == "MPI_Put Bi-directional Bandwidth"
    assert values(get, "one_sided_time", test="MPI_Get latency", synchronisation="flush")
    assert values(
        device, "one_sided_time", test="MPI_Put Latency", memory="CUDA", buffers="DEVICE-HOST"
    ) == pytest.approx([3.5e-6])
    assert values(shmem, "one_sided_time") == pytest.approx([1.25e-6])
    assert values(barrier, "collective_time") == pytest.approx([2.75e-6])


def test_what_the_newest_versions_print() -> None:
    barrier, device, types, persistent, init = results("osu.newest")

    assert values(barrier, "overlap") == [25]
    assert values(barrier, "pure_time") == pytest.approx([1.5e-6])
    assert values(device, "bandwidth", memory="CUDA", size=4194304) == [20e9]
    assert values(types, "collective_time", size=4, datatype="INT") == pytest.approx([11.5e-6])
    assert values(types, "collective_time", size=4, datatype="CHAR") == pytest.approx([12.5e-6])
    assert values(persistent, "latency", size=1) == pytest.approx([1.5e-6])
    assert values(init, "init_time", ranks=4) == pytest.approx([0.065])


def test_python_s_sizes_have_their_unit_beside_them() -> None:
    text = b"# OMB-Py MPI Latency Test\n# Size (B)         Latency (us)\n0        1.25\n"
    (result,) = read([text]).results

    assert values(result, "latency", test="Latency", size=0) == pytest.approx([1.25e-6])


def test_wrong_data_are_a_failure() -> None:
    text = (
        b"# OSU MPI Latency Test v7.1\n# Size          Latency (us)        Validation\n"
        b"1          3.25           Pass\n"
        b"DATA VALIDATION ERROR: osu_latency exited with status 1 on message size 2.\n"
    )
    (result,) = read([text]).results

    assert "status 1" in result.failures[0]


def test_a_heading_that_speaks_of_osu_is_no_test() -> None:
    text = b"# OSU Benchmark results\n\n# OSU MPI Latency Test v5.9\n# Size Latency (us)\n0 1.25\n"

    assert [result.title for result in read([text]).results] == ["OSU MPI Latency Test v5.9"]


def test_the_extremes_of_a_row_may_be_missing_in_the_header() -> None:
    text = (
        b"# OSU MPI-CUDA Reduce Latency Test v7.3\n# Datatype: MPI_CHAR.\n"
        b"# Size       Avg Latency(us)\n"
        b"1                      50.50             18.25             89.75        1000\n"
        b"2                      50.00             60.25             89.75        1000\n"
    )
    reading = read([text])

    assert values(reading.results[0], "collective_time", size=1) == pytest.approx([50.5e-6])
    assert values(reading.results[0], "collective_time_max", size=1) == pytest.approx([89.75e-6])
    assert reading.unread == 1  # no mean is below the least


def test_intel_mpi_says_on_which_hosts_the_ranks_were() -> None:
    text = (
        "MPI startup(): Rank    Pid      Node name       Pin cpu\n"
        "MPI startup(): 0       30264    node-0  {0,4}\n"
        "MPI startup(): 1       3321     node-1  {0,4}\n"
        "# OSU MPI Latency Test v5.7.1\n# Size          Latency (us)\n4   25.21\n"
    )
    reading = read([text.encode()])

    assert (reading.results[0].ranks, reading.results[0].hosts) == (2, 2)
    assert reading.unread == 0


def test_of_two_tests_side_by_side_no_column_has_the_title_of_the_other() -> None:
    (result,) = read(
        [
            (
                b"# OSU MPI Bandwidth Test v7.3     # OSU MPI-CUDA Latency Test v7.3\n"
                b"# Size   Bandwidth (MB/s)     # Size   Latency (us)\n"
                b"1 2.50 1 1.50\n4096 5000.10 4096 3.50\n"
            )
        ]
    ).results

    assert values(result, "untitled_bandwidth", size=4096) == [5000.1e6]
    assert values(result, "untitled_time", size=4096) == [3.5e-6]
    assert not result.whole
