"""What nccl-tests print in the wild: other versions, AMD's fork, torn rows, pasted tables."""

import pytest

from cluster.logs.parsers.nccl_tests.perf_test import SHARED
from cluster.logs.reader import read
from tests.logs.parsers.nccl import HEAD, NEW, RANKS
from tests.logs.samples import values


class TestNcclTests:
    def test_rows_that_lines_of_nccl_tore_are_put_together(self) -> None:
        """NCCL connects during the first call, when a row is begun and not ended."""
        rows = (
            f"     1048576   262144  float  sum   -1{HEAD}Connected all rings\n"
            f"{HEAD}Connected all trees\n"
            f"    104.9   10.00   15.00      0{HEAD}Connected all trees\n"
            "    209.8    5.00    7.50      0\n"
            f"     2097152   524288  float  sum    010-0-0-1:3:4 [1] NCCL INFO x\n"
            "    209.8   10.00   15.00    N/A    209.8   10.00   15.00    N/A\n"
        )
        reading = read([(RANKS + NEW + rows).encode()])
        test = reading.results[0]

        assert reading.unread == 0
        assert values(test, "busbw", size=1048576) == [15e9, 7.5e9]
        assert values(test, "busbw", size=2097152) == [15e9, 15e9]

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

    @pytest.mark.parametrize("prefix", ["+", "+ ", "| ", "> | ", "  > "])
    def test_rows_that_a_diff_added_or_a_mail_quoted(self, prefix: str) -> None:
        row = "  1048576  262144  float  sum  -1  104.9  10.00  15.00  0  104.9  10.00  15.00  0\n"
        text = "".join(f"{prefix}{line}\n" for line in (RANKS + NEW + row).splitlines())
        reading = read([text.encode()])

        assert reading.unread == 0
        assert values(reading.results[0], "busbw") == [15e9, 15e9]
        assert reading.results[0].ranks == 4

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
