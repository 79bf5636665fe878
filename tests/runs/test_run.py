"""A run in Python: one line, frames, a verdict, and the list that it is found in."""

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import cluster
from cluster.core.errors import SpecError
from cluster.runs import frames
from tests.conftest import runs_folder
from tests.reports.test_page import saved
from tests.snapshots import Snapshot

SIZES = [8 * 4**k for k in range(8)]


def test_a_run_is_one_line_and_its_verdict_another() -> None:
    folder = saved("one")
    run = cluster.load("one")

    assert repr(run).startswith(f"<Run one/{folder.name}: ")
    assert "16 series, 320 values" in repr(run)
    assert str(run.judge()).startswith("latency 8 B: 1.0")
    assert str(run.judge()).count("UNKNOWN") == 1
    assert repr(run.judge()) == f"<Judgement {run.judge()}>"
    with pytest.raises(SpecError, match="moon"):
        run.judge(hardware="moon")


def test_values_of_a_rate_are_rates_in_the_unit_of_their_row() -> None:
    saved("one")
    run = cluster.load()
    table = run.to_dict()

    assert {len(column) for column in table.values()} == {320}
    assert set(table) == {
        *("run", "benchmark", "condition", "metric", "unit", "size"),
        *("rank", "host", "iteration", "value"),
    }
    row: dict[str, Any] = {key: column[-1] for key, column in table.items()}
    last = run.measurements[-1]
    assert (row["metric"], row["unit"], row["size"]) == ("bandwidth", "B/s", SIZES[-1])
    assert row["value"] == pytest.approx(last.bytes / last.values[-1])
    assert (row["iteration"], table["unit"][0]) == (19, "s")
    assert table["value"][0] == run.measurements[0].values[0]


def test_frames_of_both_libraries_hold_the_same() -> None:
    saved("one", condition="x=1")
    run = cluster.load("one")

    assert isinstance(run.to_pandas(), pd.DataFrame)
    assert run.to_polars().to_dict(as_series=False) == run.to_dict()
    summaries = run.to_pandas("summaries")
    assert list(summaries["median"]) == [s.median for s in run.summary()]
    assert set(summaries["condition"]) == {"x=1"}
    assert isinstance(run.to_polars("summaries"), pl.DataFrame)
    assert run.to_polars("summaries")["bound"].to_list() == [None] * 16


def test_a_frame_without_its_library_says_what_to_type(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)

    with snapshot.raises(SpecError):
        frames.pandas_frame({})


def test_runs_are_listed_and_read_when_they_are_taken_out(snapshot: Snapshot) -> None:
    first, second = saved("one"), saved("two", when=1e9 + 60, condition="x=1")
    (second / "measurements.jsonl").write_text("no run\n{}")
    runs = cluster.runs()

    assert len(runs) == 2
    assert runs[0].folder == first
    assert [run.folder for run in runs[:1]] == [first]
    snapshot(repr(runs).splitlines()[2])
    with pytest.raises(cluster.ParseError):
        runs[1]
    (second / "run.json").write_text("{")
    snapshot(repr(cluster.runs()))
    assert "<table" in cluster.runs()._repr_html_()
    with snapshot.raises(SpecError):
        cluster.runs(runs_folder() / "nothing")


def test_a_run_is_loaded_by_any_of_its_names(snapshot: Snapshot, tmp_path: Path) -> None:
    first, second = saved("one"), saved("one", when=1e9 + 60)

    for key in ("latest", "one", second.name, second, str(second), f"one/{second.name}"):
        assert cluster.load(key).folder == second
    assert cluster.load(first.name).folder == first
    with snapshot.raises(SpecError):
        cluster.load(runs=tmp_path / "nothing")


def test_groups_of_runs_are_compared() -> None:
    base = [saved("a", 1 + 0.001 * k, 1e9 + k) for k in range(5)]
    other = [saved("b", 2 + 0.001 * k, 1e9 + 0.5 + k) for k in range(5)]
    comparison = cluster.compare(base, [cluster.load(folder) for folder in other])

    assert repr(comparison).startswith("<RunComparison b/")
    assert {cell.verdict for cell in comparison.cells} == {"slower"}
    assert set(comparison.to_dict()["verdict"]) == {"slower"}
    assert comparison.to_pandas()["ratio"].max() == pytest.approx(2.0, rel=0.01)
    assert comparison.to_polars().height == 16
    assert "slower" in str(comparison)
    assert "<table" in comparison._repr_html_()


def test_pictures_and_pages_are_written_where_they_are_wanted(
    snapshot: Snapshot, home: Path
) -> None:
    saved("one")
    run = cluster.load("one")

    assert run.plot("latency", path="latency.pdf").form == "pdf"
    assert (home / "latency.pdf").read_bytes().startswith(b"%PDF")
    assert run.report("page.html") == home / "page.html"
    assert "UNKNOWN" in (home / "page.html").read_text()
    with snapshot.raises(SpecError):
        run.plot("gossip")
    with snapshot.raises(SpecError):
        run.plot(path="latency.gif")


def test_a_cluster_that_was_taken_down_says_so(snapshot: Snapshot) -> None:
    with cluster.launch("gone", provider="local", hosts=2) as c:
        assert c.run(["true"])
    for use in (lambda: c.bench.p2p(sizes=[8]), lambda: c.run(["true"]), c.shells):
        with snapshot.raises(SpecError):
            use()
    assert len(c.machines) == 2
    with snapshot.raises(AttributeError):
        getattr(c.bench, "p3p")  # noqa: B009 - for a type checker there is none
    assert {"p2p", "collectives", "iperf", "program"} <= set(dir(c.bench))
