"""Logs at the edges: prefixes, prose, pasted ends, failures that read as success."""

import pytest

from cluster.core.errors import ParseError
from cluster.core.model.logs import Parsed, Reading
from cluster.core.model.results.records import Note
from cluster.logs.reader import read
from cluster.logs.redaction import redact
from tests.logs.samples import kinds
from tests.snapshots import Snapshot

HEAD = "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
ROW = " 1048576 262144 float sum -1 100.0 10.49 18.35 0 100.0 10.49 18.35 0\n"
FOOT = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 18.35\n"


def read_log(text: str) -> Reading:
    return read([text.encode()])


def parse(text: str) -> Parsed:
    result, *_ = read_log(text).results
    return result


def values(result: Parsed, metric: str) -> list[float]:
    return [v for m in result.measurements if m.metric == metric for v in m.values]


def test_the_mean_of_horovod_stands_before_its_total() -> None:
    text = "Img/sec per GPU: 126.5 +-6.4\nTotal img/sec on 32 GPU(s): 4046.6 +-205.2\n"

    assert values(parse(text), "mean_rate") == [126.5]
    assert values(parse(text), "total_rate") == [4046.6]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("tokens_per_sec: 22.8K", 22800),
        ("step 1 | tok/sec: 1.2M", 1.2e6),
        ("Throughput: 3.5k images/s", 3500),
        ("ips: 12.5 K images/sec,", 12500),
        ("Throughput: 1965.5 images/s", 1965.5),
        ("'train_samples_per_second': 48.1", 48.1),
    ],
)
def test_thousands_and_millions_after_a_rate(line: str, value: float) -> None:
    (measurement,) = read(redact([f"{line}\n".encode()])).results[0].measurements

    assert list(measurement.values) == [pytest.approx(value)]


@pytest.mark.parametrize(
    "prefix",
    [
        "   [1,0]<stdout>:",
        "> [1,0]<stdout>:",
        "0: [1,0]<stdout>:",
        "2024-05-01T10:00:00Z [1,0]<stdout>:",
        "[pod/nccl-launcher-0/main] [1,0]<stdout>:",
        "> 0: [1,0]<stdout>:",
        "[1,0]<stdout>:2024-05-01 10:00:00 ",
        "41:24.9: ",
    ],
)
def test_prefixes_in_any_order(prefix: str) -> None:
    text = "".join(prefix + line + "\n" for line in (HEAD + ROW + FOOT).splitlines())

    assert values(parse(text), "busbw") == [18.35e9, 18.35e9]
    assert read_log(text).unread == 0


@pytest.mark.parametrize(
    "text",
    [
        "Bottom line: busbw is algbw times 2(n-1)/n, and the time does not count.\n",
        "We looked at the columns time algbw busbw in the table above.\n",
        "The columns are size, time algbw busbw\n",
    ],
)
def test_prose_on_bandwidths_is_no_table(text: str) -> None:
    reading = read_log(text + IPERF)

    assert [result.format for result in reading.results] == ["iperf3"]
    assert not reading.results[0].failures


IPERF = "".join(
    f"[  5]   {n}.00-{n + 1}.00   sec  1.10 GBytes  9.4{n} Gbits/sec\n" for n in range(3)
)


OLD = "".join(f"[  3]  {n}.0- {n + 1}.0 sec   112 MBytes   94{n} Mbits/sec\n" for n in range(3))
HEADS = {
    "": IPERF,
    "Connecting to host 10.0.0.2, port 5201\n": IPERF,
    "[  3] local 10.0.0.1 port 40000 connected with 10.0.0.2 port 5001\n": OLD,
    "Client connecting to 10.0.0.2, TCP port 5001\n": OLD,
    "[ ID] Interval       Transfer     Bandwidth\n": OLD,
}


@pytest.mark.parametrize("head", HEADS)
def test_intervals_of_iperf_without_their_totals(head: str) -> None:
    text = HEADS[head]
    result = parse(head + text)
    rates = [float(line.split()[-2]) for line in text.splitlines()]
    unit = 1e9 if "Gbits" in text else 1e6

    assert not result.failures
    assert values(result, "interval") == pytest.approx([rate * unit / 8 for rate in rates])
    assert "only_intervals" in kinds(result)


@pytest.mark.parametrize("text", [IPERF, OLD])
def test_intervals_of_one_test_after_another(text: str) -> None:
    tests = read_log(text + text).results

    assert [values(result, "interval") for result in tests] == [values(parse(text), "interval")] * 2


STREAMS = {
    "iperf3": "[{0:>3}]   0.00-1.00   sec  1.10 GBytes  {1} Gbits/sec\n",
    "iperf3, both ways": "[{0:>3}][TX-C]   0.00-1.00   sec  1.10 GBytes  {1} Gbits/sec\n",
    "iperf": "[{0:>3}]  0.0- 1.0 sec  1.10 GBytes  {1} Gbits/sec\n",
}


@pytest.mark.parametrize("line", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize(
    ("rows", "streams"),
    [
        ((("5", 4), ("7", 5), ("SUM", 9)), 2),
        ((("5", 4), ("7", 5)), 2),
        ((("5", 4), ("SUM", 9)), "several"),  # lines of other streams are missing
        ((("SUM", 9),), "several"),
    ],
)
def test_intervals_of_several_streams_are_their_sums(
    line: str, rows: tuple[tuple[str, int], ...], streams: int | str
) -> None:
    text = "".join(line.format(*row) for row in rows)
    result = parse(text + text.replace("0.00-1.00", "1.00-2.00").replace("0.0- 1.0", "1.0- 2.0"))

    assert values(result, "interval") == [9e9 / 8] * 2
    assert result.measurements[0].params["streams"] == streams


def test_a_log_without_figures_is_not_empty(snapshot: Snapshot) -> None:
    with snapshot.raises(ParseError):
        read_log("a:1:2 [0] NCCL INFO === System : maxBw 1.2 totalBw 12.0 ===\n")
    with pytest.raises(ParseError, match="empty"):
        read_log(" \n\n")


@pytest.mark.parametrize(
    "line",
    [
        "[E ProcessGroupNCCL.cpp:475] some NCCL operations have failed or timed out. Due to",
        "torch.distributed.elastic.multiprocessing.api: failed (exitcode: -9) local_rank: 0",
        "Horovod has been shut down. This was caused by an exception on one of the ranks",
        "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
        "Command terminated with exit code 137",
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Hangup (signal 1)",
        "kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.",
        "RuntimeError: ncclUnhandledCudaError: Call to CUDA function failed.",
        "NET/OFI fi_cq_readerr: err: 113, prov_errno: 4",
        "[1700000000.1] [a:1:0] ib_mlx5_log.c:177 UCX  ERROR Transport retry count exceeded",
        "Terminated",
        "[E ProcessGroupNCCL.cpp:478] Some NCCL operations have failed or timed out. Due to",
        "  exitcode  : -9 (pid: 14750)",
        "  traceback : Signal 9 (SIGKILL) received by PID 14750",
        "torch.multiprocessing.spawn: process 0 terminated with signal SIGKILL",
        "RuntimeError: DataLoader worker (pid 15) is killed by signal: Killed.",
        "/bin/bash: line 1: 12345 Killed                  python train.py",
        "job.sh: line 12:  4567 Terminated              mpirun ./a.out",
        "./run.sh: line 5:  1234 Aborted                 (core dumped) ./a.out",
        "Floating point exception (core dumped)",
        "TERM_FORCE_OWNER: job killed by owner with force.",
        "[n1:12345] *** An error occurred in MPI_Allreduce",
        "[n1:12345] *** MPI_ERRORS_ARE_FATAL (processes in this win will now abort,",
        "[n1:12345:0:12345] rc_verbs_iface.c:63   UCX  FATAL send completion with error",
        "[n1:263417:0] Caught signal 11 (Segmentation fault: address not mapped to object",
        "MPIDI_OFI_handle_cq_error(1059): OFI poll failed (ofi_events.c:1059)",
    ],
)
def test_a_failure_before_the_last_line_of_a_test_is_fatal_and_one_behind_it_a_note(
    line: str,
) -> None:
    failure = read_log(HEAD + ROW + line + "\n" + FOOT)
    note = read_log(HEAD + ROW + FOOT + line + "\n")

    assert any(result.failures for result in failure.results), line
    assert not any(result.failures for result in note.results), line
    assert any(result.notes for result in note.results), line


@pytest.mark.parametrize(
    "line",
    [
        "srun: error: node1: task 0: Exited with exit code 1",
        "a:1:2 [0] search.cc:1 NCCL WARN Could not find a path, falling back to simple order",
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
        "bash: module: command not found",
        "ls: cannot access 'x.log': No such file or directory",
    ],
)
def test_successes_that_were_read_as_failures(line: str) -> None:
    reading = read_log(line + "\n" + HEAD + ROW + FOOT)

    assert not [failure for result in reading.results for failure in result.failures]


def test_the_same_failure_of_many_ranks_is_one() -> None:
    lines = "".join(f"srun: error: node{n}: task {n}: Segmentation fault\n" for n in range(16))

    assert parse(lines).failures == ("srun: error: node0: task 0: Segmentation fault",)
    assert Note("repeated", (15,)) in parse(lines).notes


@pytest.mark.parametrize(
    "line",
    [
        "NET/IB: Got completion from peer 10.0.0.{n}<{n}908> with status=12 vendor err 129",
        "socketProgress: Connection closed by remote peer node{n}.cluster<5569{n}>",
    ],
)
def test_the_same_warning_of_many_ranks_is_one(line: str) -> None:
    text = "".join(
        f"a{n}:{n}:2 [{n}] net_ib.cc:24 NCCL WARN {line.format(n=n)}\n" for n in range(16)
    )

    assert len(parse(text).failures) == 1
    assert Note("repeated", (15,)) in parse(text).notes


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("NCCL version 2.18.3+cuda12.2NCCL version 2.18.3+cuda12.2", "NCCL 2.18.3+cuda12.2"),
        ("NCCL version 2.18.3+cuda12.2 NCCL version 2.18.3+cuda12.2", "NCCL 2.18.3+cuda12.2"),
        ("a:1:1 [0] NCCL INFO NCCL version 2.18.3+cuda12.2n2:1:1 [0]", "NCCL 2.18.3+cuda12.2"),
        ("NCCL version 2.18.3+cuda12.2 NCCL version 2.18.5", "NCCL 2.18.3+cuda12.2 2.18.5"),
        ("RCCL version 2.18.3+hip6.0 HEAD:2f6d59e", "RCCL 2.18.3+hip6.0"),
    ],
)
def test_versions_on_one_line(line: str, title: str) -> None:
    assert parse(f"{line}\n").title == title


def test_ranks_by_the_last_line_that_names_one() -> None:
    text = "#  Rank 71 Group  0 Pid  9 on  node17 device  3 [0x00] NVIDIA H100 80GB HBM3\n"

    assert parse(text + HEAD + ROW).ranks == 72
    assert "one_rank" not in kinds(parse(text + HEAD + ROW))


def test_wrong_values_that_only_the_last_lines_tell(snapshot: Snapshot) -> None:
    result = parse("# Out of bounds values : 12 FAILED\n# Avg bus bandwidth    : 18.35\n")

    assert result.failures == ("Out of bounds values : 12 FAILED",)
    assert values(result, "average_busbw") == [18.35e9]
    with snapshot.raises(ParseError):
        read_log("# Out of bounds values : 0 OK\n")


UNTITLED = {
    "p2p": ("   D\\D     0      1\n     0 740.15   9.91\n     1   9.95 741.55\n", [9.91e9, 9.95e9]),
    "nvbandwidth": (
        "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n{}".format(
            "           0         1\n 0       N/A    276.07\n 1    276.19       N/A\n"
        ),
        [276.07e9, 276.19e9],
    ),
    "OSU": (
        "# Size      Bandwidth (MB/s)\n1            1.93\n2            3.86\n",
        [1.93e6, 3.86e6],
    ),
    "perftest": (
        " #bytes  #iterations  BW peak[Gb/sec]  BW average[Gb/sec]  MsgRate[Mpps]\n{}".format(
            " 65536      5000             92.57              92.51                0.176451\n"
        ),
        [92.57e9 / 8, 92.51e9 / 8],
    ),
}


@pytest.mark.parametrize(("text", "rates"), UNTITLED.values(), ids=UNTITLED)
def test_a_table_without_its_title_claims_no_direction(text: str, rates: list[float]) -> None:
    result = parse(text)
    flows = {d.metric: d.flow for d in result.definitions}
    rows = [m for m in result.measurements if m.unit == "B/s" and m.metric != "device_copy"]

    assert [v for m in rows for v in m.values] == rates
    assert {flows[m.metric] for m in rows} == {""}
    assert not result.whole
