"""The corpus of published results: whole, checked, and enough to judge each other."""

import json
import re
import sys
from statistics import median
from typing import get_args

import msgspec
import pytest

from cluster.analysis.limits import hardware, published
from cluster.analysis.limits.devices import with_hardware_bound
from cluster.analysis.limits.published import (
    Grade,
    Point,
    PublishedResult,
    PublishedRun,
    PublishedSource,
    checks,
    compare,
)
from cluster.analysis.limits.published.checks import EntryProblem
from cluster.analysis.limits.usual import usual
from cluster.analysis.verdict.verdict import word_of
from cluster.core import plugins
from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import Summary
from cluster.logs.parsers import Parser
from cluster.logs.reader import read
from cluster.reports.words.limits import entry_problem_words, published_words
from tests.conftest import ROOT, run
from tests.plain_values import plain_summary
from tests.snapshots import Snapshot

RUNS = {run.id: run for run in published.runs()}
P5 = hardware.find("p5.48xlarge")


def summary(result: PublishedResult, value: float | None = None) -> Summary:
    definition = published.definitions()[result.run.definition]
    figure = median(result.values) if value is None else value
    bare = plain_summary(
        figure, definition, params=result.params, n=len(result.values), converged=False
    )
    return with_hardware_bound(bare, definition, hardware.find(result.run.hardware))


def judge(result: PublishedResult, results: list[PublishedResult]) -> str:
    definition = published.definitions()[result.run.definition]
    platform = hardware.find(result.run.hardware)
    point = summary(result)
    share = usual(definition, result.params, platform) if point.share else None
    return word_of(point, share, compare(point, definition, platform, results))


def test_it_is_large_enough_and_small_enough() -> None:
    assert sum(result.run.grade in published.USUAL for result in published.results()) >= 60
    assert published.size() <= 200_000


def test_all_entries_have_a_source_and_a_grade() -> None:
    for entry in published.runs():
        assert entry.source.url.startswith("https://"), entry.id
        assert entry.grade in get_args(Grade), entry.id


LOOKED_UP = """
import json, pathlib, sys
from cluster.analysis.limits import hardware, published
from cluster.analysis.limits.published import compare
from tests.plain_values import plain_summary
import msgspec.toml, tomllib
calls = 0
def count(_frame, event, _value):
    global calls
    calls += event in ("call", "c_call")
name, definition, value, params = json.loads(sys.argv[1])
sys.setprofile(count)
known = hardware.find(name)
definition = published.definitions()[definition]
assert compare(plain_summary(value, definition, params=params), definition, known).runs
took, calls = calls, 0
tomllib.loads(pathlib.Path(published.__file__).with_name("messages.toml").read_text())
sys.setprofile(None)
print(took / calls)
"""
LARGE = {"size": 8 << 30, "hosts": 2, "ranks": 16, "operation": "all_reduce"}


@pytest.mark.parametrize(
    "point",
    [
        ("p5.48xlarge", "nccl_tests.busbw-158c0ffe", 4.4e11, LARGE),
        ("c5n.18xlarge", "osu.latency-388bc7fc", 2e-5, {"size": 8, "hosts": 2}),
    ],
    ids=lambda point: point[0],
)
def test_a_comparison_in_a_new_process_reads_little(point: tuple[object, ...]) -> None:
    """It takes fewer calls than reading half of the published results twice, as text."""
    argv = [sys.executable, "-c", LOOKED_UP, json.dumps(point)]

    assert float(run(*argv, cwd=ROOT).stdout) < 2


def test_entries_are_found_by_their_definition() -> None:
    for id_ in published.definitions():
        every = tuple(result for result in published.results() if result.run.definition == id_)
        assert published.results_of(id_) == every


def test_nothing_is_wrong_with_it() -> None:
    assert checks.problems(published.runs()) == ()
    assert checks.threshold_problems(published.thresholds()) == ()


def test_every_threshold_rests_on_published_results() -> None:
    """No sentence stands for one, neither among the thresholds nor in the list of GPUs."""
    thresholds = published.thresholds()
    buses = [bus for name in hardware.names() if (bus := hardware.find(name).bus)]
    bare = {"it": published.Threshold(share=0.9, evidence=())}

    assert checks.threshold_problems(bare) == (EntryProblem("it", "no_evidence"),)
    assert {bus.threshold for bus in buses} == {"", "k80_bus", "c2c", "two_on_c2c"}
    assert {bus.threshold or "pcie" for bus in buses} <= set(thresholds)


def test_its_definitions_are_those_of_the_parsers() -> None:
    definitions = {
        definition.id: definition
        for name in plugins.names(Parser)
        for definition in plugins.load(Parser, name).definitions
    }

    assert {id_: definitions.get(id_) for id_ in published.definitions()} == published.definitions()


@pytest.mark.parametrize(
    "run", [run for run in published.runs() if run.grade == "A"], ids=lambda r: r.id
)
def test_an_entry_of_grade_a_is_read_from_its_log(run: PublishedRun) -> None:
    measurements = [m for r in read([run.log.encode()]).results for m in r.measurements]

    assert checks.unread(run, measurements) == ()


def test_each_entry_is_normal_beside_the_others_of_its_hardware() -> None:
    """Without its own run; those are left out that nobody else measured on the same hardware."""
    words = {}
    for result in published.results():
        peers = [other for other in published.results() if other.run.id != result.run.id]
        definition = published.definitions()[result.run.definition]
        platform = hardware.find(result.run.hardware)
        match = compare(summary(result), definition, platform, peers)
        if result.run.grade in published.USUAL and not result.run.settings and match and match.runs:
            words[result.id] = judge(result, peers)

    normal = [id_ for id_, word in words.items() if word == "normal"]
    assert len(words) >= 40
    assert len(normal) >= 0.95 * len(words), sorted(set(words) - set(normal))


def test_what_others_do_not_confirm_is_low_and_what_they_confirm_is_not() -> None:
    """Five runs are below their class, and confirm one another; one is a quarter of another run."""
    confirmed = [
        result.id
        for result in published.results()
        if result.run.id.startswith("p6-b200-bibw-") and result.run.grade == "A"
    ]
    words = {
        id_: judge(published.find(id_), list(published.results()))
        for id_ in (*confirmed, "c2d-bw-gce-10@4MiB")
    }

    assert len(confirmed) == 5
    assert words == {**dict.fromkeys(confirmed, "normal"), "c2d-bw-gce-10@4MiB": "low"}


def test_what_is_usual_is_said_of_three_runs_or_more(snapshot: Snapshot) -> None:
    result = published.find("c5n-latency-alinux2-openmpi@8B")
    definition = published.definitions()[result.run.definition]
    slow = compare(summary(result, 40e-6), definition, hardware.find("c5n.18xlarge"))
    fine = compare(summary(result), definition, hardware.find("c5n.18xlarge"))

    assert slow is not None
    snapshot(published_words(slow, 40e-6, "s"))
    assert slow.word == "low"
    assert fine is not None
    assert fine.word == "normal"


@pytest.mark.parametrize(
    ("rate", "size", "runs", "word"),
    [
        (300e9, 16, 1, ""),
        (200e9, 16, 1, "low"),  # below half of what one run shows to be possible
        (200e9, 64, 0, "low"),  # and of a smaller message
        (200e9, 1, 0, ""),  # a larger one may be faster
    ],
)
def test_fewer_runs_are_named_and_say_only_normal_or_less_than_half(
    rate: float, size: int, runs: int, word: str
) -> None:
    result = published.find("p5-allreduce-aws@16GiB")
    definition = published.definitions()[result.run.definition]
    point = summary(result, rate)
    point = msgspec.structs.replace(point, params={**point.params, "size": size << 30})
    comparison = compare(point, definition, P5, [result])

    assert comparison is not None
    assert (comparison.results, comparison.runs, comparison.word) == ((result.id,), runs, word)
    words = "487.2 GB/s at 16 GiB on 2 x p5.48xlarge (corpus: p5-allreduce-aws, grade A)"
    assert words in published_words(comparison, rate, "B/s")


def test_a_result_of_one_host_is_not_near_one_of_several() -> None:
    result = published.find("h100-allreduce-together@8GiB")
    definition = published.definitions()[result.run.definition]
    point = summary(result, 100e9)
    point = msgspec.structs.replace(point, params={**point.params, "hosts": 8, "ranks": 64})

    assert compare(point, definition, hardware.find("h100"), [result]) is None


@pytest.mark.parametrize(
    "change", [{"hosts": 4}, {"size": 1 << 20}, {"ranks": 8}, {"operation": "alltoall"}]
)
def test_only_the_same_is_compared(change: dict[str, int | str]) -> None:
    result = published.find("p5-allreduce-aws@16GiB")
    definition = published.definitions()[result.run.definition]
    other = msgspec.structs.replace(summary(result), params=result.params | change)
    comparison = compare(other, definition, P5)

    assert comparison is None or (comparison.runs == 0 and comparison.results)


def test_a_forced_algorithm_and_what_is_contradicted_are_never_usual() -> None:
    for result in published.results():
        if result.run.settings or result.run.grade == "X":
            definition = published.definitions()[result.run.definition]
            platform = hardware.find(result.run.hardware)
            comparison = compare(summary(result), definition, platform)
            assert comparison is None or result.id not in comparison.results


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"unit": "us"}, "its unit is 'us'"),
        ({"unit": "GB"}, "its unit is 'GB', and its definition's is one of: GB/s, MB/s, MiB/s"),
        ({"hardware": "p6.1000xlarge"}, "There is no hardware"),
        ({"ranks": 1}, "1 ranks on 2 hosts"),
        ({"ranks": 64}, "64 ranks, and 2 hosts have 8 GPUs each"),
        ({"source": PublishedSource(url="")}, "no address"),
        ({"source": PublishedSource(url="https://example.org", path="a")}, "no commit"),
        ({"log": ""}, "grade A needs"),
        ({"grade": "X"}, "a reason is for grade X"),
        ({"grade": "B", "versions": published.UNKNOWN}, "author and versions"),
        ({"versions": ""}, "no versions; where its source has none, they are 'not known'"),
        ({"date": ""}, "its date is no YYYY-MM-DD, and not 'not known'"),
        ({"date": "2026-13-01"}, "its date is no YYYY-MM-DD"),
        ({"points": (Point(size="2 GiB", values=(437.79,)),)}, "in which line of its path"),
        ({"points": ()}, "it has no points"),
        ({"definition": "mine.busbw-12345678"}, "no definition"),
    ],
)
def test_an_entry_that_is_wrong_is_named(changes: dict[str, object], problem: str) -> None:
    run = msgspec.structs.replace(RUNS["p5-allreduce-aws-eks"], **changes)

    (fault,) = checks.problems([run])

    assert fault.id == "p5-allreduce-aws-eks"
    assert problem in entry_problem_words(fault)


def test_what_nothing_can_reach_is_named() -> None:
    slow = RUNS["p5-allreduce-aws-eks"]
    point = msgspec.structs.replace(slow.points[0], values=(900.0,))
    fast = msgspec.structs.replace(slow, points=(point,))
    one_host = msgspec.structs.replace(RUNS["c5n-latency-centos7-intelmpi"], grade="C", reason="")

    (excess,), (short,) = checks.problems([fast]), checks.problems([one_host])
    assert (excess.code, short.code) == ("above_limit", "too_short")
    assert excess.figures[1] == pytest.approx(1.20, abs=0.005)


def test_the_same_twice_is_named() -> None:
    run = RUNS["p5-allreduce-aws-eks"]
    again = msgspec.structs.replace(run, id="another")

    assert checks.problems([run, run]) == (EntryProblem(run.id, "same_id", (2,)),)
    assert checks.problems([run, again]) == (EntryProblem("another", "same_values", (run.id,)),)


def test_a_log_that_says_something_else_is_named() -> None:
    run = RUNS["hpc6a-bw-eks-0"]
    log = run.log.replace("10516.40", "10999.00")
    measurements = [m for r in read([log.encode()]).results for m in r.measurements]

    assert [problem.code for problem in checks.unread(run, measurements)] == ["not_in_log"]


def test_a_file_that_is_none_is_refused() -> None:
    with pytest.raises(SpecError, match=r"mine\.toml"):
        published.read("[[run]]\nid = 1\n", "mine.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[run]]\nid = 'a'\n[[run]]\nid = 'b'", "mine.toml: a: Object missing required field"),
        ("[[run]]\nid = 'a'\nhardwear = ''", "mine.toml: a: Object contains unknown field"),
        ("[[run]]\nid = 'a'\ngrade = 'D'", "mine.toml: a: "),
        ("[[run]]\nhosts = 'two'", "mine.toml: Expected `int`, got `str`"),
        ("[[run]", "mine.toml: "),
    ],
)
def test_the_entry_that_cannot_be_read_is_named(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)):
        published.read(text, "mine.toml")
