"""Verdicts as JUnit XML and for GitHub Actions."""

from xml.etree import ElementTree as ET

from cluster.analysis.verdict.judgement import Judgement
from cluster.analysis.verdict.verdict import Verdict
from cluster.cli.gates import Case, github_annotations, github_summary, judgement_cases, junit_xml
from cluster.reports.words.verdict import answer
from tests.snapshots import Snapshot

LOW = Case(suite="a/1", name="bandwidth 1 MiB", verdict="low", text="1 GB/s, 40% of <100%>")
FINE = Case(suite="a/1", name="bandwidth 4 MiB", verdict="normal", text="9 GB/s")
OPEN = Case(suite="b/2", name="latency 8 B", verdict="not judged", text="1 us\x00\x1b[31m")
WRONG = Case(suite="b/2", name="run", verdict="impossible", text="100%, or more:\nmuch")
CASES = (LOW, FINE, OPEN, WRONG)


def test_a_case_per_series_and_a_suite_per_run() -> None:
    root = ET.fromstring(junit_xml(CASES, ("low",)))  # noqa: S314 - our own
    first, second = root.findall("testsuite")

    assert first.attrib["name"] == "a/1"
    assert (first.attrib["tests"], first.attrib["failures"], first.attrib["skipped"]) == (
        *("2", "1"),
        "0",
    )
    failure = first.find("testcase/failure")
    assert failure is not None
    assert failure.attrib == {"message": "LOW: 1 GB/s, 40% of <100%>", "type": "low"}
    assert (second.attrib["failures"], second.attrib["skipped"]) == ("1", "1")
    skipped = second.find("testcase/skipped")
    assert skipped is not None
    assert "\ufffd" in skipped.attrib["message"], "XML holds no control characters"


def test_what_is_no_gate_passes() -> None:
    root = ET.fromstring(junit_xml((LOW, FINE), ()))  # noqa: S314

    assert root.find(".//failure") is None
    assert [out.text for out in root.iter("system-out")] == [
        "LOW: 1 GB/s, 40% of <100%>",
        "NORMAL: 9 GB/s",
    ]


def test_annotations_are_escaped_as_github_reads_them(snapshot: Snapshot) -> None:
    snapshot(github_annotations(CASES, ()))
    assert next(github_annotations(CASES, ("low",))).startswith("::error title=bandwidth")
    assert "| a/1 | bandwidth 1 MiB | LOW |" in github_summary(CASES)


def test_a_series_without_a_bound_is_not_judged_whatever_the_run_is() -> None:
    latency = Verdict(
        word="unknown",
        benchmark="p2p",
        metric="latency",
        unit="s",
        params={"size": 8},
        n=9,
        median=1e-6,
    )
    judged = answer(Judgement(word="plausible", verdicts=(latency,)))

    run, series = judgement_cases("a", judged)
    assert (run.name, run.verdict) == ("run", "plausible")
    assert (series.name, series.verdict) == ("latency 8 B", "not judged")
