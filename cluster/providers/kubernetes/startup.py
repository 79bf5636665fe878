"""The wait until all pods of a Job run, or never will."""

from __future__ import annotations

import time
from collections.abc import Iterable

from cluster.core.errors import ProvisionError, Timeout
from cluster.core.model.hosts import machine_name
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import StateCallback
from cluster.providers.kubernetes.api import Api
from cluster.providers.kubernetes.objects import JobMark
from cluster.providers.kubernetes.options import KubernetesOptions
from cluster.providers.kubernetes.plan import queue_state
from cluster.providers.kubernetes.refusals import Passing, refusal
from cluster.providers.kubernetes.states import (
    Object,
    index_of,
    is_hopeless,
    state_of,
    wait_reason,
    why_over,
)

POLL = 0.5  # seconds between two questions
PODS_FAILED = "FailedIndexes"  # the reason of a Job whose pods say why
REMEDIES = {
    "InvalidImageName": "Name it as REGISTRY/IMAGE:TAG.",
    "CreateContainerConfigError": "Name a user that is not root: --option user=1000; or, where the "
    "namespace allows it: --option security=baseline",
    "ImagePullBackOff": "Look at the image's name, and at the namespace's imagePullSecrets.",
}


def wait_for_pods(
    api: Api, mark: JobMark, spec: ClusterSpec, options: KubernetesOptions, on_state: StateCallback
) -> tuple[Object, ...]:
    """Wait until all pods run (ProvisionError: they never will; Timeout)."""
    deadline = time.monotonic() + options.wait
    while True:
        time.sleep(POLL)  # so that the first question finds pods, and needs no second
        pods = api.pods(mark.token)
        states = {index_of(pod): wait_reason(pod) for pod in pods}
        if len(states) < spec.hosts or any(map(why_over, pods)):
            late = _why_missing(api, mark)
            states = dict.fromkeys(range(spec.hosts), late) | states
        _check(pods)
        for number, state in states.items():
            on_state(machine_name(spec.name, number), state or "running")
        if not any(states.values()) and all(pod.status.pod_ip for pod in pods):
            return pods
        if not options.queue and time.monotonic() > deadline:
            raise Timeout(
                f"{list(states.values()).count('')} of {spec.hosts} pods of {spec.name} run after "
                f"{options.wait:g} s: {'; '.join(sorted({*states.values()} - {''}))}.",
                remedy="Wait longer: --option wait=3600; or ask for less.",
            )


def _check(pods: Iterable[Object]) -> None:
    """Refuse pods that are over, or would wait for ever (ProvisionError)."""
    for pod in pods:
        if (why := why_over(pod)) or is_hopeless(pod):
            name, remedy = pod.metadata.name, REMEDIES.get(state_of(pod, "waiting").reason, "")
            raise ProvisionError(
                f"The pod {name} will never run. {why or wait_reason(pod)}.",
                remedy=f"{remedy} Look: kubectl describe pod {name}",
            )


def _why_missing(api: Api, mark: JobMark) -> str:
    """Say why pods do not exist yet (ClusterError: they never will)."""
    job = api.job(mark.job)
    why = why_over(job) if job else "it was deleted"
    if job is None or (why and not why.startswith(PODS_FAILED)):
        raise ProvisionError(f"The Job {mark.job} ended before its pods ran: {why}.")
    if job.spec.suspend:
        return queue_state(api, job)
    refused = [event.message for event in api.events(mark.job) if event.reason == "FailedCreate"]
    if refused and not isinstance(error := refusal(refused[-1]), Passing):
        raise error
    return "its Job creates it"
