"""Verdicts for continuous integration: JUnit XML, and GitHub's summary and annotations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, tostring

from cluster.core.model.value import Value
from cluster.core.units import format_point, format_value
from cluster.reports.formats.markdown import table_markdown
from cluster.reports.table import Column, Columns, make_table
from cluster.reports.words.comparison import reason_words
from cluster.reports.words.limits import percentages

if TYPE_CHECKING:
    from cluster.analysis.statistics.compare import Comparison
    from cluster.reports.words.verdict import Answer

WRONG = ("failed", "impossible")  # these always fail
NOT_JUDGED = "not judged"  # a series without a bound, such as a latency; the run has a verdict
UNDECIDED = (NOT_JUDGED, "unknown", "inconclusive")
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Case(Value, frozen=True, kw_only=True):
    """The verdict on one series, or on one data point of a comparison."""

    suite: str
    name: str
    verdict: str  # in lower case: `normal`, `low`, ..., `slower`, `inconclusive`,
    text: str


def judgement_cases(suite: str, judged: Answer) -> Iterator[Case]:
    yield Case(suite=suite, name="run", verdict=judged.word, text=judged.answer)
    for verdict in judged.verdicts:
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
        own = [case for case in cases if case.suite == suite]
        failures = sum(fails(case, fail_on) for case in own)
        skipped = sum(case.verdict in UNDECIDED and not fails(case, fail_on) for case in own)
        element = SubElement(
            root,
            "testsuite",
            name=_xml(suite),
            tests=str(len(own)),
            failures=str(failures),
            errors="0",
            skipped=str(skipped),
            time="0",
        )
        for case in own:
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
            title = _escaped(f"{case.name} is {case.verdict.upper()}")
            title = title.replace(":", "%3A").replace(",", "%2C")
            yield f"::{kind} title={title}::{_escaped(f'{case.suite}: {case.text}')}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
