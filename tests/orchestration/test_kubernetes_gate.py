"""A gate before a Job of Kubernetes: what is added to the Job, and what its message holds."""

import json
import signal
from copy import deepcopy
from multiprocessing import Pipe
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from cluster.core import decoders
from cluster.core.errors import SpecError
from cluster.core.model.network.fleet import FleetFinding, Part, Reason
from cluster.core.model.network.gate import Gate
from cluster.measure.pairs import tcp
from cluster.orchestration.batch import kubernetes_gate
from cluster.orchestration.batch.kubernetes_gate import KubernetesGate, gated_job
from tests.conftest import command

GATE = KubernetesGate(image="registry.example/cluster:1", limit="100gbit")
FLAGS = ("--image", GATE.image, "--limit", GATE.limit)
AMOUNTS = {"limits": {"nvidia.com/gpu": "8"}}
JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "team-a"},
    "spec": {
        "completionMode": "Indexed",
        "completions": 8,
        "parallelism": 8,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "initContainers": [{"name": "fetch", "image": "registry.example/data:1"}],
                "containers": [{"name": "main", "image": "mine:1", "resources": AMOUNTS}],
            }
        },
    },
}


def items_of(job: dict[str, Any]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(gated_job(json.dumps(job), GATE, "python3"))["items"]
    return items


def test_the_gate_is_the_first_of_a_job_and_names_its_pods() -> None:
    text = command("more", "script", "gate-kubernetes", *FLAGS, text=json.dumps(JOB)).stdout
    service, secret, job = json.loads(text)["items"]
    pod = job["spec"]["template"]["spec"]
    gate, fetch = pod["initContainers"]

    assert [(i["kind"], i["metadata"]) for i in (service, secret)] == [
        (kind, {"name": "train-gate", "namespace": "team-a"}) for kind in ("Service", "Secret")
    ]
    assert service["spec"]["publishNotReadyAddresses"]
    assert gate["command"][-2:] == ["train-{}.train-gate", "8"]
    assert decoders.decode(gate["command"][-3], KubernetesGate) == GATE
    assert gate["resources"] == AMOUNTS  # so the pod asks for no more than before
    assert fetch["name"] == "fetch"
    [rule] = job["spec"]["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [1])


def test_each_job_has_a_key_of_its_own() -> None:
    keys = [item["stringData"] for _ in range(2) for item in items_of(JOB) if "stringData" in item]
    assert keys[0] != keys[1]


def test_a_service_of_the_job_is_used_and_pods_that_start_again_need_no_rule() -> None:
    job = deepcopy(JOB)
    job["spec"]["template"]["spec"] |= {"subdomain": "mine", "restartPolicy": "OnFailure"}
    _, gated = items_of(job)

    assert gated["spec"]["template"]["spec"]["initContainers"][0]["command"][-2] == "train-{}.mine"
    assert "podFailurePolicy" not in gated["spec"]


@pytest.mark.parametrize(
    "change",
    [{"completionMode": "NonIndexed"}, {"completions": 1, "parallelism": 1}, {"parallelism": 4}],
)
def test_a_job_whose_pods_do_not_all_run_at_once_has_no_gate(change: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        items_of(JOB | {"spec": JOB["spec"] | change})


@pytest.mark.parametrize("text", ["", "[]", "{}", "kind: Job"])
def test_what_is_no_job_has_no_gate(text: str) -> None:
    result = command("more", "script", "gate-kubernetes", *FLAGS, status=2, text=text)
    assert "kubectl create --dry-run=client" in result.stderr


def test_a_gate_needs_an_image_and_a_limit() -> None:
    for missing in (FLAGS[:2], FLAGS[2:]):
        command("more", "script", "gate-kubernetes", *missing, status=2, text=json.dumps(JOB))


def exit_status(answer: Gate | Exception, gate: KubernetesGate, message: Path) -> int:
    """Return the exit status of the pod of index 0 if its tests have this answer, or fail."""
    handler = signal.getsignal(signal.SIGALRM)
    with pytest.MonkeyPatch.context() as patch:
        conduct = Mock(side_effect=[answer])
        patch.setattr(kubernetes_gate, "_conduct", conduct)
        patch.setattr(kubernetes_gate, "MESSAGE", message)
        patch.setenv("JOB_COMPLETION_INDEX", "0")
        request = msgspec.json.encode(gate).decode()
        status = kubernetes_gate.main(request, "train-{}.train-gate", "8")
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, handler)
    return status


def test_the_verdict_fits_into_a_message_of_kubernetes(tmp_path: Path) -> None:
    """Its kubelet keeps 4096 bytes, and a part of a verdict could not be read."""
    bad = tuple(
        FleetFinding(
            part=f"host:{n}", name=f"{n}".rjust(63, "n"), kind="BAD", direction="both",
            capacity=5e6, tests=18, evidence="e" * 400, confirmed="c" * 60, holds=True,
            place=Part(kind="host", host=n), reason=Reason(code="slow", low=18, of=18),
        )
        for n in range(40)
    )  # fmt: skip
    answer = Gate(verdict="BAD", code="faults", bad=bad, suspected=bad, answer="a" * 600)
    status = exit_status(answer, GATE, tmp_path / "message")
    text = (tmp_path / "message").read_bytes()

    assert status == 1
    assert len(text) <= 4096
    assert decoders.decode(text, Gate).bad == bad[:3]


def test_a_gate_that_fails_is_undecided(tmp_path: Path) -> None:
    """Python ends with 1, which would end the Job for a bad node."""
    assert exit_status(KeyError("a defect"), GATE, tmp_path / "message") == 75
    gate = decoders.decode((tmp_path / "message").read_bytes(), Gate)
    assert (gate.verdict, gate.reason) == ("UNDECIDED", "'a defect'")


def test_a_pod_that_was_killed_keeps_the_verdict_from_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    links, pods = zip(*(Pipe() for _ in range(3)), strict=True)
    for number, pod in enumerate(pods):
        pod.send_bytes(f"node-{number}".encode())
    pods[0].close()
    bad = Gate(verdict="BAD", code="below_limit", reference=1.0, limit=2.0, run="r" * 10_000)
    monkeypatch.setenv(kubernetes_gate.NODE, "node")
    monkeypatch.setattr(tcp, "connect", Mock(side_effect=links))
    monkeypatch.setattr(kubernetes_gate, "_prove", Mock(return_value=bad))
    hosts = [f"train-{number}.train-gate" for number in range(4)]

    assert kubernetes_gate._conduct(GATE, hosts).verdict == "BAD"
    answers = [decoders.decode(pod.recv_bytes(), Gate) for pod in pods[1:]]
    assert [answer.verdict for answer in answers] == ["BAD", "BAD"]


def test_a_job_starts_undecided_if_that_was_asked_for(tmp_path: Path) -> None:
    undecided = Gate(verdict="UNDECIDED", code="unproven")
    starts = msgspec.structs.replace(GATE, start_undecided=True)

    assert exit_status(undecided, GATE, tmp_path / "message") == 75
    assert exit_status(undecided, starts, tmp_path / "message") == 0
    assert exit_status(Gate(verdict="BAD", code="faults"), starts, tmp_path / "message") == 1
