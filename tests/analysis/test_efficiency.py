"""Efficiencies, from known figures and the founding tables."""

from pathlib import Path

import msgspec
import pytest

from cluster.analysis.models.efficiency import (
    Series,
    Throughput,
    Work,
    exchange_seconds,
    measured_series,
    scaling,
)
from cluster.analysis.models.published_tables import series
from cluster.analysis.statistics.compare import Launch
from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import Definition
from cluster.core.model.spec import ClusterSpec
from cluster.reports.tables import scaling_table
from tests.analysis.test_compare import RECORD, summary
from tests.analysis.test_summarize import definition
from tests.conftest import ROOT, answer, command
from tests.snapshots import Snapshot

FOUNDING = ROOT.parent / "shared" / "data" / "origin" / "002_2e65bea6a127d6b1.txt"
# Two GPUs per host, ResNet-50's 102 MB of gradients, 128 images per GPU: the case of document 002.
RESNET = Work(batch=128, payload=102e6, rate=10e9 / 8, ranks_per_host=2)


def test_efficiency_is_per_rank_over_the_smallest() -> None:
    curve = Series(
        name="w",
        unit="x/s",
        throughputs=(
            Throughput(ranks=4, rate=60.0, interval=(58.0, 62.0)),
            Throughput(ranks=2, rate=40.0, interval=(38.0, 42.0)),
        ),
    )
    result = scaling(curve)

    assert (result.base, result.base_rate) == (2, 40.0)
    assert [row.efficiency for row in result.rows] == [1.0, 0.75]
    assert [row.speedup for row in result.rows] == [1.0, 1.5]
    assert result.rows[0].interval is None
    assert result.rows[1].interval == pytest.approx((58 / 42 / 2, 62 / 38 / 2))


def test_without_a_base_there_is_no_efficiency(snapshot: Snapshot) -> None:
    with snapshot.raises(SpecError):
        scaling(Series(name="w", unit="x/s", throughputs=()))
    with snapshot.raises(SpecError):
        scaling(Series(name="w", unit="x/s", throughputs=(Throughput(ranks=1, rate=0.0),)))


def test_the_exchange_of_the_founding_case() -> None:
    """2, 4 and 8 hosts over one 10 Gbit/s flow: 82, 122 and 143 ms; on one host nothing."""
    times = [exchange_seconds(RESNET, ranks) for ranks in (2, 4, 8, 16)]

    assert times == pytest.approx([0.0, 0.0816, 0.1224, 0.1428])


def test_bounds_lie_around_what_is_possible() -> None:
    curve = Series(
        name="w",
        unit="images/s",
        throughputs=(Throughput(ranks=1, rate=226.0), Throughput(ranks=4, rate=704.0)),
    )
    row = scaling(curve, RESNET).rows[1]

    step = 128 / 226
    assert row.least == pytest.approx(step / (step + 0.0816))
    assert row.most == 1.0
    slow = msgspec.structs.replace(RESNET, rate=RESNET.rate / 20)
    assert scaling(curve, slow).rows[1].most == pytest.approx(step / 1.632)


def test_worse_than_without_overlap_and_better_than_possible_are_said(snapshot: Snapshot) -> None:
    def notes(rate: float, work: Work) -> str:
        rates = (Throughput(ranks=1, rate=226.0), Throughput(ranks=4, rate=rate))
        return " ".join(
            scaling_table(scaling(Series(name="w", unit="x/s", throughputs=rates), work)).notes
        )

    snapshot(notes(704.0, RESNET))
    slow = msgspec.structs.replace(RESNET, rate=RESNET.rate / 20)
    snapshot(notes(704.0, slow))
    assert notes(880.0, RESNET) == ""


def test_runs_of_different_sizes_are_one_series() -> None:
    def launch(hosts: int, *medians: float) -> Launch:
        spec = ClusterSpec(name="x", hosts=hosts)
        return Launch(
            record=msgspec.structs.replace(RECORD, spec=spec),
            summaries=tuple(summary(m, rate=True) for m in medians[:1])
            + tuple(summary(m) for m in medians[1:]),
        )

    data = measured_series([launch(1, 1e-6, 8.0), launch(2, 0.6e-6, 5.0), launch(2, 0.7e-6, 5.0)])
    rates = {item.name: [t.rate for t in item.throughputs] for item in data}

    assert rates["bandwidth, 8 B"] == pytest.approx([1e9, (1 / 0.6 + 1 / 0.7) / 2 * 1e9])
    assert rates["latency, 8 B"] == pytest.approx([1 / 8, 1 / 5])
    assert [item.unit for item in data] == ["B/s", "1/s"]
    assert measured_series([launch(2, 1.0, 1.0)]) == ()

    launches = [
        msgspec.structs.replace(run, record=msgspec.structs.replace(run.record, condition=network))
        for network, rates in (("network=pod", (1.0, 2.0)), ("network=host", (1.0, 1.0)))
        for run in (launch(hosts, 8.0, rate) for hosts, rate in enumerate(rates, 1))
    ]
    latencies = {item.name: item for item in measured_series(launches) if "latency" in item.name}
    assert [scaling(item).rows[1].efficiency for item in latencies.values()] == [0.25, 0.5]
    assert list(latencies) == ["network=pod, latency, 8 B", "network=host, latency, 8 B"]


def test_the_bus_bandwidth_of_a_collective_scales_and_its_time_does_not() -> None:
    """All ranks of a ring that keeps its speed are at 100 %; a time that grows with n says nothing.

    What was timed by another loop, or by another definition, is another series.
    """
    time = definition(metric="allreduce")
    time = msgspec.structs.replace(time, flow="between hosts", factor="2(n-1)/n")
    bus = msgspec.structs.replace(time, metric="busbw", unit="B/s", better="higher", rate="bus")
    other = msgspec.structs.replace(bus, kernel="C")

    def launch(ranks: int, definition: Definition) -> Launch:
        definitions = {d.id: d for d in (time, definition)}
        rate = msgspec.structs.replace(
            summary(1e-6, rate=True),
            metric="busbw",
            definition=definition.id,
            params={"size": 8, "ranks": ranks},
        )
        times = msgspec.structs.replace(rate, metric="allreduce", definition=time.id, unit="s")
        return Launch(
            record=msgspec.structs.replace(RECORD, definitions=definitions), summaries=(times, rate)
        )

    [curve] = measured_series([launch(2, bus), launch(4, bus), launch(8, other)])

    assert [t.ranks for t in curve.throughputs] == [2, 4]
    assert [t.rate for t in curve.throughputs] == pytest.approx([2e9, 4e9])
    assert [row.efficiency for row in scaling(curve).rows] == pytest.approx([1.0, 1.0])


def efficiencies(text: str) -> dict[str, list[float]]:
    results = [scaling(item) for item in series(text)]
    return {item.name: [round(100 * row.efficiency, 1) for row in item.rows] for item in results}


def misfits(text: str) -> dict[str, list[int]]:
    results = [scaling(item) for item in series(text)]
    return {item.name: [row.ranks for row in item.rows if not row.follows] for item in results}


@pytest.mark.parametrize(
    "page",
    [
        ROOT / "examples" / "ddl_scaling.md",
        pytest.param(
            FOUNDING,
            marks=pytest.mark.skipif(not FOUNDING.exists(), reason="../shared is not here"),
        ),
    ],
    ids=["example", "founding document"],
)
def test_the_three_tables_of_the_founding_document(page: Path) -> None:
    text = page.read_text()
    shares = efficiencies(text)
    wrong = misfits(text)
    real = next(name for name in shares if "real data" in name.lower())
    calico = next(name for name in shares if name.endswith("Calico"))
    host = next(name for name in shares if name.endswith("Host"))

    assert shares[real] == [100.0, 94.2, 77.9, 75.7, 71.2]
    assert wrong[real] == [2, 4]
    assert shares[calico] == [100.0, 96.4, 74.1, 70.5]
    assert wrong[calico] == [2]
    assert shares[host] == [100.0, 99.1, 86.8, 80.0]
    assert wrong[host] == []
    accuracy = [values for name, values in shares.items() if "Resnet50" in name][-1]
    assert accuracy[-2:] == [100.0, 56.5]  # 658 and 744 images/s on 4 and 8


def test_what_is_commented_out_and_what_is_no_rate_is_left_out() -> None:
    text = """
# A
| GPUs | throughput | note |
|---|---|---|
| 1 | 100 items/s | |
<!-- | 2 | 999 items/s | | -->
| 4 | 300 items/sec | |
| 8 | slow | |

| a | b |
|---|---|
| 1 | 2 |
"""
    [curve] = series(text)

    assert (curve.name, curve.unit) == ("A", "items/s")
    assert [(t.ranks, t.rate) for t in curve.throughputs] == [(1, 100.0), (4, 300.0)]


def test_the_command_reads_a_page(snapshot: Snapshot) -> None:
    page = str(ROOT / "examples" / "ddl_scaling.md")
    bounds = ("--batch=128", "--exchange=102MB", "--link=10gbit", "--ranks-per-host=2")
    output = command("more", "scaling", page, *bounds).stdout

    snapshot(output)
    assert answer("more", "scaling", page)[0]["rows"][1]["efficiency"] == pytest.approx(426 / 452)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("README.md",), "holds no table"),
        (("nothing.md",), "cannot be read"),
        (("examples/ddl_scaling.md", "--batch=1"), "together"),
    ],
)
def test_what_cannot_be_scaled_is_refused(words: tuple[str, ...], message: str) -> None:
    page, *more = words

    assert message in command("more", "scaling", str(ROOT / page), *more, status=2).stderr
