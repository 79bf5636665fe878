"""What a host has of GPUs, and of what brings messages from and to their memory.

These are the checks that the founding comparison began with: `ompi_info` for CUDA and GPUDirect,
`nvidia-smi topo -m` for the paths between the devices. What is not there leaves nothing behind.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.asking import said
from cluster.core import pcie
from cluster.core.errors import SpecError
from cluster.core.model.value import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster.core.model.hosts import Facts

# Either of two libraries has the memory of a GPU; CuPy's wheels are named by their CUDA.
PACKAGES = ("torch", "cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x")
BUILT, ENABLED = "mpi_built_with_cuda_support", "opal_cuda_support"
FLAGS = (
    *(BUILT, ENABLED, "btl_smcuda_use_cuda_ipc"),
    *("btl_openib_have_driver_gdr", "btl_openib_have_cuda_gdr"),  # of Open MPI 4 and earlier
)
FLAG = re.compile(rf":param:({'|'.join(FLAGS)}):value:(\S+)")
# Kernel modules by which a network card reaches a GPU's memory (GPUDirect RDMA), or a processor
# does (GDRCopy); the second is the first one's older name.
MODULES = ("nvidia_peermem", "nv_peer_mem", "gdrdrv")
# What is in use is less while a GPU rests; the most that it and its slot agree on stays.
FIELDS = ("name", "driver_version", "pcie.link.gen.max", "pcie.link.width.max")
FORMAT = (f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader")


class Found(Value, frozen=True, kw_only=True):
    """A GPU, as its driver sees it.

    Args:
        model: its name.
        driver: the driver's version.
        slot: of PCIe, in Linux's words, such as `8.0 GT/s PCIe x16`; empty if it is not known.

    """

    model: str
    driver: str
    slot: str = ""


def found() -> tuple[Found, ...]:
    """Ask the driver for this host's GPUs.

    Returns:
        Them, in their order; nothing without a driver.

    """
    lines = (said("nvidia-smi", *FORMAT) or "").strip().splitlines()
    rows = [line.rsplit(", ", len(FIELDS) - 1) for line in lines]
    return tuple(
        Found(model=row[0], driver=row[1], slot=pcie.slot(row[2], row[3]))
        for row in rows
        if len(row) == len(FIELDS)
    )


def topology() -> str:
    """Ask the driver for the paths between GPUs, and to network cards.

    Returns:
        Its matrix, as it prints it; empty without a driver.

    """
    return said("nvidia-smi", "topo", "-m") or ""


def modules(loaded: Path = Path("/proc/modules")) -> tuple[str, ...]:
    """Find the kernel modules that lead to the memory of GPUs.

    Args:
        loaded: the kernel's list, for tests.

    Returns:
        Those of `MODULES` that are loaded.

    """
    try:
        there = {line.partition(" ")[0] for line in loaded.read_text().splitlines()}
    except OSError:
        return ()
    return tuple(module for module in MODULES if module in there)


def mpi_flags() -> dict[str, str]:
    """Ask Open MPI what it can do with the memory of GPUs.

    Returns:
        The value of each of `FLAGS` that it knows; nothing of another MPI.

    """
    return dict(FLAG.findall(said("ompi_info", "--parsable", "-l", "9", "--all") or ""))


def check(facts: Facts, wanted: int) -> None:
    """Refuse a host whose ranks could not send from the memory of its GPUs.

    Args:
        facts: of the host.
        wanted: how many GPUs it needs.

    Raises:
        SpecError: it has too few, no library for them, or an MPI that does not know them.

    """
    if len(facts.gpus) < wanted:
        raise without(facts.host, len(facts.gpus), wanted)
    if not set(PACKAGES) & set(facts.libraries):
        raise without_library(facts.host, facts.executable)
    check_mpi(facts.host, facts.mpi_flags)


def without(
    host: str,
    there: int,
    wanted: int,
    means: str = "Its driver does not know of any: nvidia-smi is not there, or names none.",
) -> SpecError:
    """Make the error for a host that has too few GPUs.

    Args:
        host: its name.
        there: how many it has.
        wanted: how many it needs.
        means: why we think that it has none.

    Returns:
        The error.

    """
    if there:
        return SpecError(
            f"{host} has {there} GPU(s) for {wanted} ranks.",
            means="Each rank needs the memory of a GPU of its own.",
            remedy=f"Ask for machines with {wanted}, such as --accelerator t4:{wanted} on Google's "
            "cloud, or for a rank on each: --ranks-per-host 1",
        )
    return SpecError(
        f"{host} has no GPU.",
        means=means,
        remedy="Take machines that have some, such as --accelerator t4:1 on Google's cloud, or the "
        "processor's memory: --buffer cpu",
    )


def without_library(host: str, python: str) -> SpecError:
    """Make the error for a host whose Python has no library for the memory of GPUs.

    Args:
        host: its name.
        python: the ranks' interpreter there.

    Returns:
        The error.

    """
    return SpecError(
        f"Neither torch nor CuPy is there for the ranks on {host}.",
        means="One of them is needed for the memory of GPUs; cluster installs neither, because "
        "they take gigabytes.",
        remedy=f"Type there: python3 -m pip --python {python} install torch",
    )


def check_mpi(host: str, flags: Mapping[str, str]) -> None:
    """Refuse an MPI that would take the address of a GPU's memory for one of the processor's.

    Args:
        host: where it runs.
        flags: what it says of itself.

    Raises:
        SpecError: it was built without CUDA, has it switched off, or does not say.

    """
    if flags.get(BUILT) != "true":
        words = "was built without CUDA" if BUILT in flags else "does not say whether it has CUDA"
        raise SpecError(
            f"The MPI on {host} {words}.",
            means="It would take an address in a GPU's memory for one in the processor's, and "
            "crash. The Open MPI that cluster installs has no CUDA.",
            remedy="Name one that has (ompi_info --parsable --all | grep "
            f"{BUILT}:value says true): --option mpi=PREFIX",
        )
    if flags.get(ENABLED, "true") != "true":
        raise SpecError(
            f"The MPI on {host} has CUDA, but it is switched off.",
            remedy=f"Say --mca {ENABLED}=true",
        )
