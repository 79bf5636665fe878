"""A task that ends while its state is read has ended, or still runs; it is never lost."""

import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from cluster.agent import task
from cluster.agent.hardware import read_text
from cluster.core.model.hosts import FIGURES
from cluster.core.model.jobs import TaskEnd, TaskSpec
from tests.conftest import until


@pytest.mark.parametrize("moment", range(3))
def test_a_task_that_ends_after_any_reading_is_not_lost(
    moment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["sh", "-c", "read -r nothing", str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as supervisor:
        cmdline, folder = Path(f"/proc/{supervisor.pid}/cmdline"), os.fsencode(tmp_path)
        until(lambda: folder in cmdline.read_bytes().split(b"\0"), "exec has set its arguments")
        (tmp_path / task.SPEC).write_bytes(msgspec.json.encode(TaskSpec(argv=("true",))))
        (tmp_path / task.PID).write_text(f"{supervisor.pid} 0")
        (tmp_path / task.END).write_text(" " * 9)
        readings = 0

        def end_after(path: Path) -> str:
            nonlocal readings
            text = read_text(path)
            if readings == moment:
                end = TaskEnd(exit_status=0, state="done", at=time.time(), reason="")
                (tmp_path / task.PID).write_text(f"{supervisor.pid} {time.time()}")
                (tmp_path / task.END).write_bytes(msgspec.json.encode(end))
                supervisor.kill()
                supervisor.wait()
            readings += 1
            return text

        monkeypatch.setattr(task, "read_text", end_after)
        state = task.task_state(tmp_path)
        supervisor.kill()

    assert state.state in ("starting", "done")
    assert state.state == "starting" or state.began > 0


def test_the_end_of_a_task_has_what_its_host_did(tmp_path: Path) -> None:
    spec = TaskSpec(argv=("sleep", "5"), cwd=str(tmp_path))
    (tmp_path / task.SPEC).write_bytes(msgspec.json.encode(spec))
    subprocess.run([sys.executable, "-m", "cluster.agent", "task", tmp_path], check=True)
    end = task.task_state(tmp_path).end

    assert end
    assert end.state == "done"
    assert end.usage
    assert set(end.usage.median) == set(end.usage.peak) == set(FIGURES)
    assert 0 < end.usage.median["memory"] <= end.usage.peak["memory"] < 1
