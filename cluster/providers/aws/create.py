"""Create machines: each request is on disk before its call, and each call can be repeated."""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

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
from cluster.providers.aws.delete import RESOURCE_TYPES, AwsDeletion
from cluster.providers.aws.elastic_ips import ElasticIps
from cluster.providers.aws.instances import (
    console,
    ended_machine,
    filters_of,
    instance_view,
    instances,
    interfaces_of,
    state_of,
    tags_of,
    volumes,
    zone_of,
)
from cluster.providers.aws.options import AwsOffer, AwsOptions
from cluster.providers.aws.plan import name_taken_error
from cluster.providers.aws.request import interfaces, request, tag_specifications

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from types_boto3_ec2.type_defs import InstanceTypeDef

    from cluster.core.model.hosts import Machine
    from cluster.providers.aws.instances import Filters
    from cluster.providers.aws.options import ZoneSubnet

PROVIDER = "aws"
NOWHERE: Mapping[str, str] = MappingProxyType({})
CIDR = "10.0.0.0/16"  # of a VPC that the launch creates
RUNNING = "running"
ENDED_BEFORE = "IdempotentInstanceTerminated"  # a repeated call, whose machines ended meanwhile
TYPES = {one.requested: one for one in RESOURCE_TYPES}


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
        found = self._named_so("security-group")
        if not found:
            raise ProvisionError(
                f"The security group {self._tags.label} does not exist any more.",
                means="Somebody deleted it. The cluster is as it was.",
                remedy=f"Take it down, and launch it again: cluster down {self._tags.name}",
            )
        return self._machines(self._offer.vpc, found[0]["GroupId"])

    def _machines(self, vpc: str, group: str) -> tuple[Machine, ...]:
        """Create the machines, and trust the first host key that each is given."""
        first = ssh_keys.load_or_create(self._cluster_journal.folder / ssh_keys.FIRST)
        data = cloud_init.user_data(first, self._offer.ttl, self._offer.packages)
        found = self._instances(vpc, group, data)
        known = self._cluster_journal.folder / ssh_keys.KNOWN
        pinned = ssh_keys.pinned(known)  # by a launch that this one continues
        new = [one["InstanceId"] for one in found if one["InstanceId"] not in pinned]
        ssh_keys.add_known_hosts(known, [(id_, first.public) for id_ in new])
        link = self._offer.link
        return tuple(
            machine(self._name(number), instance_view(one), self._options, known, link)
            for number, one in enumerate(found)
        )

    # What machines need.

    def _security_group(self, vpc: str) -> str:
        """Create the group; its name is the lock that prevents two launches of the same name."""
        description = f"cluster {self._tags.name}"
        return self._named(
            "security-group", GroupName=self._tags.label, Description=description, VpcId=vpc
        )

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
        self._named("placement-group", GroupName=self._tags.label, Strategy="cluster")

    def _key_pair(self, public: str) -> None:
        material = public.encode()
        self._named("key-pair", "import", KeyName=self._tags.label, PublicKeyMaterial=material)

    def _vpc(self) -> str:
        """Create a VPC with a route to the internet."""
        vpc = self._own("vpc", CidrBlock=CIDR)
        gateway = self._own("internet-gateway")
        self._unless_there("attach_internet_gateway", InternetGatewayId=gateway, VpcId=vpc)
        [table, *_] = self._client.all(
            "describe_route_tables",
            "RouteTables",
            Filters=[{"Name": "vpc-id", "Values": [vpc]}],
        )
        self._unless_there(
            "create_route",
            RouteTableId=table["RouteTableId"],
            DestinationCidrBlock="0.0.0.0/0",
            GatewayId=gateway,
        )
        return vpc

    def _subnet(self, vpc: str, site: ZoneSubnet) -> str:
        if site.subnet:
            return site.subnet
        return self._own(
            "subnet",
            where={"availability-zone": site.zone},
            VpcId=vpc,
            CidrBlock=f"10.0.{16 * self._offer.sites.index(site)}.0/20",
            AvailabilityZone=site.zone,
        )

    # Machines.

    def _instances(self, vpc: str, group: str, data: str) -> tuple[InstanceTypeDef, ...]:
        """Return the machines once they run and have their addresses."""
        elastic = ElasticIps(self._client, self._tags, self._journal)
        if self._options.elastic_ip:
            elastic.allocate(self._spec.hosts)  # first: it may exceed the limit of Elastic IPs

        def attempt(site: ZoneSubnet) -> tuple[InstanceTypeDef, ...]:
            ids = frozenset(self._run_in(site, self._subnet(vpc, site), group, data))
            found = self._wait(
                lambda: self._look(ids),
                lambda found, seconds: self._check(found, seconds, elastic),
                lambda one: console(self._client, one["InstanceId"]),
            )
            self._note_parts("volume", site, [id_ for one in found for id_ in volumes(one)])
            nics = [id_ for one in found for id_ in interfaces_of(one)]
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
                there = tuple(one for one in there if zone_of(one) == site.zone)
            else:
                there = answer["Instances"]
            return tuple(one["InstanceId"] for one in there)

        ids = self._journal.machines(token, ask)
        if len(ids) < self._spec.hosts:
            what = f"gave {len(ids)} of {self._spec.hosts} machines"
            raise too_few_machines("RunInstances", site.zone, what)
        return ids

    def _look(self, ids: frozenset[str]) -> list[ListedMachine[InstanceTypeDef]]:
        listed = instances(self._client, filters_of(self._whose))
        found = (self._seen(one) for one in listed if one["InstanceId"] in ids)
        return sorted(found, key=lambda one: one.number)

    def _seen(self, one: InstanceTypeDef) -> ListedMachine[InstanceTypeDef]:
        state, view = state_of(one), instance_view(one)
        connected = bool(view.private and (view.public or not self._options.is_public))
        return ListedMachine(
            instance=one,
            number=one.get("AmiLaunchIndex", 0),
            id=view.id,
            state="running, no address" if state == RUNNING and not connected else state,
            ready=state == RUNNING and connected,
        )

    def _check(
        self, found: Sequence[ListedMachine[InstanceTypeDef]], seconds: float, elastic: ElasticIps
    ) -> None:
        """Fail if a machine ended, or is not listed in time; those that run get Elastic IPs.

        Each gets its own as soon as it runs, because its boot may need the internet.
        """
        for one in found:
            if ended := ended_machine(one.instance):
                raise self._end(one.number, ended)
        elastic.associate(one.instance for one in found if state_of(one.instance) == RUNNING)
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

    def _named(self, kind: str, verb: str = "create", **params: Any) -> str:  # noqa: ANN401
        """Create a named resource, and refuse a name that another launch has.

        A call of this launch whose reply was lost may have created it already.
        """
        token = f"{kind}/{self._tags.label}"
        self._journal.note(kind, token)
        try:
            self._client.call(f"{verb}_{kind.replace('-', '_')}", **params, **self._tagged(kind))
        except Failure as failure:
            if failure.kind != "exists":
                raise
        found = retry(lambda: _only(self._named_so(kind)), kinds=UNLISTED)
        if tags_of(found).get(LAUNCH) != self._tags.launch:
            raise name_taken_error(self._spec.name, self._client.name)
        return self._made(kind, token, found)

    def _own(self, kind: str, *, where: Mapping[str, str] = NOWHERE, **params: str) -> str:
        """Create a resource without a name, once: after a lost reply it is found by its tags."""
        token = "/".join((kind, self._tags.label, *where.values()))
        self._journal.note(kind, token)
        filters = [
            {"Name": name, "Values": [value]}
            for name, value in ((f"tag:{LAUNCH}", self._tags.launch), *where.items())
        ]

        def attempt() -> Mapping[str, Any]:
            if found := self._listed(kind, filters):
                return found[0]
            create = f"create_{kind.replace('-', '_')}"
            self._client.once(create, **params, **self._tagged(kind))
            return retry(lambda: _only(self._listed(kind, filters)), kinds=UNLISTED)

        return self._made(kind, token, retry(attempt))

    def _made(self, kind: str, token: str, resource: Mapping[str, Any]) -> str:
        """Record that a resource exists now; return its id."""
        id_ = str(resource[TYPES[kind].id])
        self._journal.made(token, id_)
        return id_

    def _named_so(self, kind: str) -> tuple[Mapping[str, Any], ...]:
        """List the resources of a kind that have the name of this launch."""
        field = "key-name" if kind == "key-pair" else "group-name"
        return self._listed(kind, [{"Name": field, "Values": [self._tags.label]}])

    def _listed(self, kind: str, filters: Filters) -> tuple[Mapping[str, Any], ...]:
        return self._client.all(TYPES[kind].describe, TYPES[kind].key, Filters=filters)

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


def _only(found: tuple[Mapping[str, Any], ...]) -> Mapping[str, Any]:
    """Return the resource just created, or raise a failure that passes if it is not listed yet."""
    if not found:
        raise Failure(
            "missing", operation="Describe", code="", message="What was just made is not listed."
        )
    return found[0]
