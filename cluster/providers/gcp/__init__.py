"""Google Compute Engine: clusters of instances, optionally close together; nothing is leaked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from cluster.core.errors import ClusterError, SpecError
from cluster.core.model.network.placement import ProviderTopology
from cluster.core.model.resources import Plan, Price, RemoteCluster
from cluster.providers import Credentials, NeedsCredentials, OffersGpus, refuse
from cluster.providers._cloud.api_errors import Failure
from cluster.providers._cloud.launch import EndedMachine, Intent, Site, intent_file
from cluster.providers._cloud.provider import CloudProvider, network_layers
from cluster.providers.gcp import api
from cluster.providers.gcp.create import GcpLaunch
from cluster.providers.gcp.errors import to_cluster_error
from cluster.providers.gcp.instances import DELETED, ENDED, ended_machine, id_of, private
from cluster.providers.gcp.labels import filter_of, is_of, parse_description
from cluster.providers.gcp.machine_types import price, requested_accelerators
from cluster.providers.gcp.options import GcpOffer, GcpOptions
from cluster.providers.gcp.plan import make_offer

if TYPE_CHECKING:
    from google.cloud.compute_v1.types.compute import Instance, MachineType, ResourceStatus

    from cluster.core.model.hosts import Machine
    from cluster.core.model.spec import ClusterSpec
    from cluster.core.state import journal
    from cluster.providers._cloud.deletion import Entries
    from cluster.providers._cloud.options import CloudOptions
    from cluster.providers._cloud.tags import Selection, Tags
    from cluster.providers.gcp.api import Project

PLACE = "projects/"  # the prefix of a place: one call covers all zones of a project
LAYERS = ("cluster", "block", "sub-block", "physical host")  # from the top
NOTHING = (
    "Google names no physical hosts for these machines: it does so with --placement, and for some "
    "types, such as a3-highgpu-8g, a4 or h4d"
)
REFUSED_OPTIONS = {"idle": "no machine can delete itself there; limit their time: --ttl 2h"}


class GcpProvider(CloudProvider["Project", GcpOptions, GcpOffer], NeedsCredentials, OffersGpus):
    """Machines of Google Compute Engine, which cost money while they exist."""

    intent: ClassVar[type[Intent[Any]]] = Intent[GcpOffer]
    Options: ClassVar[type[CloudOptions]] = GcpOptions
    launch: ClassVar[type[GcpLaunch]] = GcpLaunch
    credentials: ClassVar[Credentials] = Credentials(
        files=("~/.config/gcloud/application_default_credentials.json",),
        variable="GOOGLE_APPLICATION_CREDENTIALS",
        command="gcloud auth application-default login",
    )
    gpu_advice: ClassVar[str] = "--accelerator t4:{gpus}"

    def __init__(self, regions: tuple[str, ...] = ()) -> None:
        super().__init__(regions)
        self.regions = tuple(region.removeprefix(PLACE) for region in self.regions)
        self._clients: dict[tuple[str, str], Project] = {}

    @classmethod
    def has_region(cls, text: str) -> bool:
        """Return whether a text names a project, such as `projects/mine`."""
        return text.startswith(PLACE)

    def is_set_up(self) -> bool:
        return api.is_set_up()

    def place_of(self, spec: ClusterSpec) -> str:
        if project := self.options_of(spec).project or api.default_project():
            return project
        raise SpecError(
            "No project of Google is chosen.",
            remedy="Use --option project=NAME, or: export GOOGLE_CLOUD_PROJECT=NAME",
        )

    def default_place(self) -> str:
        return api.default_project()

    def client(self, place: str, spec: ClusterSpec | None) -> Project:
        """Return the client of a project at an endpoint; there is one for each."""
        key = place, self.options_of(spec).endpoint if spec else ""
        if key not in self._clients:
            self._clients[key] = api.Project(*key)
        return self._clients[key]

    def plan(self, spec: ClusterSpec) -> Plan:
        refuse(spec, REFUSED_OPTIONS)
        if spec.groups and self.options_of(spec).flex_start:
            raise SpecError(
                "Machines of --option flex_start are of one group: others would wait for it.",
                remedy="Leave the option out, or the groups.",
            )
        requested_accelerators(spec, allow_retired=self.options_of(spec).allow_retired)
        return super().plan(spec)

    def plan_request(self, client: Project, spec: ClusterSpec) -> GcpOffer:
        return make_offer(client, spec, self.options_of(spec))

    def region_names(self, spec: ClusterSpec) -> list[str]:
        return [row.name for row in self.client(self.place_of(spec), spec).all("regions")]

    def offer_near(self, client: Project, offer: GcpOffer, peer: Machine) -> GcpOffer:
        site = Site(zone=peer.id.partition("/")[0])
        return msgspec.structs.replace(offer, sites=(site,))

    def abandon_intent(self, cluster: journal.Journal) -> None:
        """Delete the intent: Google knows its request ids, and would not run its calls again."""
        intent_file(cluster, self.name).unlink(missing_ok=True)

    def running(self, client: Project, selection: Selection) -> list[tuple[Tags, Instance]]:
        rows = sorted(
            client.all("instances", filter=filter_of(selection)), key=lambda row: row.name
        )
        pairs = ((parse_description(row.description), row) for row in rows)
        return [(tags, row) for tags, row in pairs if tags and is_of(selection, row.description)]

    def remote_cluster(
        self, client: Project, tags: Tags, machines: Sequence[Instance]
    ) -> RemoteCluster:
        return RemoteCluster(
            name=tags.name,
            region=f"{PLACE}{client.name}",
            host=tags.host,
            addresses=tuple(map(private, machines)),
            states=tuple(instance.status.lower() for instance in machines),
            since=min((_moment(row.creation_timestamp) for row in machines), default=0.0),
            expires=tags.expires,
            price=_price(client, machines[0]) if machines else None,
        )

    def translate_error(self, failure: Failure, remains: str) -> ClusterError:
        return to_cluster_error(failure, remains=remains)

    def find_ends(
        self, client: Project, selection: Selection, machines: tuple[Machine, ...]
    ) -> dict[str, EndedMachine]:
        """Return the machines that Google lists as ended, or does not know any more."""
        rows: tuple[Instance, ...] = client.all("instances", filter=filter_of(selection))
        states = {str(row.id): row.status for row in rows}
        ends = {}
        for machine in machines:
            zone, _, instance = machine.id.partition("/")
            target = id_of(machine)
            state = states.get(target) or _state(client, zone, instance, target)
            if state in (*ENDED, DELETED):
                ends[machine.name] = ended_machine(client, zone, instance, state, target=target)
        return ends

    def locate(
        self, client: Project, name: str, entries: Entries, ids: tuple[str, ...]
    ) -> ProviderTopology:
        """Read the cluster, block, sub-block and physical host of the machines.

        Source: cloud.google.com/compute/docs/instances/view-instance-topology
        """
        condition = filter_of(self.selection(client, name, entries))
        locations = {
            f"{zone}/{instance.name}": _location(instance.resource_status)
            for zone in dict.fromkeys(id_.partition("/")[0] for id_ in ids)
            for instance in client.all("instances", zone=zone, filter=condition)
        }
        layers = network_layers(LAYERS, [locations.get(id_, ()) for id_ in ids], machines=1)
        return ProviderTopology(layers=layers) if layers else ProviderTopology(reason=NOTHING)


def _state(client: Project, zone: str, name: str, target: str) -> str:
    """Return the state of a machine that no list had; another may have its name by now."""
    try:
        instance: Instance = client.call("instances", "get", zone=zone, instance=name)
    except Failure as failure:
        if failure.kind != "missing":
            raise
        return DELETED
    return instance.status if str(instance.id) == target else DELETED


def _location(status: ResourceStatus) -> tuple[str, ...]:
    """Return nodes above a machine, from the top; of `block/sub-block/host`, without the cluster.

    Older answers have only that text, in some with a slash before it.
    """
    topology = status.physical_host_topology
    nodes = (topology.cluster, topology.block, topology.subblock, topology.host)
    if any(nodes):
        return nodes
    parts = [part for part in status.physical_host.split("/") if part]
    return ("", *parts) if len(parts) == len(LAYERS) - 1 else ()


def _price(project: Project, instance: Instance) -> Price | None:
    zone, name = instance.zone.rpartition("/")[2], instance.machine_type.rpartition("/")[2]
    try:
        kind: MachineType = project.call("machine_types", "get", zone=zone, machine_type=name)
    except Failure:
        return None
    gpus = next(
        (
            (gpu.accelerator_type.rpartition("/")[2], gpu.accelerator_count)
            for gpu in instance.guest_accelerators
        ),
        None,
    )
    cards = [(gpu.guest_accelerator_type, gpu.guest_accelerator_count) for gpu in kind.accelerators]
    region = zone.rpartition("-")[0]
    spot = instance.scheduling.provisioning_model == "SPOT"
    return price(project, kind, region, cards[0] if cards else gpus, spot=spot)


def _moment(text: str) -> float:
    """Read an ISO 8601 time, in seconds since the epoch; 0 if the text is not one."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0
