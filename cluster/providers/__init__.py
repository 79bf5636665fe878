"""Providers create and delete the machines of clusters: one file or folder for each."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

import msgspec

from cluster.core.errors import ProvisionError, SpecError
from cluster.core.model.placement import ProviderTopology
from cluster.core.model.spec import Environment, EnvironmentOptions
from cluster.core.model.value import Value, ignore
from cluster.core.plugins import Plugin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster.core.journal import Journal
    from cluster.core.model.hosts import Machine
    from cluster.core.model.resources import Plan, RemoteCluster, Resource
    from cluster.core.model.spec import ClusterSpec
    from cluster.core.model.value import StateCallback


class NoOptions(Value, frozen=True, kw_only=True):
    """A provider without options of its own."""


class Credentials(Value, frozen=True, kw_only=True):
    """Where this machine keeps the credentials for a cloud.

    Args:
        files: that may hold them; `~` is the home folder.
        variable: of the environment that may name them.
        command: that a user types to get some.

    """

    files: tuple[str, ...]
    variable: str
    command: str


ENDED = "ended"  # the state of a machine that does not exist any more
CLOUD_OPTIONS = {
    "image": "it creates no machines",
    "accelerator": "its machines keep the accelerators that they have",
    "spot": "it creates no machines",
    "ttl": "its machines are free, and stay until they are taken down",
}


def refuse(spec: ClusterSpec, reasons: Mapping[str, str]) -> None:
    """Refuse the fields of a spec that have no meaning for a provider.

    Args:
        spec: what the user asked for.
        reasons: why each field has no meaning there, by its name.

    Raises:
        SpecError: the spec sets one of these fields.

    """
    for field, reason in reasons.items():
        if getattr(spec, field):
            raise SpecError(
                f"--{field} has no effect with the provider {spec.provider!r}: {reason}.",
                remedy=f"Leave --{field} out, or choose another --provider.",
            )


class Provider(Plugin):
    """Creates machines, and deletes them again.

    Args:
        regions: where to look for resources, besides the regions that the journals name.

    """

    folder: ClassVar[str] = "cluster.providers"

    Options: ClassVar[type[Value]] = NoOptions
    """The provider's own options (`--option KEY=VALUE`), typed."""

    makes_machines: ClassVar[bool] = True
    """Whether `destroy` deletes the machines, with everything that is stored on them."""

    resumes: ClassVar[bool] = False
    """Whether `create` continues an interrupted launch of the same spec."""

    credentials: ClassVar[Credentials | None] = None
    """Where its credentials are; none if it needs none. `cluster doctor` looks there."""

    rotates_host_keys: ClassVar[bool] = False
    """Whether others may have read the machines' first host keys, so that they are replaced."""

    replaces: ClassVar[bool] = False
    """Whether single hosts can be replaced: `add` new machines, then `end_besides` the others."""

    revocable: ClassVar[bool] = False
    """Whether all its machines are taken away at once, so that `gone` is asked during a job."""

    simulates: ClassVar[bool] = False
    """Whether its hosts exist only in a model: they run no programs, and nothing is measured."""

    gpu_advice: ClassVar[str] = ""
    """The option that gives its machines GPUs, such as `--accelerator t4:{gpus}`."""

    ready_within: ClassVar[float] = 60.0
    """Seconds after their creation within which all machines must be reachable."""

    transient_states: ClassVar[frozenset[str]] = frozenset()
    """Errors that pass by themselves on new machines, but are final on others: `authentication`,
    where SSH answers before the machine knows who may log in."""

    def __init__(self, regions: tuple[str, ...] = ()) -> None:
        """Store those of the regions that are the provider's own."""
        self.regions = tuple(one for one in regions if self.has_region(one))

    @classmethod
    def has_region(cls, text: str) -> bool:
        """Return whether a text has the form of the provider's regions, such as `us-east-1`."""
        del text
        return False

    def reachable_within(self, spec: ClusterSpec) -> float:
        """Return time within which the machines of a spec must be reachable after their creation.

        Args:
            spec: what the user asked for, already planned.

        Returns:
            Seconds.

        """
        del spec
        return self.ready_within

    def default_hosts(self, options: dict[str, str]) -> int:
        """Return number of hosts if the user gives none: two, so that there is a pair to measure.

        Args:
            options: of the provider, checked.

        Returns:
            The number of hosts.

        """
        del options
        return 2

    def topology(self, spec: ClusterSpec, machines: tuple[Machine, ...]) -> ProviderTopology:
        """Return the layers of the network in which hosts are together; not known by default.

        Args:
            spec: of the cluster.
            machines: of the cluster, which exist.

        Returns:
            The layers, or why none are known.

        Raises:
            ProvisionError: the provider was asked, and refused.

        """
        del spec, machines
        return ProviderTopology(reason=f"the provider {self.name!r} knows no switches")

    def is_usable(self, machine: Machine) -> bool:
        """Return whether a new launch of the same spec may use a machine again.

        Args:
            machine: of an earlier launch.

        """
        del machine
        return True

    def environment(self, spec: ClusterSpec) -> Environment | None:
        """Return the environment that the machines need.

        Args:
            spec: what the user asked for, already planned.

        Returns:
            The environment; none if the machines are ready as they are.

        Raises:
            SpecError: the options contradict each other.

        """
        if not issubclass(self.Options, EnvironmentOptions):
            return None
        options = msgspec.convert(spec.options, self.Options, strict=False)
        if options.image and options.python:
            raise SpecError(
                "The options image and python contradict each other.",
                means="In a container, the ranks see the packages of its own Python only.",
                remedy="Leave one out.",
            )
        return Environment(
            source=options.source, mpi=options.mpi, image=options.image, python=options.python
        )

    def gone(self, spec: ClusterSpec, machines: tuple[Machine, ...]) -> ProvisionError | None:
        """Return why machines are not ours any more, although nobody took them down here.

        Returns:
            `Capacity` if `create` may find others elsewhere; none while they are ours, or where it
            cannot be known.

        """
        del spec, machines
        return None

    def states(self, name: str, machines: tuple[Machine, ...]) -> tuple[str, ...]:
        """Ask for the state of each machine of a cluster: `ENDED` if it does not exist any more.

        Returns:
            One state for each machine; empty if the provider has none.

        Raises:
            ProvisionError: the provider does not say.

        """
        del name, machines
        return ()

    def words_on(self, spec: ClusterSpec, machines: tuple[Machine, ...]) -> str:
        """Say what the provider knows of machines that do not answer; empty if nothing.

        Args:
            spec: of the cluster.
            machines: that do not answer.

        """
        del spec, machines
        return ""

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
        self, spec: ClusterSpec, journal: Journal, tell: StateCallback = ignore
    ) -> tuple[Machine, ...]:
        """Create the machines, all or none.

        Args:
            spec: what the user asked for, already planned.
            journal: of the cluster; each intent is written to it before its call.
            tell: called with a machine's name and the state that it has reached, if creation
                takes time.

        Returns:
            The machines, in the order of the ranks.

        Raises:
            ProvisionError: they could not be created; nothing is left.

        """

    @abstractmethod
    def find(self, name: str) -> tuple[Resource, ...]:
        """Ask the provider which resources of a cluster exist.

        Args:
            name: of the cluster.

        Returns:
            All resources that were created for it.

        """

    @abstractmethod
    def destroy(self, name: str) -> None:
        """Delete all resources of a cluster; it is no error if some or all are already gone.

        Args:
            name: of the cluster.

        Raises:
            ProvisionError: something is left.

        """

    def add(
        self,
        spec: ClusterSpec,
        like: Machine,
        places: tuple[int, ...],
        journal: Journal,
        tell: StateCallback = ignore,
    ) -> tuple[Machine, ...]:
        """Create more machines for a cluster, like those that it has, all in one call.

        If it fails, new machines may exist: `end_besides` ends them.

        Args:
            spec: of the cluster.
            like: one of its machines; the new ones are as near to it as the others are.
            places: the numbers of the hosts that the new machines are to be, from 0.
            journal: of the cluster; each intent is written to it before its call.
            tell: called with a machine's name and the state that it has reached.

        Returns:
            The new machines, in the order of the places.

        Raises:
            SpecError: the provider cannot replace machines.
            ProvisionError: they could not be created.

        """
        raise self._no_replacement(spec.name)

    def besides(self, name: str, kept: tuple[Machine, ...]) -> tuple[Resource, ...]:
        """Ask the provider which machines of a cluster exist besides some.

        Args:
            name: of the cluster.
            kept: machines that are to exist.

        Returns:
            All others that were created for it.

        """
        del name, kept
        return ()

    def end_besides(self, name: str, kept: tuple[Machine, ...]) -> None:
        """Delete all machines of a cluster besides some, and wait until they are gone.

        Args:
            name: of the cluster.
            kept: machines to keep.

        Raises:
            SpecError: the provider cannot replace machines.
            ProvisionError: some are left.

        """
        raise self._no_replacement(name)

    def words_without(self, spec: ClusterSpec, bad: tuple[Machine, ...]) -> str:
        """Say what to type to go on without bad hosts, where they cannot be replaced.

        Args:
            spec: of the cluster.
            bad: hosts of it.

        Returns:
            A command, or a sentence with one.

        """
        del bad
        return f"Take it down, and launch it again on other hosts: cluster down {spec.name}"

    def _no_replacement(self, name: str) -> SpecError:
        return SpecError(
            f"The hosts of {name} cannot be replaced: the provider {self.name!r} creates none.",
            remedy=f"Take it down, and launch it again on other hosts: cluster down {name}",
        )

    def names(self) -> tuple[str, ...]:
        """Ask the provider which clusters still have resources.

        Returns:
            Their names, including clusters without a journal; empty if nothing is ever created.

        """
        return ()

    def live(self) -> tuple[RemoteCluster, ...]:
        """List every cluster of this user that exists, also those launched from other machines.

        Returns:
            The clusters; empty if the provider creates nothing that other machines can see.

        """
        return ()

    def all_regions(self) -> tuple[str, ...]:
        """List all regions of the provider.

        Returns:
            Their names; empty if the provider has no regions.

        """
        return ()

    def stop(self, name: str, machines: tuple[Machine, ...]) -> None:
        """Switch machines off.

        Args:
            name: of the cluster.
            machines: of the cluster.

        Raises:
            SpecError: they cannot be switched off.

        """
        raise self._no_switch(name)

    def start(
        self, name: str, machines: tuple[Machine, ...], tell: StateCallback = ignore
    ) -> tuple[Machine, ...]:
        """Switch machines on again; their addresses may change.

        Args:
            name: of the cluster.
            machines: of the cluster.
            tell: called with a machine's name and the state that it has reached.

        Returns:
            The machines as they are now.

        Raises:
            SpecError: they cannot be switched on.

        """
        raise self._no_switch(name)

    def _no_switch(self, name: str) -> SpecError:
        return SpecError(
            f"The machines of {name} cannot be switched off and on: the provider "
            f"{self.name!r} has no such switch.",
            remedy=f"Take it down instead: cluster down {name}",
        )

    def looked_for(self, name: str) -> str:
        """Describe what `find` looks for, and where, to explain what "0 left" covers.

        Args:
            name: of the cluster.

        Returns:
            Such as `instances, volumes in us-east-1`; empty if everything is on this machine.

        """
        return ""

    def searched(self, name: str) -> str:
        """Describe what `find` has searched, where and as whom; empty if it had nowhere to search.

        Raises:
            ProvisionError: the provider does not say who asks.

        """
        return self.looked_for(name)

    def listed_within(self) -> float:
        """Return the seconds after which the provider lists all that it has created."""
        return 0.0

    def console(self, machine: Machine) -> str:
        """Read what a machine printed on its console, to find out why it does not answer.

        Args:
            machine: of a cluster.

        Returns:
            The output; empty if there is none.

        """
        del machine
        return ""
