"""The options of the provider `gcp`, and the offer of a launch."""

from cluster.providers._cloud.launch import CloudOffer
from cluster.providers._cloud.options import CloudOptions
from cluster.providers.gcp.fabrics import GcpFabric, Nic

DEFAULT = "default"  # the network that a new project has


class GcpOptions(CloudOptions, frozen=True, kw_only=True):
    """The options of the provider `gcp`.

    Args:
        project: that is billed; the environment's or the credentials', if empty.
        endpoint: address of another cloud with the same interface; it asks for no credentials.
        network: of the machines; without a default one, one is created and removed again.
        fabric: the networks between GPUs, where the type has them: made with the launch (1), or the
            names of some that exist, which stay; 0: one interface, for TCP.
        reservation: name of a reservation of the project that the machines use.
        flex_start: how long the launch may wait in Google's queue, such as `2h`: such machines come
            all at once, cost less, and end after 7 days at most.
        tier1: Tier_1 networking where the type has it; its extra price is not in the plan's.
        allow_retired: also request accelerators that Google has retired.
    """

    project: str = ""
    endpoint: str = ""
    network: str = DEFAULT
    fabric: str = "1"
    reservation: str = ""
    flex_start: str = ""
    tier1: bool = False
    allow_retired: bool = False
    user: str = "cluster"


class GcpOffer(CloudOffer, frozen=True, kw_only=True):
    """What a launch would create, in every detail."""

    project: str  # that is billed
    instance: str  # the machine type
    network: str  # name of the network; the launch creates one, if empty
    subnet: str = ""  # name of the subnet; if empty, the network has one in every region
    image: str  # path of the machine image
    disk: int  # size of the root disk, in GiB
    accelerator: str = ""  # Google's name of the accelerators to attach; empty if there are none
    accelerators: int = 0  # number of accelerators of each machine, attached or included
    is_bound: bool = False  # whether they end with it
    fabric: GcpFabric | None = None  # beside the network
    nics: tuple[Nic, ...] = ()  # to its networks, if they exist
    tier1: bool = False  # whether the machines use Tier_1 networking
