"""A process that is killed at any of its calls of kubectl: the next one leaves nothing."""

import random
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
from tests.fatal_calls import FatalCalls
from tests.killed_processes import WAYS, clear
from tests.providers.kubernetes_here import OPTIONS, kubernetes, kubernetes_server

__all__ = ["kubernetes", "kubernetes_server"]
SPEC = ClusterSpec(name="mine", provider="kubernetes", hosts=2, options=OPTIONS)
MOMENTS = 30 if LONG else 6


def are_over(kills: FatalCalls) -> bool:
    """Tell whether each call of kubectl has ended, also those whose process was killed."""
    mark = f"FATAL_CALLS={kills.folder}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environment = process.joinpath("environ").read_bytes()
            if process.joinpath("exe").readlink().name == "kubectl" and mark in environment:
                return False
    return True


@pytest.fixture
def kills(
    kubernetes: Kubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FatalCalls]:
    """The wrapped kubectl; a pod of others is there before and after."""
    monkeypatch.setattr("cluster.providers.kubernetes.SEEN_WITHIN", 0.3)
    wrapper = FatalCalls(tmp_path / "kills", monkeypatch, "kubectl")
    kubernetes.add_pod("other")
    yield wrapper
    assert kubernetes.things() == [("pods", "other")]
    kubernetes.remove(PODS, "other")


@pytest.mark.parametrize("way", WAYS)
def test_a_launch_that_is_killed_at_any_call_leaves_nothing(
    kills: FatalCalls, kubernetes: Kubernetes, way: str
) -> None:
    """Each call is a place to die, before it and after it; each way gets a third of them."""
    launch_spec(SPEC).close()
    calls, lines = kills.calls(), kills.lines()
    clear("down")
    writes = [line for line in lines if "create --raw" in line and "dryRun" not in line]
    assert len(writes) == 1

    moments = [(nth, when) for nth in range(len(calls)) for when in ("before", "after")]
    for nth, when in moments[WAYS.index(way) :: len(WAYS)]:
        kills.choose(calls[nth], when)
        status = killed_processes.status(killed_processes.launch, SPEC)
        assert status in (-signal.SIGKILL, 0), (nth, when)  # 0: it has polled less often this time
        kills.choose("", when)
        clear("down" if status == 0 and way == "gc" else way)
        assert kubernetes.things() == [("pods", "other")], (when, lines[nth])


def test_a_teardown_that_is_killed_at_any_call_is_finished_by_the_next(
    kills: FatalCalls, kubernetes: Kubernetes
) -> None:
    launch_spec(SPEC).close()
    calls, lines = kills.calls_of(killed_processes.down, "mine"), kills.lines()

    for number, (call, line) in enumerate(zip(calls, lines, strict=True)):
        launch_spec(SPEC).close()
        kills.choose(call, "before" if number % 2 else "after")
        killed_processes.status(killed_processes.down, "mine")
        kills.choose("", "before")
        clear("down")
        assert kubernetes.things() == [("pods", "other")], line


def test_a_launch_that_is_killed_at_random_moments_is_continued_or_cleared(
    kills: FatalCalls, kubernetes: Kubernetes
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
        until(lambda: are_over(kills), "the calls of the killed process are over")
        if moment % len(WAYS) == 0:
            launch_spec(SPEC).close()
            assert len(kubernetes.jobs()) == 1
        clear("down" if moment % len(WAYS) == 0 else WAYS[moment % len(WAYS)])
        if journal.for_cluster("mine").entries():  # it was up when it was killed
            clear("down")
        assert kubernetes.things() == [("pods", "other")], moment
