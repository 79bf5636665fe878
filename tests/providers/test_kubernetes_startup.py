"""How long a launch waits for pods."""

from types import SimpleNamespace
from typing import cast

import pytest

from cluster.core.errors import Timeout
from cluster.core.model.spec import ClusterSpec
from cluster.providers.kubernetes import objects, startup, states
from cluster.providers.kubernetes.api import Api, refusal
from cluster.providers.kubernetes.options import KubernetesOptions

WAIT = 600.0


@pytest.mark.parametrize("queued", [0, 2000])
@pytest.mark.parametrize("queue", ["", "team"])
def test_running_pods_that_answer_no_command_are_waited_for_as_long_in_a_queue(
    queue: str, queued: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time in the queue does not count, and is unlimited; without one, it counts."""
    now = 0.0
    pod = states.Object(metadata=states.Metadata(name="p-0-abcde"))
    running = states.Status(phase="Running", pod_ip="10.0.0.1")

    def pass_time(seconds: float) -> None:
        nonlocal now
        now += seconds

    def pods(_: str) -> tuple[states.Object, ...]:
        return (
            states.Object(
                metadata=pod.metadata,
                spec=states.Spec(node_name="n"),
                status=running if now > queued else states.Status(phase="Pending"),
            ),
        )

    def lacks(*_: object) -> str:
        raise refusal("Error from server: error dialing backend: dial tcp 10.0.0.9:10250: timeout")

    clock = SimpleNamespace(sleep=pass_time, monotonic=lambda: now)
    monkeypatch.setattr(startup, "time", clock)
    options = KubernetesOptions(image="i", queue=queue, wait=WAIT)
    api = cast("Api", SimpleNamespace(pods=pods, lacks=lacks))
    spec = ClusterSpec(name="x", hosts=1)
    with pytest.raises(Timeout):
        startup.wait_for_pods(api, objects.new_mark("x"), spec, options, lambda *_: None)

    assert now == pytest.approx((queued if queue else 0) + WAIT, abs=2.0)
