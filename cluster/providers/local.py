"""This machine as every host of the cluster: nothing is created, and nothing costs money."""

import os
import sys
from pathlib import Path

from cluster.core.errors import SpecError
from cluster.core.model.hosts import Machine
from cluster.core.model.resources import Plan, Resource
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import StateCallback, ignore
from cluster.core.state.journal import Journal
from cluster.providers import CLOUD_OPTIONS, ExistingHosts, HintsReplacement, Provider, refuse

MOST_PER_CORE = 32  # ranks; with more, most would only wait for a core
REFUSED_OPTIONS = {
    **CLOUD_OPTIONS,
    "placement": "all ranks are on this machine",
    "instance": "it always uses this machine",
    "zone": "it always uses this machine",
}


class LocalProvider(Provider, ExistingHosts, HintsReplacement):
    """Runs all ranks on this machine, with the MPI that is installed next to this Python."""

    def plan(self, spec: ClusterSpec) -> Plan:
        refuse(spec, REFUSED_OPTIONS)
        ranks, cores = spec.hosts * spec.ranks_per_host, len(os.sched_getaffinity(0))
        if ranks > MOST_PER_CORE * cores:
            raise SpecError(
                f"{ranks} ranks on the {cores} usable core(s) of this machine would mostly wait "
                "for each other.",
                means=f"At most {MOST_PER_CORE} ranks per core are started here.",
                remedy=f"Use --hosts {MOST_PER_CORE * cores} or fewer, or hosts of your own: "
                "--provider ssh --option hosts=HOST1,HOST2",
            )
        return Plan(lines=(f"{spec.hosts} x this machine, {spec.ranks_per_host} rank(s) on each",))

    def create(
        self, spec: ClusterSpec, journal: Journal, on_state: StateCallback = ignore
    ) -> tuple[Machine, ...]:
        return tuple(
            Machine(  # noqa: S604 - "shell" names a plug-in
                name=spec.machine_name(number),
                id=f"local-{number}",
                address="127.0.0.1",
                shell="local",
                folder=str(journal.folder / "host"),
                bin=str(Path(sys.executable).parent),
            )
            for number in range(spec.hosts)
        )

    def replacement_hint(self, spec: ClusterSpec, bad: tuple[Machine, ...]) -> str:
        return "All hosts are this machine, so none can be replaced: cluster doctor"

    def find(self, name: str) -> tuple[Resource, ...]:
        return ()

    def destroy(self, name: str) -> None:
        """Do nothing: nothing was created."""
