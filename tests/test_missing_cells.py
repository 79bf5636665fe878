"""Every planned series of a run that failed is listed, with the reason."""

import json

import pytest

import cluster
from cluster.core import plugins
from cluster.core.model.results.measurements import Planned
from cluster.core.text.options import convert
from cluster.measure.benchmark import Benchmark
from cluster.runs.store import find, read
from cluster.testing import FakeHosts, FakeJob
from tests.conftest import ROOT, answer, command, runs_folder
from tests.reports.test_page import saved
from tests.snapshots import Snapshot

CELLS = tuple(Planned(metric="latency", params={"size": 8 * 4**k}) for k in range(10))


def plan(name: str, **params: object) -> list[tuple[str, dict[str, object]]]:
    benchmark = plugins.load(Benchmark, name)
    values = convert(params, benchmark.Params, "parameter")
    return [(cell.metric, dict(cell.params)) for cell in benchmark.plan(values, 3)]


def test_what_benchmarks_plan() -> None:
    assert plan("p2p", metrics="memory_copy,latency", sizes="8,64") == [
        ("memory_copy", {"size": 65_536}),
        ("latency", {"size": 8}),
        ("latency", {"size": 64}),
    ]
    assert plan("collectives", operations="barrier,allgather", sizes="24,100") == [
        ("barrier", {}),
        ("allgather", {"size": 24}),
        ("allgather", {"size": 99}),
    ]
    assert plan("iperf", metrics="forward", streams="1,8") == [
        ("forward", {"streams": 1}),
        ("forward", {"streams": 8}),
    ]


@pytest.mark.parametrize(
    ("benchmark", "words"),
    [
        ("p2p", ("--metrics", "memory_copy,oneway_time,latency,bandwidth", "--sizes", "8,1kB")),
        ("collectives", ("--operations", "barrier,allreduce,alltoall", "--sizes", "8,1001")),
    ],
)
def test_a_whole_run_lacks_nothing(tools: None, benchmark: str, words: tuple[str, ...]) -> None:
    document = answer("bench", benchmark, "--run-local", *words, "--iterations", "5")

    assert document["missing"] == []
    run = read(find(runs_folder(), "latest"))
    assert len(run.record.planned) >= 5


def test_a_run_that_was_ended_says_what_it_did_not_take() -> None:
    """Its first series came home, and its job ended by --timeout."""
    first, _ = (ROOT / "tests" / "plain_run" / "measurements.jsonl").read_text().splitlines()
    job = FakeJob(status=124, files={"measurements.0.jsonl": f"{first}\n"})
    with (
        FakeHosts(jobs=[job]),
        cluster.launch("late", provider="fake") as c,
        pytest.raises(cluster.JobError),
    ):
        c.bench("p2p", metrics=["latency", "bandwidth"], sizes="8,64KiB")

    assert [
        (cell["metric"], cell["params"]["size"]) for cell in answer("show", "latest")["missing"]
    ] == [("bandwidth", 8), ("bandwidth", 65_536), ("latency", 65_536)]


def test_reports_say_it_too() -> None:
    saved("one", status="failed", reason="Host h1 is lost.", planned=CELLS)
    sentence = "latency was not measured at 512 KiB, 2 MiB (2 of 10): Host h1 is lost."

    for form in ("terminal", "markdown", "html"):
        assert sentence in command("show", "one", "--format", form).stdout
    assert sentence.rstrip(".") in command("runs", "--markdown").stdout


def test_metrics_without_any_value_share_one_sentence(snapshot: Snapshot) -> None:
    cells = [Planned(metric="oneway_time", params={"size": size}) for size in (8, 16)]
    whole = (Planned(metric=metric) for metric in ("memory_copy", "barrier"))
    saved("one", status="failed", reason="Why.", planned=(*cells, *whole))
    output = command("show", "one").stdout

    snapshot(output)


def test_a_run_that_goes_on_lacks_nothing_yet_and_an_older_one_says_nothing(
    snapshot: Snapshot,
) -> None:
    saved("one", status="done", planned=CELLS)
    snapshot(command("show", "one").stdout)
    older = json.loads((ROOT / "tests" / "plain_run" / "run.json").read_text())

    assert "planned" not in older
    assert answer("show", str(ROOT / "tests" / "plain_run"))["missing"] == []
