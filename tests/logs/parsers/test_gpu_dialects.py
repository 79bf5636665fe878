"""What GPU tools print in the wild: other versions, AMD's forks, torn tables, and failures."""

from __future__ import annotations

import pytest

from cluster.analysis.hardware import find
from cluster.analysis.hardware_bounds import bound
from cluster.core.model.logs import NcclLog, PeerAccess, Topology
from cluster.logs.parsers.nvbandwidth import LOCAL
from cluster.logs.reader import read
from tests.logs.parsers.test_parsers import LOGS, values

HEAD = "h:1:2 [0] NCCL INFO "
RANKS = "".join(
    f"#  Rank  {n} Group  0 Pid  77 on  node-a device  {n} [0x1{n}] NVIDIA A100-SXM4-40GB\n"
    for n in range(4)
)
NEW = "#  size  count  type  redop  root  time algbw busbw #wrong  time algbw busbw #wrong\n"
OLD = "#  size  count  type  root  time algbw busbw error  time algbw busbw error\n"


PREFIXES = (
    "node01: ",  # pdsh
    "node-1.example: ",  # clush
    "worker-0  | ",  # docker compose
    "[pod/w-0/main] ",
    "[pod/w-0/main] 2026-01-02T03:04:05.123456789Z ",
    "(worker pid=4711, ip=10.0.0.1) ",  # Ray
    "(head, rank=0, pid=4711) ",  # SkyPilot
    "Jan  2 03:04:05 node01 job[4711]: ",
    "03:04:05 ",
    "2026-01-02 03:04:05,123 - INFO - ",
    "INFO:root:",
    "[1,mpirank:0,algo-1]<stdout>:",  # SageMaker
)


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("name", ["nccl_tests.old", "p2p_matrix.full", "topology.nics"])
def test_what_stands_before_every_line_is_no_part_of_it(prefix: str, name: str) -> None:
    log = (LOGS / f"{name}.txt").read_text()
    plain = read([log.encode()]).results
    labelled = "".join(f"{prefix}{line}\n" for line in log.splitlines())
    found = read([labelled.encode()]).results

    assert [(r.measurements, r.detail, r.failures) for r in found] == [
        (r.measurements, r.detail, r.failures) for r in plain
    ]


class TestNcclTests:
    """nccl-tests and rccl-tests."""

    def test_times_of_the_first_versions_are_milliseconds(self) -> None:
        text = (
            "nThread 1 nGpus 4 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20\n"
            "# NCCL Tests compiled with NCCL 2.1\n"
            "#   Rank  0 on  node-a device  0 [0x00] Tesla P100-PCIE-16GB\n"
            "#      bytes  N    type  op  time  algbw  busbw  res  time  algbw  busbw  res\n"
            "#  1048576  262144  float  sum  0.210  4.99  7.49  2e-07  0.205  5.11  7.67  2e-07\n"
        )
        (test,) = read([text.encode()]).results

        assert values(test, "time", place="out") == pytest.approx([210e-6])
        assert values(test, "algbw", place="in") == [5.11e9]
        assert test.ranks == 4  # 7.49 / 4.99 = 2 * 3 / 4: lines of ranks are missing

    def test_the_root_of_old_broadcasts_is_no_reduction(self) -> None:
        row = "  1048576  262144  float  0  104.9  10.00  10.00  0e+00  104.9  10.00  10.00  N/A\n"
        (test,) = read([(RANKS + OLD + row).encode()]).results

        assert "redop" not in test.measurements[0].params
        assert test.ranks == 4

    def test_a_program_that_counts_without_the_own_part_is_converted(self) -> None:
        row = "  1048576  65536  float  -1  104.9  7.50  7.50  0  104.9  7.50  7.50  N/A\n"
        (test,) = read([(RANKS + NEW + row).encode()]).results

        assert values(test, "algbw", place="out") == pytest.approx([10e9])
        assert values(test, "busbw", place="out") == [7.5e9]
        assert any("(n-1)/n" in note for note in test.notes)

    def test_rows_that_lines_of_nccl_tore_are_put_together(self) -> None:
        """NCCL connects during the first call, when a row is begun and not ended."""
        torn = (
            f"     1048576   262144  float  sum   -1{HEAD}Connected all rings\n"
            f"{HEAD}Connected all trees\n"
            f"    104.9   10.00   15.00      0{HEAD}Connected all trees\n"
            "    209.8    5.00    7.50      0\n"
            f"     2097152   524288  float  sum    010-0-0-1:3:4 [1] NCCL INFO x\n"
            "    209.8   10.00   15.00    N/A    209.8   10.00   15.00    N/A\n"
        )
        reading = read([(RANKS + NEW + torn).encode()])
        test = reading.results[0]

        assert reading.unread == 0
        assert values(test, "busbw", size=1048576) == [15e9, 7.5e9]
        assert values(test, "busbw", size=2097152) == [15e9, 15e9]

    def test_parts_that_do_not_agree_are_no_row(self) -> None:
        torn = f"     1048576   262144  float  sum   -1{HEAD}x\n    104.9   90.00   95.00      0\n"
        reading = read([(RANKS + NEW + torn).encode()])

        assert values(reading.results[0], "busbw") == []
        assert "1048576 B was begun, and has no end" in " ".join(reading.results[0].notes)
        assert reading.unread == 1

    def test_processes_that_did_not_find_each_other(self) -> None:
        row = "  1048576  262144  float  sum  -1  1.00  1048.58  0.00  0  1.00  1048.58  0.00  0\n"
        alone = "".join(
            f"#  Rank  0 Group  0 Pid {n} on node-{n} device  0 [0x10] Tesla T4\n" for n in (1, 2)
        )
        (test,) = read([(alone + NEW + row).encode()]).results

        assert (test.ranks, test.hosts) == (1, 1)
        assert any("did not find each other" in note for note in test.notes)

    def test_the_command_names_its_own_test_only(self) -> None:
        row = "  67108864  16777216  float  sum  -1  671.1  100.00  {0}  0  671.1  100.00  {0}  0\n"
        start = "# nThread 1 nGpus 4 minBytes 8 maxBytes 8 step: 2(factor) validation: 1\n"
        text = (
            f"$ ./all_reduce_perf -b 64M\n{start}{RANKS}{NEW}{row.format('150.00')}"
            f"# Avg bus bandwidth    : 150\n{start}{RANKS}{NEW}{row.format('75.00')}"
            "# Avg bus bandwidth    : 75\n# Collective test starting: scatter_perf_mpi\n"
            f"{start}{RANKS}{NEW}{row.format('75.00')}"
        )
        tests = read([text.encode()]).results

        assert [test.operation for test in tests] == ["all_reduce", "", "scatter"]

    def test_a_name_that_its_factor_contradicts_is_not_believed(self) -> None:
        row = (
            "  67108864  16777216  float  sum  -1  671.1  100.0  75.00  0  671.1  100.0  75.00  0\n"
        )
        text = f"# Collective test starting: broadcast_perf\n{RANKS}{NEW}{row}"

        assert read([text.encode()]).results[0].operation == ""

    def test_json_names_the_first_rank_of_each_process(self) -> None:
        half = '{"time":4000.0,"alg_bw":268.435,"bus_bw":469.762,"nwrong":null}'
        broken = '{"time":4000.0,"alg_bw":"nan","bus_bw":1.0,"nwrong":null}'
        device = '{"rank":%d,"hostname":"node-%d","device":0,"device_info":"NVIDIA H100 80GB HBM3"}'
        text = (
            '{"version":2,"args":[".\\/all_reduce_perf"],"config":{"nthreads":1,"ngpus":8,"devices":['
            f'{device % (0, 0)},{device % (8, 1)}]}},"results":[{{"size":1073741824,"type":"float",'
            f'"redop":"sum","out_of_place":{half},"in_place":{broken}}}],'
            '"out_of_bounds":{"count":3,"okay":"false"},"errors":[""]}\n'
        )
        (test,) = read([text.encode()]).results

        assert (test.ranks, test.hosts) == (16, 2)
        assert test.devices == ("NVIDIA H100 80GB HBM3",)
        assert values(test, "busbw") == [469.762e9]
        assert test.failures == ("Out of bounds values : 3 FAILED",)

    def test_times_of_many_seconds_are_printed_coarsely(self) -> None:
        row = "17179869184 4294967296 float sum -1 1.7e+07 0.98 1.47 0 9871234 1.74 2.61 0\n"
        (test,) = read([(RANKS + NEW + row).encode()]).results

        assert values(test, "busbw") == [1.47e9, 2.61e9]

    def test_rows_in_other_units_are_refused_and_not_said_to_be_missing(self) -> None:
        row = "  1048576  262144  float  sum  -1  104.9  10000  15000  0  104.9  10000  15000  0\n"
        (test,) = read([(RANKS + NEW + row).encode()]).results

        assert test.measurements == ()
        assert "none of its 1 row(s) has size, count" in test.failures[0]

    MARKDOWN = (
        "| size (B) | count | type | redop | root | time (us) | algbw (GB/s) | busbw | {} |\n"
        "|---:|:---:|---|---|---|---|---|---|---|\n"
        "| **1048576** | 262144 | float | sum | -1 | 104.9 | 10.00 | 15.00 | {} |\n"
    )

    @pytest.mark.parametrize(("name", "cell"), [("#wrong", "0"), ("#wrong", ""), ("nodes", "2")])
    def test_a_markdown_table(self, name: str, cell: str) -> None:
        reading = read([self.MARKDOWN.format(name, cell).encode()])
        (test,) = reading.results

        assert reading.unread == 0
        assert test.failures == ()
        assert values(test, "busbw") == [15e9]
        assert values(test, "time") == pytest.approx([104.9e-6])

    def test_a_markdown_table_of_both_halves_without_errors(self) -> None:
        text = (
            "| size | count | type | time | algbw | busbw | time | algbw | busbw |\n|---|---|\n"
            "| 1048576 | 262144 | float | 104.9 | 10.00 | 15.00 | 209.8 | 5.00 | 7.50 |\n"
        )
        (test,) = read([text.encode()]).results

        assert test.failures == ()
        assert values(test, "busbw", place="out") == [15e9]
        assert values(test, "busbw", place="in") == [7.5e9]

    def test_wrong_values_of_a_markdown_table_are_a_failure(self) -> None:
        (test,) = read([self.MARKDOWN.format("#wrong", "7").encode()]).results

        assert test.failures == ("1048576 B, out of place: 7 values were wrong",)

    @pytest.mark.parametrize(
        "row",
        [
            "| 1M | 262144 | float | sum | -1 | 104.9 | 10.00 | 15.00 | 0 |\n",  # no bytes
            "| 1048576 | 262144 | float | sum | -1 | 0.1049 | 10.00 | 15.00 | 0 |\n",  # ms
            "| 1048576 | 10.00 | 15.00 |\n",
        ],
    )
    def test_rows_of_a_markdown_table_that_cannot_be_read_are_refused(self, row: str) -> None:
        head = self.MARKDOWN.format("#wrong", "0").splitlines(keepends=True)[0]
        reading = read([(head + row).encode()])

        assert reading.results[0].measurements == ()
        assert "none of its 1 row(s) has size, count" in reading.results[0].failures[0]
        assert reading.unread == 1

    def test_tables_of_other_programs_are_not_refused_rows(self) -> None:
        row = "  1048576  262144  float  sum  -1  104.9  10.00  15.00  0  104.9  10.00  15.00  0\n"
        smi = "+------+\n|   0  Tesla V100-SXM2  On | 00000000:06:00.0 Off | 0 |\n+------+\n"
        (test,) = read([(RANKS + NEW + smi + row).encode()]).results

        assert values(test, "busbw") == [15e9, 15e9]

    @pytest.mark.parametrize("prefix", ["+", "+ ", "| ", "> | ", "  > "])
    def test_rows_that_a_diff_added_or_a_mail_quoted(self, prefix: str) -> None:
        row = "  1048576  262144  float  sum  -1  104.9  10.00  15.00  0  104.9  10.00  15.00  0\n"
        text = "".join(f"{prefix}{line}\n" for line in (RANKS + NEW + row).splitlines())
        reading = read([text.encode()])

        assert reading.unread == 0
        assert values(reading.results[0], "busbw") == [15e9, 15e9]
        assert reading.results[0].ranks == 4

    def test_rows_behind_something_else_are_not_said_to_be_missing(self) -> None:
        """A diff has as many old rows as new ones: nobody can tell which are meant."""
        row = "  1048576  262144  float  sum  -1  104.9  10.00  15.00  0  104.9  10.00  15.00  0\n"
        text = RANKS + NEW + f"-{row}+{row}"
        (test,) = read([text.encode()]).results

        assert test.measurements == ()
        assert "other text around their columns" in test.failures[0]

    def test_rccl_tests(self) -> None:
        text = (
            "# nThreads: 1 nGpus: 2 nRanks: 1 minBytes: 8 maxBytes: 8 step: 2(factor)\n"
            "rccl-tests: Version 5.7.1\n"
            "#   Rank  0 Pid 1178 on box device  0 [0000:63:00.0] AMD Instinct MI210\n"
            f"{NEW}  1048576 262144 float  sum  -1  100.0  10.49  10.49  0  110.0  9.53  9.53  0\n"
            "# Errors with asterisks indicate errors that have exceeded the maximum threshold.\n"
        )
        reading = read([text.encode()])

        assert reading.unread == 0
        assert reading.results[0].devices == ("AMD Instinct MI210",)

    @pytest.mark.parametrize(
        "text",
        [
            "$ ./all_reduce_perf -b 8\nNCCL failure common.cu:908 'unhandled cuda error'\n",
            "#  Rank  0 Pid 7 on box device  0 [0x63] A\nbox: Test NCCL failure common.cu:12 'x'\n",
            "box: Test HIP failure common.cu:12 'x'\n .. box pid 7: Test failure common.cu:1\n",
        ],
    )
    def test_a_failure_before_the_table(self, text: str) -> None:
        (test,) = read([text.encode()], "nccl_tests").results

        assert "failure" in test.failures[0]


class TestNcclLog:
    """NCCL's and RCCL's log."""

    @staticmethod
    def log(text: str) -> NcclLog:
        (detail,) = (r.detail for r in read([text.encode()]).results if r.format == "nccl_log")
        assert isinstance(detail, NcclLog)
        return detail

    @pytest.mark.parametrize(
        ("line", "via", "direct"),
        [
            (
                "Channel 00/0 : 0[c1000] -> 1[c6000] via P2P/IPC comm 0xf3 nRanks 08",
                "P2P/IPC",
                False,
            ),
            (
                "Channel 00 : 3[6] -> 0[1] [send] via NET/AWS Libfabric/2/GDRDMA comm 0x9 nRanks 4",
                "NET/AWS Libfabric/2/GDRDMA",
                True,
            ),
            ("CollNet 00/0 : 0 [send] via COLLNET/SHARP/1/GDRDMA", "COLLNET/SHARP/1/GDRDMA", True),
            ("Channel 00/0 : 0[0] -> 8[0] [send] via NET/gIB/1", "NET/gIB/1", False),
            (
                "Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer/read",
                "P2P/direct pointer/read",
                False,
            ),
        ],
    )
    def test_links_of_forks_and_plug_ins(self, line: str, via: str, *, direct: bool) -> None:
        log = self.log(f"{HEAD}{line}\n{HEAD}Connected all rings\n")

        assert [(edge.via, edge.direct, edge.channels) for edge in log.edges] == [
            (via, direct, (0,))
        ]
        assert log.torn == 0

    @pytest.mark.parametrize(
        ("line", "title"),
        [
            ("RCCL version 2.18.3+hip6.0 HEAD:7b1d0eb+", "RCCL 2.18.3+hip6.0"),
            (f"{HEAD}RCCL version : 2.27.7-HEAD:0d2c4fd", "RCCL 2.27.7-HEAD"),
            (f"{HEAD}NCCL version 2.23.4+cuda12.4", "NCCL 2.23.4+cuda12.4"),
        ],
    )
    def test_the_library_names_itself(self, line: str, title: str) -> None:
        assert read([f"{line}\n".encode()]).results[0].title == title

    def test_lines_of_nccl_2_0(self) -> None:
        log = self.log(
            "g:1:2 [0] INFO Using internal Network Socket\n"
            "g:1:2 [0] INFO Ring 00 :    0   1\n"
            "g:1:2 [0] INFO Ring 00 : 0[0] -> 1[1] via P2P/IPC\n"
            "g:1:2 [0] transport/p2p.cu:526 WARN failed to open CUDA IPC handle : 30\n"
        )

        assert log.rings == ((0, 1),)
        assert [edge.via for edge in log.edges] == ["P2P/IPC"]
        assert log.networks == ("Socket",)
        assert log.warnings == ("failed to open CUDA IPC handle : 30",)

    def test_a_network_without_a_device_is_not_used(self) -> None:
        log = self.log(
            f"{HEAD}NET/IB : Using [RO]; OOB eth0:10.0.0.1<0>\n"
            f"{HEAD}NET/Socket : Using [0]eth0:10.0.0.1<0>\n"
        )

        assert log.networks == ("Socket",)

    def test_the_network_that_nccl_said_it_uses_counts(self) -> None:
        log = self.log(
            f"{HEAD}NET/IB : Using [0]mlx5_0:1/IB/SHARP [RO]; OOB ib0:10.0.0.1<0>\n"
            f"{HEAD}Using network IBext_v8\n"
        )

        assert log.networks == ("IBext_v8",)
        assert log.interfaces == ("mlx5_0:1/IB/SHARP",)

    @pytest.mark.parametrize(
        "warning",
        [
            "NET/IB: Got completion from peer h<5592> with status=12 opcode=1 vendor err 129",
            "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 5000",
            "Message truncated : received 1024 bytes instead of 256",
        ],
    )
    def test_warnings_that_end_a_job(self, warning: str) -> None:
        (result,) = read([f"h:1:2 [0] x.cc:1 NCCL WARN {warning}\n".encode()]).results

        assert result.failures == (f"NCCL WARN {warning}",)

    def test_a_warning_that_its_process_got_over_is_no_failure(self) -> None:
        warning = "h:{0}:9 [0] sharp.c:3 NCCL WARN SHARP coll init error: Cannot create SHARP job\n"
        done = "h:{0}:2 [0] NCCL INFO comm 0x5 rank 0 nranks 2 cudaDev 0 - Init COMPLETE\n"
        went_on = read([(warning.format(1) + done.format(1)).encode()]).results[0]
        other = read([(warning.format(2) + done.format(1)).encode()]).results[0]
        nobody = (warning + done).replace("h:{0}:9 [0] ", "").replace("h:{0}:2 [0] ", "")

        assert went_on.failures == ()
        assert "NCCL went on after" in went_on.notes[0]
        assert other.failures
        assert read([nobody.encode()]).results[0].failures  # whoever it was

    GOOD = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 150\n"
    START = "# nThread 1 nGpus 4 minBytes 8 maxBytes 8 step: 2(factor) validation: 1\n"
    CLOSED = (
        "node-a:77:99 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by {}\n"
    )

    @staticmethod
    def failures(text: str) -> list[str]:
        found = read([text.encode()]).results
        return [text for one in found if one.format == "nccl_log" for text in one.failures]

    @pytest.mark.parametrize("infos", ["", "node-a:77:80 [0] NCCL INFO Connected all rings\n"])
    def test_a_warning_of_a_test_that_succeeded_is_a_note(self, infos: str) -> None:
        """NCCL closes its connections before nccl-tests prints its last lines, or after them."""
        row = "  1048576  262144  float  sum  -1  104.9  10.00  15.00  0  104.9  10.00  15.00  0\n"
        test, after = self.START + RANKS + infos + NEW + row, self.CLOSED.format("peer")
        nvls = (
            "node-a:77:98 [0] transport/nvls.cc:598 NCCL WARN Cuda failure 1 'invalid argument'\n"
        )
        log = test + nvls + self.GOOD + after
        notes = [note for result in read([log.encode()]).results for note in result.notes]

        assert self.failures(log) == []
        assert sum("succeeded all the same: NCCL WARN" in note for note in notes) == 2
        assert self.failures(test + after)  # nobody said that it succeeded
        assert self.failures(test + after + self.GOOD.replace("150", "1 FAILED"))
        assert self.failures(log.replace("0 OK", "3 FAILED"))

    @pytest.mark.parametrize(
        "fatal",
        [
            "NET/IB : mlx5_0:1 Got async event : local access violation work queue error",
            "NET/IB : mlx5_0:1 async fatal event on QP (0x7f): transport retry error",
            "NET/IB: Got completion from peer h<5592> with status=12 opcode=1 vendor err 129",
            "socketStartConnect: Connect to 10.0.0.2<45763> failed : Software caused abort",
            "Bootstrap: timed out while closing",
        ],
    )
    def test_what_nobody_outlives_is_a_failure_behind_any_success(self, fatal: str) -> None:
        log = f"{self.START}{RANKS}{self.GOOD}node-a:77:99 [0] x.cc:1 NCCL WARN {fatal}\n"

        assert self.failures(log)[0] == f"NCCL WARN {fatal}"

    def test_the_success_of_a_test_is_not_that_of_another_program(self) -> None:
        other = self.CLOSED.replace("node-a:77:", "node-a:78:")
        again = RANKS.replace("Pid  77", "Pid  78")
        good = self.START + RANKS + self.GOOD

        assert self.failures(good + other.format("peer"))
        assert self.failures(good + self.START + again + NEW + other.format("peer"))
        assert self.failures(self.START + again + other.format("peer") + good)

    def test_tests_that_run_beside_each_other_prove_nothing(self) -> None:
        both = self.START + self.START + RANKS + RANKS + self.CLOSED.format("peer") + self.GOOD

        assert self.failures(both)

    def test_processes_of_a_test_are_known_by_their_set_up_too(self) -> None:
        done = "h:5:6 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks 2 - Init COMPLETE\n"
        late = self.CLOSED.replace("node-a:77:", "h:5:").format("peer")

        assert self.failures(done + NEW + self.GOOD + late) == []
        assert self.failures(NEW + self.GOOD + done + late)

    def test_events_that_nccl_calls_non_fatal(self) -> None:
        done = f"{HEAD}comm 0x5 rank 0 nranks 2 cudaDev 0 - Init COMPLETE\n"
        event = "NET/IB : mlx5_1:1 Got non-fatal async event: port error(10)"
        (result,) = read([f"{done}h:1:9 [0] x.cc:253 NCCL WARN {event}\n".encode()]).results

        assert result.failures == ()
        assert event in result.notes[0]

    @pytest.mark.parametrize(
        ("line", "fabric"),
        [
            ("MNNVL 1 cliqueId 7ffe cliqueSize 72 cliqueRank 0 ", True),
            ("MNNVL 1 cliqueId 7ffe cliqueSize 1 cliqueRank 0 nvlDomainSize 8", True),
            ("Channel 00/0 : 3[3] -> 4[0] via P2P/MNNVL", True),
            ("MNNVL 0 cliqueId 0 cliqueSize 4 cliqueRank 0 ", False),
            ("MNNVL 1 cliqueId 0 cliqueSize 1 cliqueRank 0 ", False),
            ("MNNVL busId 0x901000 fabric UUID 0.0 cliqueId 0x7ffe state 3 healthMask 0xaa", False),
            ("Channel 00/0 : 3[3] -> 4[0] via P2P/CUMEM", False),
        ],
    )
    def test_nvlink_between_hosts(self, line: str, *, fabric: bool) -> None:
        log = self.log(f"{HEAD}{line}\n{HEAD}Connected all rings\n")

        assert (log.fabric, log.torn) == (fabric, 0)

    @pytest.mark.parametrize(
        "last",
        [
            "[rank0]:[E6 x.cpp:6] [Rank 0] Watchdog caught collective operation timeout: Work()",
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1251",
        ],
    )
    def test_what_pytorch_says_of_nccl_at_its_end(self, last: str) -> None:
        done = f"{HEAD}comm 0x5 rank 0 nranks 2 cudaDev 0 - Init COMPLETE\n"
        found = read([f"{done}{last}\n".encode()]).results

        assert any(result.failures for result in found)

    def test_no_infiniband_library_is_no_failure(self) -> None:
        """NCCL 2.4 to 2.7 warn of it on every host without InfiniBand."""
        text = "h:1:1 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]\n"

        assert read([text.encode()]).results[0].failures == ()

    def test_a_time_that_touches_a_host_is_no_part_of_it(self) -> None:
        done = "{}ip-10-0-0-1:7{}:9 [0] NCCL INFO comm 0x1 rank {} nranks 2 - Init COMPLETE\n"
        log = self.log(
            done.format("2026-01-02T03:04:05.208-07:00", 1, 0)
            + done.format("2026-01-02T03:04:09.301-07:00", 2, 1)
        )

        assert len({rank.host for rank in log.ranks}) == 1


class TestNvbandwidth:
    """nvbandwidth."""

    def test_a_test_that_failed_after_others_succeeded(self) -> None:
        text = (
            "nvbandwidth Version: v0.7\nRunning host_to_device_memcpy_ce.\n"
            "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n           0\n 0     24.10\n"
            "\nSUM host_to_device_memcpy_ce 24.10\n\nRunning device_to_device_memcpy_read_ce.\n"
            " Invalid value when checking the pattern at 0x70a640000000\n"
            "ASSERT in expression h_errorFlag == 0 in void f() : memcpy.cpp:165\n"
        )
        (test,) = read([text.encode()]).results

        assert values(test, "host_copy_bandwidth") == [24.1e9]
        assert len(test.failures) == 2

    def test_a_test_that_was_begun_and_never_ended(self) -> None:
        (test,) = read([b"nvbandwidth Version: v0.8\nRunning host_to_device_memcpy_ce.\n"]).results

        assert "host_to_device_memcpy_ce has no matrix" in test.failures[0]

    def test_all_of_it_was_waived(self) -> None:
        text = b"nvbandwidth Version: v0.2\n\nWaiving device_to_device_memcpy_write_ce.\n"
        (test,) = read([text]).results

        assert test.failures == ("there is no matrix: all of it was waived",)

    def test_latency_between_devices(self) -> None:
        text = (
            "nvbandwidth Version: v0.8\nRunning device_to_device_latency_sm.\n"
            "Device to Device Latency SM GPU(row) <-> GPU(column) (ns)\n"
            "           0         1\n 0       N/A    697.60\n 1    698.70       N/A\n\n"
            "SUM device_to_device_latency_sm 1396.30\n"
        )
        (test,) = read([text.encode()]).results

        assert values(test, "access_latency") == pytest.approx([697.6e-9, 698.7e-9])

    def test_json_of_a_run_that_stopped(self) -> None:
        text = (
            '{"nvbandwidth":{"version":"v0.8","GPU Device List":["0: NVIDIA H100 (00000000:1b:00): '
            '(n)"],"testcases":[{"name":"a","status":"Waived"},{"name":"b","status":"Running"}]}}\n'
        )
        (test,) = read([text.encode()]).results

        assert test.devices == ("NVIDIA H100",)
        assert "b: it was begun, and never ended" in test.failures

    def test_a_copy_within_a_gpu_may_use_half_of_its_memory(self) -> None:
        h100 = find("h100")
        limit = bound(LOCAL, {"row": 0}, h100)

        assert limit is not None
        assert h100.memory is not None
        assert limit.rate == h100.memory.rate / 2


class TestCopies:
    """bandwidthTest, p2pBandwidthLatencyTest and nvidia-smi topo."""

    @pytest.mark.parametrize(
        "error",
        [
            "!!!!!No devices found!!!!!",
            "cudaGetDeviceProperties returned 3",
            'CUDA error at bandwidthTest.cu:730 code=700(cudaErrorIllegalAddress) "x"',
        ],
    )
    def test_errors_of_bandwidth_test(self, error: str) -> None:
        text = f"[CUDA Bandwidth Test] - Starting...\n{error}\n"

        assert error in read([text.encode()]).results[0].failures

    def test_pageable_memory_has_one_name(self) -> None:
        text = (
            b"bandwidthTest-H2D-Paged, Bandwidth = 12.9 GB/s, Time = 0.0 s, Size = 32000000 bytes, "
            b"NumDevsUsed = 1\n"
        )

        assert values(read([text]).results[0], "host_to_device", memory="pageable") == [12.9e9]

    def test_an_error_after_matrices_of_peers(self) -> None:
        text = (
            "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n"
            "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1 \n"
            "     0 450.11  10.32 \n     1  10.41 451.57 \n"
            "Cuda failure p2pBandwidthLatencyTest.cu:250: 'out of memory'\n"
        )
        (test,) = read([text.encode()]).results

        assert values(test, "p2p_bandwidth", row=0) == [10.32e9]
        assert "out of memory" in test.failures[0]

    def test_cells_that_abut_are_told_apart(self) -> None:
        text = (
            "         GPU0    GPU1    NIC0    NIC1NIC2    CPU Affinity    NUMA Affinity\n"
            "GPU0     X      NV12    PXB     SYSSYS      24-31,88-95     3\n"
            "GPU1    NV12     X      PXB     SYSSYS      24-31,88-95     3\n"
            "NIC0    PXB     PXB      X      PIXSYS\n"
        )
        (result,) = read([text.encode()]).results

        assert isinstance(result.detail, Topology)
        assert result.detail.path("GPU0", "NIC2") == "SYS"
        assert result.detail.path("NIC0", "NIC1") == "PIX"
        assert result.detail.devices[0].cpus == "24-31,88-95"

    def test_a_matrix_behind_the_names_of_pods(self) -> None:
        rows = ("\tGPU0\tGPU1", "GPU0\tX\tGNS", "GPU1\tGNS\tX")
        text = "".join(f"[pod/w-0/main] {row}\n" for row in rows)
        (result,) = read([text.encode()]).results

        assert isinstance(result.detail, PeerAccess)
        assert result.detail.status == (("X", "GNS"), ("GNS", "X"))
