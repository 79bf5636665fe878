"""What a host did during an interval, by its kernel's counters."""

from cluster.core.model.value import Value

FIGURES = ("processor", "memory", "sent", "received")


class TaskUsage(Value, frozen=True, kw_only=True):
    """What a host did while a task ran there, by `FIGURES`: all its processors and interfaces."""

    median: dict[str, float]  # shares, and bytes per second, of 10 s
    peak: dict[str, float]


class GpuUsage(Value, frozen=True, kw_only=True):
    """One GPU at a moment; what its driver does not say is none."""

    busy: float | None = None  # the share of the last sample in which a kernel ran
    memory: float | None = None  # the share that is in use
    power: float | None = None  # in watts


class HostUsage(Value, frozen=True, kw_only=True):
    """One interval of one host."""

    host: str = ""
    at: float  # its end, in seconds since the epoch
    seconds: float  # its length
    processor: float  # the share of all processors that was busy
    memory: float  # the share that is in use
    sent: float  # bytes per second, by the interface of the cluster
    received: float
    trouble: dict[str, float] = {}  # what went up: `agent.counters.trouble`
    jobs: dict[str, float] = {}  # that run: for how many seconds each has printed nothing
    gpus: tuple[GpuUsage, ...] = ()  # of this host, at most 10 s ago
    cost: float = 0.0  # of a processor, the share that the watching itself took
    # of what tests proved that the link carries; none where no test did
    sent_share: float | None = None
    received_share: float | None = None
