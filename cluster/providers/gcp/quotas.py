"""Quotas: what the project may use of everything that a launch counts towards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.errors import Quota as QuotaError
from cluster.core.model.value import Value
from cluster.providers._cloud.api_errors import Failure
from cluster.providers._cloud.launch import Demand
from cluster.providers.gcp.accelerators import BY_TYPE
from cluster.providers.gcp.machine_types import family

if TYPE_CHECKING:
    from google.cloud.compute_v1.types.compute import MachineType, Quota

    from cluster.core.model.spec import ClusterSpec
    from cluster.providers.gcp.api import Project
    from cluster.providers.gcp.fabrics import GcpFabric

PAGE = "https://console.cloud.google.com/iam-admin/quotas"
NETWORKS = "NETWORKS"


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
) -> tuple[str, list[Demand]]:
    """Refuse a launch beyond a quota (Quota); return a plan's line: needed, in use, allowed.

    All groups use the networks of one fabric: they are no demand.
    """
    limits = _limits(project, region)
    needs = _needs(spec, kind, gpus, limits, public=public)
    all_over = _limits(project, "") if gpus or fabric else {}
    demands = []
    for need in needs:
        quotas = all_over if need.everywhere else limits
        if need.metric in quotas:
            demands.append(_demand(need, quotas[need.metric], region))
    if fabric and NETWORKS in all_over:
        count = fabric.networks + bool(fabric.rdma)
        _demand(Need(metric=NETWORKS, count=count, everywhere=True), all_over[NETWORKS], region)
    first = needs[0]
    line = f"quota: {first.count} {first.metric} needed"
    if first.metric not in limits:
        return f"{line}; the project's limit is unknown", demands
    quota = limits[first.metric]
    return f"{line}, {quota.usage:g} in use, {quota.limit:g} allowed", demands


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


def _demand(need: Need, quota: Quota, region: str) -> Demand:
    """Return a need with what is free of its quota (QuotaError: that is less)."""
    where = "all regions" if need.everywhere else region
    remedy = f"Ask for more: {PAGE}\nOr end what runs: cluster ls, cluster more gc"
    if quota.usage + need.count > quota.limit:
        raise QuotaError(
            f"{need.count} {need.metric} are needed; of {quota.limit:g} in {where}, "
            f"{quota.usage:g} are in use.",
            means="It is the project's own limit, and no matter of what Google has; nothing was "
            "created.",
            remedy=remedy,
        )
    what, free = f"{need.metric} in {where}", quota.limit - quota.usage
    return Demand(what=what, count=need.count, free=free, remedy=remedy, is_quota=True)
