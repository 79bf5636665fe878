"""Shapes of logs that strangers had, whose verdict is known: word, figures, reason and finding."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from cluster.analysis.limits.hardware import find
from cluster.analysis.verdict.evidence import AboveLimit
from cluster.analysis.verdict.reasons import AboveAssumption, Collapse
from cluster.reports.words.limits import percentages
from cluster.runs.import_.logs import LogLocation, read_logs

if TYPE_CHECKING:
    from cluster.analysis.verdict.evidence import Sign
    from cluster.analysis.verdict.judgement import Judgement

TWO_HOSTS = "nic=100gbit,rdma=yes"


def judged(text: str, hardware: str = "", hosts: int = 0) -> tuple[Judgement, tuple[Sign, ...]]:
    place = LogLocation(hardware=find(hardware) if hardware else None, hosts=hosts)
    with read_logs(["-"], stdin=io.BytesIO(text.encode()), place=place) as logs:
        summaries = logs.run.summary()
        findings = logs.run.findings(summaries)
        return logs.run.judgement(summaries, findings), findings


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
        (biband((MIB, 24000.0), ranks=2, waiting=78), "plausible", 0.96, None),
        (biband((MIB, 24000.0), ranks=2, waiting=0), "normal", 0.96, None),
    ],
)
def test_one_point_decides_and_no_limit_is_certain_without_participants(
    text: str, word: str, share: float, confidence: str | None
) -> None:
    found, findings = judged(text, TWO_HOSTS, hosts=2)
    (verdict,) = (v for v in found.verdicts if v.unit == "B/s")
    above = [sign for sign in findings if isinstance(sign, AboveLimit)]

    assert (found.word, verdict.word) == (word, word)
    assert verdict.share == pytest.approx(share)
    assert [(sign.confidence, sign.summary.params) for sign in above] == (
        [(confidence, verdict.params)] if confidence else []
    )
    assert isinstance(verdict.reason, AboveAssumption) == (word == "unknown")
    assert found.next_step is None or found.next_step.sign in (None, *above)


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
    found, _ = judged(text, hardware, hosts=2 if hardware else 0)
    falls = [v for v in found.verdicts if v.metric == "busbw"]

    assert found.word == "low"
    assert [v.params["size"] for v in falls] == [large]
    assert [isinstance(v.reason, Collapse) for v in falls] == [True]


def test_a_share_and_what_is_usual_are_told_apart() -> None:
    assert percentages(0.451, 0.4534) == ("45.1%", "45.3%")
    assert percentages(0.96, 0.9) == ("96%", "90%")
    assert percentages(0.9, 0.9) == ("90%", "90%")
