"""What a host has of GPUs, and of what brings messages from and to their memory.

These are the checks that the founding comparison began with: `ompi_info` for CUDA and GPUDirect,
`nvidia-smi topo -m` for the paths between the devices. What is not there leaves nothing behind.
"""

from __future__ import annotations

import re
from pathlib import Path

from cluster.agent.commands import output_of
from cluster.core import pcie
from cluster.core.model.value import Value

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


class InstalledGpu(Value, frozen=True, kw_only=True):
    """A GPU, as its driver sees it.

    Args:
        model: its name.
        driver: the driver's version.
        slot: of PCIe, in Linux's words, such as `8.0 GT/s PCIe x16`; empty if it is not known.

    """

    model: str
    driver: str
    slot: str = ""


def list_gpus() -> tuple[InstalledGpu, ...]:
    """Ask the driver for this host's GPUs.

    Returns:
        Them, in their order; nothing without a driver.

    """
    lines = (output_of("nvidia-smi", *FORMAT) or "").strip().splitlines()
    rows = [line.rsplit(", ", len(FIELDS) - 1) for line in lines]
    return tuple(
        InstalledGpu(model=row[0], driver=row[1], slot=pcie.slot_name(row[2], row[3]))
        for row in rows
        if len(row) == len(FIELDS)
    )


def topology() -> str:
    """Ask the driver for the paths between GPUs, and to network cards.

    Returns:
        Its matrix, as it prints it; empty without a driver.

    """
    return output_of("nvidia-smi", "topo", "-m") or ""


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
    return dict(FLAG.findall(output_of("ompi_info", "--parsable", "-l", "9", "--all") or ""))
