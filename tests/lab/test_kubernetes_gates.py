"""A gate before a Job of a test Kubernetes, whose pods are namespaces on hosts of a lab."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cluster
from cluster.core import decoders
from cluster.core.model.network.gate import Gate
from cluster.providers.lab.network import alter
from tests.conftest import command, run, until
from tests.fakes.kubernetes.cluster import IMAGE, Kubernetes
from tests.fakes.kubernetes.lab_pods import nodes_of_pods
from tests.fakes.kubernetes.store import NODES

PODS, SLOW = 4, 2
TIMES = 15, 30, 60  # seconds of a gate, one after another until it decides
GATE = ("gate-kubernetes", "--image", IMAGE, "--limit", "400mbit", "--python", sys.executable)
APART = {
    "requiredDuringSchedulingIgnoredDuringExecution": [
        {
            "labelSelector": {"matchLabels": {"job-name": "train"}},
            "topologyKey": "kubernetes.io/hostname",
        }
    ]
}
JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train"},
    "spec": {
        "completionMode": "Indexed",
        "completions": PODS,
        "parallelism": PODS,
        "backoffLimit": 0,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "affinity": {"podAntiAffinity": APART},
                "containers": [
                    {
                        "name": "main",
                        "image": IMAGE,
                        "command": ["true"],
                        "env": [{"name": "HOME", "value": "/cluster"}],
                    }
                ],
            }
        },
    },
}


@pytest.fixture
def kubernetes(own_labs: None, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kubernetes]:
    """A cluster whose nodes see this machine's file system: their image has cluster."""
    yield from nodes_of_pods(monkeypatch, hosts=PODS, rate="400mbit", root="//")


def run_job(kubernetes: Kubernetes, *flags: str) -> tuple[list[str], list[int], list[Gate]]:
    """Let a Job run, and give why it ended, and the exit statuses and verdicts of its gates.

    That of a pod which is not there is missing, and those of pods that a failed Job has deleted.
    """
    text = command("more", "script", *GATE, *flags, text=json.dumps(JOB)).stdout
    # the server checks fields
    run("kubectl", "create", "--validate=false", "-f", "-", input=text)
    until(lambda: _reasons(kubernetes), "the Job has ended")
    reasons, ends = _reasons(kubernetes), _ends(kubernetes)
    run("kubectl", "delete", "--wait=false", "-f", "-", input=text)  # it is not watched
    until(lambda: not kubernetes.things(), "nothing is left")
    gates = [decoders.decode(end["message"], Gate) for end in ends]
    return reasons, [end["exitCode"] for end in ends], gates


def _ends(kubernetes: Kubernetes) -> list[dict[str, Any]]:
    statuses = [s for p in kubernetes.pods() for s in p["status"].get("initContainerStatuses", ())]
    return [s["state"]["terminated"] for s in statuses if "terminated" in s["state"]]


def _reasons(kubernetes: Kubernetes) -> list[str]:
    [job] = kubernetes.jobs()
    return [condition["reason"] for condition in job["status"].get("conditions", ())]


def run_jobs(kubernetes: Kubernetes, verdict: str) -> tuple[list[str], list[int], list[Gate]]:
    """Let Jobs run until their gates say this, with more time for each: a machine may be busy."""
    for within in TIMES:
        result = run_job(kubernetes, "--within", f"{within}s")
        if result[2][0].verdict == verdict:
            break
    return result


@pytest.mark.timed
def test_a_job_starts_on_proven_nodes_and_on_no_others(kubernetes: Kubernetes) -> None:
    """60 s: all are good, one is slow, the pod of one is not there."""
    reasons, codes, gates = run_jobs(kubernetes, "PROVEN")
    assert (reasons, codes) == (["CompletionsReached"], [0] * PODS)
    assert {(gate.code, gate.proven) for gate in gates} == {("proven", PODS)}

    slow = cluster.attach("nodes").machines[SLOW]
    alter(slow, "slow", "40mbit")
    reasons, codes, gates = run_jobs(kubernetes, "BAD")
    assert (reasons, set(codes)) == (["PodFailurePolicy"], {1})
    assert {(gate.code, gate.bad[0].name) for gate in gates} == {("faults", slow.id)}

    kubernetes.change(NODES, slow.id, lambda node: node["spec"].update(unschedulable=True))
    reasons, codes, gates = run_job(kubernetes, "--wait", "3s", "--within", "1s")
    assert (reasons, set(codes)) == (["BackoffLimitExceeded"], {75})
    assert {(gate.verdict, gate.code) for gate in gates} == {("UNDECIDED", "not_ready")}
