"""OSU Micro-Benchmarks: what each column of each test is."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.reading import read

LOGS = Path(__file__).parent / "logs"


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

    assert "no row" in result.failures[0]


def test_a_decimal_comma_is_read_unless_it_may_be_something_else() -> None:
    head = "# OSU MPI Latency Test v7.4\n# Size  Latency (us)\n"

    assert read_all(head + "8  25,21\n")["latency", "Latency", 8] == pytest.approx(25.21e-6)
    assert read([(head + "8  25,213\n").encode()]).unread == 1
