"""Fabrics other than TCP, such as EFA: checked with libfabric before the first value is measured.

An attached adapter is not enough: without libfabric's provider for it, Open MPI falls back to TCP
without a message. So libfabric is asked on each host, and Open MPI is configured to use only that
provider, or to fail.
"""

import re
from collections.abc import Iterable, Mapping

from cluster.core.errors import ProvisionError, SpecError
from cluster.core.model.hosts import Machine
from cluster.core.model.results.records import Note
from cluster.remote.parallel import on_each
from cluster.remote.shells import Shell

WITHIN = 60.0  # seconds for a host to answer
# $1 the provider; Amazon's installer puts libfabric into this folder
ASK = 'PATH="$PATH:/opt/amazon/efa/bin"; exec fi_info -p "$1" -t FI_EP_RDM'

DOMAIN = re.compile(r"^ *domain: (\S+)", re.MULTILINE)  # of each adapter one, on several lines


def variables(provider: str) -> dict[str, str]:
    """Return the variables that make Open MPI use one of libfabric's providers, or fail.

    Source: docs.open-mpi.org, "OpenFabrics Interfaces (OFI) / Libfabric support"; fi_efa(7). An
    empty provider is TCP, which needs none.
    """
    if not provider:
        return {}
    return {
        "OMPI_MCA_pml": "cm",
        "OMPI_MCA_mtl": "ofi",
        "OMPI_MCA_mtl_ofi_provider_include": provider,
        "FI_PROVIDER": provider,
    }


def provider_of(machines: Iterable[Machine]) -> str:
    """Return the libfabric provider that a cluster's messages must use; empty for TCP."""
    return next((m.link.fabric for m in machines if m.link and m.link.fabric), "")


def adapters_of(machines: Iterable[Machine]) -> dict[str, int]:
    """Return how many adapters of its fabric each machine was launched with; 0: not known."""
    return {machine.name: machine.link.adapters for machine in machines if machine.link}


def check_provider(
    shells: Mapping[str, Shell], provider: str, adapters: Mapping[str, int] | None = None
) -> None:
    """Check on every host that libfabric has a provider such as `efa`, if not TCP.

    SpecError: it has none. ProvisionError: it lists fewer adapters than the machine was given.
    """
    if not provider:
        return
    words = ["sh", "-c", ASK, "sh", provider]
    answers = on_each(shells, lambda _, shell: shell.run(words, timeout=WITHIN))
    for name, result in answers.items():
        if result.status != 0 or f"provider: {provider}" not in result.stdout:
            lines = (result.stderr or result.stdout).strip().splitlines()
            raise SpecError(
                f"{name} has no libfabric provider {provider}: fi_info exits with {result.status}.",
                means=f"{lines[-1] if lines else 'It printed nothing.'} MPI would use TCP, and its "
                "values would be those of TCP; nothing was measured.",
                remedy=f"Leave --image out, or choose one that has libfabric with {provider}; "
                f"to measure TCP: --option {provider}=0",
            )
        count, expected = len(set(DOMAIN.findall(result.stdout))), (adapters or {}).get(name, 0)
        if count < expected:
            raise ProvisionError(
                f"{name} has {count} of {expected} adapters of {provider}, as fi_info lists them.",
                means="It was launched with all: its driver or its hardware lacks some. Its share "
                "of the fabric would be smaller than that of others; nothing was measured.",
                remedy="See what its kernel says of the others: sudo dmesg | grep -i efa\n"
                f"Or launch again: cluster down {name.rpartition('.')[2]}",
            )


def notes(provider: str, settings: Mapping[str, str]) -> tuple[Note, ...]:
    """Return the notes on what carried a run's messages; none for a cluster with TCP only."""
    if not provider:
        return ()
    changes = {k: settings[k] for k, v in variables(provider).items() if settings.get(k, v) != v}
    if changes:
        words = " ".join(f"{name}={value}" for name, value in changes.items())
        return (Note("tcp_instead", (words, provider)),)
    return (Note("proven_provider", (provider,)),)
