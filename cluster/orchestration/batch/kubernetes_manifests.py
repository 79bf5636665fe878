"""Kubernetes manifests that run a benchmark in pods, as JSON, which `kubectl apply -f` takes.

MPIJob is of the MPI operator (kubeflow.org/v2beta1), JobSet of the JobSet operator
(jobset.x-k8s.io/v1alpha2). In both, the first pod starts the ranks, and is a host itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from cluster.core.errors import SpecError
from cluster.core.model.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.core.model.batch import BatchRequest

NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")  # what is left of 63 for the pods' endings
RUNS = "/runs"  # where the shared volume is mounted
SSHD = ["/usr/sbin/sshd", "-De"]
SSH_HOME = "/root/.ssh"


class PodOptions(Value, frozen=True, kw_only=True):
    """What a manifest needs to know besides what is measured."""

    name: str
    image: str  # of the containers: with Python, cluster and sshd
    claim: str  # of the volume that all pods write their files to
    cpus: int
    gpus: int = 0
    seconds: int = 1800  # after which everything is ended
    script: str = ""  # for bash, which starts the ranks


def manifest(kind: str, request: BatchRequest, options: PodOptions) -> str:
    """Write a manifest of kind `mpijob` or `jobset` (SpecError: Kubernetes would refuse it)."""
    if NAME.fullmatch(options.name) is None:
        raise SpecError(
            f"{options.name!r} cannot be the name of an object of Kubernetes.",
            means="A name is a lower-case letter, then at most 39 of letters, digits and '-'.",
            remedy="Choose another: --name cluster-p2p",
        )
    text = msgspec.json.encode(KINDS[kind](request, options))
    return msgspec.json.format(text, indent=2).decode() + "\n"


def _mpijob(request: BatchRequest, options: PodOptions) -> dict[str, Any]:
    """The operator makes keys and a list of hosts, and mounts them in every pod."""
    replicas = {"Launcher": _replica(1, _container(options, _bash(options), {}))}
    if request.hosts > 1:
        replicas["Worker"] = _replica(request.hosts - 1, _container(options, SSHD, {}))
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": options.name},
        "spec": {
            "slotsPerWorker": request.ranks_per_host,
            "runLauncherAsWorker": True,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "mpiImplementation": "OpenMPI",
            "sshAuthMountPath": SSH_HOME,
            "runPolicy": {
                "cleanPodPolicy": "Running",
                "backoffLimit": 0,
                "activeDeadlineSeconds": options.seconds,
            },
            "mpiReplicaSpecs": replicas,
        },
    }  # fmt: skip


def _replica(count: int, pod: dict[str, Any]) -> dict[str, Any]:
    return {"replicas": count, "restartPolicy": "Never", "template": {"spec": pod}}


def _jobset(request: BatchRequest, options: PodOptions) -> dict[str, Any]:
    """Pods find one another by the names that the set gives them; keys come from a secret."""
    name = options.name
    workers = [f"{name}-workers-0-{n}.{name}" for n in range(request.hosts - 1)]
    hosts = [f"{name}-launcher-0-0.{name}", *workers]
    listed = " ".join(f"'{host} slots={request.ranks_per_host}'" for host in hosts)
    begin = f"printf '%s\\n' {listed} > /tmp/hosts\nexport CLUSTER_HOSTFILE=/tmp/hosts\n"
    first = msgspec.structs.replace(options, script=begin + options.script)
    secret = {"name": "ssh", "secret": {"secretName": f"{name}-ssh", "defaultMode": 0o400}}
    jobs = [_job("launcher", 1, _container(first, _bash(first), secret), options)]
    if workers:
        jobs.append(_job("workers", len(workers), _container(options, SSHD, secret), options))
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": ["launcher"]},
            "failurePolicy": {"maxRestarts": 0},
            "replicatedJobs": jobs,
        },
    }  # fmt: skip


def _job(name: str, pods: int, pod: dict[str, Any], options: PodOptions) -> dict[str, Any]:
    return {
        "name": name,
        "replicas": 1,
        "template": {
            "spec": {
                "parallelism": pods,
                "completions": pods,
                "completionMode": "Indexed",
                "backoffLimit": 0,
                "activeDeadlineSeconds": options.seconds,
                "template": {"spec": {"restartPolicy": "Never", **pod}},
            }
        },
    }


def _bash(options: PodOptions) -> list[str]:
    return ["/bin/bash", "-c", options.script]


def _container(options: PodOptions, command: list[str], secret: dict[str, Any]) -> dict[str, Any]:
    """Return the specification of a pod with one container; limits make its cores its own."""
    limits: dict[str, Any] = {"cpu": options.cpus}
    if options.gpus:
        limits["nvidia.com/gpu"] = options.gpus
    mounts = [{"name": "runs", "mountPath": RUNS}]
    volumes: list[dict[str, Any]] = [
        {"name": "runs", "persistentVolumeClaim": {"claimName": options.claim}}
    ]
    if secret:
        mounts.append({"name": "ssh", "mountPath": SSH_HOME})
        volumes.append(secret)
    return {
        "containers": [
            {
                "name": "cluster",
                "image": options.image,
                "command": command,
                "resources": {"limits": limits},
                "volumeMounts": mounts,
            }
        ],
        "volumes": volumes,
    }


KINDS: dict[str, Callable[[BatchRequest, PodOptions], dict[str, Any]]] = {
    "mpijob": _mpijob,
    "jobset": _jobset,
}
