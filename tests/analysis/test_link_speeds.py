"""Figures of hardware against those that are published, and what hosts say becomes limits."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cluster.analysis.limits.hardware import listed_nvlinks, nvlink
from cluster.analysis.limits.link import interface_link as link
from cluster.core.model.hosts import Interface
from cluster.core.model.results.limits import LANES, slot_bandwidth
from cluster.core.model.results.measurements import Definition
from cluster.reports.words.limits import limit_words
from cluster.runs.store import read
from tests.snapshots import Snapshot

GBIT = 125e6  # bytes per second


@pytest.mark.parametrize(
    ("slot", "gigabytes"),
    [
        ("2.5 GT/s PCIe x16", 4.0),
        ("5.0 GT/s PCIe x8", 4.0),
        ("8.0 GT/s PCIe x16", 15.75),
        ("16.0 GT/s PCIe x16", 31.5),
        ("32.0 GT/s PCIe x16", 63.0),
        ("64.0 GT/s PCIe x16", 121.0),
        ("8 GT/s x16", 15.75),
    ],
)
def test_a_slot_carries_what_is_published(slot: str, gigabytes: float) -> None:
    figure = slot_bandwidth(slot)
    assert figure
    assert figure.rate / 1e9 == pytest.approx(gigabytes, rel=2e-3)
    assert "PCI Express Base Specification" in figure.source


@pytest.mark.parametrize("slot", ["", "Unknown x16", "7.0 GT/s PCIe x16", "8.0 GT/s PCIe x"])
def test_a_slot_that_says_nothing_has_no_figure(slot: str) -> None:
    assert slot_bandwidth(slot) is None


def test_nvlinks_carry_what_is_published_and_more_than_was_measured() -> None:
    """V100: 24.3 GB/s over one, 48.5 over two; 396 of 450 on H200: measuring.md, sections 3, 4."""
    for architecture, links, value, rate in (
        ("Pascal", 4, 80e9, 0.0),
        ("Volta", 1, 25e9, 24.3e9),
        ("Volta", 2, 50e9, 48.5e9),
        ("Ampere", 12, 300e9, 0.0),
        ("Hopper", 18, 450e9, 396e9),
        ("Blackwell", 18, 900e9, 0.0),
    ):
        figure = nvlink(architecture, links)
        assert figure
        assert figure.rate == value > rate
    assert nvlink("Kepler", 4) is None
    assert nvlink("Volta", 0) is None


def test_every_figure_says_where_it_is_from() -> None:
    assert all(figure.source for figure in LANES.values())
    assert all(entry.source for entry in listed_nvlinks().values())


def interface(**words: Any) -> Interface:
    return Interface(name="eth0", address="10.0.0.1", prefix=24, mtu=1500, **words)


def test_an_interface_is_as_fast_as_its_kernel_says() -> None:
    result = link(interface(speed=25 * GBIT))
    assert result
    assert (result.rate, result.mtu, result.flow) == (25 * GBIT, 1500, None)
    assert result.source == "Linux: eth0, 25gbit"


def test_a_slot_may_be_slower_than_the_interface_in_it() -> None:
    """100 Gbit/s are 12.5 GB/s: eight lanes of generation 3 carry 7.9."""
    narrow = link(interface(speed=100 * GBIT, slot="8.0 GT/s PCIe x8"))
    wide = link(interface(speed=100 * GBIT, slot="8.0 GT/s PCIe x16"))
    assert narrow
    assert wide
    assert narrow.rate == pytest.approx(7.877e9, rel=1e-3)
    assert "slot: 8.0 GT/s PCIe x8" in narrow.source
    assert wide.rate == 100 * GBIT


def test_nothing_is_guessed_of_an_interface_that_says_nothing() -> None:
    assert link(interface()) is None


def show(folder: Path, **interfaces: Any) -> Any:
    """Read the run of before, as if its hosts had been two, with these interfaces."""
    old = Path(__file__).parents[1] / "plain_run"
    record = json.loads((old / "run.json").read_text())
    [facts] = record["environment"]
    record["environment"] = []
    for number, machine in enumerate(record["machines"]):
        machine["address"] = f"10.0.0.{number}"
        eth0 = {"name": "eth0", "address": machine["address"], "prefix": 24, "mtu": 9000}
        record["environment"].append(facts | {"interfaces": [eth0 | interfaces]})
    [before] = (k for k, d in record["definitions"].items() if d["metric"] == "bandwidth")
    words = record["definitions"].pop(before) | {"flow": "one way"}
    after = msgspec.convert(words, Definition).id
    record["definitions"][after] = words
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(record))
    values = (old / "measurements.jsonl").read_text().replace(before, after)
    (folder / "measurements.jsonl").write_text(values)
    return next(s for s in read(folder).summary() if s.metric == "bandwidth")


def test_what_the_kernels_of_the_hosts_know_bounds_a_run(snapshot: Snapshot, home: Path) -> None:
    """Two members of 10 Gbit/s are a bond of 20, of which one connection has one."""
    bond = show(home / "bond", speed=20 * GBIT, flow=10 * GBIT)
    assert bond.bound == pytest.approx(10 * GBIT * 8948 / 9038)
    snapshot(limit_words(bond.limit))
    assert show(home / "none").bound is None
