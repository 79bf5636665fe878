"""The plan of a launch: everything that calls which only read can find out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cluster.core.errors import SpecError
from cluster.core.model.hosts import Link
from cluster.core.model.mounts import parse_mounts
from cluster.core.state import journal
from cluster.core.text.units import format_seconds, lifetime, price_line
from cluster.providers import idle_lines
from cluster.providers._cloud import public_address
from cluster.providers._cloud.api_errors import Failure, refuse_missing
from cluster.providers._cloud.launch import Demand, Site
from cluster.providers._cloud.options import (
    TTL,
    name_taken_error,
    not_offered_error,
    requested_zones,
)
from cluster.providers._cloud.reservations import (
    Reservation,
    choose_named,
    remaining,
    reservation_lines,
    zones_to_try,
)
from cluster.providers._cloud.tags import new_tags
from cluster.providers.aws import efs, images, quotas
from cluster.providers.aws.instances import price
from cluster.providers.aws.options import AwsOffer, AwsOptions, CardInterface, InterfaceKind
from cluster.providers.aws.request import dry_runs

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import (
        CapacityReservationTypeDef,
        ImageTypeDef,
        InstanceTypeInfoTypeDef,
        InstanceTypeOfferingTypeDef,
        NetworkCardInfoTypeDef,
        SubnetTypeDef,
    )

    from cluster.core.model.spec import ClusterSpec
    from cluster.providers.aws.api import Region

GBIT = 1e9 / 8  # bytes per second
MTU = 9001  # bytes, of an interface in a VPC (EC2 user guide, "Network MTU")
IN_GROUP, OUTSIDE = 10 * GBIT, 5 * GBIT  # limit of one flow (EC2 user guide, "Network bandwidth")
SUGGESTED = 6  # names in a message
HOURLY = 0.005  # US dollars per public address (aws.amazon.com/vpc/pricing, since 2024-02-01)
LISTS_RESERVATIONS = "ec2:DescribeCapacityReservations"
NO_CARD: NetworkCardInfoTypeDef = {}


def make_offer(region: Region, spec: ClusterSpec, options: AwsOptions) -> AwsOffer:
    """Decide everything that a launch would create, or refuse it (SpecError, Quota)."""
    _check_name_is_free(region, spec)
    kind = _kind(region, spec)
    _check_kind(region, spec, options, kind)
    reservation = choose_reservation(region, spec, options)
    zones = _zones(region, spec, options, reservation)
    interfaces = efa_layout(kind) if options.efa else ()
    addresses = sum(interface.has_address for interface in interfaces) or 1
    vpc, sites, demands = _sites(region, spec, options, zones, addresses)
    sites, unknown = efs.reachable(region, parse_mounts(options.mount, "aws"), vpc, sites)
    image, packages = images.choose(region, spec.image or "", kind, efa=options.efa)
    root, size = images.root_disk(image)
    check_platform(reservation, image)
    is_block = reservation is not None and reservation.is_block
    vcpus, needs = quotas.check(region, kind, spec.hosts, spot=spec.spot, is_block=is_block)
    cost = price(region, kind["InstanceType"], sites[0].zone, spot=spec.spot)
    ttl, now = lifetime(spec, cost, TTL), region.now()
    ends = block_end(reservation, now)
    ttl = ttl if ends is None else min(ttl, ends)
    link = link_of(kind, placement=spec.placement, efa=options.efa)
    allow = public_address.allowed_network(options.allow, jump=options.jump)
    read = partial(list_reservations, region)
    notes = reservation_lines(read, spec.instance or "", now, LISTS_RESERVATIONS, reservation)
    lines = (
        _description(spec, options, sites, vpc, allow),
        f"image: {image['ImageId']} ({image.get('Name', 'no name')}, {image['Architecture']})",
        *([_packages_line(packages)] if packages else []),
        _network_line(kind, link, spec),
        *([layout_line(interfaces)] if interfaces else []),
        vcpus,
        *([_score_line(region, spec)] if spec.spot else []),
        *unknown,
        *notes,
        _end_line(ttl, reservation if ttl == ends else None),
        *idle_lines(spec),
        "price: paid with the block" if ends else price_line(cost, spec.hosts, ttl),
        *([_elastic_line(spec.hosts)] if options.elastic_ip else []),
    )
    offer = AwsOffer(
        region=region.name,
        vpc=vpc,
        sites=sites,
        demands=(*demands, *needs, *([reservation.demand(spec.hosts)] if reservation else [])),
        image=image["ImageId"],
        root=root,
        disk=max(options.disk, size),
        cores=kind["VCpuInfo"].get("DefaultCores", 0),
        interfaces=interfaces,
        reservation=reservation.id if reservation else "",
        is_block=is_block,
        packages=packages,
        allow=allow,
        ttl=ttl,
        link=link,
        price=None if ends else cost,
        lines=lines,
        gpus=sum(gpu.get("Count", 0) for gpu in kind.get("GpuInfo", {}).get("Gpus", ())),
    )
    tags = new_tags(spec.name, region.owner, now + offer.ttl, user=region.user)
    region.check_permissions(dry_runs(spec, options, offer, tags))
    return offer


def link_of(kind: InstanceTypeInfoTypeDef, *, placement: bool, efa: bool = False) -> Link | None:
    """Return the link of a machine type, from Amazon's figures; none if it gives none.

    One network card counts: TCP uses the address of the first, and a rank's messages pass one
    adapter, which the first of p6-b300 does not have. The limit of a flow applies to TCP only: EFA
    sends a message over many paths (L. Shalev et al., "A cloud-optimized transport protocol for
    elastic and scalable HPC", IEEE Micro 2020); `fabric` marks that.
    """
    adapters = [c for c in cards_of(kind) if efa and adapter_of(c)]
    card = next(iter(adapters or cards_of(kind)), NO_CARD)
    rate = card.get("PeakBandwidthInGbps") or card.get("BaselineBandwidthInGbps")
    if not rate:
        return None
    return Link(
        rate=rate * GBIT,
        mtu=MTU,
        flow=IN_GROUP if placement else OUTSIDE,
        source="EC2 DescribeInstanceTypes, and the user guide's limit of a flow",
        fabric="efa" if efa else "",
        adapters=sum(item.kind != "interface" for item in efa_layout(kind)) if efa else 0,
    )


def _check_name_is_free(region: Region, spec: ClusterSpec) -> None:
    if journal.entries_of(spec.name):
        return
    filters = [
        {"Name": "tag:cluster", "Values": [spec.name]},
        {"Name": "tag:cluster-owner", "Values": [region.owner]},
    ]
    if region.all("describe_security_groups", "SecurityGroups", Filters=filters):
        raise name_taken_error(spec.name, region.name, region.name)


def _kind(region: Region, spec: ClusterSpec) -> InstanceTypeInfoTypeDef:
    if not spec.instance:
        raise SpecError("No instance type was given.", remedy="Such as: --instance c5.18xlarge")
    try:
        types: tuple[InstanceTypeInfoTypeDef, ...] = region.all(
            "describe_instance_types", "InstanceTypes", InstanceTypes=[spec.instance]
        )
    except Failure as failure:
        if failure.code != "InvalidInstanceType":
            raise
        types = ()
    if not types:
        raise SpecError(
            f"There is no instance type {spec.instance!r} in {region.name}.",
            remedy="See what there is: https://aws.amazon.com/ec2/instance-types",
        )
    return types[0]


def _check_kind(
    region: Region, spec: ClusterSpec, options: AwsOptions, kind: InstanceTypeInfoTypeDef
) -> None:
    name = kind["InstanceType"]
    if spec.placement and not _is_placeable(kind):
        raise SpecError(
            f"{name} cannot be put into a cluster placement group.",
            means="Amazon has that for larger and newer types, not for those that share a core.",
            remedy=f"Without --placement, or with one of: {', '.join(_placeable(region, name))}",
        )
    if spec.spot and "spot" not in kind.get("SupportedUsageClasses", ()):
        raise SpecError(f"{name} is not sold as spot.", remedy="Leave --spot out.")
    if options.efa and not kind.get("NetworkInfo", {}).get("EfaSupported"):
        raise SpecError(
            f"{name} has no Elastic Fabric Adapter.",
            remedy="Leave --option efa=1 out, or choose a type that has one: c5n.18xlarge",
        )
    if options.elastic_ip and not options.is_public:
        raise SpecError(
            "An Elastic IP is a public address, and these machines are to have none.",
            remedy="Leave --option elastic_ip=1 out, or --option public=0 and jump=.",
        )
    cards = len(efa_layout(kind)) if options.efa else 1
    if cards > 1 and options.is_public and not options.elastic_ip:
        raise SpecError(
            f"{name} with {cards} network interfaces does not get a public address of its own.",
            means="Amazon gives one to machines with a single network interface only.",
            remedy="Use --option elastic_ip=1, or --option jump=USER@HOST with a host in that "
            "network, or --option public=0 from a machine that reaches private addresses.",
        )
    threads = options.threads_per_core
    if threads and threads not in kind["VCpuInfo"].get("ValidThreadsPerCore", ()):
        raise SpecError(
            f"{name} cannot have {threads} thread(s) per core.",
            remedy="Leave --option threads_per_core out.",
        )


def _is_placeable(kind: InstanceTypeInfoTypeDef) -> bool:
    return "cluster" in kind.get("PlacementGroupInfo", {}).get("SupportedStrategies", ())


def _placeable(region: Region, name: str) -> Sequence[str]:
    """Suggest types that support placement groups, of the same size if there are any."""
    generation = {"Name": "current-generation", "Values": ["true"]}
    try:
        types: tuple[InstanceTypeInfoTypeDef, ...] = region.all(
            "describe_instance_types", "InstanceTypes", Filters=[generation]
        )
    except Failure:
        return ["c5.18xlarge", "c5n.18xlarge"]
    _, _, size = name.partition(".")
    names = sorted(kind["InstanceType"] for kind in types if _is_placeable(kind))
    return ([kind for kind in names if kind.endswith(f".{size}")] or names)[:SUGGESTED]


def _zones(
    region: Region, spec: ClusterSpec, options: AwsOptions, reservation: Reservation | None
) -> list[str]:
    """Return the zones to try, of those that are requested and offer the type."""
    name = spec.instance or ""
    offerings: tuple[InstanceTypeOfferingTypeDef, ...] = region.all(
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": [name]}],
    )
    offered_zones = sorted({offering["Location"] for offering in offerings})
    first = spec.zone if spec.zone and spec.zone != region.name else ""
    request = requested_zones(first, options.zones, region.name)
    zones = [zone for zone in request if zone in offered_zones] if request else offered_zones
    if not zones:
        place = ", ".join(request) or region.name
        advice = "Choose another region, or another --instance."
        raise not_offered_error(name, place, offered_zones, advice)
    return zones_to_try(zones, name, reservation)


def _sites(
    region: Region, spec: ClusterSpec, options: AwsOptions, zones: list[str], addresses: int
) -> tuple[str, tuple[Site, ...], list[Demand]]:
    """Return the zones with a subnet that has `addresses` for each machine, and what these take."""
    need = spec.hosts * addresses
    subnets = _subnets(region, options)
    if not subnets:
        return "", tuple(Site(zone=zone) for zone in zones), []
    if all(subnet.get("Ipv6Native") for subnet in subnets):
        raise SpecError(
            f"{', '.join(subnet['SubnetId'] for subnet in subnets)} has IPv6 addresses only.",
            means=public_address.ONLY_IPV4,
            remedy="Use a subnet with IPv4 addresses: --option subnet=subnet-...",
        )
    subnets = tuple(subnet for subnet in subnets if not subnet.get("Ipv6Native"))
    by_zone = {zone: subnet for subnet in subnets if (zone := subnet["AvailabilityZone"]) in zones}
    remedy = "Use --option subnet=subnet-... with a larger one, or another --zone."
    places = [zone for zone in zones if zone in by_zone and _room(by_zone[zone]) >= need]
    if not places:
        rooms = {zone: _room(subnet) for zone, subnet in by_zone.items()}
        raise SpecError(
            f"No subnet has room for {spec.hosts} machines, which need {need} addresses.",
            means="; ".join(f"{zone}: {count} addresses" for zone, count in rooms.items())
            or f"The network has no subnet in {', '.join(zones)}.",
            remedy=remedy,
        )
    vpc = subnets[0]["VpcId"]
    sites = tuple(Site(zone=zone, subnet=by_zone[zone]["SubnetId"]) for zone in places)
    demands = [
        Demand(
            what=f"addresses of {site.subnet}",
            count=need,
            free=_room(by_zone[site.zone]),
            remedy=remedy,
            zone=site.zone,
        )
        for site in sites
    ]
    return vpc, sites, demands


def _room(subnet: SubnetTypeDef) -> int:
    return subnet.get("AvailableIpAddressCount", 0)


def _subnets(region: Region, options: AwsOptions) -> tuple[SubnetTypeDef, ...]:
    if options.subnet:
        with refuse_missing(SpecError(f"There is no {options.subnet} in {region.name}.")):
            return region.all("describe_subnets", "Subnets", SubnetIds=[options.subnet])
    default = region.all(
        "describe_vpcs", "Vpcs", Filters=[{"Name": "is-default", "Values": ["true"]}]
    )
    if not default:
        return ()
    return region.all(
        "describe_subnets",
        "Subnets",
        Filters=[
            {"Name": "vpc-id", "Values": [default[0]["VpcId"]]},
            {"Name": "default-for-az", "Values": ["true"]},
        ],
    )


def _description(
    spec: ClusterSpec, options: AwsOptions, sites: tuple[Site, ...], vpc: str, allow: str
) -> str:
    spare = "spot " if spec.spot else ""
    group = "1 placement group, " if spec.placement else ""
    network = (
        ""
        if vpc
        else "1 virtual network (there is no default one: 5 more calls that change something), "
    )
    rest = f" (else {', '.join(site.zone for site in sites[1:])})" if sites[1:] else ""
    place = "public" if options.is_public else "private"
    return (
        f"make {spec.hosts} x {spare}{spec.instance} in {sites[0].zone}{rest}, {network}{group}"
        f"1 security group (SSH from {allow} only), 1 key pair; {place} addresses"
    )


def _score_line(region: Region, spec: ClusterSpec) -> str:
    """Say how likely one zone has the machines (EC2 user guide, "Spot placement score")."""
    try:
        scores = region.all(
            "get_spot_placement_scores",
            "SpotPlacementScores",
            InstanceTypes=[spec.instance],
            TargetCapacity=spec.hosts,
            RegionNames=[region.name],
            SingleAvailabilityZone=True,
        )
    except Failure as failure:
        return f"spot placement score: not known ({failure.code}: {failure.message.rstrip('.')})"
    best = max((score.get("Score", 0) for score in scores), default=None)
    score = "none is given" if best is None else f"{best} of 10 in the best zone"
    return f"spot placement score: {score} (Amazon scores a single type low)"


def _end_line(ttl: float, ending: Reservation | None) -> str:
    """Say when machines end, by a timer in the machine: one at Amazon would need an IAM role."""
    return f"ends by itself {format_seconds(ttl)} after its start " + (
        f"at the latest: Amazon ends the machines of {ending.id} before the block does"
        if ending
        else "(--ttl), by a timer in the machine: one whose system hangs stays until "
        "`cluster down` or `cluster more gc`"
    )


def _packages_line(packages: tuple[str, ...]) -> str:
    return (
        f"installed at the first boot: {', '.join(packages)} (the machines need the Internet, or a "
        "mirror of Ubuntu's packages that their image names)"
    )


def _elastic_line(hosts: int) -> str:
    return (
        f"{hosts} Elastic IPs: ${hosts * HOURLY:.3f} an hour more until `cluster down` or "
        "`cluster more gc`, also after the machines have ended by themselves (an account has 5 in "
        "a region, if it did not ask for more)"
    )


def _network_line(kind: InstanceTypeInfoTypeDef, link: Link | None, spec: ClusterSpec) -> str:
    if link is not None and link.fabric:
        return (
            f"network: {link.rate / GBIT:g} Gbit/s per rank over {link.fabric.upper()} "
            "(the launch fails without it)"
        )
    if link is None or link.flow is None:
        performance = kind.get("NetworkInfo", {}).get("NetworkPerformance", "unknown")
        return f"network: {performance}; no limit is known"
    base = cards_of(kind)[0].get("BaselineBandwidthInGbps")
    bursts = f" ({base:g} for long)" if base and base * GBIT < link.rate else ""
    place = "in a placement group" if spec.placement else "outside a placement group"
    return (
        f"network: {link.rate / GBIT:g} Gbit/s{bursts}, one connection at most "
        f"{min(link.flow, link.rate) / GBIT:g} Gbit/s {place}"
    )


# Which network interfaces a machine gets on which card, from Amazon's description of its type.
# EC2 user guide, "Maximize network bandwidth on accelerated instances": the primary interface is an
# ENA one at device 0 of the first card; an EFA-only interface at device 1 beside it, and at device
# 0 of each other card. EFA-only interfaces take no IP address; a type with one card keeps one `efa`
# interface, which is both.
NAMES: dict[InterfaceKind, str] = {"interface": "ENA", "efa": "EFA", "efa-only": "EFA-only"}


def cards_of(kind: InstanceTypeInfoTypeDef) -> Sequence[NetworkCardInfoTypeDef]:
    return kind.get("NetworkInfo", {}).get("NetworkCards", ())


def efa_layout(kind: InstanceTypeInfoTypeDef) -> tuple[CardInterface, ...]:
    """Return the interfaces of a machine that uses all its Elastic Fabric Adapters."""
    network = kind.get("NetworkInfo", {})
    cards = {card.get("NetworkCardIndex", n): card for n, card in enumerate(cards_of(kind))}
    first = network.get("DefaultNetworkCardIndex", 0)
    if len(cards) <= 1:
        return (CardInterface(card=first, device=0, kind="efa"),)
    limit = network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 1)
    adapters = [
        CardInterface(card=index, device=int(index == first), kind=adapter)
        for index, card in sorted(cards.items())
        if (adapter := adapter_of(card))
        and (index != first or card.get("MaximumNetworkInterfaces", 1) > 1)
    ]
    return (CardInterface(card=first, device=0, kind="interface"), *adapters[:limit])


def adapter_of(card: NetworkCardInfoTypeDef) -> InterfaceKind | None:
    kinds = card.get("InterfaceTypes", ())
    return "efa-only" if "efa-only" in kinds else "efa" if "efa" in kinds else None


def layout_line(interfaces: Iterable[CardInterface]) -> str:
    """Return a layout in words, such as `17 network card(s): 1 ENA + 16 EFA-only`."""
    cards = tuple(interfaces)
    counts = Counter(NAMES[interface.kind] for interface in cards)
    kinds = " + ".join(f"{count} {name}" for name, count in counts.items())
    return f"{len({interface.card for interface in cards})} network card(s): {kinds}"


# Capacity reservations and Capacity Blocks. EC2 user guide, "Capacity Blocks for ML": Amazon
# terminates the instances of a block from 30 minutes before its end (UltraServers, which are
# P6e-GB200 and Trn2: 60). A reservation does not say that it is of an UltraServer, but its
# instances are of types that nothing else has (EC2 instance types guide, accelerated computing; AWS
# Neuron documentation, "Trn2 architecture").
BLOCK = "capacity-block"
SHARED = "default"  # tenancy
BEFORE_END, ULTRA_BEFORE_END = 1800.0, 3600.0  # seconds
ULTRASERVERS = ("p6e-gb", "trn2u.")  # how the types of their instances begin


def list_reservations(region: Region) -> tuple[Reservation, ...]:
    rows: tuple[CapacityReservationTypeDef, ...] = region.all(
        "describe_capacity_reservations", "CapacityReservations"
    )
    return tuple(
        Reservation(
            id=row["CapacityReservationId"],
            instance=row.get("InstanceType", ""),
            zone=row.get("AvailabilityZone", ""),
            state=row.get("State", ""),
            free=row.get("AvailableInstanceCount", 0),
            total=row.get("TotalInstanceCount", 0),
            is_block=row.get("ReservationType") == BLOCK,
            platform=row.get("InstancePlatform", ""),
            tenancy=row.get("Tenancy", SHARED),
            start=row["StartDate"].timestamp() if "StartDate" in row else None,
            end=row["EndDate"].timestamp() if "EndDate" in row else None,
        )
        for row in rows
    )


def choose_reservation(
    region: Region, spec: ClusterSpec, options: AwsOptions
) -> Reservation | None:
    """Return the reservation that the options name, or refuse it before anything is made."""
    id_ = options.reservation or options.block
    if not id_:
        return None
    if options.reservation and options.block:
        raise SpecError(
            "A launch takes a reservation or a block, not both.",
            remedy="Leave --option reservation= or --option block= out.",
        )
    reservations = list_reservations(region)
    choice = choose_named(id_, reservations, spec, spec.instance or "", region.now())
    if choice.is_block != bool(options.block):
        raise SpecError(
            f"{id_} is a {'Capacity Block' if choice.is_block else 'capacity reservation'}.",
            remedy=f"Use --option {choice.option}",
        )
    if choice.tenancy != SHARED:
        raise SpecError(
            f"{id_} is of {choice.tenancy} tenancy, and machines of a launch share their hardware.",
            remedy="Use another reservation, of default tenancy.",
        )
    return choice


def check_platform(choice: Reservation | None, image: ImageTypeDef) -> None:
    """Refuse an image of another platform, as Amazon does (SpecError).

    Source: EC2 user guide, "Launch instances into an existing Capacity Reservation".
    """
    kind = image.get("PlatformDetails")
    if choice and kind and choice.platform not in ("", kind):
        raise SpecError(
            f"{choice.id} is of {choice.platform}, and the image {image['ImageId']} is of {kind}.",
            remedy=f"Use an --image of {choice.platform}, or a reservation of {kind}.",
        )


def block_end(reservation: Reservation | None, now: float) -> float | None:
    """Return after how many seconds Amazon begins to end the machines, as `remaining` does."""
    if reservation is None or not reservation.is_block:
        return None
    ultra = reservation.instance.startswith(ULTRASERVERS)
    return remaining(reservation, now, ULTRA_BEFORE_END if ultra else BEFORE_END)
