"""What MPI's messages must pass besides TCP: proved by libfabric's own word before the first value.

That adapters are attached says nothing: without libfabric's provider for them, Open MPI takes TCP
and does not say so. So each host is asked, and Open MPI may use nothing else: it ends otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.errors import SpecError
from cluster.remote.parallel import on_each

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cluster.core.model.hosts import Machine
    from cluster.remote.shells import Shell

WITHIN = 60.0  # seconds for a host to answer
# $1 the provider; the folder is where Amazon's installer puts libfabric
ASK = 'PATH="$PATH:/opt/amazon/efa/bin"; exec fi_info -p "$1" -t FI_EP_RDM'


def variables(provider: str) -> dict[str, str]:
    """Give the variables by which Open MPI uses one of libfabric's providers, or ends.

    Source: docs.open-mpi.org, "OpenFabrics Interfaces (OFI) / Libfabric support"; fi_efa(7).

    Args:
        provider: libfabric's name of it; empty for TCP.

    Returns:
        Names and values; none for TCP.

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
    """Give the provider that the messages of a cluster must pass; empty for TCP."""
    return next((m.link.fabric for m in machines if m.link and m.link.fabric), "")


def prove(shells: Mapping[str, Shell], provider: str) -> None:
    """Ask libfabric on every host whether messages can pass, or refuse.

    Args:
        shells: to the hosts, by the names of their machines.
        provider: libfabric's name of it; empty for TCP, which needs no proof.

    Raises:
        SpecError: libfabric on a host does not have it; nothing was measured.
        ClusterError: a host did not answer.

    """
    if not provider:
        return
    words = ["sh", "-c", ASK, "sh", provider]
    answers = on_each(shells, lambda _, shell: shell.run(words, timeout=WITHIN))
    for name, done in answers.items():
        if done.status != 0 or f"provider: {provider}" not in done.stdout:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise SpecError(
                f"{name} has no way by {provider}: fi_info ended with exit status {done.status}.",
                means=f"{said[-1] if said else 'It printed nothing.'} MPI would use TCP, and its "
                "values would be those of TCP; nothing was measured.",
                remedy=f"Leave --image out, or choose one that has libfabric with {provider}; "
                f"to measure TCP: --option {provider}=0",
            )


def notes(provider: str, told: Mapping[str, str]) -> tuple[str, ...]:
    """Say in a run what its messages passed, where that is not simply TCP.

    Args:
        provider: that was proved; empty for TCP.
        told: variables that the user gave the ranks.

    Returns:
        Sentences.

    """
    if not provider:
        return ()
    instead = {k: told[k] for k, v in variables(provider).items() if told.get(k, v) != v}
    if instead:
        words = " ".join(f"{name}={value}" for name, value in instead.items())
        return (f"TCP: these ranks were given {words}, so their values are not {provider}'s.",)
    proof = "libfabric lists it on every host (fi_info), and Open MPI was allowed nothing else"
    return (f"MPI's messages passed {provider}: {proof} (pml cm, mtl ofi).",)
