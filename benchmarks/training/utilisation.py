"""How far training uses its GPU: busy, by the driver, and the share of its peak, by the model."""

from typing import Any

from cluster.analysis.limits.hardware import peak_flops
from cluster.benchmarks.training import definitions
from cluster.core.model.measurements import Definition
from cluster.measure.gpu.busy import BusySampler
from cluster.measure.rank import Rank

ON_CPU = (
    "GPU utilisation and model FLOPs utilisation are not given: processors trained, and no list "
    "has their peak. With GPUs: --device cuda."
)


class Utilisation:
    """The utilisation of one rank's GPU; nothing is recorded on a processor."""

    def __init__(self, rank: Rank, torch: Any, device: str, phases: tuple[str, ...]) -> None:  # noqa: ANN401
        self._rank = rank
        self._sampler: BusySampler | None = None
        self._peak: float | None = None
        self._busy: dict[str, list[float]] = {}
        self._share: dict[str, list[float]] = {}
        if device == "cpu":
            rank.note(ON_CPU)
            return
        properties = torch.cuda.get_device_properties(device)
        peak = peak_flops(str(properties.name))
        if peak is None:
            rank.note(
                f"Model FLOPs utilisation is not given: gpus.toml has no peak of {properties.name}."
            )
        else:
            self._peak = peak.rate
            rank.note(
                f"Model FLOPs utilisation is of {peak.rate / 1e12:.3g} TFLOP/s: {peak.source}."
            )
        uuid = getattr(properties, "uuid", None)
        self._sampler = BusySampler(f"GPU-{uuid}" if uuid else device.partition(":")[2])
        self._busy = {phase: self._series(definitions.GPU_BUSY, phase) for phase in phases}
        if rank.number == 0 and self._peak:
            self._share = {phase: self._series(definitions.MODEL_FLOPS, phase) for phase in phases}

    def trained(self, phase: str, begin: float, end: float) -> None:
        """Record the driver's samples of a round's timed steps, by `time.perf_counter`."""
        if self._sampler is not None:
            self._busy[phase] += self._sampler.between(begin, end)

    def computed(self, phase: str, rate: float, flops: int) -> None:
        """Record a round's share of the peak, from the samples per second of all ranks."""
        if phase in self._share and self._peak:
            self._share[phase].append(100 * rate * flops / (self._peak * self._rank.size))

    def close(self) -> None:
        if self._sampler is not None:
            self._sampler.close()

    def _series(self, own: Definition, phase: str) -> list[float]:
        return self._rank.begin(own, {"data": phase}, unit=own.unit, is_beside=True)
