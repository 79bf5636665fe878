"""What a benchmark needs on a host with GPUs, and what to do if it is missing."""

from collections.abc import Mapping

from cluster.agent.gpus import BUILT, ENABLED, PACKAGES
from cluster.core.errors import SpecError
from cluster.core.model.hosts import Facts

INSTEAD = "the processor's memory: --buffer cpu"  # of messages between ranks


def check_host(
    facts: Facts, needed: int, advice: str = "", *, by_mpi: bool = True, instead: str = INSTEAD
) -> None:
    """Refuse hosts that lack GPUs, or the software that a benchmark needs to use them (SpecError).

    Without `by_mpi`, NCCL sends: it needs no MPI with CUDA, and torch installs itself.
    """
    if len(facts.gpus) < needed:
        raise missing_gpus_error(
            facts.host, len(facts.gpus), needed, advice=advice, instead=instead
        )
    if not by_mpi:
        return
    if not set(PACKAGES) & set(facts.libraries):
        raise missing_library_error(facts.host, facts.executable)
    check_mpi(facts.host, facts.mpi_flags)


def missing_gpus_error(
    host: str,
    count: int,
    needed: int,
    means: str = "Its driver finds none: nvidia-smi is missing, or lists none.",
    advice: str = "",
    instead: str = INSTEAD,
) -> SpecError:
    """Make the error for a host that has too few GPUs.

    `advice` is the option that gives GPUs, with `{gpus}` for their number; `instead` is a flag that
    does without.
    """
    option = f", such as {advice.format(gpus=needed)}" if advice else ""
    if count:
        return SpecError(
            f"{host} has {count} GPU(s) for {needed} ranks.",
            means="Each rank needs a GPU of its own.",
            remedy=f"Ask for machines with {needed}{option}, or for a rank on each: "
            "--ranks-per-host 1",
        )
    return SpecError(
        f"{host} has no GPU.",
        means=means,
        remedy=f"Use machines that have some{option}" + (f", or {instead}" if instead else ""),
    )


def missing_library_error(host: str, python: str) -> SpecError:
    """Make the error for a host whose Python has no library for the memory of GPUs."""
    return SpecError(
        f"Neither torch nor CuPy is installed for the ranks on {host}.",
        means="One of them is needed for GPU memory; cluster installs neither, because "
        "they take gigabytes.",
        remedy="Name a Python there that has torch: --option python=PATH\n"
        f"Or type there: python3 -m pip --python {python} install torch",
    )


def check_mpi(host: str, flags: Mapping[str, str]) -> None:
    """Refuse an MPI that would treat an address in GPU memory as one in host memory (SpecError).

    `flags` are what `ompi_info` reports about CUDA.
    """
    if flags.get(BUILT) != "true":
        words = (
            "was built without CUDA" if BUILT in flags else "does not report whether it has CUDA"
        )
        raise SpecError(
            f"The MPI on {host} {words}.",
            means="It would treat an address in GPU memory as one in host memory, and "
            "crash. The Open MPI that cluster installs has no CUDA.",
            remedy="Name one that has (ompi_info --parsable --all | grep "
            f"{BUILT}:value says true): --option mpi=PREFIX",
        )
    if flags.get(ENABLED, "true") != "true":
        raise SpecError(
            f"The MPI on {host} has CUDA, but it is switched off.",
            remedy=f"Use --mca {ENABLED}=true",
        )
