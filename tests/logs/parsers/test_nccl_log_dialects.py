"""What NCCL logs in the wild: forks and plug-ins, old versions, and which warnings end a job."""

import pytest

from cluster.logs.reader import read
from tests.logs.parsers.nccl import HEAD, NEW, RANKS, log_of
from tests.logs.samples import kinds


class TestNcclLog:
    log = staticmethod(log_of)

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

    @pytest.mark.parametrize(
        "warning",
        [
            "NET/IB: Got completion from peer h<5592> with status=12 opcode=1 vendor err 129",
            "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 5000",
            "Message truncated : received 1024 bytes instead of 256",
        ],
    )
    def test_warnings_that_end_a_job(self, warning: str) -> None:
        result, *_ = read([f"h:1:2 [0] x.cc:1 NCCL WARN {warning}\n".encode()]).results

        assert result.failures == (f"NCCL WARN {warning}",)

    def test_a_warning_that_its_process_got_over_is_no_failure(self) -> None:
        warning = "h:{0}:9 [0] sharp.c:3 NCCL WARN SHARP coll init error: Cannot create SHARP job\n"
        info = "h:{0}:2 [0] NCCL INFO comm 0x5 rank 0 nranks 2 cudaDev 0 - Init COMPLETE\n"
        result = read([(warning.format(1) + info.format(1)).encode()]).results[0]
        other = read([(warning.format(2) + info.format(1)).encode()]).results[0]
        text = (warning + info).replace("h:{0}:9 [0] ", "").replace("h:{0}:2 [0] ", "")

        assert result.failures == ()
        assert kinds(result)[0] == "nccl_went_on"
        assert other.failures
        assert read([text.encode()]).results[0].failures  # whoever it was

    GOOD = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 150\n"
    START = "# nThread 1 nGpus 4 minBytes 8 maxBytes 8 step: 2(factor) validation: 1\n"
    CLOSED = (
        "node-a:77:99 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by {}\n"
    )

    @staticmethod
    def failures(text: str) -> list[str]:
        results = read([text.encode()]).results
        return [text for r in results if r.format == "nccl_log" for text in r.failures]

    @pytest.mark.parametrize("infos", ["", "node-a:77:80 [0] NCCL INFO Connected all rings\n"])
    def test_a_warning_of_a_test_that_succeeded_is_a_note(self, infos: str) -> None:
        """NCCL closes its connections before nccl-tests prints its last lines, or after them."""
        row = "  1048576  262144  float  sum  -1  104.9  10.00  15.00  0  104.9  10.00  15.00  0\n"
        test, after = self.START + RANKS + infos + NEW + row, self.CLOSED.format("peer")
        nvls = (
            "node-a:77:98 [0] transport/nvls.cc:598 NCCL WARN Cuda failure 1 'invalid argument'\n"
        )
        log = test + nvls + self.GOOD + after
        notes = [kind for result in read([log.encode()]).results for kind in kinds(result)]

        assert self.failures(log) == []
        assert notes.count("nccl_succeeded") == 2
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
        ranks = RANKS.replace("Pid  77", "Pid  78")
        good = self.START + RANKS + self.GOOD

        assert self.failures(good + other.format("peer"))
        assert self.failures(good + self.START + ranks + NEW + other.format("peer"))
        assert self.failures(self.START + ranks + other.format("peer") + good)

    def test_tests_that_run_beside_each_other_prove_nothing(self) -> None:
        log = self.START + self.START + RANKS + RANKS + self.CLOSED.format("peer") + self.GOOD

        assert self.failures(log)

    def test_processes_of_a_test_are_known_by_their_set_up_too(self) -> None:
        info = "h:5:6 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks 2 - Init COMPLETE\n"
        warning = self.CLOSED.replace("node-a:77:", "h:5:").format("peer")

        assert self.failures(info + NEW + self.GOOD + warning) == []
        assert self.failures(NEW + self.GOOD + info + warning)

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
