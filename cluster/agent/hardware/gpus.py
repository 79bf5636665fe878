"""The GPUs of a host, and the software that moves messages from and to their memory.

The founding comparison began with the same checks: `ompi_info` for CUDA and GPUDirect, and
`nvidia-smi topo -m` for the paths between the devices. What is not installed gives empty values.
"""

import re
from pathlib import Path

from cluster.agent.commands import output_of
from cluster.core.model.results.limits import slot_name
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
# The link of an idle GPU is slow, and so are its clocks: all of these are asked under load.
STATE_FIELDS = (
    *("index", "uuid", "name", "pcie.link.gen.current", "pcie.link.width.current"),
    *("clocks.current.memory", "clocks.current.sm", "utilization.gpu"),
    *("memory.used", "memory.total", "power.draw"),
)
STATE_FORMAT = "--format=csv"
KNOWN = (*STATE_FIELDS, "timestamp", "driver_version", "pstate", "pci.bus_id")  # first


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
        InstalledGpu(model=row[0], driver=row[1], slot=slot_name(row[2], row[3]))
        for row in rows
        if len(row) == len(FIELDS)
    )


def topology() -> str:
    """Return the matrix of `nvidia-smi topo -m`; empty without a driver."""
    return output_of("nvidia-smi", "topo", "-m") or ""


def modules(path: Path = Path("/proc/modules")) -> tuple[str, ...]:
    """Return those of `MODULES`, which give access to the memory of GPUs, that are loaded."""
    try:
        loaded_modules = {line.partition(" ")[0] for line in path.read_text().splitlines()}
    except OSError:
        return ()
    return tuple(module for module in MODULES if module in loaded_modules)


def mpi_flags() -> dict[str, str]:
    """Return the value of each of `FLAGS` that Open MPI knows; empty for another MPI."""
    return dict(FLAG.findall(output_of("ompi_info", "--parsable", "-l", "9", "--all") or ""))


class GpuState(Value, frozen=True, kw_only=True):
    """A GPU at a moment; what the driver does not tell is None or empty."""

    index: int
    uuid: str  # of it, such as `GPU-5e0b...`
    model: str
    slot: str = ""  # speed and width of PCIe in use, as Linux writes them: `32.0 GT/s PCIe x16`
    memory_clock: float | None = None  # in Hz
    clock: float | None = None  # of its multiprocessors, in Hz
    # the share of the last sample in which a kernel ran, 0 to 1; that is not efficiency
    busy: float | None = None
    memory: float | None = None  # the share that is in use
    power: float | None = None  # in watts


def ask_gpus() -> tuple[GpuState, ...]:
    """Ask the driver for the state of all GPUs; empty without a driver."""
    return gpu_states(
        output_of("nvidia-smi", f"--query-gpu={','.join(STATE_FIELDS)}", STATE_FORMAT) or ""
    )


def gpu_states(text: str) -> tuple[GpuState, ...]:
    """Read what `nvidia-smi --query-gpu=... --format=csv` printed, whatever fields it was asked.

    With units or without, and with `[N/A]` where the driver does not know; nothing of a text
    without the line of names, such as an error.
    """
    lines = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
    heads = [index for index, cells in enumerate(lines) if _is_head(cells)]
    if not heads:
        return ()
    head = [cell.partition(" [")[0] for cell in lines[heads[0]]]
    rows = [row for row in lines[heads[0] + 1 :] if len(row) == len(head) and not _is_head(row)]
    states = []
    for number, cells in enumerate(rows):
        row = dict(zip(head, cells, strict=True))
        index = row.get("index", "")
        used, total = (_read_number(row.get(f"memory.{size}", ""), 1) for size in ("used", "total"))
        link = [row.get(f"pcie.link.{part}.current", "") for part in ("gen", "width")]
        states.append(
            GpuState(
                index=int(index) if index.isdigit() else number,
                uuid=row.get("uuid", ""),
                model=row.get("name", ""),
                slot=slot_name(*link),
                memory_clock=_read_number(row.get("clocks.current.memory", ""), 1e6),
                clock=_read_number(row.get("clocks.current.sm", ""), 1e6),
                busy=_read_number(row.get("utilization.gpu", ""), 0.01),
                memory=None if used is None or not total else used / total,
                power=_read_number(row.get("power.draw", ""), 1),
            )
        )
    return tuple(states)


def _is_head(cells: list[str]) -> bool:
    return all(cell.partition(" [")[0] in KNOWN for cell in cells[:1]) and len(cells) > 1


def _read_number(text: str, unit: float) -> float | None:
    """Read a number, with its unit behind it or not."""
    try:
        return float(text.partition(" ")[0]) * unit
    except ValueError:
        return None
