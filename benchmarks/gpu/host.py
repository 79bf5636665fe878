"""What the rank of `gpu` does on its host."""

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from threading import Event, Thread
from typing import Any

from cluster.agent.hardware.gpus import GpuState, ask_gpus
from cluster.benchmarks.gpu import definitions
from cluster.benchmarks.gpu.definitions import GpuParams
from cluster.core.model.results.limits import slot_bandwidth
from cluster.core.model.results.measurements import Definition
from cluster.core.model.value import Scalar
from cluster.measure.gpu import CudaCopies, CudaLaunches, missing_gpus_error
from cluster.measure.groups import import_torch
from cluster.measure.rank import Rank
from cluster.measure.within import numa_nodes, usable_cpus

SMALL = 1 << 20  # bytes; below it the latency of a copy decides, which takes more copies to know
MANY, FEW = 200, 20
AGREE = 0.02  # of the time of a large copy: events and the wall clock must not differ by more


def measure_host(rank: Rank, params: GpuParams) -> None:
    """Measure all GPUs of this host (ClusterError: no torch, no GPU, or a copy arrived wrong)."""
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # as nvidia-smi numbers them
    torch = _torch()
    if rank.size > 1:
        rank.note(f"Only the GPUs of {platform.node()}, the host of rank 0, were measured.")
    gpus = range(int(torch.cuda.device_count()))
    host = _GpuHost(rank, params, torch)
    for gpu in gpus:
        rank.progress(gpu, len(gpus), f"GPU {gpu}")
        host.measure_gpu(gpu)
        host.peers(gpu, [other for other in gpus if other != gpu])
    rank.progress(len(gpus), len(gpus), "done")


def _torch() -> Any:  # noqa: ANN401 - a module that is optional
    torch = import_torch("The benchmark gpu")
    if torch.cuda.is_available():
        return torch
    build = "" if torch.version.cuda else f": torch {torch.__version__} comes without CUDA"
    raise missing_gpus_error(platform.node(), 0, 1, means=f"torch sees none{build}.", instead="")


class _GpuHost:
    """The GPUs of the host of a rank."""

    def __init__(self, rank: Rank, params: GpuParams, torch: Any) -> None:  # noqa: ANN401
        self._rank, self._params, self._torch = rank, params, torch
        self._nodes, without_cpus = numa_nodes(usable_cpus())
        for node in without_cpus:
            rank.note(f"NUMA node {node} has no core that the rank may use: not tested.")

    def measure_gpu(self, gpu: int) -> None:
        # The link and the clock of the memory during copies are the bounds.
        state = state_under_load(self._torch, gpu)
        properties = self._torch.cuda.get_device_properties(gpu)
        point: dict[str, Scalar] = {"gpu": gpu, "model": str(properties.name)}
        slot = slot_bandwidth(state.slot) if state else None
        if state is None or slot is None:
            self._rank.note(
                f"GPU {gpu}: nvidia-smi does not say which PCIe link it uses, so its copies have "
                "no bound."
            )
        else:
            self._record_rate(definitions.LINK, {**point, "slot": state.slot}, slot.rate)
        bits = getattr(properties, "memory_bus_width", 0)
        if state is None or not state.memory_clock or not bits:
            self._rank.note(
                f"GPU {gpu}: the clock or the width of its memory is not known; its bound is that "
                "of the data sheet, if we have one."
            )
        else:
            peak = memory_rate(state.memory_clock, bits)
            megahertz = round(state.memory_clock / 1e6)
            self._record_rate(definitions.MEMORY, {**point, "MHz": megahertz, "bits": bits}, peak)
        for node in self._nodes:
            with _on_cpu(node.cpu):
                for size in self._params.sizes:
                    self._with_host(gpu, node.number, size)
        for size in self._params.sizes:
            copies = CudaCopies(self._torch, gpu, size)
            copy_point: dict[str, Scalar] = {"gpu": gpu, "size": size}
            self._series(definitions.WITHIN_GPU, copy_point, 2 * size, copies.within)
        launches = CudaLaunches(self._torch, gpu)
        for definition, times in (
            (definitions.LAUNCH, launches.launch),
            (definitions.ROUND_TRIP, launches.round_trip),
            (definitions.EVENTS, launches.events),
        ):
            values = self._rank.begin(definition, {"gpu": gpu})
            values += times(self._params.kernels)
            self._rank.end()

    def peers(self, gpu: int, peer_gpus: list[int]) -> None:
        for other in peer_gpus:
            direct = self._torch.cuda.can_device_access_peer(gpu, other)
            for size in self._params.sizes:
                copies = CudaCopies(self._torch, gpu, size)
                point: dict[str, Scalar] = {"gpu": gpu, "to": other, "size": size}
                point["p2p"] = "on" if direct else "off"
                self._series(definitions.BETWEEN_GPUS, point, size, partial(copies.to_peer, other))

    def _with_host(self, gpu: int, node: int, size: int) -> None:
        copies = CudaCopies(self._torch, gpu, size)
        point: dict[str, Scalar] = {"gpu": gpu, "numa": node, "size": size}
        for memory in ("pinned", "pageable"):
            pin = memory == "pinned"
            for kind, times in (
                (definitions.HOST_TO_GPU, copies.from_host),
                (definitions.GPU_TO_HOST, copies.to_host),
            ):
                self._series(kind, {**point, "memory": memory}, size, partial(times, pin=pin))
        point_of_both = {**point, "memory": "pinned"}
        self._series(definitions.BOTH_WAYS, point_of_both, 2 * size, copies.both_ways)
        if size == max(self._params.sizes):
            events = median(copies.from_host(FEW, pin=True))
            wall = median(copies.wall_clock(FEW))
            difference = abs(wall - events) / wall
            if difference > AGREE:
                self._rank.note(
                    f"GPU {gpu}: a copy of {size} B takes {events:.4g} s by CUDA's events and "
                    f"{wall:.4g} s by the wall clock, {difference:.0%} apart: do not trust its "
                    "rates."
                )

    def _series(
        self,
        definition: Definition,
        point: dict[str, Scalar],
        size: int,
        times: Callable[[int], list[float]],
    ) -> None:
        count = self._params.iterations or (MANY if size < SMALL else FEW)
        values = self._rank.begin(definition, point, size=size)
        values += times(count)
        self._rank.end()

    def _record_rate(self, definition: Definition, point: dict[str, Scalar], rate: float) -> None:
        self._rank.begin(definition, point, unit=definition.unit).append(rate)
        self._rank.end()


@contextmanager
def _on_cpu(cpu: int) -> Iterator[None]:
    """Run on one core: its NUMA node has the memory that is touched first."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


LOAD = 64 << 20  # bytes of a copy that keeps the link busy
RATE = 2  # transfers per cycle of the memory's clock: GDDR and HBM send on both edges


def memory_rate(clock: float, bits: int) -> float:
    """Compute the bytes per second that a GPU's memory carries, read and written together.

    1555 GB/s for the 1215 MHz, as nvidia-smi prints it (here in Hz), and 5120 bits of an A100.
    """
    return RATE * clock * bits / 8


def state_under_load(torch: Any, gpu: int) -> GpuState | None:  # noqa: ANN401
    """Return the state of a GPU while it copies; None if the driver's tool does not know it."""
    source = torch.empty(LOAD, dtype=torch.uint8, pin_memory=True)
    target = torch.empty(LOAD, dtype=torch.uint8, device=f"cuda:{gpu}")

    def copy() -> None:
        target.copy_(source, non_blocking=True)
        torch.cuda.synchronize(gpu)

    uuid = str(getattr(torch.cuda.get_device_properties(gpu), "uuid", ""))
    states = while_busy(copy, ask_gpus)
    return the_one(states, uuid, gpu)


def while_busy(
    copy: Callable[[], None], ask: Callable[[], tuple[GpuState, ...]]
) -> tuple[GpuState, ...]:
    """Ask while another thread copies again and again."""
    stop = Event()
    start = Event()

    def run() -> None:
        try:
            while not stop.is_set():
                copy()
                start.set()
        finally:
            start.set()

    thread = Thread(target=run, daemon=True)
    thread.start()
    start.wait()
    try:
        return ask()
    finally:
        stop.set()
        thread.join()


def the_one(states: tuple[GpuState, ...], uuid: str, gpu: int) -> GpuState | None:
    """Find a GPU of torch among those of the driver: CUDA_VISIBLE_DEVICES renumbers them.

    The uuid is as torch prints it, without `GPU-`; if torch knows none, the number counts.
    """
    if uuid:
        return next((state for state in states if state.uuid.endswith(uuid)), None)
    return next((state for state in states if state.index == gpu), None)
