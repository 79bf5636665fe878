"""A real Slurm whose queue takes no more jobs."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.core.errors import Quota
from cluster.orchestration.launch.launch import make_spec, plan_spec
from cluster.providers.slurm.client import SlurmClient
from tests.slurm_here import SlurmHere, skip_without_slurm
from tests.snapshots import Snapshot


@pytest.fixture
def full_queue(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmHere]:
    """A Slurm whose queue is full with one job."""
    skip_without_slurm()
    folder = Path(tempfile.mkdtemp(prefix="slurm"))  # short: the path of a socket has a limit
    with SlurmHere(folder, most_jobs=2) as slurm:
        monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
        slurm.hold()
        yield slurm
    shutil.rmtree(folder)


@pytest.mark.usefixtures("full_queue")
def test_a_full_queue_is_said_before_and_while_a_job_is_submitted(
    snapshot: Snapshot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """4 s: it needs a Slurm of its own. sbatch itself would try again for two minutes."""
    with snapshot.raises(Quota):
        plan_spec(make_spec("mine", {"provider": "slurm", "hosts": 1}))

    monkeypatch.setattr("cluster.providers.slurm.client.ANSWERS_WITHIN", 2.0)
    with snapshot.raises(Quota):
        SlurmClient().run(("sbatch", "--wrap=true"))
