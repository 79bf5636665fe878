"""The plan of a launch: everything that calls which only read can find out."""

from __future__ import annotations

import math
import os
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from ipaddress import ip_network
from typing import TYPE_CHECKING

import msgspec

from cluster.core.errors import Quota, SpecError
from cluster.core.model.value import Value
from cluster.core.state import journal
from cluster.core.text.units import format_seconds, lifetime, price_line
from cluster.providers._cloud import public_address
from cluster.providers._cloud.api_errors import Failure, refuse_missing
from cluster.providers._cloud.launch import Demand, Site
from cluster.providers._cloud.options import (
    TTL,
    name_taken_error,
    not_offered_error,
    refuse_zone,
    region_in,
    requested_zones,
    words,
)
from cluster.providers._cloud.reservations import (
    ACTIVE,
    Reservation,
    choose_named,
    remaining,
    reservation_lines,
    zones_to_try,
)
from cluster.providers._cloud.tags import Selection
from cluster.providers.gcp import fabrics, flex_start, machine_types
from cluster.providers.gcp.api import NO_SERVICE, Project
from cluster.providers.gcp.labels import is_of
from cluster.providers.gcp.machine_types import (
    BY_TYPE,
    RequestedAccelerators,
    requested_accelerators,
)
from cluster.providers.gcp.options import DEFAULT, GcpOffer, GcpOptions

if TYPE_CHECKING:
    from google.cloud.compute_v1.types.compute import Image, MachineType, Network, Subnetwork
    from google.cloud.compute_v1.types.compute import Quota as ProjectQuota
    from google.cloud.compute_v1.types.compute import Reservation as ReservationRow

    from cluster.core.model.hosts import Link
    from cluster.core.model.spec import ClusterSpec
    from cluster.providers.gcp.fabrics import GcpFabric

ZONE = re.compile(r"([a-z]+-[a-z]+\d+)-[a-z]")
LISTS_RESERVATIONS = "compute.reservations.list"
MTU = 1460  # bytes, of a network that does not say (cloud.google.com/vpc/docs/mtu)
REGION = re.compile(r"[a-z]+-[a-z]+\d+")


def make_offer(project: Project, spec: ClusterSpec, options: GcpOptions) -> GcpOffer:
    """Decide everything that a launch would create, or refuse it (SpecError, Quota)."""
    request = requested_accelerators(spec, allow_retired=options.allow_retired)
    instance = _instance(spec, request)
    region = _region(spec, options)
    _check_name_is_free(project, spec)
    queue = flex_start.seconds_to_wait(spec, options, instance)
    kind, zones = _zones(project, spec, options, region, instance, request)
    reservation = choose_reservation(project, spec, options.reservation, instance, zones)
    zones = tuple(zones_to_try(zones, instance, reservation))
    fabric, nics, zones = fabrics.choose(
        project, region, instance, options.fabric, zones, options.network
    )
    _check_kind(spec, options, kind, request)
    gpus = _gpus(kind, request)
    gpu_type = request.kind.type if request and request.kind.is_attached else ""
    tcp_fabric = None if nics else fabric  # one without NICs of its own
    network = _network(project, region, options, has_fabric=tcp_fabric is not None)
    architecture = kind.architecture or INTEL
    image = choose_image(project, spec.image, architecture, gpus=gpus is not None)
    tier1 = options.tier1 and machine_types.has_tier_1(instance, kind.guest_cpus)
    link = machine_types.link_of(instance, (network and network.mtu) or MTU, tier_1=tier1)
    cost = machine_types.price(project, kind, region, gpus, spot=spec.spot)
    now, read = project.now(), partial(list_reservations, project)
    notes = reservation_lines(read, instance, now, LISTS_RESERVATIONS, reservation)
    ends = remaining(reservation, now)
    ttl = min(lifetime(spec, cost, TTL), ends or math.inf)
    quota_spec = msgspec.structs.replace(spec, spot=spec.spot or bool(queue))  # for the quotas
    quota, demands = check_quotas(
        project, region, quota_spec, kind, gpus, tcp_fabric, public=options.is_public
    )
    allow = public_address.allowed_network(options.allow, jump=options.jump)
    lines = (
        _description(spec, options, instance, zones, request, network, allow),
        f"image: {image.name} ({image.family or 'no family'}, {architecture})",
        _network_line(link, tier1=tier1),
        fabrics.line(instance, fabric, nics),
        flex_start.line(queue, ttl),
        quota,
        _advice_line(project, region, instance, spec.hosts) if spec.spot and not gpu_type else "",
        check_policies(project, public=options.is_public),
        *notes,
        _end_line(ttl, options.reservation if ttl == ends else ""),
        price_line(cost, spec.hosts, ttl),
    )
    return GcpOffer(
        project=project.name,
        region=region,
        sites=tuple(Site(zone=zone) for zone in zones),
        demands=(*demands, *([reservation.demand(spec.hosts)] if reservation else [])),
        instance=instance,
        network=network.name if network else "",
        subnet=options.subnet,
        image=image.self_link[image.self_link.index("projects/") :],
        disk=max(options.disk, image.disk_size_gb),
        accelerator=gpu_type,
        accelerators=request.count if request else 0,
        gpus=gpus[1] if gpus else 0,
        reservation=options.reservation,
        queue=queue,
        is_bound=reservation is not None and reservation.is_bound,
        fabric=fabric,
        nics=nics,
        tier1=tier1,
        allow=allow,
        ttl=ttl,
        link=link,
        price=cost,
        lines=tuple(filter(None, lines)),
    )


def _end_line(ttl: float, reservation: str) -> str:
    """Say when the machines end, and what sets that: the end of a reservation, if one is named."""
    reason = f"at the latest: {reservation} ends then" if reservation else "(--ttl)"
    return f"ends by itself {format_seconds(ttl)} after its start {reason}"


def _instance(spec: ClusterSpec, request: RequestedAccelerators | None) -> str:
    if request is None:
        if not spec.instance:
            raise SpecError(
                "No instance type was given.", remedy="Such as: --instance c2-standard-60"
            )
        return spec.instance
    default = request.machine
    name = spec.instance or default
    if machine_types.family(name) != machine_types.family(default) or not (
        request.kind.is_attached or name in request.kind.machines.values()
    ):
        raise SpecError(
            f"{name} cannot have --accelerator {spec.accelerator}.",
            remedy=f"Leave --instance out, or use --instance {default}",
        )
    return name


def _region(spec: ClusterSpec, options: GcpOptions) -> str:
    defaults = [os.environ.get(f"CLOUDSDK_COMPUTE_{kind}", "") for kind in ("ZONE", "REGION")]
    zones = [spec.zone] if spec.zone else [*words(options.zones), *defaults]
    if region := region_in(zones, ZONE, REGION):
        return region
    refuse_zone(spec, "Google", zone="us-central1-a", region="us-central1")
    raise SpecError(
        "No zone is chosen.",
        remedy="Use --zone us-central1-a, or: export CLOUDSDK_COMPUTE_ZONE=us-central1-a",
    )


def _check_name_is_free(project: Project, spec: ClusterSpec) -> None:
    if journal.entries_of(spec.name):
        return
    selection = Selection(owner=project.owner, name=spec.name)
    if any(is_of(selection, firewall.description) for firewall in project.all("firewalls")):
        raise name_taken_error(spec.name, f"the project {project.name}")


def _zones(
    project: Project,
    spec: ClusterSpec,
    options: GcpOptions,
    region: str,
    name: str,
    requested_gpus: RequestedAccelerators | None,
) -> tuple[MachineType, tuple[str, ...]]:
    """Return the machine type, and the zones that are requested and offer all."""
    kinds: tuple[MachineType, ...] = project.all("machine_types", filter=f"name = {name}")
    offers = {_last(offer.zone): offer for offer in kinds}
    if requested_gpus:
        rows = project.all("accelerator_types", filter=f"name = {requested_gpus.kind.type}")
        available = {_last(offer.zone) for offer in rows}
        offers = {zone: offer for zone, offer in offers.items() if zone in available}
    default = "" if options.zones else os.environ.get("CLOUDSDK_COMPUTE_ZONE", "")
    first = spec.zone or default
    request = requested_zones("" if first == region else first, options.zones, f"{region}-")
    choices = sorted(zone for zone in offers if zone.startswith(f"{region}-"))
    zones = [zone for zone in request if zone in offers] if request else choices
    if not zones:
        label = f"{name} with {requested_gpus.kind.type}" if requested_gpus else name
        advice = "See what there is: https://cloud.google.com/compute/docs/machine-resource"
        place = ", ".join(request) or region
        raise not_offered_error(label, place, sorted(offers), advice)
    return offers[zones[0]], tuple(zones)


def _last(url: str) -> str:
    return url.rpartition("/")[2]


def _check_kind(
    spec: ClusterSpec,
    options: GcpOptions,
    kind: MachineType,
    request: RequestedAccelerators | None,
) -> None:
    if spec.placement and machine_types.family(kind.name) in machine_types.NOT_COMPACT:
        types = (
            "a2-highgpu-1g: --accelerator a100:1" if request else ", ".join(machine_types.COMPACT)
        )
        raise SpecError(
            f"{kind.name} cannot be placed close together.",
            means="Google has no compact placement for the family "
            f"{machine_types.family(kind.name)}.",
            remedy=f"Without --placement, or with one of: {types}",
        )
    if options.threads_per_core == 2 and machine_types.family(kind.name) in ("t2a", "t2d"):  # noqa: PLR2004
        raise SpecError(
            f"{kind.name} has one thread per core.", remedy="Leave --option threads_per_core out."
        )


def _gpus(kind: MachineType, request: RequestedAccelerators | None) -> tuple[str, int] | None:
    if request:
        return request.kind.type, request.count
    for gpu in kind.accelerators:
        return gpu.guest_accelerator_type, gpu.guest_accelerator_count
    return None


def _network(
    project: Project, region: str, options: GcpOptions, *, has_fabric: bool
) -> Network | None:
    """Find the network; none if it is the default network and the project has none."""
    name = options.network
    if options.subnet:
        name = _network_of(project, region, options.subnet, has_fabric=has_fabric)
    try:
        network: Network = project.call("networks", "get", network=name)
    except Failure as failure:
        if failure.kind != "missing":
            raise
        if name == DEFAULT:
            return None
        raise SpecError(
            f"There is no network {name!r} in the project {project.name}.",
            remedy="Leave --option network out, or name one that there is.",
        ) from failure
    if "auto_create_subnetworks" in network and not (
        network.auto_create_subnetworks or options.subnet
    ):
        raise SpecError(
            f"The network {name!r} has subnets of its own making.",
            means="Google does not choose one of them.",
            remedy="Say which: --option subnet=NAME",
        )
    return network


def _network_of(project: Project, region: str, subnet: str, *, has_fabric: bool) -> str:
    unknown = SpecError(
        f"There is no subnet {subnet!r} in {region}.",
        remedy="Leave --option subnet out, or name one that there is.",
    )
    with refuse_missing(unknown):
        subnetwork: Subnetwork = project.call(
            "subnetworks", "get", region=region, subnetwork=subnet
        )
    if subnetwork.stack_type == "IPV6_ONLY":
        raise SpecError(
            f"The subnet {subnet!r} has IPv6 addresses only.",
            means=public_address.ONLY_IPV4,
            remedy="Leave --option subnet out, or name one with IPv4 addresses.",
        )
    addresses = ip_network(subnetwork.ip_cidr_range)
    if has_fabric and addresses.overlaps(ip_network(fabrics.RANGES)):
        raise SpecError(
            f"The subnet {subnet!r} has addresses of {fabrics.RANGES}, as the fabric will have.",
            remedy="Choose another --option subnet=, or --option fabric=0: one interface, for TCP.",
        )
    return _last(subnetwork.network)


def _description(
    spec: ClusterSpec,
    options: GcpOptions,
    name: str,
    zones: tuple[str, ...],
    request: RequestedAccelerators | None,
    network: Network | None,
    allow: str,
) -> str:
    spare = "spot " if spec.spot else ""
    with_gpus = f" with {request.count} x {request.kind.type}" if request else ""
    rest = f" (else {', '.join(zones[1:])})" if zones[1:] else ""
    group = "1 compact placement policy, " if spec.placement else ""
    new_network = "" if network else "1 network (there is no default one), "
    place = "public" if options.is_public else "private"
    return (
        f"make {spec.hosts} x {spare}{name}{with_gpus} in {zones[0]}{rest}, {new_network}{group}"
        f"firewall rules (SSH from {allow} only); {place} addresses"
    )


def _advice_line(project: Project, region: str, instance: str, hosts: int) -> str:
    """Say how likely a zone has spot machines (Compute Engine, "View availability of Spot VMs")."""
    machines = {"own": {"machine_types": [instance]}}
    body = {
        "distribution_policy": {"target_shape": "ANY_SINGLE_ZONE"},
        "instance_flexibility_policy": {"instance_selections": machines},
        "instance_properties": {"scheduling": {"provisioning_model": "SPOT"}},
        "size": hosts,
    }
    request = {"region": region, "capacity_advice_request_resource": body}
    try:
        rows = project.call("advice", "capacity", **request).recommendations
    except Failure as failure:
        return f"likely to be had: not known ({failure.message.rstrip('.')})"
    best = max((row.scores.obtainability for row in rows), default=None)
    score = "no advice" if best is None else f"{best:.1f} of 1 (from 0.7 on: likely)"
    return f"likely to be had, as spot machines in one zone: {score}"


def _network_line(link: Link | None, *, tier1: bool) -> str:
    extra = ", Tier_1 (costs extra; without: --option tier1=0)" if tier1 else ""
    if link is None:
        return f"network: no limit is known{extra}"
    return f"network: {link.rate / machine_types.GBIT:g} Gbit/s, packets of {link.mtu} B{extra}"


# Reservations by their names. Those for dense deployment own their machines, which must say so
# (Compute Engine, "About VMs that use the reservation-bound model"; skypilot#9779). One that any
# launch may use cannot be named (skypilot#3327).


def choose_reservation(
    project: Project, spec: ClusterSpec, name: str, instance: str, zones: tuple[str, ...]
) -> Reservation | None:
    """Return the reservation of a name, or refuse it before anything is made (SpecError)."""
    if not name:
        return None
    choice = choose_named(name, list_reservations(project), spec, instance, project.now(), zones)
    if not choice.is_named:
        raise SpecError(
            f"{name} cannot be named: every launch of its type and zone uses it.",
            remedy=f"Leave --option reservation out, and use --zone {choice.zone}",
        )
    return choice


def list_reservations(project: Project) -> tuple[Reservation, ...]:
    return tuple(map(_reservation, project.all("reservations")))


def _reservation(row: ReservationRow) -> Reservation:
    capacity = row.specific_reservation
    return Reservation(
        id=row.name,
        instance=capacity.instance_properties.machine_type.rpartition("/")[2],
        zone=row.zone.rpartition("/")[2],
        state=ACTIVE if row.status == "READY" else row.status.lower(),
        free=capacity.count - capacity.in_use_count,
        total=capacity.count,
        is_bound=row.deployment_type == "DENSE",
        is_named=row.specific_reservation_required,
        end=datetime.fromisoformat(row.delete_at_time).timestamp() if row.delete_at_time else None,
    )


UBUNTU, LEARNING = "ubuntu-os-cloud", "deeplearning-platform-release"
INTEL = "X86_64"  # also what older images mean that name no architecture
FAMILIES = {INTEL: "ubuntu-2404-lts-amd64", "ARM64": "ubuntu-2404-lts-arm64"}
# Not 22.04: its Python is 3.10, and cluster needs 3.11 or newer.
# a4x: Compute Engine, "Operating system details", Ubuntu LTS accelerator
ARM_WITH_DRIVERS = "ubuntu-accelerator-2404-arm64-with-nvidia-580"
WITH_DRIVERS = 'family eq "common-cu.*-ubuntu-24.*-nvidia.*"'


def choose_image(project: Project, name: str | None, architecture: str, *, gpus: bool) -> Image:
    """Find the image `PROJECT/FAMILY` or of a path; chosen for the machines, if empty.

    SpecError: there is no such image, or it is for another architecture.
    """
    if name:
        image = _requested_image(project, name)
    elif gpus and architecture == "ARM64":
        image = _newest(project, "ubuntu-os-accelerator-images", ARM_WITH_DRIVERS)
    elif gpus:
        images: tuple[Image, ...] = project.all("images", project=LEARNING, filter=WITH_DRIVERS)
        current = [image for image in images if image.deprecated.state in ("", "ACTIVE")]
        if not current:
            raise SpecError(
                f"{LEARNING} has no image with drivers.", remedy="Say which: --image PROJECT/FAMILY"
            )
        image = max(current, key=lambda image: image.creation_timestamp)
    else:
        image = _newest(project, UBUNTU, FAMILIES[architecture])
    if (target := image.architecture or INTEL) != architecture:
        raise SpecError(
            f"The image {image.name} is for {target} machines, not {architecture}.",
            remedy="Leave --image out, or choose one that fits.",
        )
    return image


def _newest(project: Project, owner: str, family: str) -> Image:
    return _image(project, f"{owner}/{family}", "get_from_family", project=owner, family=family)


def _requested_image(project: Project, name: str) -> Image:
    words = name.removeprefix("projects/").split("/")
    if len(words) == 2:  # noqa: PLR2004 - a project and a family
        return _newest(project, words[0], words[1])
    if words[1:3] != ["global", "images"]:
        raise SpecError(
            f"--image {name} is not an image of Google.",
            remedy="Write PROJECT/FAMILY, or projects/PROJECT/global/images/NAME",
        )
    return _image(project, name, "get", project=words[0], image=words[3])


def _image(client: Project, label: str, verb: str, **params: str) -> Image:
    unknown = SpecError(
        f"There is no image {label}.",
        means="It does not exist, or its project does not let you have it.",
        remedy="Write PROJECT/FAMILY, or projects/PROJECT/global/images/NAME",
    )
    with refuse_missing(unknown):
        image: Image = client.call("images", verb, **params)
    return image


class OrgPolicy(Value, frozen=True, kw_only=True):
    """An organisation policy that may forbid something that a launch needs."""

    name: str  # of the constraint, without `compute.`
    rule: str  # the rule, as the end of a sentence
    means: str  # its effect on a launch, as a sentence
    instead: str  # what the user can do without an exception from the policy
    of_public: bool = False  # it matters only to machines with external addresses


OWN_HOSTS = "use machines that you can log in to already: --provider ssh"
POLICIES = (
    OrgPolicy(
        name="requireOsLogin",
        rule="every machine must use OS Login",
        means="Such machines ignore the key that a launch gives them, so nobody could log in.",
        instead=OWN_HOSTS,
    ),
    OrgPolicy(
        name="disableGuestAttributesAccess",
        rule="guest attributes of machines cannot be read",
        means="Machines publish their SSH host keys through them; without, nobody could verify the "
        "first connection.",
        instead=OWN_HOSTS,
    ),
    OrgPolicy(
        name="vmExternalIpAccess",
        rule="machines cannot have external addresses",
        means="This launch asks for them, to reach the machines from here.",
        instead="use --option jump=USER@HOST with a host in that network, or --option public=0 "
        "from a machine that reaches private addresses",
        of_public=True,
    ),
)
# A newer constraint with the same effect begins with `compute.managed.`
# (cloud.google.com/compute/docs/access/managed-constraints).
PREFIXES = ("compute", "compute.managed")


def check_policies(project: Project, *, public: bool) -> str:
    """Check that no policy forbids a launch (SpecError); return a line for the plan, if any."""
    policies = {
        f"{prefix}.{policy.name}": policy
        for policy in POLICIES
        for prefix in PREFIXES
        if public or not policy.of_public
    }
    with ThreadPoolExecutor(len(policies)) as pool:
        answers = dict(zip(policies, pool.map(partial(_forbids, project), policies), strict=True))
    see = f"See {{}}: gcloud org-policies describe {{}} --project {project.name} --effective"
    for constraint, policy in policies.items():
        if answers[constraint] is True:
            raise SpecError(
                f"An organisation policy of {project.name} says that {policy.rule} "
                f"(constraints/{constraint}).",
                means=f"{policy.means} Nothing was created.",
                remedy=f"Ask its administrator for an exception, or {policy.instead}. "
                + see.format("it", constraint),
            )
    for constraint, answer in answers.items():
        if isinstance(answer, Failure) and answer.code == NO_SERVICE:
            return ""
        if isinstance(answer, Failure):
            return (
                f"organisation policies: not known ({answer.message.rstrip('.')}); one may still "
                "refuse the launch, or keep you off its machines. " + see.format("them", constraint)
            )
    return "organisation policies: none forbids this launch"


def _forbids(project: Project, constraint: str) -> bool | Failure:
    """Read whether the effective policy of a constraint, if there is one, restricts new machines.

    A list of what is allowed counts, as it can name only machines that exist.
    """
    try:
        rules = project.policy(constraint).get("spec", {}).get("rules", ())
        return any(
            rule.get("enforce")
            or rule.get("denyAll")
            or rule.get("values", {}).get("allowedValues")
            for rule in rules
        )
    except (AttributeError, TypeError):
        return Failure("other", operation="", code="", message="The answer is not one of Google's")
    except Failure as failure:
        unknown = failure.kind == "missing" and failure.code != NO_SERVICE
        return False if unknown else failure


PAGE = "https://console.cloud.google.com/iam-admin/quotas"
NETWORKS = "NETWORKS"


class Need(Value, frozen=True, kw_only=True):
    metric: str  # Google's name for the quota
    count: int  # how much is needed
    everywhere: bool = False  # whether the quota is for the whole project instead of the region


def check_quotas(
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
    family_metric = f"{machine_types.family(kind.name).upper()}_CPUS"
    normal = family_metric if family_metric in limits else "CPUS"
    cpus = _spot_metric("CPUS", normal, limits) if spec.spot else normal
    needs = [Need(metric=cpus, count=spec.hosts * kind.guest_cpus)]
    if gpus and gpus[0] in BY_TYPE:
        count = spec.hosts * gpus[1]
        metric = f"NVIDIA_{BY_TYPE[gpus[0]].quota}_GPUS"
        metric = _spot_metric(metric, metric, limits) if spec.spot else metric
        needs.insert(0, Need(metric=metric, count=count))
        needs.append(Need(metric="GPUS_ALL_REGIONS", count=count, everywhere=True))
    if public:
        needs.append(Need(metric="IN_USE_ADDRESSES", count=spec.hosts))
    if spec.placement:
        needs.append(Need(metric="AFFINITY_GROUPS", count=1))
    needs.append(Need(metric="INSTANCES", count=spec.hosts))
    totals = _limits(project, "") if gpus or fabric else {}
    demands = []
    for need in needs:
        quotas = totals if need.everywhere else limits
        if need.metric in quotas:
            demands.append(_demand(need, quotas[need.metric], region))
    if fabric and NETWORKS in totals:
        count = fabric.networks + bool(fabric.rdma)
        _demand(Need(metric=NETWORKS, count=count, everywhere=True), totals[NETWORKS], region)
    first = needs[0]
    line = f"quota: {first.count} {first.metric} needed"
    if first.metric not in limits:
        return f"{line}; the project's limit is unknown", demands
    quota = limits[first.metric]
    return f"{line}, {quota.usage:g} in use, {quota.limit:g} allowed", demands


def _limits(project: Project, region: str) -> dict[str, ProjectQuota]:
    try:
        if region:
            answer = project.call("regions", "get", region=region)
        else:
            answer = project.call("projects", "get")
    except Failure:
        return {}
    return {quota.metric: quota for quota in answer.quotas}


def _spot_metric(metric: str, normal: str, quotas: dict[str, ProjectQuota]) -> str:
    """Return the quota of spot machines: their own, or the normal one if theirs is 0, as usual.

    Source: cloud.google.com/compute/docs/instances/spot, "Preemptible quotas".
    """
    spare = f"PREEMPTIBLE_{metric}"
    return spare if spare in quotas and quotas[spare].limit > 0 else normal


def _demand(need: Need, quota: ProjectQuota, region: str) -> Demand:
    """Return a need with what is free of its quota (Quota: that is less)."""
    place = "all regions" if need.everywhere else region
    remedy = f"Ask for more: {PAGE}\nOr end what runs: cluster ls, cluster more gc"
    if quota.usage + need.count > quota.limit:
        raise Quota(
            f"{need.count} {need.metric} are needed; of {quota.limit:g} in {place}, "
            f"{quota.usage:g} are in use.",
            means="It is the project's own limit, and no matter of what Google has; nothing was "
            "created.",
            remedy=remedy,
        )
    subject, free = f"{need.metric} in {place}", quota.limit - quota.usage
    return Demand(what=subject, count=need.count, free=free, remedy=remedy, is_quota=True)
