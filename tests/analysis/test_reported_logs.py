"""Shapes of logs that strangers had, whose verdict is known: word, figures, reason and finding."""

import io
from pathlib import Path

import pytest

from cluster.analysis.limits.hardware import find
from cluster.analysis.models.efficiency import scaling
from cluster.analysis.models.published_tables import series
from cluster.analysis.verdict.evidence import AboveLimit, Finding, JobFailure, Sign
from cluster.analysis.verdict.judgement import Judgement
from cluster.analysis.verdict.reasons import AboveAssumption, Collapse, Low, NoLimit
from cluster.core.errors import ParseError
from cluster.core.model.results.records import Note
from cluster.reports.words.limits import percentages
from cluster.runs.import_.logs import LogLocation, read_logs
from cluster.runs.run import judge_launches

TWO_HOSTS = "nic=100gbit,rdma=yes"


def judge(
    text: str, hardware: str = "", hosts: int = 0, operation: str = ""
) -> tuple[Judgement, tuple[Sign, ...]]:
    platform = find(hardware) if hardware else None
    place = LogLocation(hardware=platform, hosts=hosts, operation=operation)
    with read_logs(["-"], stdin=io.BytesIO(text.encode()), place=place) as logs:
        _, findings, judgement = judge_launches([logs.run])
        return judgement, findings


def biband(*rows: tuple[int, float], ranks: int = 8, waiting: int = 72) -> str:
    wait = f"# ( {waiting} additional processes waiting in MPI_Barrier)\n" if waiting else ""
    return (
        "#    Intel(R) MPI Benchmarks 2019 Update 6, MPI-1 part\n# Benchmarking Biband\n"
        f"# #processes = {ranks}\n{wait}       #bytes #repetitions   Mbytes/sec      Msg/sec\n"
        + "".join(f"{size} 10 {rate} {rate * 1e6 / size:.0f}\n" for size, rate in rows)
    )


KIB, MIB = 1 << 10, 1 << 20
FALLING = ((256 * KIB, 36400.0), (512 * KIB, 29000.0), (MIB, 24800.0), (4 * MIB, 24400.0))


@pytest.mark.parametrize(
    ("text", "word", "share", "confidence"),
    [
        (biband((MIB, 45000.0), (4 * MIB, 24500.0)), "unknown", 1.8, "possible"),
        (biband(*FALLING), "unknown", 1.456, "possible"),
        # 64 of 80 ranks do not fit on one of two hosts, so that the network must carry some.
        (biband((MIB, 45000.0), ranks=64, waiting=16), "impossible", 1.8, "likely"),
        (biband(*FALLING, ranks=2, waiting=0), "impossible", 1.456, "likely"),
        (
            biband((MIB, 45000.0), (2 * MIB, 45200.0), (4 * MIB, 22000.0), ranks=2, waiting=0),
            *("impossible", 1.808, "likely"),
        ),
        (
            biband((MIB, 23000.0), ranks=2, waiting=0).replace(
                "= 2\n", "= 2\n# ( 4 groups of 2 processes each running simultaneously )\n"
            ),
            *("plausible", 0.92, None),
        ),
        (biband((MIB, 24000.0), ranks=2, waiting=78), "plausible", 0.96, None),
        (biband((MIB, 24000.0), ranks=2, waiting=0), "normal", 0.96, None),
    ],
)
def test_one_point_decides_and_no_limit_is_certain_without_participants(
    text: str, word: str, share: float, confidence: str | None
) -> None:
    result, findings = judge(text, TWO_HOSTS, hosts=2)
    (verdict,) = (v for v in result.verdicts if v.unit == "B/s")
    signs = [sign for sign in findings if isinstance(sign, AboveLimit)]

    assert (result.word, verdict.word) == (word, word)
    assert verdict.share == pytest.approx(share)
    assert [(sign.confidence, sign.summary.params) for sign in signs] == (
        [(confidence, verdict.params)] if confidence else []
    )
    assert isinstance(verdict.reason, AboveAssumption) == (word == "unknown")
    assert result.next_step is None or result.next_step.sign in (None, *signs)


def all_reduce(*rows: tuple[int, float]) -> str:
    return (
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20\n"
        "#\n# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
        + "".join(
            f"{size} {size // 4} float sum -1 {size / rate / 1e3:.1f} {rate} {rate * 1.75} 0 "
            f"{size / rate / 1e3:.1f} {rate} {rate * 1.75} 0\n"
            for size, rate in rows
        )
    )


@pytest.mark.parametrize("hardware", ["", TWO_HOSTS])
@pytest.mark.parametrize("sizes", [(16, 32), (32, 64), (64, 128)])
def test_a_collapse_is_judged_whatever_its_size(hardware: str, sizes: tuple[int, int]) -> None:
    small, large = (size * MIB for size in sizes)
    text = all_reduce((small, 5.0), (large, 0.9))
    result, _ = judge(text, hardware, hosts=2 if hardware else 0)
    falls = [v for v in result.verdicts if v.metric == "busbw"]

    assert result.word == "low"
    assert [v.params["size"] for v in falls] == [large]
    (fell,) = (v.reason for v in falls)
    assert isinstance(fell, Collapse)
    assert fell.best_at == small
    assert fell.best_value == 8.75e9
    assert large not in [end for s in result.not_judged for end in (s.least, s.most)]


def test_operations_with_one_factor_have_the_limit_that_all_of_them_have() -> None:
    """Bus bandwidth as algorithm bandwidth on 8 ranks: broadcast, reduce or sendrecv."""
    ranks = "".join(
        f"#  Rank {n} Group 0 Pid 9 on n1 device {n} [0x1{n}] NVIDIA H100 80GB HBM3\n"
        for n in range(8)
    )
    text = all_reduce((512 * MIB, 300.0)).replace("525.0", "300.0").replace("#\n", f"#\n{ranks}")
    result, _ = judge(text)
    (bus,) = (v for v in result.verdicts if v.metric == "busbw")

    assert (bus.word, bus.bound) == ("plausible", 450e9)
    contradicted, _ = judge(text, operation="all_gather")
    assert [v.bound for v in contradicted.verdicts if v.metric == "busbw"] == [450e9]
    assert {v.params["operation"] for v in judge(text, operation="reduce")[0].verdicts} == {
        "reduce"
    }


def test_a_board_that_is_not_listed_is_named_and_its_figures_are_asked_for() -> None:
    board = "#  Rank 0 Group 0 Pid 9 on n1 device 0 [0x10] NVIDIA GeForce RTX 3060\n"
    board += board.replace("Rank 0", "Rank 1").replace("device 0", "device 1")
    result, _ = judge(
        all_reduce((512 * MIB, 5.0)).replace("8.75", "5.0").replace("#\n", f"#\n{board}")
    )

    assert result.next_step is not None
    assert result.next_step.reason == NoLimit("gpu", "NVIDIA GeForce RTX 3060")


def test_a_share_and_what_is_usual_are_told_apart() -> None:
    assert percentages(0.451, 0.4534) == ("45.1%", "45.3%")
    assert percentages(0.96, 0.9) == ("96%", "90%")
    assert percentages(0.9, 0.9) == ("90%", "90%")


EPILOGUE = (
    "--------------------------------------------------------------------------\n"
    "Primary job terminated normally, but 1 process returned\na non-zero exit code.\n"
)
WARN = "n1:71:90 [1] misc/socket.cc:123 NCCL WARN "
FAILURES = {
    "shm": WARN + "Error while creating shared memory segment /dev/shm/nccl-Ab3 (size 8400896), "
    "error: No space left on device (28)",
    "memlock": WARN + "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory errno 12",
    "interface": WARN + "Bootstrap : no socket interface found",
    "names": "ssh: Could not resolve hostname job-worker-0.job: Name or service not known",
    "unreachable": WARN + "socketStartConnect: Connect to 10.0.0.2<4711> failed : No route to host",
    "device": "n1: Test CUDA failure common.cu:1030 'invalid device ordinal'",
    "fabric_manager": "n1: Test CUDA failure common.cu:1030 'system not yet initialized'",
    "gid": WARN + "Call to ibv_modify_qp failed with error Invalid argument errno 22",
    "died": WARN + "socketProgress: Connection closed by remote peer n2<55930>",
    "build": "./all_reduce_perf: error while loading shared libraries: libmpi.so.40: cannot open "
    "shared object file: No such file or directory",
    "cause": "n1: Test NCCL failure common.cu:1005 'unhandled cuda error'",
}
PREFIXES = {
    "none": "",
    "host": "node-7: ",
    "tag": "[1,0]<stderr>:",
    "time": "2026-11-25T10:00:00.123Z ",
}


# The same kinds in the words of other programs.
OTHERS = (
    ("shm", "It appears as if there is not enough space for /dev/shm/osc_rdma.n1.1 (the backing"),
    ("interface", "No interfaces found with the name eth9"),
    ("names", "Unable to resolve host name worker-1"),
    ("unreachable", "DistNetworkError: The client socket has timed out after 60s while trying to"),
    ("died", "RuntimeError: gloo/transport/tcp/pair.cc:534 Connection closed by peer [10.0.0.2]:1"),
    ("build", "RuntimeError: Distributed package doesn't have NCCL built in"),
    ("gid", " Failed to modify QP 291 to RTR"),
    ("gid", WARN + "Call to ibv_modify_qp failed with error Connection timed out errno 110"),
    ("gid", "UCX  ERROR Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81)"),
    ("shm", WARN + "Call to posix_fallocate failed : No space left on device"),
    ("shm", "RuntimeError: unable to mmap 32 bytes from file </torch_7_1>: Cannot allocate memory"),
    ("interface", "NET/OFI Unable to find a protocol that worked. Failing initialization."),
    ("build", "n1:71:90 [0] NCCL WARN Mismatched NCCL version detected : rank 0 version 21903"),
    ("interface", "At least one pair of MPI processes are unable to reach each other for"),
    ("hardware", "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus."),
    ("died", "=   KILLED BY SIGNAL: 9 (Killed)"),
    ("memory", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
    ("start", "There are not enough slots available in the system to satisfy the 16"),
    (
        "timeout",
        "[E ProcessGroupNCCL.cpp:523] [Rank 3] Watchdog caught collective operation timeout",
    ),
    (
        "memlock",
        "failed to initialize while trying to allocate some locked memory.  This typically",
    ),
    (
        "unreachable",
        "torch.distributed.DistStoreError: Timed out after 9 s waiting for clients",
    ),
    ("unreachable", "Couldn't connect to 10.0.0.2:18515"),
    ("interface", "RuntimeError: Gloo connectFullMesh failed with [pair.cc:144] no error"),
    ("interface", "MPIDI_OFI_mpi_init_hook(9): OFI addrinfo() failed (No data available)"),
    ("died", "ORTE has lost communication with a remote daemon."),
    ("gid", "Failed status 12: wr_id 0 syndrom 0x81"),
    ("shm", "UCX  ERROR   Not enough memory to write 4292720 bytes. Please check /dev/shm"),
)


@pytest.mark.parametrize(("kind", "line"), OTHERS)
def test_a_failure_in_other_words_has_the_same_finding(kind: str, line: str) -> None:
    result, findings = judge(f"hello\nTraceback (most recent call last):\n{line}\n{EPILOGUE}")
    (cause,) = (sign for sign in findings if isinstance(sign, JobFailure))

    assert (result.word, cause.kind, cause.line) == ("failed", kind, 3)


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_at_the_start_has_its_finding(kind: str, prefix: str) -> None:
    lines = f"hello\n{FAILURES[kind]}\n{EPILOGUE}".splitlines()
    text = "".join(f"{PREFIXES[prefix]}{line}\n" for line in lines)
    result, findings = judge(text)
    (cause,) = (sign for sign in findings if isinstance(sign, JobFailure))

    assert result.word == "failed"
    assert (cause.kind, cause.line) == (kind, 2)
    assert FAILURES[kind][-30:] in cause.text
    assert FAILURES[kind][-30:] in result.failure.split("; ")[0]
    assert result.next_step is not None
    assert result.next_step.sign == cause


def test_a_failure_whose_line_is_not_known_is_quoted_all_the_same() -> None:
    _, findings = judge("sockperf: ERROR: Can`t bind socket (errno=99 Cannot assign it)\n")
    (cause,) = (sign for sign in findings if isinstance(sign, JobFailure))

    assert (cause.kind, cause.text[:25]) == ("cause", "ERROR: Can`t bind socket ")


@pytest.mark.parametrize(
    "line",
    [
        "UCX  ERROR connect(fd=31, dest_addr=172.17.0.1:37000) failed: Connection refused",
        WARN + "socketStartConnect: Connect to 172.17.0.1<41231> failed : Connection refused",
        "RuntimeError: [pair.cc:799] connect [127.0.1.1]:21423: Connection refused",
    ],
)
def test_a_refused_address_that_each_host_has_is_no_firewall(line: str) -> None:
    result, findings = judge(f"{line}\nMPI_ABORT was invoked on rank 0\n")

    kinds = [(s.kind, s.confidence) for s in findings if isinstance(s, Finding | JobFailure)]
    assert kinds == [("shared_subnet", "certain"), ("unreachable", "possible")]
    assert result.next_step is not None
    assert result.next_step.sign == findings[0]


MLPERF = (
    ':::MLLOG {"namespace": "", "time_ms": 17, "event_type": "INTERVAL_END", "key": "run_stop", '
    '"value": null, "metadata": {"lineno": 2, "status": "%s"}}\n'
)
ACCEPT = "n1:7:9 [3] proxy.cc:1458 NCCL WARN [Service thread] Accept failed Resource temporarily\n"
LAST = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 5.0\n"
KILLED = "srun: error: n2: task 9: Killed\n"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (MLPERF % "success" + ACCEPT, "unknown"),
        (ACCEPT + MLPERF % "success", "unknown"),
        (MLPERF % "success" + KILLED, "unknown"),
        (KILLED + MLPERF % "success" + ACCEPT, "failed"),
        (MLPERF % "aborted" + ACCEPT, "failed"),
        (all_reduce((64 * MIB, 5.0)) + KILLED, "failed"),
        (all_reduce((64 * MIB, 5.0)) + LAST + KILLED, "unknown"),
        (all_reduce((64 * MIB, 5.0)) + LAST + FAILURES["device"] + "\n", "unknown"),
        (all_reduce((64 * MIB, 5.0)) + LAST + ACCEPT, "unknown"),
        (FAILURES["unreachable"] + "\n" + all_reduce((64 * MIB, 5.0)) + LAST, "unknown"),
        (all_reduce((64 * MIB, 5.0)) + FAILURES["device"] + "\n" + LAST, "failed"),
        (biband((MIB, 24000.0)) + KILLED, "failed"),
        (biband((MIB, 24000.0)) + "# All processes entering MPI_Finalize\n" + KILLED, "unknown"),
        (LAST + KILLED + "# OSU MPI Latency Test v5.8\n# Size          Latency (us)\n", "failed"),
    ],
)
def test_what_follows_success_is_a_note(text: str, word: str) -> None:
    assert judge(text)[0].word == word


@pytest.mark.parametrize(
    "text",
    [
        "# OSU MPI Latency Test v7.3\n# Size          Latency (us)\n0 bytes        1.29 us\n",
        biband().replace("Msg/sec\n", "Msg/sec\n | 1048576 |  10 |  24000.00 |  22888 |\n"),
        all_reduce().replace(
            "busbw #wrong\n", "busbw #wrong\n 64M 16777216 float sum 2.0 8.0 9.0\n"
        ),
        (
            "nvbandwidth Version: v0.4\nRunning host_to_device_memcpy_ce.\n"
            "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n           GPU0\nCPU  |  55.22\n"
        ),
    ],
)
def test_rows_that_were_not_understood_are_no_failure(text: str) -> None:
    result, _ = judge(text)

    assert (result.word, result.verdicts, result.failure) == ("unknown", (), "")


RANK = "#  Rank  {} Group  {} Pid  7 on  h{} device  {} [0x10] NVIDIA A100-SXM4-40GB\n"


@pytest.mark.parametrize(
    ("groups", "hosts", "ranks", "count"), [("0011", "1122", 2, 1), ("0101", "1122", 2, 2)]
)
def test_the_ranks_of_a_split_communicator_are_those_of_a_group(
    groups: str, hosts: str, ranks: int, count: int
) -> None:
    lines = "".join(
        RANK.format(rank, group, host, rank % 2)
        for rank, (group, host) in enumerate(zip(groups, hosts, strict=True))
    )
    result, _ = judge(all_reduce((64 * MIB, 5.0)).replace("#\n", "#\n" + lines, 1), "p4d.24xlarge")
    (verdict,) = (v for v in result.verdicts if v.metric == "busbw")

    assert (verdict.params["ranks"], verdict.params["hosts"]) == (ranks, count)
    assert verdict.word not in ("low", "impossible")


@pytest.mark.parametrize(
    ("text", "medians"),
    [
        (("# OSU MPI Bandwidth Test v5.8\n# Size      Bandwidth (MB/s)   Bandwidth (MB/s)\n"
          "4194304  12100.00  6100.00\n"), [12.1e9, 6.1e9]),
        (biband((MIB, 24000.0)).replace("Msg/sec\n", "Msg/sec Mbytes/sec Msg/sec\n").replace(
            "22888\n", "22888 12000.0 11444\n"), [24e9, 12e9]),
    ],
)  # fmt: skip
def test_two_tests_side_by_side_are_two_series(text: str, medians: list[float]) -> None:
    with read_logs(["-"], stdin=io.BytesIO(text.encode())) as logs:
        result = [s.median for s in logs.run.summary() if s.unit == "B/s"]

    assert sorted(result) == pytest.approx(sorted(medians))


def test_the_user_names_the_operation_that_a_log_leaves_open(tmp_path: Path) -> None:
    log = tmp_path / "notes.md"  # no name is refused
    log.write_text(
        "# nThread 1 nGpus 8\n# size count type redop root time algbw busbw #wrong\n"
        "67108864 16777216 float none 0 671.1 100.00 100.00 0\n"
    )
    place = LogLocation(hardware=find("p4d.24xlarge"), hosts=2, operation="broadcast")
    with read_logs([str(log)], place=place) as logs:
        (point,) = (s.params for s in logs.run.summary() if s.metric == "busbw")

    assert point["operation"] == "broadcast"


OSU_ROWS = " 0                       0.29\n 8                       0.31\n"


@pytest.mark.parametrize(
    ("text", "metric", "medians"),
    [
        ("# OSU MPI Latency Test v5.8\n# # Size          Latency (us)\n" + OSU_ROWS, "latency",
         [2.9e-7, 3.1e-7]),
        (("Client connecting to b, TCP port 5001\n[ ID] Interval       Transfer     Bandwidth\n"
         "[  3]  0.0- 0.0 sec  12.0 MBytes  24.1 Gbits/sec\n"), "sent", [24.1e9 / 8]),
        ("tcp_bw:\n    bw  =  231 MB/sec   (nice)\n", "bandwidth", [231e6]),
        ("##  OSU MPI Latency Test v5.8\n##  Size       Latency (us)\n" + OSU_ROWS, "latency",
         [2.9e-7, 3.1e-7]),
        ("# OSU MPI Allreduce Latency Test v7.4\nSize,Avg Latency(us)\n8,2.31\n1024,4.5\n",
         "collective_time", [2.31e-6, 4.5e-6]),
        ("benchmark,#bytes,#repetitions,t[usec]\nPingPong,0,1000,1.2\n", "time", [1.2e-6]),
        ("size(B) algbw busbw\n8388608 18.6 34.9\n134217728 22.4 42.0\n", "busbw",
         [34.9e9, 42e9]),
    ],
)  # fmt: skip
def test_rows_in_unusual_clothes_are_read(text: str, metric: str, medians: list[float]) -> None:
    with read_logs(["-"], stdin=io.BytesIO(text.encode())) as logs:
        result = [s for s in logs.run.summary() if s.metric == metric]

    assert [s.median for s in result] == pytest.approx(medians)
    assert logs.run.record.status == "done"


@pytest.mark.parametrize(
    ("text", "status", "line"),
    [
        ("# OSU MPI Latency Test v5.8\n# Size          Latency (us)\n8 ~ 0.31 us\n", "done", 3),
        ("tcp_lat:\n    latency  =  3.1 parsecs\n", "done", 2),
        ("# OSU MPI Latency Test v5.8\n# Size          Latency (us)\n", "failed", 0),
        ("# OSU MPI Latency Test v5.8\n# Size          Latency (us)\n8 failed\n", "failed", 0),
    ],
)
def test_rows_that_are_not_understood_are_not_absent(text: str, status: str, line: int) -> None:
    with read_logs(["-"], stdin=io.BytesIO(text.encode())) as logs:
        record = logs.run.record

    assert record.status == status
    notes = [note for note in record.notes if isinstance(note, Note)]
    lines = [note.values[0] for note in notes if note.kind == "rows_not_understood"]
    assert lines == ([line] if line else [])


WINDOWS = (
    "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n"
    "[  5]   0.00-1.00   sec  96.2 KBytes   787 Kbits/sec    2   1.37 KBytes\n"
    "[  5]   1.00-2.00   sec  0.00 Bytes  0.00 bits/sec    1   1.37 KBytes\n"
    "[  5]   0.00-2.00   sec  96.2 KBytes   394 Kbits/sec    3             sender\n"
    "[  5]   0.00-2.04   sec  {}                  receiver\n"
)
CHANNEL = "h1:1:2 [0] NCCL INFO Channel 00/0 : {} [{}] via NET/{}\n"
VXLAN = "Features for vxlan.calico:\ntx-checksum-ip-generic: "
UDP = (
    "MIGRATED UDP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.2 () port 0 AF_INET\n"
    "Socket  Message  Elapsed      Messages\n"
    "Size    Size     Time         Okay Errors   Throughput\n"
    "bytes   bytes    secs            #      #   10^6bits/sec\n\n"
    "212992   65507   10.00      121463      0    6364.96\n"
    "212992           10.00       {}   3311.79\n"
)
RECEIVES = CHANNEL.format("1[0] -> 0[0]", "receive", "IB/0/GDRDMA")


@pytest.mark.parametrize(
    ("text", "kind", "word"),
    [
        (WINDOWS.format("0.00 Bytes  0.00 bits/sec"), "nothing_received", "low"),
        (WINDOWS.format("96.2 KBytes   387 Kbits/sec"), None, "unknown"),
        (RECEIVES + CHANNEL.format("0[0] -> 1[0]", "send", "IB/0"), "gdr_reads_off", "unknown"),
        (RECEIVES + CHANNEL.format("0[0] -> 1[0]", "send", "IB/0/GDRDMA"), None, "unknown"),
        (UDP.format(63200), "datagrams_lost", "low"),
        (UDP.format(121000), None, "unknown"),
        ("fw_ver: 20.28.1002\n" * 4 + "fw_ver: 20.31.1014\n", "firmware_differs", "unknown"),
        ("fw_ver: 16.28.1002\nFirmware version: 20.31.1014\n", None, "unknown"),
        ("Bonding Mode: load balancing (round-robin)\n", "bond_reorders", "unknown"),
        ("Bonding Mode: IEEE 802.3ad Dynamic link aggregation\n", None, "unknown"),
        (VXLAN + "on\n", "overlay_checksums", "unknown"),
        (VXLAN + "off\n", None, "unknown"),
    ],
)  # fmt: skip
def test_a_trouble_that_a_line_or_a_figure_names(text: str, kind: str | None, word: str) -> None:
    result, findings = judge(text)

    kinds = {sign.kind for sign in findings if isinstance(sign, Finding)} - {"overlay"}
    assert kinds == ({kind} if kind else set())
    assert result.word == word
    output = result.next_step.sign if result.next_step else None
    assert kind is None or output in findings


@pytest.mark.parametrize(
    ("rate", "check"), [(17e3, "tcp_stalled"), (50e6, "tcp_link"), (3.1e9, "tcp")]
)
def test_what_shows_why_tcp_is_slow_goes_with_its_rate(rate: float, check: str) -> None:
    nic = "nic=1gbit" if rate < 1e9 else "nic=100gbit"
    bits = rate * 8
    result, _ = judge(
        "Client connecting to b, TCP port 5001\n[ ID] Interval       Transfer     Bandwidth\n"
        f"[  3]  0.0-10.0 sec  {rate * 10:.0f} Bytes  {bits:.0f} bits/sec\n", nic
    )  # fmt: skip

    assert result.word == "low"
    assert [v.reason.check for v in result.verdicts if isinstance(v.reason, Low)] == [check]


def test_each_column_of_rates_is_a_series_of_its_own() -> None:
    table = (
        "| GPUs | Throughput - FP32 | Throughput - mixed precision |\n|---|---|---|\n"
        "| 1 | 410 img/s | 1010 img/s |\n| 8 | 3100 img/s | 7200 img/s |\n"
    )
    result = [scaling(curve).rows for curve in series(table)]
    judgement, _ = judge(table)

    assert [rows[-1].efficiency for rows in result] == pytest.approx([0.945, 0.891], abs=1e-3)
    assert sorted(v.median for v in judgement.verdicts) == [410, 1010, 3100, 7200]


def test_columns_without_units_in_their_cells_are_told_apart_and_batches_are_no_ranks() -> None:
    table = (
        "| Batch size | Images/s baseline | Images/s + XLA |\n|---|---|---|\n"
        "| 64 | 1200 | 1500 |\n| 128 | 1400 | 1800 |\n"
    )

    assert sorted(v.median for v in judge(table)[0].verdicts) == [1200, 1400, 1500, 1800]
    assert series(table) == ()
    assert judge("| Setting | Value |\n|---|---|\n| GPUs | 8 |\n" + table)[0].verdicts


def test_a_figure_names_no_column_of_rates() -> None:
    table = (
        "| Setting | Value |\n|---|---|\n| throughput target | 5000 samples/s |\n| GPUs | 16 |\n"
    )
    with pytest.raises(ParseError):
        judge(table)


def test_of_a_sender_and_a_receiver_one_decides() -> None:
    result, findings = judge(
        "[  5]   0.00-10.00  sec  14.0 GBytes  12.0 Gbits/sec  0             sender\n"
        "[  5]   0.00-10.04  sec  9.8 GBytes  8.4 Gbits/sec                  receiver\n",
        "nic=10gbit,mtu=9000",
    )

    assert (result.word, [v.metric for v in result.verdicts], findings) == ("low", ["received"], ())
