"""Quotas: what the project may use of everything that a launch counts towards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.errors import Quota as QuotaError
from cluster.core.model.value import Value
from cluster.providers._cloud.api_errors import Failure
from cluster.providers.gcp.accelerators import BY_TYPE
from cluster.providers.gcp.machine_types import family

if TYPE_CHECKING:
    from google.cloud.compute_v1.types.compute import MachineType, Quota

    from cluster.core.model.spec import ClusterSpec
    from cluster.providers.gcp.api import Project
    from cluster.providers.gcp.fabrics import GcpFabric

PAGE = "https://console.cloud.google.com/iam-admin/quotas"


class Need(Value, frozen=True, kw_only=True):
    metric: str  # Google's name for the quota
    count: int  # how much is needed
    everywhere: bool = False  # whether the quota is for the whole project instead of the region


def check(
    project: Project,
    region: str,
    spec: ClusterSpec,
    kind: MachineType,
    gpus: tuple[str, int] | None,
    fabric: GcpFabric | None,
    *,
    public: bool,
) -> str:
    """Refuse a launch beyond a quota (Quota); return a plan's line: needed, in use, allowed."""
    limits = _limits(project, region)
    needs = _needs(spec, kind, gpus, limits, public=public)
    if fabric:
        count = fabric.networks + bool(fabric.rdma)
        needs.append(Need(metric="NETWORKS", count=count, everywhere=True))
    all_over = _limits(project, "") if gpus or fabric else {}
    for need in needs:
        quotas = all_over if need.everywhere else limits
        if need.metric in quotas:
            _refuse_more(need, quotas[need.metric], region)
    first = needs[0]
    if first.metric not in limits:
        return f"quota: {first.count} {first.metric} needed; the project's limit is unknown"
    quota = limits[first.metric]
    return (
        f"quota: {first.count} {first.metric} needed, {quota.usage:g} in use, "
        f"{quota.limit:g} allowed"
    )


def _limits(project: Project, region: str) -> dict[str, Quota]:
    try:
        if region:
            answer = project.call("regions", "get", region=region)
        else:
            answer = project.call("projects", "get")
    except Failure:
        return {}
    return {quota.metric: quota for quota in answer.quotas}


def _needs(
    spec: ClusterSpec,
    kind: MachineType,
    gpus: tuple[str, int] | None,
    quotas: dict[str, Quota],
    *,
    public: bool,
) -> list[Need]:
    own = f"{family(kind.name).upper()}_CPUS"
    normal = own if own in quotas else "CPUS"
    cpus = _counted("CPUS", normal, quotas) if spec.spot else normal
    needs = [Need(metric=cpus, count=spec.hosts * kind.guest_cpus)]
    if gpus and gpus[0] in BY_TYPE:
        count = spec.hosts * gpus[1]
        metric = f"NVIDIA_{BY_TYPE[gpus[0]].quota}_GPUS"
        metric = _counted(metric, metric, quotas) if spec.spot else metric
        needs.insert(0, Need(metric=metric, count=count))
        needs.append(Need(metric="GPUS_ALL_REGIONS", count=count, everywhere=True))
    if public:
        needs.append(Need(metric="IN_USE_ADDRESSES", count=spec.hosts))
    if spec.placement:
        needs.append(Need(metric="AFFINITY_GROUPS", count=1))
    return [*needs, Need(metric="INSTANCES", count=spec.hosts)]


def _counted(metric: str, normal: str, quotas: dict[str, Quota]) -> str:
    """Return the quota of spot machines: their own, or the normal one if theirs is 0, as usual.

    Source: cloud.google.com/compute/docs/instances/spot, "Preemptible quotas".
    """
    spare = f"PREEMPTIBLE_{metric}"
    return spare if spare in quotas and quotas[spare].limit > 0 else normal


def _refuse_more(need: Need, quota: Quota, region: str) -> None:
    if quota.usage + need.count <= quota.limit:
        return
    where = "all regions" if need.everywhere else region
    raise QuotaError(
        f"{need.count} {need.metric} are needed; of {quota.limit:g} in {where}, {quota.usage:g} "
        "are in use.",
        means="It is the project's own limit, and no matter of what Google has; nothing was "
        "created.",
        remedy=f"Ask for more: {PAGE}\nOr end what runs: cluster ls, cluster more gc",
    )
