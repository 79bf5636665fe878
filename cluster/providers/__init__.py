"""Where machines come from: one file per provider."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

import msgspec

from cluster.core.errors import SpecError
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


ONLY_CLOUDS = {
    "image": "nothing is made there that could start from one",
    "accelerator": "its machines have what they have",
    "spot": "its machines are nobody's spare ones",
    "ttl": "its machines cost nothing, and stay until they are taken down",
}


def refuse(spec: ClusterSpec, reasons: Mapping[str, str]) -> None:
    """Refuse the fields of a spec that have no meaning for a provider.

    Args:
        spec: what is asked.
        reasons: why not, by field.

    Raises:
        SpecError: one of them is asked for.

    """
    for field, reason in reasons.items():
        if getattr(spec, field):
            raise SpecError(
                f"--{field} has no meaning for the provider {spec.provider!r}: {reason}.",
                remedy=f"Leave --{field} out, or choose another --provider.",
            )


class Provider(Plugin):
    """Makes machines and takes them away again.

    Args:
        regions: where to look for what exists, besides where the journals say that something is.

    """

    folder: ClassVar[str] = "cluster.providers"

    Options: ClassVar[type[Value]] = NoOptions
    """The provider's own options (`--option KEY=VALUE`), typed."""

    makes_machines: ClassVar[bool] = True
    """Whether `destroy` takes the machines away with all that is on them."""

    resumes: ClassVar[bool] = False
    """Whether `create` goes on where a launch of the same spec was interrupted."""

    rotates_host_keys: ClassVar[bool] = False
    """Whether the host keys that machines come with were seen by others, and are changed."""

    simulates: ClassVar[bool] = False
    """Whether its hosts are numbers of a model: they run no programs, and nothing is measured."""

    gpu_advice: ClassVar[str] = ""
    """The option by which its machines have GPUs, such as `--accelerator t4:{gpus}`."""

    ready_within: ClassVar[float] = 60.0
    """Seconds after their creation within which all machines must be reachable."""

    passing_states: ClassVar[frozenset[str]] = frozenset()
    """What new machines pass through, though of others it would be the end: `authentication`, where
    they answer before they know who may log in."""

    def __init__(self, regions: tuple[str, ...] = ()) -> None:
        """Keep where to look."""
        self.regions = regions

    def reachable_within(self, spec: ClusterSpec) -> float:
        """Tell how long the machines of a spec may take to be reachable after their creation.

        Args:
            spec: what is asked, already planned.

        Returns:
            Seconds.

        """
        del spec
        return self.ready_within

    def default_hosts(self, options: dict[str, str]) -> int:
        """Tell how many machines are meant if nobody says: two, that they can talk.

        Args:
            options: of the provider, checked.

        Returns:
            How many.

        """
        del options
        return 2

    def groups(self, spec: ClusterSpec) -> tuple[int, ...]:
        """Tell which hosts share a switch; nobody knows by default.

        Args:
            spec: of the cluster.

        Returns:
            The number of the switch of each host; none where it is not known.

        """
        del spec
        return ()

    def environment(self, spec: ClusterSpec) -> Environment | None:
        """Tell what the machines need; none where they are ready as they are.

        Args:
            spec: what is asked, already planned.

        Returns:
            What is wanted there.

        """
        if not issubclass(self.Options, EnvironmentOptions):
            return None
        options = msgspec.convert(spec.options, self.Options, strict=False)
        return Environment(source=options.source, mpi=options.mpi, image=options.image)

    @abstractmethod
    def plan(self, spec: ClusterSpec) -> Plan:
        """Tell what would be done, or refuse, before anything is made.

        Args:
            spec: what is asked.

        Returns:
            What would be done.

        Raises:
            SpecError: it cannot be honoured here.

        """

    @abstractmethod
    def create(
        self, spec: ClusterSpec, journal: Journal, tell: StateCallback = ignore
    ) -> tuple[Machine, ...]:
        """Make the machines, all or none.

        Args:
            spec: what is asked, already planned.
            journal: where each intent is written before its call.
            tell: called with a machine and the state that it got to, where that takes time.

        Returns:
            The machines, in the order of the ranks.

        Raises:
            ProvisionError: they could not be made; nothing is left.

        """

    @abstractmethod
    def find(self, name: str) -> tuple[Resource, ...]:
        """Ask the provider what exists of a cluster.

        Args:
            name: of the cluster.

        Returns:
            Everything that is ours.

        """

    @abstractmethod
    def destroy(self, name: str) -> None:
        """Take away everything of a cluster; what is gone already is fine.

        Args:
            name: of the cluster.

        Raises:
            ProvisionError: something is left.

        """

    def names(self) -> tuple[str, ...]:
        """Ask the provider of which clusters anything exists; none, where nothing is made.

        Returns:
            Their names, also of those that no journal knows of any more.

        """
        return ()

    def live(self) -> tuple[RemoteCluster, ...]:
        """Tell of every cluster of ours that exists, also of those launched from elsewhere.

        Returns:
            Them; none, where nothing is made that another machine could see.

        """
        return ()

    def all_regions(self) -> tuple[str, ...]:
        """Name every region that there is.

        Returns:
            Them; none, where there are no regions.

        """
        return ()

    def stop(self, name: str, machines: tuple[Machine, ...]) -> None:
        """Switch machines off.

        Args:
            name: of the cluster.
            machines: of it.

        Raises:
            SpecError: they cannot be switched off.

        """
        raise self._no_switch(name)

    def start(
        self, name: str, machines: tuple[Machine, ...], tell: StateCallback = ignore
    ) -> tuple[Machine, ...]:
        """Switch machines on again, which may get other addresses.

        Args:
            name: of the cluster.
            machines: of it.
            tell: called with a machine and the state that it got to.

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
        """Say what `find` looks for, and where, for whoever wonders what "0 left" means.

        Args:
            name: of the cluster.

        Returns:
            Such as `instances, volumes in us-east-1`; empty where it is all on this machine.

        """
        return ""

    def console(self, machine: Machine) -> str:
        """Give what a machine said while it came up, for whoever wonders why it does not answer.

        Args:
            machine: of a cluster.

        Returns:
            A text; empty if there is none.

        """
        del machine
        return ""
