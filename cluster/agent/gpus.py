"""The GPUs of a host, and the software that moves messages from and to their memory.

The founding comparison began with the same checks: `ompi_info` for CUDA and GPUDirect, and
`nvidia-smi topo -m` for the paths between the devices. What is not installed gives empty values.
"""

import re
from pathlib import Path

from cluster.agent.commands import output_of
from cluster.core import pcie
from cluster.core.model.value import Value

# PyTorch or CuPy can allocate a GPU's memory; CuPy's wheels are named after their CUDA version.
PACKAGES = ("torch", "cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x")
BUILT, ENABLED = "mpi_built_with_cuda_support", "opal_cuda_support"
FLAGS = (
    *(BUILT, ENABLED, "btl_smcuda_use_cuda_ipc"),
    *("btl_openib_have_driver_gdr", "btl_openib_have_cuda_gdr"),  # of Open MPI 4 and earlier
)
FLAG = re.compile(rf":param:({'|'.join(FLAGS)}):value:(\S+)")
# Kernel modules that let a NIC (GPUDirect RDMA) or a processor (GDRCopy: gdrdrv) access a GPU's
# memory; nv_peer_mem is the older name of nvidia_peermem.
MODULES = ("nvidia_peermem", "nv_peer_mem", "gdrdrv")
# An idle GPU lowers the current speed of its slot; the highest that both support stays the same.
FIELDS = ("name", "driver_version", "pcie.link.gen.max", "pcie.link.width.max")
FORMAT = (f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader")


class InstalledGpu(Value, frozen=True, kw_only=True):
    """A GPU, as its driver sees it."""

    model: str
    driver: str
    # speed and width of PCIe as Linux writes them, such as `8.0 GT/s PCIe x16`; empty if they are
    # not known
    slot: str = ""


def list_gpus() -> tuple[InstalledGpu, ...]:
    """Ask for this host's GPUs, in the driver's order; empty without a driver."""
    lines = (output_of("nvidia-smi", *FORMAT) or "").strip().splitlines()
    rows = [line.rsplit(", ", len(FIELDS) - 1) for line in lines]
    return tuple(
        InstalledGpu(model=row[0], driver=row[1], slot=pcie.slot_name(row[2], row[3]))
        for row in rows
        if len(row) == len(FIELDS)
    )


def topology() -> str:
    """Return the matrix of `nvidia-smi topo -m`; empty without a driver."""
    return output_of("nvidia-smi", "topo", "-m") or ""


def modules(loaded: Path = Path("/proc/modules")) -> tuple[str, ...]:
    """Return those of `MODULES`, which give access to the memory of GPUs, that are loaded."""
    try:
        loaded_modules = {line.partition(" ")[0] for line in loaded.read_text().splitlines()}
    except OSError:
        return ()
    return tuple(module for module in MODULES if module in loaded_modules)


def mpi_flags() -> dict[str, str]:
    """Return the value of each of `FLAGS` that Open MPI knows; empty for another MPI."""
    return dict(FLAG.findall(output_of("ompi_info", "--parsable", "-l", "9", "--all") or ""))
