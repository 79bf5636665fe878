"""Create machines: each request is on disk before its call, and each call can be repeated."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from cluster.core.errors import ProvisionError, Timeout
from cluster.core.state import ssh_keys
from cluster.providers._cloud.api_errors import UNLISTED, Failure, Kind, ignoring, retry
from cluster.providers._cloud.launch import CloudLaunch, LaunchJournal, ListedMachine, Site
from cluster.providers._cloud.options import name_taken_error
from cluster.providers._cloud.tags import LAUNCH, Tags
from cluster.providers.aws import instances
from cluster.providers.aws.api import Region
from cluster.providers.aws.delete import ELASTIC_IP_REQUEST, RESOURCE_TYPES, AwsDeletion
from cluster.providers.aws.options import AwsOffer, AwsOptions
from cluster.providers.aws.request import interfaces, request, tag_specifications, user_data

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import AddressTypeDef, InstanceTypeDef

NOWHERE: Mapping[str, str] = MappingProxyType({})
CIDR = "10.0.0.0/16"  # of a VPC that the launch creates
RUNNING = "running"
ENDED_BEFORE = "IdempotentInstanceTerminated"  # a repeated call, whose machines ended meanwhile
TYPES = {resource_type.request: resource_type for resource_type in RESOURCE_TYPES}


class AwsLaunch(CloudLaunch[Region, AwsOptions, AwsOffer, "InstanceTypeDef"]):
    provider: ClassVar[str] = "aws"
    operation: ClassVar[str] = "RunInstances"
    passing: ClassVar[frozenset[Kind]] = UNLISTED
    deletion: ClassVar[type[AwsDeletion]] = AwsDeletion
    _vpc = _group = ""  # ids of the network and of the security group

    def token(self, site: Site, attempt: int = 0) -> str:
        return f"{self._tags.launch}-{site.zone}{self.suffix}"

    def prepare(self) -> None:
        """Create the security group and the key pair, or find the group of the cluster.

        The group's name is the lock that prevents two launches of the same name.
        """
        self._vpc = self.offer.vpc or self._new_vpc()
        self._elastic = ElasticIps(self.client, self._tags, self.journal)
        if self._is_addition:
            groups = self._find_named("security-group", self._tags.label)
            if not groups:
                raise ProvisionError(
                    f"The security group {self._tags.label} does not exist any more.",
                    means="Somebody deleted it. The cluster is as it was.",
                    remedy=f"Take it down, and launch it again: cluster down {self._tags.name}",
                )
            self._group = str(groups[0]["GroupId"])
            return
        label, description = self._tags.label, f"cluster {self._tags.name}"
        self._group = self._create_named(
            "security-group", GroupName=label, Description=description, VpcId=self._vpc
        )
        # SSH from the caller and all traffic within the group; nothing else
        group = self._group
        inside = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
        ssh = {
            "IpProtocol": "tcp",
            "FromPort": 22,
            "ToPort": 22,
            "IpRanges": [
                {"CidrIp": self.offer.allow, "Description": "the address that launched it"}
            ],
        }
        self.journal.note("security-group-rules", group)
        self._unless_there(
            "authorize_security_group_ingress", GroupId=group, IpPermissions=[ssh, inside]
        )
        if self.offer.interfaces:  # EFA traffic needs a rule that names the group, also outbound
            self._unless_there(
                "authorize_security_group_egress", GroupId=group, IpPermissions=[inside]
            )
        login = ssh_keys.load_or_create(self._cluster_journal.folder / ssh_keys.LOGIN)
        material = login.public.encode()
        self._create_named("key-pair", "import", KeyName=label, PublicKeyMaterial=material)

    def prepare_group(self, first: Self) -> None:
        """Create the placement group, and the Elastic IPs: they may exceed their limit."""
        self._vpc, self._group, self._elastic = first._vpc, first._group, first._elastic
        if self._spec.placement and not self._is_addition:
            self._create_named("placement-group", GroupName=self._near, Strategy="cluster")
        if self.options.elastic_ip:
            self._elastic.allocate(self.hosts)

    def create(self, site: Site, token: str) -> tuple[str, ...]:
        """Run the instances; a repeated call whose machines ended meanwhile gives these."""
        offer = self.offer
        try:
            answer = self.client.once(
                "run_instances",
                "Instances",
                **request(self._spec, self.options, offer, self._tags, self._near),
                ClientToken=token,
                UserData=user_data(self._spec, self._first_key(), offer.ttl, offer.packages),
                NetworkInterfaces=interfaces(self.options, offer, self._subnet(site), self._group),
            )
        except Failure as failure:
            if failure.code != ENDED_BEFORE:
                raise
            rows = instances.instances(self.client, instances.filters_of(self._selection))
            return tuple(
                instance["InstanceId"]
                for instance in rows
                if instances.zone_of(instance) == site.zone
                and instance.get("ClientToken", token) == token
            )
        return tuple(instance["InstanceId"] for instance in answer["Instances"])

    def list(self, site: Site, ids: tuple[str, ...]) -> list[ListedMachine[InstanceTypeDef]]:
        rows = instances.instances(self.client, instances.filters_of(self._selection))
        machines = (self._as_listed(item) for item in rows if item["InstanceId"] in ids)
        return sorted(machines, key=lambda item: item.number)

    def check(
        self, site: Site, rows: Sequence[ListedMachine[InstanceTypeDef]], seconds: float
    ) -> None:
        """Fail if a machine ended, or is not listed in time; those that run get Elastic IPs.

        Each gets its own as soon as it runs, because its boot may need the internet.
        """
        for machine in rows:
            if end := instances.ended_machine(machine.instance):
                raise self.end(machine.number, end)
        self._elastic.associate(
            machine.instance for machine in rows if instances.state_of(machine.instance) == RUNNING
        )
        is_late = seconds > self.options.wait and all(machine.ready for machine in rows)
        if len(rows) < self.hosts and is_late:
            raise Timeout(
                f"Amazon lists {len(rows)} of {self.hosts} machines that it gave "
                f"{seconds:.0f} s ago.",
                means="Nothing is left.",
                remedy="Try again, or see https://health.aws.amazon.com",
            )

    def settle(self, site: Site, machines: tuple[InstanceTypeDef, ...]) -> None:
        """Record what Amazon created with the machines, and trust their first host key.

        Nobody else has attached anything yet.
        """
        parts = {
            "volume": [
                disk.get("Ebs", {}).get("VolumeId", "")
                for instance in machines
                for disk in instance.get("BlockDeviceMappings", ())
            ],
            "network-interface": [
                nic.get("NetworkInterfaceId", "")
                for instance in machines
                for nic in instance.get("NetworkInterfaces", ())
            ],
        }
        for kind, ids in parts.items():
            token = f"{kind}/{self.token(site)}"
            self.journal.note(kind, token)
            self.journal.record_created(token, *filter(None, ids))
        known_hosts = self._cluster_journal.folder / ssh_keys.KNOWN
        pins = ssh_keys.known_aliases(known_hosts)  # by a launch that this one continues
        new = [id_ for instance in machines if (id_ := instance["InstanceId"]) not in pins]
        ssh_keys.add_known_hosts(known_hosts, [(id_, self._first_key().public) for id_ in new])

    def _as_listed(self, instance: InstanceTypeDef) -> ListedMachine[InstanceTypeDef]:
        state, view = instances.state_of(instance), instances.instance_view(instance)
        is_connected = bool(view.private and (view.public or not self.options.is_public))
        return ListedMachine(
            instance=instance,
            view=view,
            number=instance.get("AmiLaunchIndex", 0),
            state="running, no address" if state == RUNNING and not is_connected else state,
            ready=state == RUNNING and is_connected,
        )

    def _first_key(self) -> ssh_keys.SshKeyPair:
        return ssh_keys.load_or_create(self._cluster_journal.folder / ssh_keys.FIRST)

    @property
    def _near(self) -> str:
        return f"{self._tags.label}{self.suffix}"

    def _new_vpc(self) -> str:
        vpc = self._create_once("vpc", CidrBlock=CIDR)
        gateway = self._create_once("internet-gateway")
        self._unless_there("attach_internet_gateway", InternetGatewayId=gateway, VpcId=vpc)
        [table, *_] = self.client.all(
            "describe_route_tables", "RouteTables", Filters=[{"Name": "vpc-id", "Values": [vpc]}]
        )
        self._unless_there(
            "create_route",
            RouteTableId=table["RouteTableId"],
            DestinationCidrBlock="0.0.0.0/0",
            GatewayId=gateway,
        )
        return vpc

    def _subnet(self, site: Site) -> str:
        number, place = next((n, s) for n, s in enumerate(self.offer.sites) if s.zone == site.zone)
        return place.subnet or self._create_once(
            "subnet",
            extra={"availability-zone": site.zone},
            VpcId=self._vpc,
            CidrBlock=f"10.0.{16 * number}.0/20",
            AvailabilityZone=site.zone,
        )

    # How resources are requested.

    def _tag_params(self, *kinds: str) -> dict[str, Any]:
        return {"TagSpecifications": tag_specifications(self._tags, *kinds)}

    def _create_named(self, kind: str, verb: str = "create", **params: Any) -> str:  # noqa: ANN401
        """Create a named resource, and refuse a name that another launch has.

        A call of this launch whose reply was lost may have created it already.
        """
        name = str(params.get("GroupName", self._tags.label))
        token = f"{kind}/{name}"
        self.journal.note(kind, token)
        with ignoring("exists"):
            self.client.call(f"{verb}_{kind.replace('-', '_')}", **params, **self._tag_params(kind))
        resource = retry(lambda: _only(self._find_named(kind, name)), kinds=UNLISTED)
        if instances.tags_of(resource).get(LAUNCH) != self._tags.launch:
            raise name_taken_error(self._spec.name, self.client.name, self.client.name)
        return self._record_created(kind, token, resource)

    def _create_once(self, kind: str, *, extra: Mapping[str, str] = NOWHERE, **params: str) -> str:
        """Create a resource without a name, once: after a lost reply it is found by its tags."""
        token = "/".join((kind, self._tags.label, *extra.values()))
        self.journal.note(kind, token)
        filters = [
            {"Name": name, "Values": [value]}
            for name, value in ((f"tag:{LAUNCH}", self._tags.launch), *extra.items())
        ]

        def attempt() -> Mapping[str, Any]:
            if existing := self._find(kind, filters):
                return existing[0]
            create = f"create_{kind.replace('-', '_')}"
            self.client.once(create, **params, **self._tag_params(kind))
            return retry(lambda: _only(self._find(kind, filters)), kinds=UNLISTED)

        return self._record_created(kind, token, retry(attempt))

    def _record_created(self, kind: str, token: str, resource: Mapping[str, Any]) -> str:
        id_ = str(resource[TYPES[kind].id])
        self.journal.record_created(token, id_)
        return id_

    def _find_named(self, kind: str, name: str) -> tuple[Mapping[str, Any], ...]:
        field = "key-name" if kind == "key-pair" else "group-name"
        return self._find(kind, [{"Name": field, "Values": [name]}])

    def _find(self, kind: str, filters: instances.Filters) -> tuple[Mapping[str, Any], ...]:
        return self.client.all(TYPES[kind].describe, TYPES[kind].key, Filters=filters)

    def _unless_there(self, operation: str, **params: Any) -> None:  # noqa: ANN401
        """Call with new resources, which Amazon may not know everywhere yet; the result may exist.

        Then the first reply was lost.
        """
        with ignoring("exists"):
            retry(partial(self.client.once, operation, **params), kinds=UNLISTED)


def _only(rows: tuple[Mapping[str, Any], ...]) -> Mapping[str, Any]:
    """Return the resource just created, or raise a failure that passes if it is not listed yet."""
    if not rows:
        raise Failure(
            "missing", operation="Describe", code="", message="What was just made is not listed."
        )
    return rows[0]


class ElasticIps:
    """The Elastic IPs of a launch, with its tags; its journal has each before its request.

    Machines with several network interfaces get no other public address.
    """

    def __init__(self, region: Region, tags: Tags, launch_journal: LaunchJournal) -> None:
        self._region = region
        self._tags = tags
        self._journal = launch_journal
        self._count = 0
        self._free: list[str] = []  # allocation ids of unused addresses
        self._holders: set[str] = set()  # ids of the interfaces that have an address

    def allocate(self, count: int) -> None:
        """Allocate more; those of a call without a reply are found by their tags (Failure)."""
        ids: set[str] = set()
        self._count += count

        def attempt() -> tuple[AddressTypeDef, ...]:
            while len({item["AllocationId"] for item in self._addresses()} | ids) < self._count:
                token = f"{self._tags.launch}/{secrets.token_hex(4)}"  # only for the journal
                with self._journal.requesting(ELASTIC_IP_REQUEST, token):
                    tags = tag_specifications(self._tags, "elastic-ip")
                    answer = self._region.once(
                        "allocate_address", "AllocationId", Domain="vpc", TagSpecifications=tags
                    )
                id_ = str(answer["AllocationId"])
                self._journal.record_created(token, id_)
                ids.add(id_)
            addresses = self._addresses()
            if not ids <= {address["AllocationId"] for address in addresses}:
                raise Failure(
                    "missing",
                    operation="DescribeAddresses",
                    code="",
                    message="An address that was just allocated is not listed",
                )
            return addresses

        addresses = retry(attempt, kinds=UNLISTED)
        self._free = [a["AllocationId"] for a in addresses if not a.get("NetworkInterfaceId")]
        self._holders = {nic for a in addresses if (nic := a.get("NetworkInterfaceId"))}

    def associate(self, machines: Iterable[InstanceTypeDef]) -> None:
        """Associate an address with the first interface of each machine that has none (Failure)."""
        first = [instances.primary(machine).get("NetworkInterfaceId", "") for machine in machines]
        nics = [interface for interface in first if interface and interface not in self._holders]
        for interface, address in zip(nics, tuple(self._free), strict=False):
            call = partial(
                self._region.once,
                "associate_address",
                AllocationId=address,
                NetworkInterfaceId=interface,
            )
            retry(call, kinds=UNLISTED)
            self._free.remove(address)
            self._holders.add(interface)

    def _addresses(self) -> tuple[AddressTypeDef, ...]:
        filters = [{"Name": f"tag:{LAUNCH}", "Values": [self._tags.launch]}]
        return self._region.all("describe_addresses", "Addresses", Filters=filters)
