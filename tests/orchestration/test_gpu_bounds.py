"""A run of `gpu`, once it is here, is held against the link and the clock that it saw itself."""

from pathlib import Path

import pytest

from cluster.benchmarks.gpu import definitions
from cluster.core.model.hosts import Machine
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Scalar
from cluster.orchestration.bench.collect import JobResult, _keep_measured, close_run
from cluster.runs import store
from cluster.runs.run import Run
from tests.plain_values import plain_record, plain_series

GIB = 1 << 30
POINT: dict[str, Scalar] = {"gpu": 0, "model": "NVIDIA H200"}


def collected(root: Path, rate: float) -> Run:
    """Return a run in which 1 GiB was copied to the GPU at this rate, over PCIe 5.0 x16."""
    folder = store.create(root, "gpus", "gpu", 1e9)
    machine = Machine(  # noqa: S604 - no shell is started
        name="0.mpi.gpus", id="h", address="127.0.0.1", shell="local", folder="/f", bin="/b"
    )
    record = plain_record(
        id=folder.name,
        benchmark="gpu",
        status="running",
        at=1e9,
        spec=ClusterSpec(name="gpus", hosts=1),
        machines=(machine,),
        definitions={metric.id: metric for metric in definitions.METRICS},
    )
    store.write(folder, record)
    copied: dict[str, Scalar] = {"gpu": 0, "numa": 0, "size": GIB, "memory": "pinned"}
    slot: dict[str, Scalar] = {**POINT, "slot": "32.0 GT/s PCIe x16"}
    store.append(
        folder,
        [
            plain_series(definitions.LINK, 63.0e9, slot),
            plain_series(definitions.HOST_TO_GPU, GIB / rate, copied, GIB),
        ],
    )
    _keep_measured(folder)
    close_run(folder, JobResult(status="done"), {})
    return store.read(folder)


@pytest.mark.parametrize(
    ("rate", "word"), [(55.4e9, "normal"), (20e9, "low"), (80e9, "impossible")]
)
def test_a_rate_is_judged_by_the_link_in_use(tmp_path: Path, rate: float, word: str) -> None:
    run = collected(tmp_path, rate)

    assert run.record.hardware is not None
    assert run.judge().word == word
