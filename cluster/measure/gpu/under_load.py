"""The link and the clocks of a GPU while it copies: an idle GPU slows them down."""

from __future__ import annotations

from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from cluster.agent.gpu_state import GpuState, ask_gpus

if TYPE_CHECKING:
    from collections.abc import Callable

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
    begun = Event()

    def run() -> None:
        try:
            while not stop.is_set():
                copy()
                begun.set()
        finally:
            begun.set()

    thread = Thread(target=run, daemon=True)
    thread.start()
    begun.wait()
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
