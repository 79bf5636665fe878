"""Google's answers, as far as cluster reads them."""

from __future__ import annotations

from datetime import datetime

import msgspec

from cluster.core.decoders import prepare, structs


class GcpResponse(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of every answer; fields that are not listed are ignored."""


class AnyAnswer(GcpResponse, frozen=True, kw_only=True):
    """What all answers of Compute Engine have in common.

    Args:
        kind: such as `compute#instanceList`; only a refusal has none.
        error: of a refusal, or of an operation.
        unreachables: regions or zones that a list lacks.

    """

    kind: str = ""
    error: dict[str, msgspec.Raw] = {}
    unreachables: tuple[str, ...] = ()


class RefusalError(GcpResponse, frozen=True, kw_only=True):
    """The error in a refusal."""

    message: str = ""


class Refusal(GcpResponse, frozen=True, kw_only=True):
    """A refusal by a service other than Compute Engine."""

    error: RefusalError


class SkuPage(GcpResponse, frozen=True, kw_only=True):
    """A page of the price list."""

    skus: tuple[msgspec.Raw, ...]
    next_page_token: str = ""


class OperationError(GcpResponse, frozen=True, kw_only=True):
    """An error of an operation."""

    code: str = ""
    message: str = ""


class OperationErrors(GcpResponse, frozen=True, kw_only=True):
    """All errors of an operation."""

    errors: tuple[OperationError, ...] = ()


class LocationStatus(GcpResponse, frozen=True, kw_only=True):
    """How many machines were requested of a zone, and how many it created."""

    target_vm_count: int = 0
    created_vm_count: int = 0


class BulkStatus(GcpResponse, frozen=True, kw_only=True):
    """The status of a bulkInsert, by zone."""

    per_location_status: dict[str, LocationStatus] = {}


class GcpOperation(GcpResponse, frozen=True, kw_only=True):
    """An operation that a call started; it continues after the call returns."""

    name: str
    status: str = ""
    zone: str = ""
    region: str = ""
    operation_type: str = ""
    operation_group_id: str = ""
    target_id: str = ""
    user: str = ""
    status_message: str = ""
    insert_time: datetime | None = None
    error: OperationErrors = OperationErrors()
    instances_bulk_insert_operation_metadata: BulkStatus = BulkStatus()

    @property
    def done(self) -> bool:
        """Whether it is over, successfully or not."""
        return self.status == "DONE"

    @property
    def asked(self) -> int:
        """How many machines were requested."""
        zones = self.instances_bulk_insert_operation_metadata.per_location_status
        return sum(status.target_vm_count for status in zones.values())

    @property
    def created(self) -> int:
        """How many machines it created."""
        zones = self.instances_bulk_insert_operation_metadata.per_location_status
        return sum(status.created_vm_count for status in zones.values())


class NamedResource(GcpResponse, frozen=True, kw_only=True):
    """A resource with a name; its description has the tags of its launch."""

    name: str
    description: str = ""
    zone: str = ""
    region: str = ""


class AccessConfig(GcpResponse, frozen=True, kw_only=True):
    """The external access of a network interface."""

    nat_ip: str = msgspec.field(name="natIP", default="")


class NetworkInterface(GcpResponse, frozen=True, kw_only=True):
    """A network interface."""

    network_ip: str = msgspec.field(name="networkIP", default="")
    access_configs: tuple[AccessConfig, ...] = ()


class AttachedAccelerator(GcpResponse, frozen=True, kw_only=True):
    """Accelerators that are attached to a machine, beside those of its type."""

    accelerator_type: str
    accelerator_count: int


class Scheduling(GcpResponse, frozen=True, kw_only=True):
    """How a machine is provisioned: `STANDARD` or `SPOT`."""

    provisioning_model: str = ""


class PhysicalHostTopology(GcpResponse, frozen=True, kw_only=True):
    """Where a machine is: in a sub-block of a block of a cluster of hosts."""

    cluster: str = ""
    block: str = ""
    subblock: str = ""
    host: str = ""


class ResourceStatus(GcpResponse, frozen=True, kw_only=True):
    """What Google knows of a running machine; `physical_host` is `block/sub-block/host`."""

    physical_host: str = ""
    physical_host_topology: PhysicalHostTopology = PhysicalHostTopology()


class GcpInstance(NamedResource, frozen=True, kw_only=True):
    """A machine."""

    id: str = ""
    status: str = ""
    status_message: str = ""
    creation_timestamp: str = ""
    machine_type: str = ""
    network_interfaces: tuple[NetworkInterface, ...] = ()
    guest_accelerators: tuple[AttachedAccelerator, ...] = ()
    scheduling: Scheduling = Scheduling()
    resource_status: ResourceStatus = ResourceStatus()

    @property
    def private(self) -> str:
        """Its private address; empty if it has none yet."""
        return self.network_interfaces[0].network_ip if self.network_interfaces else ""

    @property
    def public(self) -> str:
        """Its public address; empty if it has none."""
        nics = self.network_interfaces[:1]
        return next((one.nat_ip for nic in nics for one in nic.access_configs), "")


class IncludedAccelerator(GcpResponse, frozen=True, kw_only=True):
    """Accelerators that a machine type includes."""

    guest_accelerator_type: str
    guest_accelerator_count: int


class MachineType(NamedResource, frozen=True, kw_only=True):
    """A machine type, in one zone."""

    guest_cpus: int
    memory_mb: int = 0
    architecture: str = "X86_64"
    is_shared_cpu: bool = False
    accelerators: tuple[IncludedAccelerator, ...] = ()


class GcpImage(NamedResource, frozen=True, kw_only=True):
    """A machine image; sizes are in GiB.

    Answers have its project only within a URL, so the caller fills in `project`.
    """

    project: str = ""
    family: str = ""
    architecture: str = "X86_64"
    disk_size_gb: int = 0
    creation_timestamp: str = ""
    deprecated: dict[str, object] = {}


class VpcNetwork(NamedResource, frozen=True, kw_only=True):
    """A virtual network (VPC)."""

    mtu: int = 1460
    auto_create_subnetworks: bool = True


class Subnetwork(NamedResource, frozen=True, kw_only=True):
    """A subnet of a VPC, in one region."""

    network: str
    stack_type: str = ""


class Firewall(NamedResource, frozen=True, kw_only=True):
    """A firewall rule."""


class QuotaMetric(GcpResponse, frozen=True, kw_only=True):
    """A quota: its limit, and how much of it is in use."""

    metric: str
    limit: float
    usage: float = 0.0


class QuotaMetrics(GcpResponse, frozen=True, kw_only=True):
    """The quotas of a region, or of the project."""

    quotas: tuple[QuotaMetric, ...] = ()


class GuestAttribute(GcpResponse, frozen=True, kw_only=True):
    """An attribute that the guest agent wrote."""

    key: str
    value: str


class GuestAttributeItems(GcpResponse, frozen=True, kw_only=True):
    """All attributes that were queried."""

    items: tuple[GuestAttribute, ...] = ()


class GuestAttributes(GcpResponse, frozen=True, kw_only=True):
    """The answer to a query of guest attributes."""

    query_value: GuestAttributeItems = GuestAttributeItems()


class PolicyValues(GcpResponse, frozen=True, kw_only=True):
    """The values that a rule of a list constraint allows or denies."""

    allowed_values: tuple[str, ...] = ()
    denied_values: tuple[str, ...] = ()


class PolicyRule(GcpResponse, frozen=True, kw_only=True):
    """A rule of an organisation policy; one of its fields is set."""

    enforce: bool = False
    deny_all: bool = False
    values: PolicyValues = PolicyValues()


class PolicySpec(GcpResponse, frozen=True, kw_only=True):
    """The rules of an organisation policy."""

    rules: tuple[PolicyRule, ...] = ()


class EffectivePolicy(GcpResponse, frozen=True, kw_only=True):
    """The organisation policy in effect for a project, with its conditions evaluated."""

    name: str
    spec: PolicySpec = PolicySpec()

    @property
    def restricts(self) -> bool:
        """Whether it restricts new machines; an allow list counts, as it can name only old ones."""
        return any(
            rule.enforce or rule.deny_all or rule.values.allowed_values for rule in self.spec.rules
        )


prepare(*structs(globals().values()))
