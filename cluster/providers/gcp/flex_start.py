"""Flex-start: machines that wait in Google's queue, and come all at once or not at all.

It takes a template, a managed instance group of it without machines, and a resize request of that
group: the number of calls does not depend on that of the machines. Sources: Compute Engine, "About
Flex-start VMs" (types, times, no reservation, quotas of spot machines) and "About resize requests
in a MIG" (states); cluster-toolkit, mig_flex.py (names of the machines, no repairs).
"""

import time
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Any

from cluster.core.errors import SpecError
from cluster.core.model.spec import ClusterSpec
from cluster.core.text.units import format_seconds, parse_seconds
from cluster.providers._cloud.api_errors import Failure, Kind, ignoring
from cluster.providers.gcp.api import Project
from cluster.providers.gcp.errors import call_name, check_operations, kind_of, singular
from cluster.providers.gcp.machine_types import family
from cluster.providers.gcp.options import GcpOptions

SHORTEST, LONGEST = 600.0, 7 * 86400.0  # seconds that machines run
FAMILIES = ("a2", "a3", "a4", "g2", "g4", "h4d")
OTHERS = f"Choose one of {', '.join(FAMILIES)}, such as --instance a3-highgpu-8g"
REQUESTS, REQUEST = "instance_group_manager_resize_requests", "machines"  # the collection, ours
LABEL = call_name(REQUESTS, "insert")
PAUSES, PAUSE = (0.5, 1.0, 2.0, 4.0), 8.0  # seconds after the first looks, and after each later one
Body = dict[str, Any]
ENDED = ("FAILED", "CANCELLED", "DELETED")  # the last is of a request that is not there any more


def seconds_to_wait(spec: ClusterSpec, options: GcpOptions, instance: str) -> float:
    """Return how long a launch may wait in the queue; 0 without one (SpecError: it has none)."""
    if not options.flex_start:
        return 0.0
    reasons = (
        (spec.spot, "are no spot machines", "Leave --spot out."),
        (options.reservation, "use no reservation", "Leave --option reservation= out."),
        (spec.placement, "have no compact placement policy", "Leave --placement out."),
        (family(instance) not in FAMILIES, f"are not of the type {instance}", OTHERS),
    )
    for applies, reason, remedy in reasons:
        if applies:
            raise SpecError(f"Machines of --option flex_start {reason}.", remedy=remedy)
    return parse_seconds(options.flex_start)


def line(queue: float, ttl: float) -> str:
    """Return the line of a plan, if it waits in a queue (SpecError: they may not run that long)."""
    if not queue:
        return ""
    if not SHORTEST <= ttl <= LONGEST:
        raise SpecError(
            f"Machines of --option flex_start run for 10 min to 7 d, not {format_seconds(ttl)}.",
            remedy="Choose a time between them: --ttl 2h",
        )
    return (
        f"flex-start: waits up to {format_seconds(queue)} in Google's queue until all machines can "
        "start; nothing is paid meanwhile, and the price on demand is the most that they cost"
    )


def bodies(name: str, properties: Body, description: str) -> tuple[Body, Body]:
    """Return the template of the machines, and their group: without any, and without repairs."""
    common = {"name": name, "description": description}
    group = {
        "instance_template": f"global/instanceTemplates/{name}",
        "target_size": 0,
        "instance_lifecycle_policy": {"default_action_on_failure": "DO_NOTHING"},
    }
    return {**common, "properties": properties}, {**common, **group}


def enter(project: Project, group: dict[str, str], machines: Sequence[str], request_id: str) -> str:
    """Request machines by their names, unless that was done; return when, in Google's format."""
    body = {"name": REQUEST, "instances": [{"name": name} for name in machines]}
    request = {f"{singular(REQUESTS)}_resource": body, "request_id": request_id}
    since = ""
    with ignoring("exists"):
        operation = project.begin(REQUESTS, "insert", **group, **request)
        since = operation.insert_time
        project.finish(LABEL, operation)
    return since


def states(project: Project, group: dict[str, str], seconds: float) -> Iterator[str]:
    """Yield what to show while machines wait; end once they are there (Failure: they never are)."""
    deadline = time.monotonic() + seconds
    for pause in chain(PAUSES, repeat(PAUSE)):
        state, lacks = _look(project, group)
        reason = f" ({', '.join(lacks)})" if lacks else ""
        if state == "SUCCEEDED":
            return
        if state in ENDED or time.monotonic() + pause > deadline:
            kind: Kind = "quota" if "quota" in map(kind_of, lacks) else "capacity"
            late = f"after {format_seconds(seconds)} " * (state not in ENDED)
            message = f"{late}the request for {group['zone']} is {state.lower()}{reason}"
            raise Failure(kind, operation=LABEL, code=state, message=message)
        yield f"in Google's queue: {state.lower()}{reason}"
        time.sleep(pause)


def _look(project: Project, group: dict[str, str]) -> tuple[str, list[str]]:
    """Return the state of the request, and by which codes it waits (Failure: why it failed)."""
    try:
        row = project.call(REQUESTS, "get", resize_request=REQUEST, **group)
    except Failure as failure:
        if failure.kind != "missing":
            raise
        return "DELETED", []
    check_operations(LABEL, row.status)
    return str(row.state), [error.code for error in row.status.last_attempt.error.errors]
