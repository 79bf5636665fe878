"""The experiment of founding document 000, from its own raw results: what it concludes, we see."""

import re
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from cluster.core.model.results.records import Note
from cluster.reports.page import compare_with_network
from cluster.reports.pictures import sweep_picture
from cluster.runs import store
from tests.conftest import answer, command, runs_folder

RESULTS = Path(__file__).parent.parent.parent / "shared" / "data" / "recorded" / "mlbench_p2p"
CONDITIONS = ("cpu", "gpu", "cuda-ipc", "no-cuda-ipc")
SIZES = (40, 4000, 400_000, 40_000_000, 4_000_000_000)  # that are at hand; bytes
pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="no raw results beside the checkout")


@pytest.fixture
def k80(home: Path) -> str:
    """Import the four conditions, each as a run of one experiment."""
    for condition in CONDITIONS:
        files = sorted(str(path) for path in (RESULTS / condition).iterdir())
        command("import", *files, "--name", "k80", "--condition", condition)
    return "k80"


def gains(name: str) -> dict[int, dict[str, Any]]:
    """Compare with CUDA IPC and without, size by size."""
    names = [
        f"{run.parent.name}/{run.name}"
        for run in store.all_of(runs_folder(), name)
        if store.record(run).condition in ("cuda-ipc", "no-cuda-ipc")
    ]
    (comparison,) = answer("compare", "--by", "condition", *reversed(names))
    assert (comparison["base"], comparison["other"]) == ("no-cuda-ipc", "cuda-ipc")
    return {
        cell["params"]["size"]: cell
        for cell in comparison["cells"]
        if cell["metric"] == "oneway_bandwidth"
    }


def rates(name: str, condition: str, size: int) -> list[float]:
    """Return all of a vector's raw values but the first, which the document dropped."""
    for folder in store.all_of(runs_folder(), name):
        run = store.read(folder)
        if run.record.condition == condition:
            return [
                value
                for m in run.measurements
                if m.metric == "oneway_bandwidth" and m.params["size"] == size
                for value in m.values
            ]
    raise AssertionError(condition)


def best_shares(name: str) -> dict[str, float]:
    """Return the highest share of 8 Gbit/s that each line's points say, in percent."""
    runs = [store.read(folder) for folder in store.all_of(runs_folder(), name)]
    reports = [compare_with_network(run.as_reported(runs_folder()), 1e9) for run in runs]
    picture = sweep_picture(reports, "oneway_bandwidth", given_bound=1e9)
    return {
        tips[0].partition(", ")[0]: max(
            float(share) for tip in tips for share in re.findall(r"([\d.]+)% of the limit", tip)
        )
        for tips in picture.tips.values()
    }


def test_the_gain_of_cuda_ipc_is_that_of_the_document(k80: str) -> None:
    means = {
        size: mean(rates(k80, "cuda-ipc", size)) / mean(rates(k80, "no-cuda-ipc", size))
        for size in SIZES
    }
    by_size = gains(k80)

    assert [round(means[size], 2) for size in (4_000_000_000, 400_000)] == [1.15, 1.51]
    assert means[40] < 1
    assert round(by_size[4_000_000_000]["ratio"], 2) == 1.15
    low, high = by_size[400_000]["interval"]
    assert low < 1.51 < high
    assert by_size[40]["interval"][1] < 1, "at 40 B the gain reverses"
    assert by_size[400_000]["interval"][0] > 1


def test_the_first_iteration_is_kept_apart_and_counted(k80: str) -> None:
    for folder in store.all_of(runs_folder(), k80):
        run = store.read(folder)
        counts = {(m.metric, m.params["size"]): len(m.values) for m in run.measurements}
        assert counts == {
            (metric, size): n
            for metric, n in (("oneway_bandwidth", 99), ("first_bandwidth", 1))
            for size in SIZES
        }
        (note,) = run.record.notes
        assert isinstance(note, Note)
        assert (note.kind, note.values[0], note.values[2]) == (
            "first_is_warm_up",
            100,
            "first_bandwidth",
        )


def test_between_nodes_the_network_bounds_both_and_the_cpu_wins_small_ones(k80: str) -> None:
    means = {
        condition: {size: mean(rates(k80, condition, size)) for size in SIZES}
        for condition in CONDITIONS
    }

    assert means["gpu"][4 * 10**9] / means["cpu"][4 * 10**9] == pytest.approx(1, abs=0.01)
    assert means["cpu"][4 * 10**9] < 1e9, "8 Gbit/s, the line of the document's figure"
    assert all(means["cpu"][size] > means["gpu"][size] for size in SIZES[:3])
    assert means["cuda-ipc"][4 * 10**9] > 4 * means["gpu"][4 * 10**9]


def test_the_figure_has_a_line_per_condition_and_the_bound(k80: str, home: Path) -> None:
    command("plot", k80, "--bound", "8gbit", "-o", "fig.svg")
    figure = (home / "fig.svg").read_text()

    for words in (*CONDITIONS, "oneway_bandwidth, B/s", "message size; bars: 95% CI of the median"):
        assert f">{words}" in figure, words
    assert "8gbit" in figure
    assert ">1 GB/s<" in figure
    assert ">10 kB<" in figure
    assert ">100 kB<" in figure
    best = best_shares(k80)
    assert set(best) == set(CONDITIONS)
    assert 80 < best["cpu"] < 100
    command("plot", k80, "-o", "fig.png")
    assert (home / "fig.png").read_bytes().startswith(b"\x89PNG")
