"""A process that is killed at any of its calls of Slurm: whoever comes after it leaves no job."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.core.model.spec import ClusterSpec
from cluster.orchestration.launch.launch import launch_spec
from tests import killed_processes
from tests.fatal_calls import FatalCalls
from tests.killed_processes import WAYS, clear
from tests.slurm_here import SlurmHere, slurm_here

__all__ = ["slurm_here"]
SPEC = ClusterSpec(name="mine", provider="slurm", hosts=1, options={"reach": "srun"})
COMMANDS = ("sbatch", "squeue", "scancel", "scontrol", "srun")


@pytest.fixture
def kills(
    slurm_here: SlurmHere, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FatalCalls]:
    wrapper = FatalCalls(tmp_path / "kills", monkeypatch, *COMMANDS)
    monkeypatch.setenv("SLURM_CONF", str(slurm_here.conf))
    yield wrapper
    assert slurm_here.call("squeue", "-h") == ""


@pytest.mark.parametrize("way", WAYS)
def test_a_launch_that_is_killed_at_any_call_leaves_no_job(
    kills: FatalCalls, slurm_here: SlurmHere, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10 s: each call is a place to die, before it and after it; each way gets a third of them.

    A job whose submission was not answered is looked for during half a minute; here it is listed at
    once, or never.
    """
    monkeypatch.setattr("cluster.providers.slurm.SEEN_WITHIN", 0.5)
    launch_spec(SPEC).close()
    calls = kills.calls()
    clear("down")
    # The first sbatch only asks, and scontrol of the partition. How often squeue is asked while
    # the job starts is chance.
    certain = [call for call in calls[1:] if call in {"squeue 1", "squeue 2"} or "q" not in call]
    assert certain[:3] == ["scontrol 1", "sbatch 2", "squeue 1"]
    assert certain[-1] == "srun 1"

    moments = [(call, when) for call in certain for when in ("before", "after")]
    for call, when in moments[WAYS.index(way) :: len(WAYS)]:
        kills.choose(call, when)
        assert killed_processes.status(killed_processes.launch, SPEC) == -signal.SIGKILL
        kills.choose("", when)
        clear(way)
        assert slurm_here.call("squeue", "-h", "-o", "%A") == "", (call, when)


def test_a_teardown_that_is_killed_at_any_call_is_finished_by_the_next(
    kills: FatalCalls, slurm_here: SlurmHere
) -> None:
    launch_spec(SPEC).close()
    calls = kills.calls_of(killed_processes.down, "mine")
    calls = [call for call in calls if call in {"squeue 1", "squeue 2", "scancel 1"}]
    assert calls == ["squeue 1", "scancel 1", "squeue 2"]

    for call in calls:
        launch_spec(SPEC).close()
        kills.choose(call, "before")
        assert killed_processes.status(killed_processes.down, "mine") == -signal.SIGKILL
        kills.choose("", "before")
        clear("down")
        assert slurm_here.call("squeue", "-h", "-o", "%A") == "", call
