"""Formats that people asked for: each by a text that somebody published."""

import pytest

from cluster.logs.reader import read
from tests.logs.samples import LOGS, of, results, values


def test_transferbench() -> None:
    (result,) = results("transferbench.alltoall")

    assert values(result, "transfer_bandwidth", transfer=0) == [47.056e9]
    assert len(values(result, "transfer_bandwidth")) == 14
    assert values(result, "executor_bandwidth", executor="GPU 01") == [317.663e9]
    assert values(result, "total_bandwidth", test=1) == [1937.924e9]
    assert read([(LOGS / "transferbench.alltoall.txt").read_bytes()]).unread == 0


def test_only_a_lone_transfer_shows_what_a_link_carries() -> None:
    (result,) = results("transferbench.tests")

    assert values(result, "peer_copy_bandwidth", path="G0 -> G1") == [56.309e9, 60.973e9]
    assert values(result, "transfer_bandwidth") == []  # the third test was cut off
    assert not result.whole
    assert [d.medium for d in result.definitions if d.metric == "peer_copy_bandwidth"] == [
        "GPU to GPU"
    ]


def test_ipm() -> None:
    (result,) = results("ipm.boxlib")

    assert (result.ranks, result.hosts) == (128, 32)
    assert values(result, "wall_time") == [11.54]
    assert (values(result, "mpi_time"), values(result, "mpi_time_max")) == ([3.02], [4.78])
    assert values(result, "routine_time", routine="MPI_Allreduce") == [225.72]
    assert values(result, "mpi_share") == [32.51]
    assert read([(LOGS / "ipm.boxlib.txt").read_bytes()]).unread == 0


def test_mpip() -> None:
    (result,) = results("mpip.fft")

    times = {m.rank: m.values[0] for m in result.measurements if m.metric == "mpi_time"}
    assert times == {0: 4.12, 1: 4.2, 2: 4.17}
    assert values(result, "site_time", call="MPI_Alltoall", site=6) == [460.0]
    assert values(result, "site_message", call="MPI_Reduce", site=2) == [8.0]
    assert (result.ranks, result.hosts) == (2, 1)
    assert read([(LOGS / "mpip.fft.txt").read_bytes()]).unread == 0
    rows = "@ mpiP\n@--- Aggregate Time\nCall Site Time App% MPI% Count COV\n"  # since 3.5
    (newer,) = read([f"{rows}Allreduce 1 4.0e+03 20.00 61.54 200 0.10\n".encode()]).results
    assert [m.values for m in newer.measurements] == [(4.0,)]


def test_the_time_of_a_step_of_mlperf() -> None:
    result = of(
        '0: :::MLLOG {"namespace": "", "time_ms": 1696565401886, "event_type": "POINT_IN_TIME", '
        '"key": "tracked_stats", "value": {"train_step_time": 3.25, "reduced_train_loss": 1.5}, '
        '"metadata": {"file": "/workspace/llm/custom_callbacks.py", "lineno": 284, "step": 12}}\n'
    )

    assert values(result, "iteration_time") == [3.25]


FEWER = (  # columns than nccl-tests prints
    "| Message size | algbw (GB/s) | **busbw (GB/s)** |\n|---|---|---|\n"
    "| 64 MB | 100.61 | 188.65 |\n| **2 GB** | **169.51** | **317.84** ← peak |\n"
)


@pytest.mark.parametrize(
    ("text", "metric", "point", "value"),
    [
        (FEWER, *("busbw", {"size": 2**31}, 317.84e9)),
        ("size,time (us),algbw (GB/s)\n1048576,100.0,10.49\n", "time", {"size": 1 << 20}, 1e-4),
        ("# Size,Latency (us)\n0,1.50\n8,1.61\n", "latency", {"size": 8}, 1.61e-6),
        ("Size,Bandwidth (MB/s)\n4194304,12045.10\n", "bandwidth", {"size": 1 << 22}, 12045.1e6),
        (
            "#bytes,#repetitions,t_min[usec],t_max[usec],t_avg[usec]\n8,1000,1.5,1.9,1.7\n",
            *("time", {"size": 8, "column": "t_max[usec]"}, 1.9e-6),
        ),
        (
            "size_bytes,time_us,busbw_GBps\n8,15.7,0\n67108864,400.0,293.6\n",
            *("busbw", {"size": 1 << 26}, 293.6e9),
        ),
        ('"# Size";"Latency (us)"\n"8";"1.61"\n', "latency", {"size": 8}, 1.61e-6),
        (
            "Benchmark,bytes,repetitions,t[usec]\nPingPong,8,9,1.5\nPingPing,8,9,1.9\n",
            *("time", {"benchmark": "PingPing"}, 1.9e-6),
        ),
    ],
)
def test_tables_of_sizes(text: str, metric: str, point: dict[str, object], value: float) -> None:
    result = of(text)

    assert values(result, metric, **point) == pytest.approx([value])
    assert result.failures == ()


@pytest.mark.parametrize(
    ("report", "line"), [("ipm.boxlib", 11), ("mpip.fft", 25), ("mpip.fft", 42)]
)
def test_a_report_that_is_cut_off_takes_no_line_of_what_follows(report: str, line: int) -> None:
    head = (LOGS / f"{report}.txt").read_text().splitlines(keepends=True)[:line]
    for other in ("osu.latency", "iperf3.text", "imb.new", "nccl_tests.new"):
        text = (LOGS / f"{other}.txt").read_text()
        followed = read(["".join([*head, text]).encode()]).results

        assert [r.measurements for r in followed if r.format not in ("ipm", "mpip")] == [
            r.measurements for r in read([text.encode()]).results
        ]
