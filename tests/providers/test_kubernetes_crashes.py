"""A process that is killed at any of its calls of kubectl: the next one leaves nothing."""

import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cluster.core.model.spec import ClusterSpec
from cluster.core.state import journal
from cluster.orchestration.launch.launch import launch_spec
from tests import killed_processes
from tests.conftest import LONG, until
from tests.fakes.kubernetes import Kubernetes
from tests.fakes.kubernetes.store import PODS
from tests.killed_processes import WAYS, clear
from tests.providers.kubernetes_here import OPTIONS, kubernetes, kubernetes_server

__all__ = ["kubernetes", "kubernetes_server"]
SPEC = ClusterSpec(name="mine", provider="kubernetes", hosts=2, options=OPTIONS)
MOMENTS = 30 if LONG else 6
# Counts the calls, and kills the process that made one of them: before it, or after it did
# everything, when its answer is lost.
WRAPPER = """\
#!/bin/sh
echo "$*" | tr '\\n' ' ' >> "$KILLS/calls"
echo >> "$KILLS/calls"
if [ "$(wc -l < "$KILLS/calls")" = "$(cat "$KILLS/at")" ]; then
  [ "$(cat "$KILLS/when")" = before ] || {program} "$@" > /dev/null 2>&1
  kill -9 $PPID
  exit 1
fi
exec {program} "$@"
"""


class Kills:
    """kubectl, one of whose calls kills the process that made it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / "kubectl"
        path.write_text(WRAPPER.format(program=shutil.which("kubectl")))
        path.chmod(0o755)
        self.choose(0, "before")

    def choose(self, call: int, when: str) -> None:
        """Choose the call, from 1, or none. The count begins again."""
        (self.folder / "calls").write_text("")
        (self.folder / "at").write_text(str(call))
        (self.folder / "when").write_text(when)

    def calls(self) -> list[str]:
        """Return the calls."""
        return (self.folder / "calls").read_text().splitlines()

    def are_over(self) -> bool:
        """Tell whether each call has ended, also those whose process was killed."""
        mark = f"KILLS={self.folder}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                environment = process.joinpath("environ").read_bytes()
                if process.joinpath("exe").readlink().name == "kubectl" and mark in environment:
                    return False
        return True


@pytest.fixture
def kills(
    kubernetes: Kubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Kills]:
    """The wrapped kubectl; a pod of others is there before and after."""
    folder = tmp_path / "kills"
    folder.mkdir()
    monkeypatch.setattr("cluster.providers.kubernetes.SEEN_WITHIN", 0.3)
    wrapper = Kills(folder)
    monkeypatch.setenv("KILLS", str(folder))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    kubernetes.add_pod("other")
    yield wrapper
    assert kubernetes.things() == [("pods", "other")]
    kubernetes.remove(PODS, "other")


@pytest.mark.parametrize("way", WAYS)
def test_a_launch_that_is_killed_at_any_call_leaves_nothing(
    kills: Kills, kubernetes: Kubernetes, way: str
) -> None:
    """Each call is a place to die, before it and after it; each way gets a third of them."""
    launch_spec(SPEC).close()
    calls = kills.calls()
    clear("down")
    writes = [call for call in calls if "create --raw" in call and "dryRun" not in call]
    assert len(writes) == 1

    moments = [(nth, when) for nth in range(1, len(calls) + 1) for when in ("before", "after")]
    for nth, when in moments[WAYS.index(way) :: len(WAYS)]:
        kills.choose(nth, when)
        status = killed_processes.status(killed_processes.launch, SPEC)
        assert status in (-signal.SIGKILL, 0), (nth, when)  # 0: it has polled less often this time
        kills.choose(0, when)
        clear("down" if status == 0 and way == "gc" else way)
        assert kubernetes.things() == [("pods", "other")], (nth, when, calls[nth - 1])


def test_a_teardown_that_is_killed_at_any_call_is_finished_by_the_next(
    kills: Kills, kubernetes: Kubernetes
) -> None:
    launch_spec(SPEC).close()
    kills.choose(0, "before")
    killed_processes.down("mine")
    calls = kills.calls()

    for nth in range(1, len(calls) + 1):
        launch_spec(SPEC).close()
        kills.choose(nth, "after" if nth % 2 else "before")
        killed_processes.status(killed_processes.down, "mine")
        kills.choose(0, "before")
        clear("down")
        assert kubernetes.things() == [("pods", "other")], calls[nth - 1]


def test_a_launch_that_is_killed_at_random_moments_is_continued_or_cleared(
    kills: Kills, kubernetes: Kubernetes
) -> None:
    """A third of the launches are gone on from by the same command."""
    start = time.monotonic()
    launch_spec(SPEC).close()
    duration = time.monotonic() - start
    clear("down")
    draw = random.Random(43)
    for moment in range(MOMENTS):
        with killed_processes.begun(killed_processes.launch, SPEC) as process:
            time.sleep(draw.uniform(0, duration))
            process.kill()
        until(kills.are_over, "the calls of the killed process are over")
        if moment % len(WAYS) == 0:
            launch_spec(SPEC).close()
            assert len(kubernetes.jobs()) == 1
        clear("down" if moment % len(WAYS) == 0 else WAYS[moment % len(WAYS)])
        if journal.for_cluster("mine").entries():  # it was up when it was killed
            clear("down")
        assert kubernetes.things() == [("pods", "other")], moment
