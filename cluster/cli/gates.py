"""Gates for continuous integration: `--fail-on`, `--junit` and `--github`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cluster.analysis.statistics.compare import ENOUGH_LAUNCHES, Comparison
from cluster.cli.flags import group, option
from cluster.cli.overview import FAILED, GATE_HIT
from cluster.core.errors import SpecError
from cluster.core.files import check_output, write_file
from cluster.core.model.value import Value

if TYPE_CHECKING:
    from cluster.reports.ci import Case

FAIL_ON = ("low", "slower", "inconclusive", "unknown")

FailOn = Annotated[
    str | None,
    option(
        "--fail-on WORDS",
        f"Exit with {GATE_HIT} if a verdict is one of: {','.join(FAIL_ON)}.",
        autocompletion=lambda: list(FAIL_ON),
    ),
]
Junit = Annotated[Path | None, option("--junit FILE", "Write JUnit XML: a case per series.")]
Github = Annotated[bool, option("--github", "In GitHub Actions: a step summary and annotations.")]


class Gates(Value, frozen=True, kw_only=True):
    """What fails a step of continuous integration, and where it is reported."""

    fail_on: tuple[str, ...] = ()  # verdicts that are failures, besides `failed` and `impossible`
    junit: Path | None = None
    github: bool = False

    @property
    def has_any(self) -> bool:
        return bool(self.fail_on or self.junit or self.github)


def read_gates(fail_on: FailOn = None, junit: Junit = None, github: Github = False) -> Gates:
    """Read the flags (SpecError: a word is not a verdict that can be a gate)."""
    words = tuple(word.strip().lower() for word in (fail_on or "").split(",") if word.strip())
    unknown = [word for word in words if word not in FAIL_ON]
    if unknown or (fail_on is not None and not words):
        raise SpecError(
            f"--fail-on {fail_on!r} names no verdict that can be a gate.",
            means="FAILED and IMPOSSIBLE fail without it, with exit status 1.",
            remedy=f"There are: {', '.join(FAIL_ON)}; several with commas: --fail-on low,unknown",
        )
    if junit is not None:
        check_output(junit)
    return Gates(fail_on=words, junit=junit, github=github)


GateFlags = Annotated[Gates, group(read_gates)]


def check_decidable(gates: Gates, comparisons: Sequence[Comparison]) -> None:
    """Refuse a gate on `slower` that too few launches can never hit (SpecError)."""
    for comparison in comparisons:
        launches = max((min(cell.launches) for cell in comparison.cells), default=0)
        decided = launches >= ENOUGH_LAUNCHES or not comparison.is_possible
        if "slower" in gates.fail_on and "inconclusive" not in gates.fail_on and not decided:
            raise SpecError(
                f"--fail-on slower cannot be decided: {comparison.other} against {comparison.base} "
                f"has {launches} launch(es) of each, and a verdict needs {ENOUGH_LAUNCHES}.",
                remedy=f"Measure both with --launches {ENOUGH_LAUNCHES}, and compare the clusters: "
                "cluster compare NAME_A NAME_B --fail-on slower",
            )


def report_cases(gates: Gates, cases: Sequence[Case]) -> int:
    """Write the reports; return 1 if a case failed or is impossible, 3 at a gate, else 0."""
    from cluster.reports import ci  # noqa: PLC0415 - only with these flags

    if gates.junit is not None:
        write_file(gates.junit, ci.junit_xml(cases, gates.fail_on))
    if gates.github:
        _report_to_github(gates, cases)
    hit = [case for case in cases if case.verdict in gates.fail_on]
    for case in hit:
        sys.stderr.write(f"Gate: {case.suite}: {case.name} is {case.verdict.upper()}.\n")
    if any(case.verdict in ci.WRONG for case in cases):
        return FAILED
    return GATE_HIT if hit else 0


def _report_to_github(gates: Gates, cases: Sequence[Case]) -> None:
    """Write to GitHub Actions; on standard error, as standard output may be JSON."""
    from cluster.reports import ci  # noqa: PLC0415

    if not os.environ.get("GITHUB_ACTIONS"):
        sys.stderr.write("--github: this is not a step of GitHub Actions; nothing was written.\n")
        return
    for line in ci.github_annotations(cases, gates.fail_on):
        sys.stderr.write(f"{line}\n")
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(ci.github_summary(cases))
