"""Providers create and delete the machines of clusters: one file or folder for each.

A `Provider` plans, creates, finds and destroys. What only some can do is a class of its own here,
from which those derive, too: `class AwsProvider(Provider, Stops)`; callers ask by `isinstance`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar

from cluster.core import decoders
from cluster.core.errors import ProvisionError, SpecError
from cluster.core.model.hosts import Machine
from cluster.core.model.mounts import Mount, parse_mounts
from cluster.core.model.network.placement import ProviderTopology
from cluster.core.model.resources import Plan, RemoteCluster, Resource
from cluster.core.model.spec import ClusterSpec, Environment, EnvironmentOptions
from cluster.core.model.value import StateCallback, Value, ignore
from cluster.core.plugins import Plugin
from cluster.core.state.journal import Journal
from cluster.core.text.units import format_seconds


class NoOptions(Value, frozen=True, kw_only=True):
    """A provider without options of its own."""


class Credentials(Value, frozen=True, kw_only=True):
    """Where this machine keeps the credentials for a cloud."""

    files: tuple[str, ...]  # that may hold them; `~` is the home folder
    variable: str  # of the environment that may name them
    command: str  # that a user types to get some


READY_WITHIN = 60.0  # seconds after which hosts that need not boot must be reachable
ENDED = "ended"  # the state of a machine that does not exist any more
CLOUD_OPTIONS = {
    "image": "it creates no machines",
    "accelerator": "its machines keep the accelerators that they have",
    "spot": "it creates no machines",
    "max_cost": "its machines are free",
    "ttl": "its machines are free, and stay until they are taken down",
    "idle": "its machines stay until they are taken down",
}


def idle_lines(spec: ClusterSpec) -> list[str]:
    """Return the line of a plan that says when unused machines end."""
    if spec.idle is None:
        return []
    idle_time = f"{format_seconds(spec.idle)} without a job, an SSH session or an attached tmux"
    return [f"ends by itself after {idle_time} (--idle)"]


def refuse(spec: ClusterSpec, reasons: Mapping[str, str]) -> None:
    """Refuse a spec that sets a field without a meaning there (SpecError), by the reasons."""
    specs = (spec, *(part.spec for part in spec.parts))
    for field, reason in reasons.items():
        if any(getattr(item, field) for item in specs):
            flag = field.replace("_", "-")
            raise SpecError(
                f"--{flag} has no effect with the provider {spec.provider!r}: {reason}.",
                remedy=f"Leave --{flag} out, or choose another --provider.",
            )


def refuse_groups(spec: ClusterSpec, reason: str) -> None:
    """Refuse hosts of several types where all are of one (SpecError), by the reason."""
    if spec.groups:
        raise SpecError(
            f"{reason}, so it has no groups.",
            remedy="Leave --group out, or launch a cluster for each group.",
        )


class Provider(Plugin):
    """Creates machines, and deletes them again."""

    folder: ClassVar[str] = "cluster.providers"

    Options: ClassVar[type[Value]] = NoOptions
    """The provider's own options (`--option KEY=VALUE`), typed."""

    @abstractmethod
    def plan(self, spec: ClusterSpec) -> Plan:
        """Plan a launch, or refuse it, before anything is created.

        Args:
            spec: what the user asked for.

        Returns:
            What the launch would create.

        Raises:
            SpecError: this provider cannot do what the spec asks for.
        """

    @abstractmethod
    def create(
        self, spec: ClusterSpec, journal: Journal, on_state: StateCallback = ignore
    ) -> tuple[Machine, ...]:
        """Create the machines, all or none.

        Args:
            spec: what the user asked for, already planned.
            journal: of the cluster; each intent is written to it before its call.
            on_state: called with a machine's name and the state that it has reached, if creation
                takes time.

        Returns:
            The machines, in the order of the ranks.

        Raises:
            ProvisionError: they could not be created; nothing is left.
        """

    @abstractmethod
    def find(self, name: str) -> tuple[Resource, ...]:
        """Ask the provider which resources of a cluster exist: all that were created for it."""

    @abstractmethod
    def destroy(self, name: str) -> None:
        """Delete all resources of a cluster; it is no error if some or all are already gone.

        Raises:
            ProvisionError: something is left.
        """


class ExistingHosts(ABC):  # noqa: B024 - what derives from it says it all
    """The machines exist before and after: `down` ends and removes what is ours on them."""


class Simulates(ABC):  # noqa: B024
    """The hosts exist only in a model: they run no programs, and nothing is measured."""


class Resumes(ABC):  # noqa: B024
    """`create` continues an interrupted launch of the same spec."""


class NeedsCredentials(ABC):
    """Nothing can be asked without a login."""

    credentials: ClassVar[Credentials]
    """Where they are: `cluster doctor` looks there."""


class OffersGpus(ABC):
    """An option gives the machines GPUs."""

    gpu_advice: ClassVar[str]
    """The option, such as `--accelerator t4:{gpus}`."""


class CountsHosts(ABC):
    """The options say how many hosts there are."""

    @abstractmethod
    def default_hosts(self, options: dict[str, str]) -> int:
        """Return the number of hosts if the user gives none.

        Args:
            options: of the provider, checked.
        """


class Regional(ABC):  # noqa: B024
    """The resources are in several places: regions, projects, login hosts.

    Args:
        regions: where to look, besides the regions that the journals name.
    """

    def __init__(self, regions: tuple[str, ...] = ()) -> None:
        self.regions = tuple(region for region in regions if self.has_region(region))

    @classmethod
    def has_region(cls, _: str) -> bool:
        """Return whether a text has the form of the provider's regions, such as `us-east-1`."""
        return False

    def all_regions(self) -> tuple[str, ...]:
        """List all regions of the provider; empty if they cannot be listed."""
        return ()


class Searchable(ABC):
    """What was created is found without a journal, also from other machines."""

    def names(self) -> tuple[str, ...]:
        """List the clusters that still have resources, without more about them."""
        return ()

    def live(self) -> tuple[RemoteCluster, ...]:
        """List every cluster of this user that exists, also those launched from other machines."""
        return ()

    @abstractmethod
    def search_scope(self, name: str) -> str:
        """Describe what `find` looks for, and where, to explain what "0 left" covers.

        Returns:
            Such as `instances, volumes in us-east-1`; empty if there is nowhere to search.
        """

    def describe_search(self, name: str) -> str:
        """Describe what `find` has searched, where, as which user; empty if there was no place.

        Raises:
            ProvisionError: the provider does not say who asks.
        """
        return self.search_scope(name)

    def listing_delay(self) -> float:
        """Return the seconds after which the provider lists all that it has created."""
        return 0.0


class PreparesHosts(ABC):
    """Python, MPI and tmux are installed on the hosts; `Options` are `EnvironmentOptions`."""

    Options: ClassVar[type[Value]]

    def environment(self, spec: ClusterSpec) -> Environment | None:
        """Return the environment that the machines need.

        Args:
            spec: what the user asked for, already planned.

        Returns:
            The environment; none if the machines are ready as they are.

        Raises:
            SpecError: the options contradict each other.
        """
        options = decoders.convert(spec.options, self.Options, strict=False)
        if not isinstance(options, EnvironmentOptions):
            return None
        if options.image and options.python:
            raise SpecError(
                "The options image and python contradict each other.",
                means="In a container, the ranks see the packages of its own Python only.",
                remedy="Leave one out.",
            )
        return Environment(
            source=options.source, mpi=options.mpi, image=options.image, python=options.python
        )


class MountsFiles(ABC):  # noqa: B024
    """The hosts mount the shared file systems that the option `mount` names."""

    def mounts(self, spec: ClusterSpec) -> tuple[Mount, ...]:
        """Return the shared file systems that every host mounts: the option `mount` (SpecError)."""
        return parse_mounts(spec.options.get("mount", ""), spec.provider)


class HasConsoles(ABC):
    """What a machine prints while it boots can be read."""

    @abstractmethod
    def console(self, machine: Machine) -> str:
        """Read the console of a machine that does not answer; empty if there is none."""


class Boots(HasConsoles):
    """New machines boot first."""

    transient_states: ClassVar[frozenset[str]] = frozenset()
    """Errors that pass by themselves on new machines, but are final on others: `authentication`,
    where SSH answers before the machine knows who may log in."""

    rotates_host_keys: ClassVar[bool] = False
    """Whether others may have read the machines' first host keys, so that they are replaced."""

    def console(self, machine: Machine) -> str:
        return ""

    @abstractmethod
    def reachable_within(self, spec: ClusterSpec) -> float:
        """Return the seconds after its creation within which each machine must be reachable."""


class Revocable(ABC):
    """Machines may end although nobody took them down here."""

    @abstractmethod
    def revocation_reason(
        self, spec: ClusterSpec, machines: tuple[Machine, ...]
    ) -> ProvisionError | None:
        """Return why the provider took machines back.

        Returns:
            `Capacity` if `create` may find others elsewhere; none while they are ours, or where it
            cannot be known.
        """

    @abstractmethod
    def describe_unreachable(self, spec: ClusterSpec, machines: tuple[Machine, ...]) -> str:
        """Say what the provider knows of machines that do not answer; empty if nothing."""


class RevokedAtOnce(Revocable):
    """All machines are reclaimed at once, so that it is asked during a job, too."""


class ReportsStates(ABC):
    """The provider says in which state each machine is."""

    @abstractmethod
    def states(self, name: str, machines: tuple[Machine, ...]) -> tuple[str, ...]:
        """Ask for the state of each machine of a cluster: `ENDED` if it does not exist any more.

        Raises:
            ProvisionError: the provider does not say.
        """


class KnowsTopology(ABC):
    """The provider says which hosts share a switch."""

    @abstractmethod
    def topology(self, spec: ClusterSpec, machines: tuple[Machine, ...]) -> ProviderTopology:
        """Return the layers of the network in which hosts are together, or why none are known.

        Raises:
            ProvisionError: the provider was asked, and refused.
        """


class SharesHosts(ABC):
    """Two clusters can be on the same machines, to compare options of the provider."""

    @abstractmethod
    def sharing_options(self, spec: ClusterSpec) -> dict[str, str]:
        """Return the options of a cluster on the machines of one that exists."""


class Stops(ABC):
    """Machines can be switched off and on."""

    @abstractmethod
    def stop(self, name: str, machines: tuple[Machine, ...]) -> None:
        """Switch machines off."""

    @abstractmethod
    def start(
        self, name: str, machines: tuple[Machine, ...], on_state: StateCallback = ignore
    ) -> tuple[Machine, ...]:
        """Switch machines on again, and return them as they are now: addresses may change."""


class Replaces(ABC):
    """Single hosts can be replaced: `add` new machines, then `delete_except` those to keep."""

    @abstractmethod
    def add(
        self,
        spec: ClusterSpec,
        peer: Machine,
        places: tuple[int, ...],
        journal: Journal,
        on_state: StateCallback = ignore,
    ) -> tuple[Machine, ...]:
        """Create more machines for a cluster, like those that it has, all in one call.

        If it fails, new machines may exist: `delete_except` deletes them.

        Args:
            spec: of the cluster.
            peer: one of its machines; the new ones are as near to it as the others are.
            places: the numbers of the hosts that the new machines are to be, from 0.
            journal: of the cluster; each intent is written to it before its call.
            on_state: called with a machine's name and the state that it has reached.

        Returns:
            The new machines, in the order of the places.

        Raises:
            ProvisionError: they could not be created.
        """

    def list_except(self, name: str, keep: tuple[Machine, ...]) -> tuple[Resource, ...]:
        """List the machines that were created for a cluster, except those to keep."""
        return ()

    @abstractmethod
    def delete_except(self, name: str, keep: tuple[Machine, ...]) -> None:
        """Delete all machines of a cluster except those to keep, and wait until they are gone.

        Raises:
            ProvisionError: some are left.
        """


class HintsReplacement(ABC):
    """Hosts cannot be replaced, but the provider knows what to type to go on without some."""

    @abstractmethod
    def replacement_hint(self, spec: ClusterSpec, bad: tuple[Machine, ...]) -> str:
        """Return a command, or a sentence with one, to go on without bad hosts."""


class DoctorCheck(Value, frozen=True, kw_only=True):
    """One thing that `cluster doctor` looked for."""

    what: str  # was looked for
    ok: bool  # it is there, or only some commands need it
    found: str  # a version, a path, or that it is missing
    remedy: str = ""  # the command that installs it, if it is missing
    needed_for: str = ""  # the commands that need it; empty if all do
    missing: bool = False  # it is not there


def optional_check(subject: str, value: str | None, needed_for: str, remedy: str) -> DoctorCheck:
    """Check what only some commands need: it is there if something was found."""
    return DoctorCheck(
        what=subject,
        ok=True,
        found=value or "not found",
        remedy="" if value else remedy,
        needed_for=needed_for,
        missing=not value,
    )


class Examines(ABC):
    """`cluster doctor --provider NAME` looks at what a launch needs, and changes nothing."""

    @abstractmethod
    def examine(self, options: Mapping[str, str]) -> Iterator[DoctorCheck]:
        """Yield what was looked for (ClusterError: the rest cannot be seen)."""


class Cordons(ABC):
    """New work can be kept off the nodes of bad hosts, also that of others."""

    @abstractmethod
    def cordon(
        self, machines: tuple[Machine, ...], run: str, reason: str, share: float
    ) -> tuple[str, ...]:
        """Cordon the nodes of machines with a mark, the id of a run; return the names of all.

        Args:
            share: of all nodes that may have a mark, at most.

        Raises:
            SpecError: it would be more; none was cordoned.
            ClusterError: it is not allowed, or failed.
        """

    @abstractmethod
    def uncordon(self, machines: tuple[Machine, ...], run: str) -> tuple[str, ...]:
        """Undo what has the mark of a run, and nothing else; return the names of the nodes."""


def in_regions(kind: type[Provider], regions: tuple[str, ...]) -> Provider:
    """Create a provider that also looks in some regions, if it has any."""
    return kind(regions) if issubclass(kind, Regional) else kind()


def scope_of(provider: Provider, name: str) -> str:
    """Return what a provider looks for, and where; empty if everything is on this machine."""
    return provider.search_scope(name) if isinstance(provider, Searchable) else ""


def gpu_advice(kind: type[Provider]) -> str:
    """Return the option that gives a provider's machines GPUs; empty if there is none."""
    return kind.gpu_advice if issubclass(kind, OffersGpus) else ""


def mounts_of(provider: Provider, spec: ClusterSpec) -> tuple[Mount, ...]:
    """Return the shared file systems that every host mounts (SpecError: it cannot)."""
    return provider.mounts(spec) if isinstance(provider, MountsFiles) else ()


def seconds_to_answer(provider: Provider, spec: ClusterSpec) -> float:
    """Return the seconds after their creation within which machines must be reachable."""
    return provider.reachable_within(spec) if isinstance(provider, Boots) else READY_WITHIN
