"""Amazon EC2: clusters of instances, optionally in a placement group; nothing is leaked."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from cluster.core.errors import ClusterError, ProvisionError, SpecError, Timeout
from cluster.core.model.mounts import Mount, in_region
from cluster.core.model.network.placement import ProviderTopology
from cluster.core.model.resources import Plan, RemoteCluster
from cluster.core.model.value import StateCallback, ignore
from cluster.core.state import journal
from cluster.core.state.ssh_keys import KNOWN
from cluster.providers import Credentials, NeedsCredentials, Stops, refuse
from cluster.providers._cloud.launch import EndedMachine, Intent, Site, machine
from cluster.providers._cloud.options import TTL, CloudOptions, refuse_zone, region_in, words
from cluster.providers._cloud.provider import CloudProvider, network_layers, specs_of
from cluster.providers._cloud.tags import EXPIRES, Selection, Tags, parse_tags, timestamp
from cluster.providers.aws import api, images
from cluster.providers.aws.create import AwsLaunch
from cluster.providers.aws.errors import to_cluster_error
from cluster.providers.aws.instances import (
    GONE,
    Filters,
    ended_machine,
    filters_of,
    instance_view,
    instances,
    price,
    primary,
    state_of,
    tags_of,
    zone_of,
)
from cluster.providers.aws.options import AwsOffer, AwsOptions
from cluster.providers.aws.plan import make_offer

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import InstanceTopologyTypeDef, InstanceTypeDef

    from cluster.core.model.hosts import Machine
    from cluster.core.model.spec import ClusterSpec, Environment
    from cluster.providers._cloud.api_errors import Failure
    from cluster.providers._cloud.deletion import Entries
    from cluster.providers.aws.api import Region

ZONE = re.compile(r"((?:[a-z]+-)+\d+)([a-z]|-[a-z]+-\d+[a-z])")
REGION = re.compile(r"[a-z]+-(?:[a-z]+-)+\d+")
WITHIN = 600.0  # seconds for all machines to change their state
POLL = 1.0  # seconds between two checks
HOME = "us-east-1"  # lists all regions
MOST = 100  # ids that a call for the topology may name
AMAZON_MPI = "/opt/amazon/openmpi"  # from the EFA installer (EC2 user guide, "EFA and MPI")


class AwsProvider(CloudProvider["Region", AwsOptions, AwsOffer], NeedsCredentials, Stops):
    """Machines of Amazon EC2, which cost money while they exist."""

    intent: ClassVar[type[Intent[Any]]] = Intent[AwsOffer]
    Options: ClassVar[type[CloudOptions]] = AwsOptions
    rotates_host_keys: ClassVar[bool] = True
    credentials: ClassVar[Credentials] = Credentials(
        files=("~/.aws/credentials", "~/.aws/config"),
        variable="AWS_PROFILE",
        command="aws configure",
    )
    launch: ClassVar[type[AwsLaunch]] = AwsLaunch

    def __init__(self, regions: tuple[str, ...] = ()) -> None:
        super().__init__(regions)
        self._clients: dict[str, Region] = {}

    @classmethod
    def has_region(cls, text: str) -> bool:
        return bool(REGION.fullmatch(text))

    def is_set_up(self) -> bool:
        return api.is_set_up()

    def place_of(self, spec: ClusterSpec) -> str:
        zones = (spec.zone or "", *words(spec.options.get("zones", "")))
        if region := region_in(zones, ZONE, REGION):
            return region
        refuse_zone(spec, "Amazon", zone="us-east-1a", region="us-east-1")
        if region := api.default_region():
            return region
        raise SpecError(
            "No region is chosen.",
            remedy="Use --zone us-east-1a, or: export AWS_DEFAULT_REGION=us-east-1",
        )

    def default_place(self) -> str:
        return api.default_region()

    def client(self, place: str, spec: ClusterSpec | None) -> Region:
        if place not in self._clients:
            self._clients[place] = api.Region(place)
        return self._clients[place]

    def environment(self, spec: ClusterSpec) -> Environment | None:
        wanted_environment = super().environment(spec)
        has_torch = spec.image == images.PYTORCH
        if wanted_environment is None or not (has_torch or self.options_of(spec).efa):
            return wanted_environment
        python = images.PYTORCH_PYTHON if has_torch and not wanted_environment.image else ""
        return msgspec.structs.replace(
            wanted_environment,
            mpi=wanted_environment.mpi or AMAZON_MPI,
            python=wanted_environment.python or python,
        )

    def mounts(self, spec: ClusterSpec) -> tuple[Mount, ...]:
        """Return what every host mounts; EFS has a name of its region."""
        mounts = super().mounts(spec)
        region = self.place_of(self.regional_spec(spec)) if mounts else ""
        return tuple(in_region(mount, region) for mount in mounts)

    def plan(self, spec: ClusterSpec) -> Plan:
        refuse(spec, {"accelerator": "the machine type says it, such as --instance p4d.24xlarge"})
        return super().plan(spec)

    def plan_request(self, client: Region, spec: ClusterSpec) -> AwsOffer:
        return make_offer(client, spec, self.options_of(spec))

    def offer_near(self, client: Region, offer: AwsOffer, peer: Machine) -> AwsOffer:
        by_id = [{"Name": "instance-id", "Values": [peer.id]}]
        for instance in instances(client, by_id):
            nic = primary(instance)
            site = Site(zone=zone_of(instance), subnet=nic.get("SubnetId", ""))
            return msgspec.structs.replace(offer, vpc=nic.get("VpcId", ""), sites=(site,))
        raise ProvisionError(
            f"{peer.name} ({peer.id}) does not exist any more.",
            means="So it is not known where new machines are near the others.",
            remedy="See which exist: cluster ls",
        )

    def running(self, client: Region, selection: Selection) -> list[tuple[Tags, InstanceTypeDef]]:
        """List the instances, in the order of their numbers, that are not terminated."""
        rows = sorted(
            instances(client, filters_of(selection)), key=lambda row: row.get("AmiLaunchIndex", 0)
        )
        pairs = ((parse_tags(tags_of(row)), row) for row in rows if state_of(row) not in GONE)
        return [(tags, row) for tags, row in pairs if tags]

    def remote_cluster(
        self, client: Region, tags: Tags, machines: Sequence[InstanceTypeDef]
    ) -> RemoteCluster:
        since, cost = 0.0, None
        for first in machines[:1]:
            since = first["LaunchTime"].timestamp() if "LaunchTime" in first else 0.0
            spot = first.get("InstanceLifecycle") == "spot"
            cost = price(client, first.get("InstanceType", ""), zone_of(first), spot=spot)
        return RemoteCluster(
            name=tags.name,
            region=client.name,
            host=tags.host,
            addresses=tuple(row.get("PrivateIpAddress", "") for row in machines),
            states=tuple(map(state_of, machines)),
            since=since,
            expires=tags.expires,
            price=cost,
        )

    def translate_error(self, failure: Failure, remains: str) -> ClusterError:
        return to_cluster_error(failure, remains=remains)

    def all_regions(self) -> tuple[str, ...]:
        if not self.everywhere():
            return ()
        with self.translating_errors("Nothing was looked for."):
            region = self.client(self.everywhere()[0], None)
            regions = region.call("describe_regions", "Regions")["Regions"]
        return tuple(sorted(str(row["RegionName"]) for row in regions))

    def region_names(self, spec: ClusterSpec) -> list[str]:
        region = self.client(api.default_region() or HOME, spec)
        rows = region.call("describe_regions", "Regions", AllRegions=True)["Regions"]
        return [str(row["RegionName"]) for row in rows]

    def stop(self, name: str, machines: tuple[Machine, ...]) -> None:
        """Stop the instances; their disks remain, and still cost money."""
        with self.translating_errors("They go on."):
            region, filters = self._locate(name, journal.entries_of(name))
            region.call("stop_instances", InstanceIds=[machine.id for machine in machines])
            _wait(region, filters, machines, lambda instance: state_of(instance) == "stopped")

    def start(
        self, name: str, machines: tuple[Machine, ...], on_state: StateCallback = ignore
    ) -> tuple[Machine, ...]:
        """Start the instances; their TTL starts again."""
        entries = journal.entries_of(name)
        spec = specs_of(entries)[-1]
        options = self.options_of(spec)

        def ready(instance: InstanceTypeDef) -> bool:
            is_connected = instance.get("PublicIpAddress") or not options.is_public
            return state_of(instance) == "running" and bool(is_connected)

        with self.translating_errors("They are as they were."):
            region, filters = self._locate(name, entries)
            # before the machines count it from their boot
            expires = timestamp(region.now() + (spec.ttl or TTL))
            ids = [machine.id for machine in machines]
            region.call("create_tags", Resources=ids, Tags=[{"Key": EXPIRES, "Value": expires}])
            region.call("start_instances", InstanceIds=ids)
            running = _wait(region, filters, machines, ready, on_state)
        known_hosts = journal.for_cluster(name).folder / KNOWN
        return tuple(
            machine(old.name, instance_view(instance), options, known_hosts, old.link)
            for old, instance in zip(machines, running, strict=True)
        )

    def find_ends(
        self, client: Region, selection: Selection, machines: tuple[Machine, ...]
    ) -> dict[str, EndedMachine]:
        """Return the machines that Amazon lists as ended; it lists them for about an hour."""
        ids = {machine.id: machine.name for machine in machines}
        rows = instances(client, filters_of(selection))
        ends = ((ids[i["InstanceId"]], ended_machine(i)) for i in rows if i["InstanceId"] in ids)
        return {host: end for host, end in ends if end}

    def locate(
        self, client: Region, name: str, entries: Entries, ids: tuple[str, ...]
    ) -> ProviderTopology:
        """Read the network nodes above the instances; only some types have them.

        Source: docs.aws.amazon.com/AWSEC2/latest/UserGuide/how-ec2-instance-topology-works.html
        """
        by_id: dict[str, InstanceTopologyTypeDef] = {}
        for first in range(0, len(ids), MOST):
            batch = list(ids[first : first + MOST])
            rows = client.all("describe_instance_topology", "Instances", InstanceIds=batch)
            by_id |= {instance["InstanceId"]: instance for instance in rows}
        locations = [by_id[id_].get("NetworkNodes", ()) if id_ in by_id else () for id_ in ids]
        layers = range(1, 1 + max(map(len, locations), default=0))
        if not layers:
            kinds = ", ".join(
                sorted(
                    {kind for instance in by_id.values() if (kind := instance.get("InstanceType"))}
                )
            )
            return ProviderTopology(
                reason=f"Amazon names no network nodes for {kinds or 'these instances'}: it does "
                "so for some types only, such as hpc7a, p5 or trn1, while they run"
            )
        return ProviderTopology(
            layers=network_layers([f"network node {layer}" for layer in layers], locations)
        )

    def _locate(self, name: str, entries: Entries) -> tuple[Region, Filters]:
        region = self.clients_of(entries)[0]
        return region, filters_of(self.selection(region, name, entries))


def _wait(
    region: Region,
    filters: Filters,
    machines: Sequence[Machine],
    ready: Callable[[InstanceTypeDef], bool],
    on_state: StateCallback = ignore,
) -> list[InstanceTypeDef]:
    deadline = time.monotonic() + WITHIN
    while True:
        by_id = {item["InstanceId"]: item for item in instances(region, filters)}
        states = {item.name: state_of(by_id[item.id]) for item in machines if item.id in by_id}
        for name, state in states.items():
            on_state(name, state)
            if state == "terminated":
                raise ProvisionError(
                    f"{name} does not exist any more.",
                    means="It ended, or somebody ended it; the others are as they were.",
                    remedy=f"Take the rest down: cluster down {name.rpartition('.')[2]}",
                )
        late = [item for item in machines if item.id not in by_id or not ready(by_id[item.id])]
        if not late:
            return [by_id[item.id] for item in machines]
        if time.monotonic() > deadline:
            name = late[0].name
            raise Timeout(
                f"{name} is not ready after {WITHIN:.0f} s: {states.get(name, 'not listed')} "
                f"({len(late)} are late).",
                means="It exists all the same, and may cost money.",
                remedy="Look at it: cluster ls; try again, or: "
                f"cluster down {name.rpartition('.')[2]}",
            )
        time.sleep(POLL)
