"""A run folder, and what is written into it, for all tests of this folder."""

from pathlib import Path

import msgspec
import pytest

from cluster.core.model.results.measurements import Measurement
from cluster.core.model.results.records import Record
from cluster.core.model.spec import ClusterSpec
from cluster.runs import store

WHEN = 1_000_000_000.0
STEM = "20010909T014640Z-p2p"  # the billionth second


def record(**changes: object) -> Record:
    plain = Record(
        id=STEM, benchmark="p2p", status="planned", at=WHEN, spec=ClusterSpec(name="mine")
    )
    return msgspec.structs.replace(plain, **changes)


def measurement(rank: int = 0, *values: float) -> Measurement:
    return Measurement(
        metric="latency",
        definition="p2p.latency-00000000",
        unit="s",
        params={"size": 8},
        rank=rank,
        host="hôte",
        values=values or (1e-6, 2.5e-6),
        bytes=8,
    )


def a_run(root: Path, name: str = "mine", when: float = WHEN, benchmark: str = "p2p") -> Path:
    folder = store.create(root, name, benchmark, when)
    store.write(folder, record(id=folder.name))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return a_run(tmp_path / "runs")
