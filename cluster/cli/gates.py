"""Gates for continuous integration: `--fail-on`, `--junit` and `--github`, and what they write."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from xml.etree.ElementTree import Element, SubElement, tostring

from cluster.cli.flags import group, option
from cluster.cli.overview import FAILED, GATE_HIT
from cluster.core.errors import SpecError
from cluster.core.model.value import Value
from cluster.core.state.files import check_output, write_file
from cluster.core.text.units import format_point, format_value
from cluster.reports.formats.markdown import table_markdown
from cluster.reports.table import Column, Columns, make_table
from cluster.reports.words.limits import percentages

if TYPE_CHECKING:
    from cluster.analysis.statistics.compare import Comparison
    from cluster.reports.words.verdict import Answer


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
WRONG = ("failed", "impossible")  # these always fail
NOT_JUDGED = "not judged"  # a series without a bound, such as a latency; the run has a verdict
UNDECIDED = (NOT_JUDGED, "unknown", "inconclusive")
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
    from cluster.analysis.statistics.compare import ENOUGH_LAUNCHES  # noqa: PLC0415 - slow

    for comparison in comparisons:
        launches = max((min(cell.launches) for cell in comparison.cells), default=0)
        is_decided = launches >= ENOUGH_LAUNCHES or not comparison.is_possible
        if "slower" in gates.fail_on and "inconclusive" not in gates.fail_on and not is_decided:
            raise SpecError(
                f"--fail-on slower cannot be decided: {comparison.other} against {comparison.base} "
                f"has {launches} launch(es) of each, and a verdict needs {ENOUGH_LAUNCHES}.",
                remedy=f"Measure both with --launches {ENOUGH_LAUNCHES}, and compare the clusters: "
                "cluster compare NAME_A NAME_B --fail-on slower",
            )


def report_cases(gates: Gates, cases: Sequence[Case]) -> int:
    """Write the reports; return 1 if a case failed or is impossible, 3 at a gate, else 0."""
    if gates.junit is not None:
        write_file(gates.junit, junit_xml(cases, gates.fail_on))
    # On standard error, as standard output may be JSON.
    if gates.github and not os.environ.get("GITHUB_ACTIONS"):
        sys.stderr.write("--github: this is not a step of GitHub Actions; nothing was written.\n")
    elif gates.github:
        for line in github_annotations(cases, gates.fail_on):
            sys.stderr.write(f"{line}\n")
        if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(github_summary(cases))
    hit = [case for case in cases if case.verdict in gates.fail_on]
    for case in hit:
        sys.stderr.write(f"Gate: {case.suite}: {case.name} is {case.verdict.upper()}.\n")
    if any(case.verdict in WRONG for case in cases):
        return FAILED
    return GATE_HIT if hit else 0


class Case(Value, frozen=True, kw_only=True):
    """The verdict on one series, or on one data point of a comparison."""

    suite: str
    name: str
    verdict: str  # in lower case: `normal`, `low`, ..., `slower`, `inconclusive`,
    text: str


def judgement_cases(suite: str, conclusion: Answer) -> Iterator[Case]:
    yield Case(suite=suite, name="run", verdict=conclusion.word, text=conclusion.answer)
    for verdict in conclusion.verdicts:
        text = format_value(verdict.median, verdict.unit)
        if verdict.share is not None:
            text += f", {verdict.share:.1%} of its limit ({verdict.limit})"
        if verdict.usual is not None:
            text += f"; usual: {percentages(verdict.share or 0.0, verdict.usual)[1]} or more"
        if verdict.published is not None:
            text += f"; {verdict.published.text}"
        word = NOT_JUDGED if verdict.word == "unknown" else verdict.word
        name = " ".join(filter(None, (verdict.metric, format_point(verdict.params))))
        yield Case(suite=suite, name=name, verdict=word, text=text)


def comparison_cases(comparison: Comparison) -> Iterator[Case]:
    from cluster.reports.words.comparison import reason_words  # noqa: PLC0415 - slow

    suite = f"{comparison.other} against {comparison.base}"
    if not comparison.is_possible:
        no_common = "NOT COMPARABLE: they have no data point in common"
        yield Case(suite=suite, name="comparison", verdict="inconclusive", text=no_common)
        return
    for cell in comparison.cells:
        ratio = "no ratio" if cell.ratio is None else f"{cell.ratio:.3f} x"
        if cell.interval is not None:
            ratio += f", 95% CI {cell.interval[0]:.3f} .. {cell.interval[1]:.3f}"
        name = " ".join(filter(None, (cell.metric, format_point(cell.params))))
        reason = reason_words(cell.reason) if cell.reason else ""
        text = "; ".join(filter(None, (ratio, reason)))
        yield Case(suite=suite, name=name, verdict=cell.verdict, text=text)


def junit_xml(cases: Sequence[Case], fail_on: Collection[str]) -> bytes:
    """Write JUnit XML: a suite per run or comparison, a case per series.

    `fail_on` are verdicts that are failures, besides `failed` and `impossible`; an undecided case
    is skipped, unless it is one.
    """
    root = Element("testsuites", name="cluster")
    for suite in dict.fromkeys(case.suite for case in cases):
        members = [case for case in cases if case.suite == suite]
        failures = sum(fails(case, fail_on) for case in members)
        skips = sum(case.verdict in UNDECIDED and not fails(case, fail_on) for case in members)
        element = SubElement(
            root,
            "testsuite",
            name=_xml(suite),
            tests=str(len(members)),
            failures=str(failures),
            errors="0",
            skipped=str(skips),
            time="0",
        )
        for case in members:
            _add_case(element, case, fail_on)
    text: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _add_case(suite: Element, case: Case, fail_on: Collection[str]) -> None:
    element = SubElement(
        suite, "testcase", classname=_xml(case.suite), name=_xml(case.name), time="0"
    )
    message = _xml(f"{case.verdict.upper()}: {case.text}")
    if fails(case, fail_on):
        SubElement(element, "failure", message=message, type=case.verdict).text = message
    elif case.verdict in UNDECIDED:
        SubElement(element, "skipped", message=message)
    else:
        SubElement(element, "system-out").text = message


def fails(case: Case, fail_on: Collection[str]) -> bool:
    """Return whether a case fails: `failed`, `impossible`, or a verdict of `fail_on`."""
    return case.verdict in WRONG or case.verdict in fail_on


def _xml(text: str) -> str:
    return NOT_XML.sub("\ufffd", text)


def github_summary(cases: Iterable[Case]) -> str:
    columns: Columns[Case] = (
        Column("run", lambda case: case.suite),
        Column("series", lambda case: case.name),
        Column("verdict", lambda case: case.verdict.upper()),
        Column("figure", lambda case: case.text),
    )
    return table_markdown(make_table("cluster", cases, columns))


def github_annotations(cases: Iterable[Case], fail_on: Collection[str]) -> Iterator[str]:
    """Yield `::warning title=bandwidth 1 MiB is LOW::...`; verdicts of `fail_on` are errors."""
    for case in cases:
        kind = "error" if fails(case, fail_on) else "warning"
        if kind == "error" or case.verdict in ("low", "slower"):
            title = _escape(f"{case.name} is {case.verdict.upper()}")
            title = title.replace(":", "%3A").replace(",", "%2C")
            yield f"::{kind} title={title}::{_escape(f'{case.suite}: {case.text}')}"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
