"""The collective operations, the definitions of their times and bandwidths, and data for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from cluster.core.model.results.measurements import Definition, Factor, Flow
from cluster.core.model.value import Value
from cluster.core.text.units import format_size
from cluster.measure.buffers import allocate, check_data, inverse, pattern

if TYPE_CHECKING:
    import numpy as np
    from mpi4py.MPI import Intracomm
    from numpy.typing import NDArray

    from cluster.core.model.value import Scalar

    Data = NDArray[np.uint8] | NDArray[np.float32]

Transport = Literal["mpi", "gloo", "nccl", "nccl4py"]
NUMBER = 4  # bytes of a 32-bit floating-point number
BARRIER = "barrier"


class Collective(Value, frozen=True, kw_only=True):
    """One collective."""

    name: str
    effect: str  # it does with a message of S bytes
    factor: Factor = ""
    flow: Flow = "between hosts"  # which bytes pass a host's link
    reduces: bool = False  # it sums 32-bit floating-point numbers; the others move bytes
    divides: bool = False

    def real(self, size: int, ranks: int) -> int:
        """Round a size down to one that can be divided among the ranks, but not to 0."""
        unit = (NUMBER if self.reduces else 1) * (ranks if self.divides else 1)
        return max(1, size // unit) * unit


OPERATIONS = (
    Collective(
        name="allreduce",
        effect="every rank gives S bytes of 32-bit floats and gets their sum over all ranks",
        factor="2(n-1)/n",
        reduces=True,
    ),
    Collective(
        name="allgather",
        effect="every rank gives S / n bytes and gets those of all ranks",
        factor="(n-1)/n",
        divides=True,
    ),
    Collective(
        name="reduce_scatter",
        effect="every rank gives S bytes of 32-bit floats and gets its n-th of their sum",
        factor="(n-1)/n",
        reduces=True,
        divides=True,
    ),
    Collective(name="bcast", effect="rank 0 gives S bytes to every other rank", factor="1"),
    Collective(
        name="reduce",
        effect="every rank gives S bytes of 32-bit floats, and rank 0 gets their sum",
        factor="1",
        reduces=True,
    ),
    Collective(
        name="alltoall",
        effect="every rank gives S / n bytes to each rank, itself included",
        factor="(n-1)/n",
        flow="between ranks",
        divides=True,
    ),
    Collective(name=BARRIER, effect="no rank goes on before all have come", flow=""),
)
NAMED = {operation.name: operation for operation in OPERATIONS}
LIBRARIES = {
    "mpi": "MPI (blocking, out of place but for bcast)",
    "gloo": "torch.distributed with the backend gloo (in place where it allows nothing else)",
    "nccl": "torch.distributed with the backend nccl, from and to the memory of GPUs "
    "(in place where it allows nothing else), until the GPU is done (torch.cuda.synchronize)",
    "nccl4py": "NCCL, called by nccl4py, from and to the memory of GPUs (out of place but for bcast"
    " on rank 0), until the GPU is done (cudaDeviceSynchronize)",
}


def timing(operation: Collective, transport: Transport = "mpi") -> Definition:
    """Define the time of an operation, timed by a loop in Python."""
    return Definition(
        benchmark="collectives",
        metric=operation.name,
        unit="s",
        better="lower",
        what=f"one {operation.name} by {LIBRARIES[transport]}: {operation.effect}; "
        "then the result is checked",
        clock="time.perf_counter_ns of each rank (CLOCK_MONOTONIC)",
        synchronisation="barrier of all ranks (MPI) before each value, outside the timed region",
        warm_up="100 times up to 8192 B, 10 above, not timed, unless said otherwise",
        aggregation="slowest rank",
        flow=operation.flow,
        factor=operation.factor,
    )


def rates(base: Definition) -> tuple[Definition, ...]:
    """Define the algorithm and bus bandwidths of an operation's times; none for a barrier."""
    if not base.factor:
        return ()
    bus = f"S x {base.factor} for n ranks (nccl-tests, doc/PERFORMANCE.md)"
    template = msgspec.structs.replace(base, unit="B/s", better="higher", rate_of=base.id)
    return (
        msgspec.structs.replace(
            template,
            metric=f"{base.metric}_algbw",
            what=f"S over the time of {base.what}",
            rate="algorithm",
        ),
        msgspec.structs.replace(
            template,
            metric=f"{base.metric}_busbw",
            what=f"{bus} over the time of {base.what}",
            rate="bus",
        ),
    )


TIMED = {operation.name: timing(operation) for operation in OPERATIONS}


class CollectiveSeries:
    """One operation at one size S in bytes, and one rank's memory for it, after `fill`.

    Two sets of data alternate, so that missing bytes are noticed: bytes and the inverse bytes, or
    small whole numbers, whose sums are exact.
    """

    def __init__(self, comm: Intracomm, operation: Collective, size: int) -> None:
        self.comm = comm
        self.operation = operation
        self.size = size
        self.number = 0
        self.what = operation.name if not size else f"{operation.name} {format_size(size)}"

    @property
    def point(self) -> dict[str, Scalar]:
        sizes: dict[str, Scalar] = {"size": self.size} if self.size else {}
        return {**sizes, "ranks": self.comm.Get_size()}

    def fill(self) -> None:
        n, rank = self.comm.Get_size(), self.comm.Get_rank()
        numbers = self.operation.reduces
        data: list[tuple[Data, Data]] = []
        if not numbers:  # bytes are the same on every rank, as are the results
            first = pattern(self.size)
            data = [(part, part) for part in (first, inverse(first))]
        else:  # those of this rank and their sums are whole and below 2**24: exact
            import numpy as np  # noqa: PLC0415 - not needed to list or plan benchmarks

            common = (np.arange(self.size // NUMBER) % 13).astype(np.float32)
            all_ = float(sum(number % 8 for number in range(n)))
            data = [(common + shift + rank % 8, (common + shift) * n + all_) for shift in (0, 16)]
        self.inputs, self.expected = zip(
            *(_parts(self.operation.name, part, whole, n, rank) for part, whole in data),
            strict=True,
        )
        gets = self.expected[0]
        self.result = allocate(0 if gets is None else gets.nbytes)
        if numbers:
            self.result = self.result.view("float32")

    def check(self, number: int) -> None:
        expected = self.expected[number % 2]
        if expected is not None:
            check_data(self.result.view("uint8"), expected.view("uint8"), self.what)


def _parts(name: str, data: Data, whole: Data, n: int, rank: int) -> tuple[Data, Data | None]:
    """Return this rank's part of the input, and of the result (None if it gets none).

    In an alltoall, rank s sends part (s + d) mod n to rank d: no rank has two equal parts.
    """
    import numpy as np  # noqa: PLC0415

    part = len(data) // n
    block = slice(rank * part, (rank + 1) * part)
    if name == "allgather":
        return data[block], whole
    if name == "reduce_scatter":
        return data, whole[block]
    if name == "alltoall":
        rotation = np.roll(data, -rank * part)
        return rotation, rotation
    if name == "bcast":
        return data, None if rank == 0 else whole
    return data, whole if rank == 0 or name == "allreduce" else None
