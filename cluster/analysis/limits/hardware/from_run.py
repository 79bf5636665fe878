"""The hardware of a host's GPUs as `gpu` found it during copies; its figures are the bounds."""

from collections.abc import Iterable, Sequence

import msgspec

from cluster.analysis.limits import hardware
from cluster.core import pcie
from cluster.core.model.hardware import Figure, Hardware
from cluster.core.model.measurements import Measurement

LINK, MEMORY = "pcie_link", "gpu_memory_peak"  # metrics of the benchmark `gpu`


def of_measured(measurements: Iterable[Measurement]) -> Hardware | None:
    """Return the hardware of a run of `gpu`, if all GPUs of its host are alike and have links.

    It has no bus where the links of the GPUs differ, and no memory where the peaks do: a bound of
    one would be wrong for another.
    """
    own = [m for m in measurements if m.metric in (LINK, MEMORY)]
    models = {str(m.params["model"]) for m in own}
    if not any(m.metric == LINK for m in own) or len(models) != 1:
        return None
    model = models.pop()
    base = hardware.of_devices([model]) or Hardware(name=model)
    memory = [m for m in own if m.metric == MEMORY]
    rates = {"bus": _bus([m for m in own if m.metric == LINK])}
    rates |= {"memory": _peak(memory)} if memory else {}
    return msgspec.structs.replace(base, **rates)


def _bus(links: Sequence[Measurement]) -> Figure | None:
    slots = {str(m.params["slot"]) for m in links}
    bandwidth = pcie.slot_bandwidth(slots.pop()) if len(slots) == 1 else None
    if bandwidth is None:
        return None
    return msgspec.structs.replace(bandwidth, source=f"{bandwidth.source} (in use)")


def _peak(peaks: Sequence[Measurement]) -> Figure | None:
    rates = {m.values[0] for m in peaks}
    if len(rates) != 1:
        return None
    clock, bits = (int(peaks[0].params[name]) for name in ("MHz", "bits"))
    source = f"{2 * clock} MT/s, {bits} bit (nvidia-smi)"
    return Figure(rate=rates.pop(), source=source)
