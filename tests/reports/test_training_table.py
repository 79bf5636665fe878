"""The table of `launchers/train_scaling.py`: expected against got, by the rules of `scaling`."""

from collections.abc import Mapping

from cluster.analysis.models.published_tables import series
from cluster.analysis.statistics.compare import Comparison, ComparisonCell
from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import Summary
from cluster.reports.table import Table
from cluster.reports.training_table import conditions_table, training_table
from tests.conftest import ROOT, run_script
from tests.snapshots import Snapshot

STEP = 0.5  # seconds


def summary(metric: str, unit: str, median: float, **params: str) -> Summary:
    return Summary(
        metric=metric, unit=unit, better="higher", params=dict(params), n=1, median=median, ci=None,
        p5=median, p95=median, p99=median, converged=False,
    )  # fmt: skip


def train(rate: float, busy: float | None = None) -> tuple[Summary, ...]:
    """Return what a run with data in a store leaves, of which a rank computes in 80% of a step."""
    gpu = () if busy is None else (summary("gpu_busy", "%", busy, data="store"),)
    return (
        summary("samples_rate", "samples/s", 2 * rate, data="memory"),
        summary("samples_rate", "samples/s", rate, data="store"),
        summary("step_time", "s", STEP, data="store"),
        summary("compute", "s", 0.8 * STEP, data="store"),
        summary("gradient_bytes", "B", 102e6),
        *gpu,
    )


def table(rates: Mapping[int, float], **more: float) -> Table:
    verdicts = {ranks: (train(rate), f"verdict of {ranks}") for ranks, rate in rates.items()}
    return training_table(verdicts, 128, **more)  # type: ignore[arg-type]


def test_it_says_what_scaling_says_of_the_published_table() -> None:
    """Document 002's rates on real data; computed efficiencies, not those it prints."""
    text = (ROOT / "examples" / "ddl_scaling.md").read_text()
    published = next(curve for curve in series(text) if "Real data" in curve.name)
    result = table({t.ranks: t.rate for t in published.throughputs})

    assert [row[0] for row in result.rows] == ["1", "2", "4", "8", "16"]
    assert [row[3] for row in result.rows] == ["100.0%", "94.2%", "77.9%", "75.7%", "71.2%"]
    assert [row[1] for row in result.rows][:2] == ["226 samples/s", "452 samples/s"]
    assert [row[5] for row in result.rows] == ["", "", "SLOW", "SLOW", "SLOW"]
    assert {row[4] for row in result.rows} == {"80%"}
    assert result.rows[4][6] == "verdict of 16"


def test_with_a_link_a_row_is_flagged_only_below_what_the_link_allows(snapshot: Snapshot) -> None:
    """102 MB over 10 Gbit/s takes 0.08 s or more of a step, which lasts 0.57 s at 226 images/s."""
    rates = {1: 226.0, 16: 2576.0}
    no_link, link = table(rates), table(rates, link=0.1e9)

    assert no_link.rows[1][5] == "SLOW"
    assert link.rows[1][5] == ""
    assert float(link.rows[1][1].split()[0]) < float(no_link.rows[1][1].split()[0])
    snapshot(link.notes[0])


def test_gpus_have_a_column_of_how_busy_they_were() -> None:
    result = training_table({1: (train(188, 83.0), ""), 2: (train(376), "")}, 128)

    assert result.columns[5] == "GPU busy"
    assert [row[5] for row in result.rows] == ["83%", ""]
    assert "GPU busy" not in table({1: 188.0}).columns


def test_two_networks_have_each_their_efficiency() -> None:
    """Document 002's synthetic data: Calico against Host."""
    rates = {1: (220.0, 220.0), 2: (424.0, 436.0), 4: (652.0, 764.0), 8: (1240.0, 1408.0)}
    compared = {
        ranks: Comparison(
            base="Calico",
            other="Host",
            threshold=0.02,
            factors=(),
            cells=(
                ComparisonCell(
                    metric="samples_rate", params={"data": "memory"}, unit="samples/s",
                    better="higher", base=calico, other=host, launches=(5, 5), verdict="faster",
                ),
            ),
        )
        for ranks, (calico, host) in rates.items()
    }  # fmt: skip
    result = conditions_table(compared)

    assert result.columns[1::2][:2] == ("Calico", "Host")
    assert [row[2] for row in result.rows] == ["100.0%", "96.4%", "74.1%", "70.5%"]
    assert [row[4] for row in result.rows] == ["100.0%", "99.1%", "86.8%", "80.0%"]
    assert [row[5] for row in result.rows] == ["1.000", "1.028", "1.172", "1.135"]


def test_a_run_without_a_rate_is_refused(snapshot: Snapshot) -> None:
    with snapshot.raises(SpecError):
        training_table({1: ((), "")}, 128)


def test_the_launcher_refuses_what_it_cannot_run(snapshot: Snapshot) -> None:
    script = str(ROOT / "launchers" / "train_scaling.py")

    assert "1,x" in run_script(script, "--ranks=1,x", status=2).stderr
    snapshot(run_script(script, "--device=tpu", status=2).stderr)
