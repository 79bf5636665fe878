"""Create machines: each request is on disk before its call, and each call can be repeated."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec

from cluster.core import ssh_keys
from cluster.core.errors import ProvisionError, Timeout
from cluster.providers._cloud import cloud_init
from cluster.providers._cloud.api_errors import UNLISTED, Failure, retry
from cluster.providers._cloud.launch import (
    CloudLaunch,
    ListedMachine,
    too_few_machines,
    try_zones,
)
from cluster.providers._cloud.machine import machine
from cluster.providers._cloud.tags import LAUNCH
from cluster.providers.aws.api import Region
from cluster.providers.aws.delete import AwsDeletion, console, filters_of, instances
from cluster.providers.aws.elastic_ips import ElasticIps
from cluster.providers.aws.machine_ends import ended_machine
from cluster.providers.aws.options import AwsOffer, AwsOptions
from cluster.providers.aws.plan import name_taken_error
from cluster.providers.aws.request import (
    instance_view,
    interfaces,
    request,
    tag_specifications,
)
from cluster.providers.aws.responses import (
    AwsInstance,
    InternetGateway,
    KeyPair,
    PlacementGroup,
    Reservation,
    RouteTable,
    SecurityGroup,
    Subnet,
    TaggedResource,
    Vpc,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cluster.core.model.hosts import Machine
    from cluster.providers.aws.options import ZoneSubnet

PROVIDER = "aws"
CIDR = "10.0.0.0/16"  # of a VPC that the launch creates
RUNNING = "running"
ENDED_BEFORE = "IdempotentInstanceTerminated"  # a repeated call, whose machines ended meanwhile
N = TypeVar("N", bound=TaggedResource)


class AwsLaunch(CloudLaunch[Region, AwsOptions, AwsOffer]):
    """One launch at Amazon."""

    provider: ClassVar[str] = PROVIDER

    def launch(self) -> tuple[Machine, ...]:
        """Create the machines, all or none.

        Raises:
            Failure: Amazon refused a call.
            ProvisionError: a machine did not start.

        """
        login = ssh_keys.load_or_create(self._cluster_journal.folder / ssh_keys.LOGIN)
        vpc = self._offer.vpc or self._vpc()
        group = self._security_group(vpc)
        self._open(group)
        if self._spec.placement:
            self._placement_group()
        self._key_pair(login.public)
        return self._machines(vpc, group)

    def add(self) -> tuple[Machine, ...]:
        """Create the machines in the security group and the placement group of the cluster.

        Raises:
            Failure: Amazon refused a call.
            ProvisionError: a machine did not start.

        """
        found = self._find(
            "describe_security_groups", "SecurityGroups", SecurityGroup, "group-name"
        )
        if not found:
            raise ProvisionError(
                f"The security group {self._tags.label} does not exist any more.",
                means="Somebody deleted it. The cluster is as it was.",
                remedy=f"Take it down, and launch it again: cluster down {self._tags.name}",
            )
        return self._machines(self._offer.vpc, found[0].group_id)

    def _machines(self, vpc: str, group: str) -> tuple[Machine, ...]:
        """Create the machines, and trust the first host key that each is given."""
        first = ssh_keys.load_or_create(self._cluster_journal.folder / ssh_keys.FIRST)
        data = cloud_init.user_data(first, self._offer.ttl, self._offer.packages)
        found = self._instances(vpc, group, data)
        known = self._cluster_journal.folder / ssh_keys.KNOWN
        pinned = ssh_keys.pinned(known)  # by a launch that this one continues
        new = [one.instance_id for one in found if one.instance_id not in pinned]
        ssh_keys.add_known_hosts(known, [(id_, first.public) for id_ in new])
        link = self._offer.link
        return tuple(
            machine(self._name(number), instance_view(one), self._options, known, link)
            for number, one in enumerate(found)
        )

    # What machines need.

    def _security_group(self, vpc: str) -> str:
        """Create the group; its name is the lock that prevents two launches of the same name."""

        def find() -> tuple[SecurityGroup, ...]:
            return self._find(
                "describe_security_groups", "SecurityGroups", SecurityGroup, "group-name"
            )

        made = self._named(
            "security-group",
            lambda: self._client.call(
                "create_security_group",
                GroupName=self._tags.label,
                Description=f"cluster {self._tags.name}",
                VpcId=vpc,
                **self._tagged("security-group"),
            ),
            find,
        )
        return made.group_id

    def _open(self, group: str) -> None:
        """Allow SSH from the caller and all traffic within the group; nothing else."""
        inside = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
        ssh = {
            "IpProtocol": "tcp",
            "FromPort": 22,
            "ToPort": 22,
            "IpRanges": [
                {"CidrIp": self._offer.allow, "Description": "the address that launched it"}
            ],
        }
        self._journal.note("security-group-rules", group)
        self._unless_there(
            "authorize_security_group_ingress", GroupId=group, IpPermissions=[ssh, inside]
        )
        if self._offer.interfaces:  # EFA traffic needs a rule that names the group, also outbound
            self._unless_there(
                "authorize_security_group_egress", GroupId=group, IpPermissions=[inside]
            )

    def _placement_group(self) -> None:
        self._named(
            "placement-group",
            lambda: self._client.call(
                "create_placement_group",
                GroupName=self._tags.label,
                Strategy="cluster",
                **self._tagged("placement-group"),
            ),
            lambda: self._find(
                "describe_placement_groups", "PlacementGroups", PlacementGroup, "group-name"
            ),
        )

    def _key_pair(self, public: str) -> None:
        self._named(
            "key-pair",
            lambda: self._client.call(
                "import_key_pair",
                KeyName=self._tags.label,
                PublicKeyMaterial=public.encode(),
                **self._tagged("key-pair"),
            ),
            lambda: self._find("describe_key_pairs", "KeyPairs", KeyPair, "key-name"),
        )

    def _vpc(self) -> str:
        """Create a VPC with a route to the internet."""
        vpc = self._own("vpc", "create_vpc", "describe_vpcs", "Vpcs", Vpc, CidrBlock=CIDR).vpc_id
        gateway = self._own(
            "internet-gateway",
            "create_internet_gateway",
            "describe_internet_gateways",
            "InternetGateways",
            InternetGateway,
        ).internet_gateway_id
        self._unless_there("attach_internet_gateway", InternetGatewayId=gateway, VpcId=vpc)
        [table, *_] = self._client.all(
            "describe_route_tables",
            "RouteTables",
            RouteTable,
            Filters=[{"Name": "vpc-id", "Values": [vpc]}],
        )
        self._unless_there(
            "create_route",
            RouteTableId=table.route_table_id,
            DestinationCidrBlock="0.0.0.0/0",
            GatewayId=gateway,
        )
        return vpc

    def _subnet(self, vpc: str, site: ZoneSubnet) -> str:
        number = self._offer.sites.index(site)
        return (
            site.subnet
            or self._own(
                "subnet",
                "create_subnet",
                "describe_subnets",
                "Subnets",
                Subnet,
                where={"availability-zone": site.zone},
                VpcId=vpc,
                CidrBlock=f"10.0.{16 * number}.0/20",
                AvailabilityZone=site.zone,
            ).subnet_id
        )

    # Machines.

    def _instances(self, vpc: str, group: str, data: str) -> tuple[AwsInstance, ...]:
        """Return the machines once they run and have their addresses."""
        elastic = ElasticIps(self._client, self._tags, self._journal)
        if self._options.elastic_ip:
            elastic.allocate(self._spec.hosts)  # first: it may exceed the limit of Elastic IPs

        def attempt(site: ZoneSubnet) -> tuple[AwsInstance, ...]:
            ids = frozenset(self._run_in(site, self._subnet(vpc, site), group, data))
            found = self._wait(
                lambda: self._look(ids),
                lambda found, seconds: self._check(found, seconds, elastic),
                lambda one: console(self._client, one.instance_id),
            )
            self._note_parts("volume", site, [id_ for one in found for id_ in one.volumes])
            nics = [id_ for one in found for id_ in one.interfaces]
            self._note_parts("network-interface", site, nics)
            return found

        return try_zones(
            self._offer.sites,
            attempt,
            first=self._journal.resume_at(self._offer.sites, self._token),
            zone=lambda site: site.zone,
            instance=self._spec.instance or "",
            give_back=AwsDeletion(self._client, self._whose).delete_machines,
        )

    def _note_parts(self, kind: str, site: ZoneSubnet, ids: Sequence[str]) -> None:
        """Record what Amazon created with the machines: nobody else has attached anything yet."""
        token = f"{kind}/{self._token(site)}"
        self._journal.note(kind, token)
        self._journal.made(token, *ids)

    def _token(self, site: ZoneSubnet) -> str:
        return f"{self._tags.launch}-{site.zone}"

    def _run_in(self, site: ZoneSubnet, subnet: str, group: str, data: str) -> tuple[str, ...]:
        """Create all machines in a zone; fewer count as a lack of capacity."""
        token = self._token(site)

        def ask() -> tuple[str, ...]:
            params = {
                **request(self._spec, self._options, self._offer, self._tags),
                "ClientToken": token,
                "UserData": data,
                "NetworkInterfaces": interfaces(self._options, self._offer, subnet, group),
            }
            try:
                answer = self._use("run_instances", "Instances", **params)
            except Failure as failure:
                if failure.code != ENDED_BEFORE:
                    raise
                there = instances(self._client, filters_of(self._whose))
                there = tuple(m for m in there if m.placement.availability_zone == site.zone)
            else:
                there = msgspec.convert(answer, Reservation).instances
            return tuple(one.instance_id for one in there)

        ids = self._journal.machines(token, ask)
        if len(ids) < self._spec.hosts:
            what = f"gave {len(ids)} of {self._spec.hosts} machines"
            raise too_few_machines("RunInstances", site.zone, what)
        return ids

    def _look(self, ids: frozenset[str]) -> list[ListedMachine[AwsInstance]]:
        listed = instances(self._client, filters_of(self._whose))
        found = (self._listed(one) for one in listed if one.instance_id in ids)
        return sorted(found, key=lambda one: one.number)

    def _listed(self, one: AwsInstance) -> ListedMachine[AwsInstance]:
        public = one.public_ip_address or not self._options.is_public
        runs, connected = one.state.name == RUNNING, bool(one.private_ip_address and public)
        return ListedMachine(
            instance=one,
            number=one.ami_launch_index,
            id=one.instance_id,
            state="running, no address" if runs and not connected else one.state.name,
            ready=runs and connected,
        )

    def _check(
        self, found: Sequence[ListedMachine[AwsInstance]], seconds: float, elastic: ElasticIps
    ) -> None:
        """Fail if a machine ended, or is not listed in time; those that run get Elastic IPs.

        Each gets its own as soon as it runs, because its boot may need the internet.
        """
        for one in found:
            if ended := ended_machine(one.instance):
                raise self._end(one.number, ended)
        elastic.associate(one.instance for one in found if one.instance.state.name == RUNNING)
        is_late = seconds > self._options.wait and all(one.ready for one in found)
        if len(found) < self._spec.hosts and is_late:
            raise Timeout(
                f"Amazon lists {len(found)} of {self._spec.hosts} machines that it gave "
                f"{seconds:.0f} s ago.",
                means="Nothing is left.",
                remedy="Try again, or see https://health.aws.amazon.com",
            )

    # How resources are requested.

    def _tagged(self, *kinds: str) -> dict[str, Any]:
        return {"TagSpecifications": tag_specifications(self._tags, *kinds)}

    def _named(
        self, kind: str, create: Callable[[], object], find: Callable[[], tuple[N, ...]]
    ) -> N:
        """Create a named resource, and refuse a name that another launch has.

        A call of this launch whose reply was lost may have created it already.
        """
        token = f"{kind}/{self._tags.label}"
        self._journal.note(kind, token)
        try:
            create()
        except Failure as failure:
            if failure.kind != "exists":
                raise
        found = retry(lambda: _only(find()), kinds=UNLISTED)
        if found.tags.get(LAUNCH) != self._tags.launch:
            raise name_taken_error(self._spec.name, self._client.name)
        self._journal.made(token, found.own_id)
        return found

    def _own(
        self,
        kind: str,
        create: str,
        describe: str,
        key: str,
        of: type[N],
        *,
        where: dict[str, str] | None = None,
        **params: str,
    ) -> N:
        """Create a resource without a name, once: after a lost reply it is found by its tags."""
        token = "/".join((kind, self._tags.label, *(where or {}).values()))
        self._journal.note(kind, token)
        filters = [{"Name": f"tag:{LAUNCH}", "Values": [self._tags.launch]}]
        filters += [{"Name": name, "Values": [value]} for name, value in (where or {}).items()]

        def attempt() -> N:
            if found := self._client.all(describe, key, of, Filters=filters):
                return found[0]
            self._client.once(create, **params, **self._tagged(kind))
            return retry(
                lambda: _only(self._client.all(describe, key, of, Filters=filters)), kinds=UNLISTED
            )

        made = retry(attempt)
        self._journal.made(token, made.own_id)
        return made

    def _find(self, operation: str, key: str, of: type[N], field: str) -> tuple[N, ...]:
        filters = [{"Name": field, "Values": [self._tags.label]}]
        return self._client.all(operation, key, of, Filters=filters)

    def _use(self, operation: str, key: str = "", **params: Any) -> Mapping[str, Any]:  # noqa: ANN401
        """Call with new resources, which Amazon may not know everywhere yet: repeat if missing."""
        return retry(partial(self._client.once, operation, key, **params), kinds=UNLISTED)

    def _unless_there(self, operation: str, **params: Any) -> None:  # noqa: ANN401
        """Call, and accept that the result exists already: the first reply may have been lost."""
        try:
            self._use(operation, **params)
        except Failure as failure:
            if failure.kind != "exists":
                raise


def _only(found: tuple[N, ...]) -> N:
    """Return the resource just created, or raise a failure that passes if it is not listed yet."""
    if not found:
        raise Failure(
            "missing", operation="Describe", code="", message="What was just made is not listed."
        )
    return found[0]
