"""One operation at one size, and the data of a rank for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.benchmarks.collectives.operations import NUMBER, Collective
from cluster.core.units import format_size
from cluster.measure.payload import aligned, check_data, inverse, pattern

if TYPE_CHECKING:
    import numpy as np
    from mpi4py.MPI import Intracomm
    from numpy.typing import NDArray

    from cluster.core.model.value import Scalar

    Data = NDArray[np.uint8] | NDArray[np.float32]


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
        """The parameters of its data point."""
        sized: dict[str, Scalar] = {"size": self.size} if self.size else {}
        return {**sized, "ranks": self.comm.Get_size()}

    def fill(self) -> None:
        n, rank = self.comm.Get_size(), self.comm.Get_rank()
        numbers = self.operation.reduces
        data = _numbers(self.size, n, rank) if numbers else _bytes(self.size)
        self.inputs, self.expected = zip(
            *(_parts(self.operation.name, part, whole, n, rank) for part, whole in data),
            strict=True,
        )
        gets = self.expected[0]
        self.result = aligned(0 if gets is None else gets.nbytes)
        if numbers:
            self.result = self.result.view("float32")

    def check(self, number: int) -> None:
        expected = self.expected[number % 2]
        if expected is not None:
            check_data(self.result.view("uint8"), expected.view("uint8"), self.what)


def _bytes(size: int) -> list[tuple[Data, Data]]:
    """Return two pairs of input and whole result, in bytes that are the same on every rank."""
    first = pattern(size)
    other = inverse(first)
    return [(first, first), (other, other)]


def _numbers(size: int, n: int, own_rank: int) -> list[tuple[Data, Data]]:
    """Return two pairs of this rank's numbers and their sums, whole and below 2**24: exact."""
    import numpy as np  # noqa: PLC0415 - not needed to list or plan benchmarks

    common = (np.arange(size // NUMBER) % 13).astype(np.float32)
    all_ = float(sum(rank % 8 for rank in range(n)))
    return [(common + shift + own_rank % 8, (common + shift) * n + all_) for shift in (0, 16)]


def _parts(name: str, data: Data, whole: Data, n: int, rank: int) -> tuple[Data, Data | None]:
    """Return this rank's part of the input, and of the result (None if it gets none).

    In an alltoall, rank s sends part (s + d) mod n to rank d: no rank has two equal parts.
    """
    import numpy as np  # noqa: PLC0415

    part = len(data) // n
    own = slice(rank * part, (rank + 1) * part)
    if name == "allgather":
        return data[own], whole
    if name == "reduce_scatter":
        return data, whole[own]
    if name == "alltoall":
        turned = np.roll(data, -rank * part)
        return turned, turned
    if name == "bcast":
        return data, None if rank == 0 else whole
    return data, whole if rank == 0 or name == "allreduce" else None
