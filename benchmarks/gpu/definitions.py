"""The parameters and metrics of `gpu`."""

from functools import partial

from cluster.core.model.results.measurements import define
from cluster.core.model.value import Value
from cluster.core.text.units import Sizes


class GpuParams(Value, frozen=True, kw_only=True):
    """The parameters of `gpu`.

    Args:
        sizes: Bytes of a copy, such as 4,1GiB.
        iterations: Copies of each kind and size; 0 for 20, and 200 below 1 MiB.
        kernels: That are launched to time it, and pairs of events.
    """

    sizes: Sizes = Sizes.parse("4,64KiB,1MiB,64MiB,1GiB")
    iterations: int = 0
    kernels: int = 1000


_gpu = partial(define, "gpu")
_copies = partial(
    _gpu,
    synchronisation="one copy at a time on a host; the GPU is idle before each",
    warm_up="three copies",
)
_launches = partial(_gpu, synchronisation="the GPU is idle before each", warm_up="three launches")
_hardware = partial(
    _gpu, synchronisation="copies of 64 MiB follow one another meanwhile", warm_up="one copy"
)

HOST_TO_GPU, GPU_TO_HOST, BOTH_WAYS, WITHIN_GPU = _copies(
    """
    host_to_gpu (B/s, one way, host to GPU): bytes over the time of a copy from the host's memory
    gpu_to_host (B/s, one way, host to GPU): bytes over the time of a copy to the host's memory
    host_and_gpu (B/s, both ways, host to GPU): bytes of a copy to the GPU and of one from it at
        once, over the time until both ended
    gpu_memory_copy (B/s, GPU memory): bytes read and written over the time of a copy within the
        memory of a GPU
    """,
    clock="CUDA events on the device; time.perf_counter for pageable memory",
)
(BETWEEN_GPUS,) = _copies(
    """
    gpu_to_gpu (B/s, one way, GPU to GPU): bytes over the time of a copy to the memory of another
        GPU
    """,
    clock="time.perf_counter, until both GPUs are idle",
)
(LINK,) = _hardware(
    """
    pcie_link (B/s): what the PCIe slot carries in one direction, by its generation and width during
        a copy
    """,
    clock="none: nvidia-smi",
)
(MEMORY,) = _hardware(
    """
    gpu_memory_peak (B/s): twice the clock of the GPU's memory during a copy, times the width of its
        bus
    """,
    clock="none: nvidia-smi, and the driver's width of the bus",
)
LAUNCH, ROUND_TRIP = _launches(
    """
    kernel_launch (s): from PyTorch's call that adds 1 to one number until the call returns
    kernel_round_trip (s): from PyTorch's call that adds 1 to one number until the processor knows
        that it is done
    """,
    clock="time.perf_counter",
)
(EVENTS,) = _launches(
    """
    event_gap (s): between two events that follow each other on the device
    """,
    clock="CUDA events, which resolve half a microsecond",
)
METRICS = (
    *(HOST_TO_GPU, GPU_TO_HOST, BOTH_WAYS, WITHIN_GPU, BETWEEN_GPUS),
    *(LINK, MEMORY, LAUNCH, ROUND_TRIP, EVENTS),
)
