"""Amazon's answers, as far as cluster reads them; other fields are ignored."""

from __future__ import annotations

from datetime import datetime

import msgspec

from cluster.core.decoders import prepare, structs


class AwsResponse(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """A part of an answer; field names are Amazon's, in snake case."""


class Tag(AwsResponse, frozen=True, kw_only=True):
    """A tag."""

    key: str
    value: str


class TaggedResource(AwsResponse, frozen=True, kw_only=True):
    """A resource with tags."""

    raw_tags: tuple[Tag, ...] = msgspec.field(name="Tags", default=())

    @property
    def tags(self) -> dict[str, str]:
        """The tags, by key."""
        return {tag.key: tag.value for tag in self.raw_tags}

    @property
    def own_id(self) -> str:
        """The id by which it is found and deleted."""
        raise NotImplementedError


class InstanceState(AwsResponse, frozen=True, kw_only=True):
    """The state of an instance, such as `running`."""

    name: str


class StateReason(AwsResponse, frozen=True, kw_only=True):
    """Why an instance is in its state."""

    code: str = ""
    message: str = ""


class InstancePlacement(AwsResponse, frozen=True, kw_only=True):
    """The zone and the placement group of an instance."""

    availability_zone: str = ""
    group_name: str = ""


class CpuOptions(AwsResponse, frozen=True, kw_only=True):
    """The processors of an instance."""

    core_count: int = 0
    threads_per_core: int = 0


class InterfaceAttachment(AwsResponse, frozen=True, kw_only=True):
    """The card and the device index of a network interface in its machine."""

    device_index: int = 0
    network_card_index: int = 0


class InstanceInterface(AwsResponse, frozen=True, kw_only=True):
    """A network interface of an instance."""

    network_interface_id: str = ""
    subnet_id: str = ""
    vpc_id: str = ""
    attachment: InterfaceAttachment = InterfaceAttachment()


class ElasticIp(AwsResponse, frozen=True, kw_only=True):
    """An Elastic IP, and the interface that it is associated with, if any."""

    allocation_id: str
    network_interface_id: str = ""


class AttachedVolume(AwsResponse, frozen=True, kw_only=True):
    """A volume that is attached to a machine."""

    volume_id: str = ""


class AttachedDisk(AwsResponse, frozen=True, kw_only=True):
    """A disk of a machine."""

    ebs: AttachedVolume = AttachedVolume()


class AwsInstance(TaggedResource, frozen=True, kw_only=True):
    """An instance; right after its creation, most of it may be missing."""

    instance_id: str
    instance_type: str = ""
    state: InstanceState = InstanceState(name="pending")
    state_reason: StateReason = StateReason()
    private_ip_address: str = ""
    public_ip_address: str = ""
    ami_launch_index: int = 0
    launch_time: datetime | None = None
    placement: InstancePlacement = InstancePlacement()
    cpu_options: CpuOptions = CpuOptions()
    instance_lifecycle: str = ""
    network_interfaces: tuple[InstanceInterface, ...] = ()
    block_device_mappings: tuple[AttachedDisk, ...] = ()

    @property
    def volumes(self) -> tuple[str, ...]:
        """The ids of its volumes."""
        return tuple(one.ebs.volume_id for one in self.block_device_mappings if one.ebs.volume_id)

    @property
    def interfaces(self) -> tuple[str, ...]:
        """The ids of its network interfaces."""
        ids = (one.network_interface_id for one in self.network_interfaces)
        return tuple(id_ for id_ in ids if id_)

    @property
    def primary(self) -> InstanceInterface:
        """Its first network interface; without an id if it is not listed yet."""
        first = InterfaceAttachment()
        found = (one for one in self.network_interfaces if one.attachment == first)
        return next(found, InstanceInterface())


class InstanceTopology(AwsResponse, frozen=True, kw_only=True):
    """The network nodes above an instance, from the top; none if its type is not supported."""

    instance_id: str
    instance_type: str = ""
    network_nodes: tuple[str, ...] | None = None


class Reservation(AwsResponse, frozen=True, kw_only=True):
    """The instances that one call created."""

    instances: tuple[AwsInstance, ...] = ()


class NetworkCard(AwsResponse, frozen=True, kw_only=True):
    """A network card; rates are in Gbit/s."""

    network_card_index: int = 0
    baseline_bandwidth_in_gbps: float | None = None
    peak_bandwidth_in_gbps: float | None = None


class EfaInfo(AwsResponse, frozen=True, kw_only=True):
    """The Elastic Fabric Adapters of a type."""

    maximum_efa_interfaces: int = 1


class NetworkInfo(AwsResponse, frozen=True, kw_only=True):
    """The network of a type."""

    network_performance: str = ""
    network_cards: tuple[NetworkCard, ...] = ()
    efa_supported: bool = False
    efa_info: EfaInfo = EfaInfo()


class VCpuInfo(AwsResponse, frozen=True, kw_only=True):
    """The processors of a type."""

    default_v_cpus: int
    default_cores: int = 0
    valid_threads_per_core: tuple[int, ...] = ()


class PlacementInfo(AwsResponse, frozen=True, kw_only=True):
    """The strategies of placement groups that a type supports."""

    supported_strategies: tuple[str, ...] = ()


class ProcessorInfo(AwsResponse, frozen=True, kw_only=True):
    """The architectures of a type."""

    supported_architectures: tuple[str, ...] = ()


class GpuCount(AwsResponse, frozen=True, kw_only=True):
    """The GPUs of one model: how many, and the manufacturer, such as `NVIDIA` or `AMD`."""

    count: int = 0
    manufacturer: str = "NVIDIA"


class GpuInfo(AwsResponse, frozen=True, kw_only=True):
    """The GPUs of a type."""

    gpus: tuple[GpuCount, ...] = ()


class InstanceType(AwsResponse, frozen=True, kw_only=True):
    """An instance type."""

    instance_type: str
    v_cpu_info: VCpuInfo
    network_info: NetworkInfo = NetworkInfo()
    placement_group_info: PlacementInfo = PlacementInfo()
    processor_info: ProcessorInfo = ProcessorInfo()
    gpu_info: GpuInfo | None = None
    supported_usage_classes: tuple[str, ...] = ()


class Offering(AwsResponse, frozen=True, kw_only=True):
    """A type that a zone offers."""

    instance_type: str
    location: str


class ImageDisk(AwsResponse, frozen=True, kw_only=True):
    """The size of a disk of an image, in GiB."""

    volume_size: int = 0


class DiskMapping(AwsResponse, frozen=True, kw_only=True):
    """A disk of an image."""

    device_name: str = ""
    ebs: ImageDisk = ImageDisk()


class AwsImage(AwsResponse, frozen=True, kw_only=True):
    """A machine image."""

    image_id: str
    name: str = ""
    architecture: str = ""
    state: str = "available"
    root_device_name: str = "/dev/sda1"
    block_device_mappings: tuple[DiskMapping, ...] = ()

    @property
    def size(self) -> int:
        """The size of its root disk, in GiB."""
        sizes = {one.device_name: one.ebs.volume_size for one in self.block_device_mappings}
        return sizes.get(self.root_device_name, 0)


class Vpc(TaggedResource, frozen=True, kw_only=True):
    """A virtual network (VPC)."""

    vpc_id: str
    is_default: bool = False

    @property
    def own_id(self) -> str:
        """Its id."""
        return self.vpc_id


class Subnet(TaggedResource, frozen=True, kw_only=True):
    """A subnet of a VPC, in one zone."""

    subnet_id: str
    vpc_id: str
    availability_zone: str
    available_ip_address_count: int = 0
    cidr_block: str = ""
    ipv6_native: bool = False

    @property
    def own_id(self) -> str:
        """Its id."""
        return self.subnet_id


class SecurityGroup(TaggedResource, frozen=True, kw_only=True):
    """A security group: a firewall around machines."""

    group_id: str
    group_name: str
    vpc_id: str = ""

    @property
    def own_id(self) -> str:
        """Its id."""
        return self.group_id


class PlacementGroup(TaggedResource, frozen=True, kw_only=True):
    """A placement group."""

    group_name: str
    group_id: str = ""
    state: str = ""

    @property
    def own_id(self) -> str:
        """Its name."""
        return self.group_name


class KeyPair(TaggedResource, frozen=True, kw_only=True):
    """The public key of a key pair for logins."""

    key_name: str

    @property
    def own_id(self) -> str:
        """Its name."""
        return self.key_name


class SpotPrice(AwsResponse, frozen=True, kw_only=True):
    """The price of a spot instance from a time on."""

    availability_zone: str
    spot_price: str
    timestamp: datetime


class ServiceQuota(AwsResponse, frozen=True, kw_only=True):
    """A limit of the account."""

    quota_code: str
    quota_name: str = ""
    value: float


class InternetGateway(TaggedResource, frozen=True, kw_only=True):
    """The gateway of a VPC to the internet."""

    internet_gateway_id: str

    @property
    def own_id(self) -> str:
        """Its id."""
        return self.internet_gateway_id


class RouteTable(TaggedResource, frozen=True, kw_only=True):
    """A route table of a VPC."""

    route_table_id: str


prepare(*structs(globals().values()))
