"""What nccl-tests print in the wild: other versions, AMD's fork, torn rows, pasted tables."""

import re

import pytest

from cluster.core.model.notes import Note
from cluster.logs.parsers.nccl_tests.perf_test import SHARED
from cluster.logs.reader import read
from tests.logs.parsers.nccl import HEAD, NEW, OLD, RANKS
from tests.logs.samples import kinds, values


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
        assert "partial_algbw" in kinds(test)

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
        assert Note("unfinished_row", (1048576,)) in reading.results[0].notes
        assert reading.unread == 1

    def test_processes_that_did_not_find_each_other(self) -> None:
        row = "  1048576  262144  float  sum  -1  1.00  1048.58  0.00  0  1.00  1048.58  0.00  0\n"
        alone = "".join(
            f"#  Rank  0 Group  0 Pid {n} on node-{n} device  0 [0x10] Tesla T4\n" for n in (1, 2)
        )
        (test,) = read([(alone + NEW + row).encode()]).results

        assert (test.ranks, test.hosts) == (1, 1)
        assert "each_alone" in kinds(test)

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

        assert [test.operation for test in tests] == ["all_reduce", SHARED, "scatter"]

    def test_a_name_that_its_factor_contradicts_is_not_believed(self) -> None:
        row = (
            "  67108864  16777216  float  sum  -1  671.1  100.0  75.00  0  671.1  100.0  75.00  0\n"
        )
        text = f"# Collective test starting: broadcast_perf\n{RANKS}{NEW}{row}"

        assert read([text.encode()]).results[0].operation == SHARED

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
        assert test.failures == ()
        assert (kinds(test)[-1], test.notes[-1].values[0]) == ("rows_not_understood", 6)

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

        assert re.findall(r"\d+", test.failures[0]) == ["1048576", "7"]

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
        assert reading.results[0].failures == ()
        assert kinds(reading.results[0])[-1] == "rows_not_understood"
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
        assert test.failures

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
