"""What Google answers, as far as we look at it."""

from __future__ import annotations

import msgspec

from cluster.providers._cloud.answers import prepare


class GcpResponse(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of every answer: what we do not look at is passed over."""


class RefusalError(GcpResponse, frozen=True, kw_only=True):
    """Why a service refused."""

    message: str = ""


class Refusal(GcpResponse, frozen=True, kw_only=True):
    """A refusal by a service beside Compute Engine."""

    error: RefusalError


class SkuPage(GcpResponse, frozen=True, kw_only=True):
    """A page of the price list."""

    skus: tuple[msgspec.Raw, ...] = ()
    next_page_token: str = ""


class OperationError(GcpResponse, frozen=True, kw_only=True):
    """An error of an operation."""

    code: str = ""
    message: str = ""


class OperationErrors(GcpResponse, frozen=True, kw_only=True):
    """All errors of an operation."""

    errors: tuple[OperationError, ...] = ()


class LocationStatus(GcpResponse, frozen=True, kw_only=True):
    """How many machines a zone gave."""

    target_vm_count: int = 0
    created_vm_count: int = 0


class BulkStatus(GcpResponse, frozen=True, kw_only=True):
    """How many machines each zone gave."""

    per_location_status: dict[str, LocationStatus] = {}


class GcpOperation(GcpResponse, frozen=True, kw_only=True):
    """What a call began."""

    name: str
    status: str = ""
    zone: str = ""
    region: str = ""
    operation_type: str = ""
    operation_group_id: str = ""
    error: OperationErrors = OperationErrors()
    instances_bulk_insert_operation_metadata: BulkStatus = BulkStatus()

    @property
    def done(self) -> bool:
        """Whether it is over, well or not."""
        return self.status == "DONE"

    @property
    def asked(self) -> int:
        """How many machines it was to make."""
        zones = self.instances_bulk_insert_operation_metadata.per_location_status
        return sum(status.target_vm_count for status in zones.values())

    @property
    def created(self) -> int:
        """How many machines it made."""
        zones = self.instances_bulk_insert_operation_metadata.per_location_status
        return sum(status.created_vm_count for status in zones.values())


class NamedResource(GcpResponse, frozen=True, kw_only=True):
    """Anything with a name; who made it is in its description."""

    name: str
    description: str = ""
    zone: str = ""
    region: str = ""


class AccessConfig(GcpResponse, frozen=True, kw_only=True):
    """The way from outside to a network interface."""

    nat_ip: str = msgspec.field(name="natIP", default="")


class NetworkInterface(GcpResponse, frozen=True, kw_only=True):
    """A network interface."""

    network_ip: str = msgspec.field(name="networkIP", default="")
    access_configs: tuple[AccessConfig, ...] = ()


class AttachedAccelerator(GcpResponse, frozen=True, kw_only=True):
    """Accelerators that a machine has beside those of its type."""

    accelerator_type: str
    accelerator_count: int


class Scheduling(GcpResponse, frozen=True, kw_only=True):
    """How a machine was asked for."""

    provisioning_model: str = ""


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

    @property
    def private(self) -> str:
        """Its own address."""
        return self.network_interfaces[0].network_ip if self.network_interfaces else ""

    @property
    def public(self) -> str:
        """Its address for others; empty if it has none."""
        nics = self.network_interfaces[:1]
        return next((one.nat_ip for nic in nics for one in nic.access_configs), "")


class IncludedAccelerator(GcpResponse, frozen=True, kw_only=True):
    """Accelerators that come with a machine type."""

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
    """What a machine starts from; sizes are GiB.

    Whose it is, an answer tells only within a URL; whoever asked fills it in.
    """

    project: str = ""
    family: str = ""
    architecture: str = "X86_64"
    disk_size_gb: int = 0
    creation_timestamp: str = ""
    deprecated: dict[str, object] = {}


class VpcNetwork(NamedResource, frozen=True, kw_only=True):
    """A virtual network."""

    mtu: int = 1460
    auto_create_subnetworks: bool = True


class Subnetwork(NamedResource, frozen=True, kw_only=True):
    """A part of a virtual network, in one region."""

    network: str


class Firewall(NamedResource, frozen=True, kw_only=True):
    """A firewall rule."""


class QuotaMetric(GcpResponse, frozen=True, kw_only=True):
    """A limit of the project."""

    metric: str
    limit: float
    usage: float = 0.0


class QuotaMetrics(GcpResponse, frozen=True, kw_only=True):
    """A region, or the project: what has limits."""

    quotas: tuple[QuotaMetric, ...] = ()


class GuestAttribute(GcpResponse, frozen=True, kw_only=True):
    """What the guest agent wrote."""

    key: str
    value: str


class GuestAttributeItems(GcpResponse, frozen=True, kw_only=True):
    """All of it."""

    items: tuple[GuestAttribute, ...] = ()


class GuestAttributes(GcpResponse, frozen=True, kw_only=True):
    """An answer about what the guest agent wrote."""

    query_value: GuestAttributeItems = GuestAttributeItems()


class PolicyValues(GcpResponse, frozen=True, kw_only=True):
    """What a rule of a list names."""

    allowed_values: tuple[str, ...] = ()
    denied_values: tuple[str, ...] = ()


class PolicyRule(GcpResponse, frozen=True, kw_only=True):
    """A rule of an organisation policy; one of these is given."""

    enforce: bool = False
    deny_all: bool = False
    values: PolicyValues = PolicyValues()


class PolicySpec(GcpResponse, frozen=True, kw_only=True):
    """The rules of an organisation policy."""

    rules: tuple[PolicyRule, ...] = ()


class EffectivePolicy(GcpResponse, frozen=True, kw_only=True):
    """What an organisation policy says for a project, with its conditions evaluated."""

    spec: PolicySpec = PolicySpec()

    @property
    def restricts(self) -> bool:
        """Whether it forbids what new machines would have; a list may except only old ones."""
        return any(
            rule.enforce or rule.deny_all or rule.values.allowed_values for rule in self.spec.rules
        )


prepare(tuple(globals().values()))
