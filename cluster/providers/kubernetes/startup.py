"""The wait until all pods of a Job run, or never will."""

import time
from collections.abc import Iterable

from cluster.core.errors import ProvisionError, Timeout
from cluster.core.model.spec import ClusterSpec, machine_name
from cluster.core.model.value import StateCallback
from cluster.providers.kubernetes import objects, states
from cluster.providers.kubernetes.api import Api, NotFound, Passing, refusal
from cluster.providers.kubernetes.options import KubernetesOptions
from cluster.providers.kubernetes.plan import queue_state

IMAGE_REMEDY = "Build one that has it, from examples/Containerfile; name it: --option image=IMAGE"
POLL = 0.5  # seconds between two questions
PODS_FAILED = "FailedIndexes"  # the reason of a Job whose pods say why
REMEDIES = {
    "InvalidImageName": "Name it as REGISTRY/IMAGE:TAG.",
    "CreateContainerConfigError": "Name a user that is not root: --option user=1000; or, where the "
    "namespace allows it: --option security=baseline",
    "ImagePullBackOff": "Look at the image's name, and at the namespace's imagePullSecrets.",
}


def wait_for_pods(
    api: Api,
    mark: objects.JobMark,
    spec: ClusterSpec,
    options: KubernetesOptions,
    on_state: StateCallback,
) -> tuple[states.Object, ...]:
    """Wait until all pods run (ProvisionError: they never will; Timeout)."""
    deadline = time.monotonic() + options.wait
    while True:
        time.sleep(POLL)  # so that the first question finds pods, and needs no second
        pods = api.pods(mark.token)
        waits = {states.index_of(pod): states.wait_reason(pod) for pod in pods}
        if len(waits) < spec.hosts or any(map(states.why_over, pods)):
            late = _why_missing(api, mark)
            waits = dict.fromkeys(range(spec.hosts), late) | waits
        _check(pods)
        for number, state in waits.items():
            on_state(machine_name(spec.name, number), state or "running")
        if options.queue and any(waits.values()):
            deadline = time.monotonic() + options.wait  # a queue takes its time
        if not any(waits.values()) and all(pod.status.pod_ip for pod in pods):
            needs = objects.needs(options, spec.hosts)
            waits[0] = _why_silent(api, pods[0].metadata.name, needs)  # all have the same image
            if not waits[0]:
                return pods
        if time.monotonic() > deadline:
            raise Timeout(
                f"{list(waits.values()).count('')} of {spec.hosts} pods of {spec.name} run after "
                f"{options.wait:g} s: {'; '.join(sorted({*waits.values()} - {''}))}.",
                remedy="Wait longer: --option wait=3600; or ask for less.",
            )


def _check(pods: Iterable[states.Object]) -> None:
    """Refuse pods that are over, or would wait for ever (ProvisionError)."""
    for pod in pods:
        if (reason := states.why_over(pod)) or states.is_hopeless(pod):
            remedy = REMEDIES.get(states.state_of(pod, "waiting").reason, "")
            raise ProvisionError(
                f"The pod {pod.metadata.name} will never run. {reason or states.wait_reason(pod)}.",
                remedy=f"{remedy} Look: kubectl describe pod {pod.metadata.name}",
            )


def _why_silent(api: Api, pod: str, needs: tuple[str, ...]) -> str:
    """Say why no command runs in a pod yet (ProvisionError: its image lacks something)."""
    try:
        answer = api.lacks(pod, needs)
    except (Passing, NotFound) as error:
        return error.what
    if lacks := answer.removeprefix(objects.LACKS):
        raise ProvisionError(f"The image lacks {lacks}.", remedy=IMAGE_REMEDY)
    return "" if answer else "the answer of a command was cut"


def _why_missing(api: Api, mark: objects.JobMark) -> str:
    """Say why pods do not exist yet (ClusterError: they never will)."""
    job = api.job(mark.job)
    reason = states.why_over(job) if job else "it was deleted"
    if job is None or (reason and not reason.startswith(PODS_FAILED)):
        raise ProvisionError(f"The Job {mark.job} ended before its pods ran: {reason}.")
    if job.spec.suspend:
        return queue_state(api, job)
    messages = [event.message for event in api.events(mark.job) if event.reason == "FailedCreate"]
    if messages and not isinstance(error := refusal(messages[-1]), Passing):
        raise error
    return "its Job creates it"
