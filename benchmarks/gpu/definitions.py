"""The metrics of `gpu`."""

from __future__ import annotations

from functools import partial

from cluster.core.model.measurements import Definition

_gpu = partial(
    Definition,
    benchmark="gpu",
    clock="CUDA events on the device; time.perf_counter for pageable memory",
    synchronisation="one copy at a time on a host; the GPU is idle before each",
    warm_up="three copies",
    aggregation="one rank",
)
_rate = partial(_gpu, unit="B/s", better="higher")
_latency = partial(
    _gpu,
    unit="s",
    better="lower",
    synchronisation="the GPU is idle before each",
    warm_up="three launches",
)

HOST_TO_GPU = _rate(
    metric="host_to_gpu",
    what="bytes over the time of a copy from the host's memory",
    flow="one way",
    medium="host to GPU",
)
GPU_TO_HOST = _rate(
    metric="gpu_to_host",
    what="bytes over the time of a copy to the host's memory",
    flow="one way",
    medium="host to GPU",
)
BOTH_WAYS = _rate(
    metric="host_and_gpu",
    what="bytes of a copy to the GPU and of one from it at once, over the time until both ended",
    flow="both ways",
    medium="host to GPU",
)
WITHIN_GPU = _rate(
    metric="gpu_memory_copy",
    what="bytes read and written over the time of a copy within the memory of a GPU",
    medium="GPU memory",
)
BETWEEN_GPUS = _rate(
    metric="gpu_to_gpu",
    what="bytes over the time of a copy to the memory of another GPU",
    clock="time.perf_counter, until both GPUs are idle",
    flow="one way",
    medium="GPU to GPU",
)
LINK = _gpu(
    metric="pcie_link",
    unit="B/s",
    better="higher",
    what="what the PCIe slot carries in one direction, by its generation and width during a copy",
    clock="none: nvidia-smi",
    synchronisation="copies of 64 MiB follow one another meanwhile",
    warm_up="one copy",
)
MEMORY = _gpu(
    metric="gpu_memory_peak",
    unit="B/s",
    better="higher",
    what="twice the clock of the GPU's memory during a copy, times the width of its bus",
    clock="none: nvidia-smi, and the driver's width of the bus",
    synchronisation="copies of 64 MiB follow one another meanwhile",
    warm_up="one copy",
)
LAUNCH = _latency(
    metric="kernel_launch",
    what="from PyTorch's call that adds 1 to one number until the call returns",
    clock="time.perf_counter",
)
ROUND_TRIP = _latency(
    metric="kernel_round_trip",
    what="from PyTorch's call that adds 1 to one number until the processor knows that it is done",
    clock="time.perf_counter",
)
EVENTS = _latency(
    metric="event_gap",
    what="between two events that follow each other on the device",
    clock="CUDA events, which resolve half a microsecond",
)
METRICS = (
    *(HOST_TO_GPU, GPU_TO_HOST, BOTH_WAYS, WITHIN_GPU, BETWEEN_GPUS),
    *(LINK, MEMORY, LAUNCH, ROUND_TRIP, EVENTS),
)
