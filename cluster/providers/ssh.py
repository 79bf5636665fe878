"""Your own machines, over SSH: none is created, and none is deleted."""

import shlex
from pathlib import Path
from typing import ClassVar, Literal

import msgspec

from cluster import providers
from cluster.core import decoders
from cluster.core.errors import SpecError
from cluster.core.model.hosts import Access, Machine, parse_access
from cluster.core.model.resources import Plan, Resource
from cluster.core.model.spec import ClusterSpec, Environment, EnvironmentOptions
from cluster.core.model.value import StateCallback, Value, ignore
from cluster.core.state.journal import Journal

REFUSED_OPTIONS = {
    **providers.CLOUD_OPTIONS,
    "placement": "it uses the hosts that you name",
    "instance": "it uses the hosts that you name",
    "zone": "it uses the hosts that you name",
}


class SshOptions(EnvironmentOptions, frozen=True, kw_only=True):
    """The options of the provider `ssh`.

    Args:
        hosts: the machines, such as `alice@h1,h2:2222`; names may be aliases of `~/.ssh/config`.
        inventory: a file with one of them on each line instead; `#` begins a comment.
        trust: `known` (host keys are in your known_hosts) or `first-use` (pinned per cluster).
        bin: the folder there with a `python3` that has cluster installed; then nothing is
            installed.
        mount: file systems that every host mounts, such as `nfs:10.0.0.9:/data:/shared`.
    """

    hosts: str = ""
    inventory: str = ""
    trust: Literal["known", "first-use"] = "known"
    bin: str = ""
    mount: str = ""


class SshProvider(
    providers.Provider,
    providers.ExistingHosts,
    providers.CountsHosts,
    providers.PreparesHosts,
    providers.HintsReplacement,
    providers.MountsFiles,
):
    """Machines that already exist, which the user names."""

    Options: ClassVar[type[Value]] = SshOptions

    def default_hosts(self, options: dict[str, str]) -> int:
        return len(_parse_hosts(decoders.convert(options, SshOptions)))

    def plan(self, spec: ClusterSpec) -> Plan:
        providers.refuse(spec, REFUSED_OPTIONS)
        hosts = _parse_hosts(decoders.convert(spec.options, SshOptions))
        if spec.hosts > len(hosts):
            raise SpecError(
                f"--hosts is {spec.hosts}, but {len(hosts)} are named.",
                remedy="Name them: --option hosts=alice@h1,h2:2222",
            )
        return Plan(lines=tuple(f"use {host.host}" for host in hosts[: spec.hosts]))

    def create(
        self, spec: ClusterSpec, journal: Journal, on_state: StateCallback = ignore
    ) -> tuple[Machine, ...]:
        options = decoders.convert(spec.options, SshOptions)
        file = str(journal.folder / "known_hosts") if options.trust == "first-use" else ""
        return tuple(
            Machine(  # noqa: S604 - "shell" names a plug-in
                name=spec.machine_name(number),
                id=access.host,
                address=access.host,
                shell="ssh",
                folder=f".cluster-{spec.name}",
                bin=options.bin or f".cluster-{spec.name}/env/bin",
                access=msgspec.structs.replace(access, known_hosts=file, pin=bool(file)),
            )
            for number, access in enumerate(_parse_hosts(options)[: spec.hosts])
        )

    def environment(self, spec: ClusterSpec) -> Environment | None:
        """Return no environment, so that nothing is installed, if the user names a Python."""
        options = decoders.convert(spec.options, SshOptions)
        return None if options.bin else super().environment(spec)

    def replacement_hint(self, spec: ClusterSpec, bad: tuple[Machine, ...]) -> str:
        options = decoders.convert(spec.options, SshOptions)
        numbers = {int(machine.name.partition(".")[0]) for machine in bad}
        words = list(enumerate(_words(options)))
        out = ", ".join(word for number, word in words if number in numbers)
        if options.inventory:
            return f"Take {out} out of {options.inventory}, then type: cluster down {spec.name}"
        remaining = shlex.quote("hosts=" + ",".join(w for n, w in words if n not in numbers))
        command = f"cluster up {spec.name} --provider ssh --option {remaining}"
        return f"Take {out} out of your list: cluster down {spec.name}; {command}"

    def find(self, name: str) -> tuple[Resource, ...]:
        return ()

    def destroy(self, name: str) -> None:
        """Do nothing: nothing was created."""


def _parse_hosts(options: SshOptions) -> list[Access]:
    if bool(options.hosts) == bool(options.inventory):
        raise SpecError(
            "The provider 'ssh' needs the names of your machines, in one place.",
            remedy="Use --option hosts=alice@h1,h2:2222 or --option inventory=FILE",
        )
    return [parse_access(word) for word in _words(options)]


def _words(options: SshOptions) -> list[str]:
    if options.hosts:
        return [word.strip() for word in options.hosts.split(",")]
    try:
        lines = Path(options.inventory).read_text().splitlines()
    except OSError as error:
        raise SpecError(
            f"The inventory {options.inventory} cannot be read: {error.strerror}."
        ) from error
    return [word for line in lines if (word := line.partition("#")[0].strip())]
