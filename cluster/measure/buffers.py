"""The memory that messages are in: the processor's, or that of one GPU per rank.

The loops that exchange messages work with both: a `Memory` allocates, slices and checks blocks, and
its `Moves` send and receive them. In the processor's memory a block is a NumPy array, and the moves
are MPI's own calls. With a GPU, MPI gets addresses in the GPU's memory, and a move ends when the
GPU has finished it, on both sides.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

import msgspec

from cluster.agent.hardware import gpus
from cluster.core.errors import SpecError
from cluster.measure.gpu import INSTEAD, check_mpi, missing_gpus_error, missing_library_error

if TYPE_CHECKING:
    import numpy as np
    from mpi4py.MPI import Comm
    from numpy.typing import NDArray

    from cluster.core.model.results.measurements import Definition

    Data = NDArray[np.uint8] | NDArray[np.float32]

    Piece = Any
    """A block of memory: a NumPy array, a `Block`, or a library's own array."""


Buffer: TypeAlias = "NDArray[np.uint8]"
PAGE = 4096  # bytes, the alignment of all buffers
CACHED = 1 << 20  # bytes compared at a time: they stay in the cache
SEED = 20180626  # any number, the same on all ranks


class WrongDataError(Exception):
    """A byte that arrived differs from the byte that was sent."""


def allocate(size: int) -> Buffer:
    """Return zeroed memory that starts at a page boundary."""
    import numpy as np  # noqa: PLC0415 - not needed to list or plan benchmarks

    raw = np.zeros(size + PAGE, np.uint8)
    start = -raw.ctypes.data % PAGE
    return raw[start : start + size]


def pattern(size: int) -> Buffer:
    """Return pseudo-random bytes from a page boundary, the same on every rank."""
    import numpy as np  # noqa: PLC0415

    bytes_ = allocate(size)
    bytes_[:] = np.frombuffer(np.random.default_rng(SEED).bytes(size), np.uint8)
    return bytes_


def inverse(bytes_: Buffer) -> Buffer:
    import numpy as np  # noqa: PLC0415

    return np.invert(bytes_, out=allocate(len(bytes_)))


def check_data(actual: Buffer, expected: Buffer, label: str) -> None:
    """Compare the bytes received with those expected, as many (WrongDataError: one differs)."""
    offset = first_difference(actual, expected)
    if offset is not None:
        raise WrongDataError(
            f"{label}: byte {offset} arrived as {actual[offset]}, but was sent as "
            f"{expected[offset]}"
        )


def first_difference(actual: Buffer, expected: Buffer) -> int | None:
    for start in range(0, len(expected), CACHED):
        differs = actual[start : start + CACHED] != expected[start : start + CACHED]
        if differs.any():
            return start + int(differs.argmax())
    return None


class TorchLibrary:
    module: ClassVar[str] = "torch"

    def __init__(self, number: int) -> None:
        import torch  # noqa: PLC0415 - gigabytes, which cluster does not install

        torch.cuda.set_device(number)
        self._torch = torch
        self._device = f"cuda:{number}"

    @staticmethod
    def count() -> int:
        import torch  # noqa: PLC0415

        return int(torch.cuda.device_count()) if torch.cuda.is_available() else 0

    def put(self, bytes_: Data) -> Piece:
        return self._torch.from_numpy(bytes_).to(self._device)

    def zeros(self, size: int) -> Piece:
        return self._torch.zeros(size, dtype=self._torch.uint8, device=self._device)

    def clear(self, array: Piece) -> None:
        array.zero_()

    def address(self, array: Piece) -> int:
        return int(array.data_ptr())

    def equal(self, first: Piece, second: Piece) -> bool:
        return bool(self._torch.equal(first, second))

    def fetch(self, array: Piece) -> Buffer:
        """Copy bytes to the processor's memory."""
        bytes_: Buffer = array.cpu().numpy()
        return bytes_

    def synchronise(self) -> None:
        self._torch.cuda.synchronize()


class CupyLibrary:
    module: ClassVar[str] = "cupy"

    def __init__(self, number: int) -> None:
        import cupy  # noqa: PLC0415

        self._cupy = cupy
        self._device = cupy.cuda.Device(number)
        self._device.use()

    @staticmethod
    def count() -> int:
        import cupy  # noqa: PLC0415

        try:
            return int(cupy.cuda.runtime.getDeviceCount())
        except cupy.cuda.runtime.CUDARuntimeError:  # no driver, or no GPU
            return 0

    def put(self, bytes_: Data) -> Piece:
        return self._cupy.asarray(bytes_)

    def zeros(self, size: int) -> Piece:
        return self._cupy.zeros(size, dtype=self._cupy.uint8)

    def clear(self, array: Piece) -> None:
        array.fill(0)

    def address(self, array: Piece) -> int:
        return int(array.data.ptr)

    def equal(self, first: Piece, second: Piece) -> bool:
        return bool(self._cupy.array_equal(first, second))

    def fetch(self, array: Piece) -> Buffer:
        bytes_: Buffer = self._cupy.asnumpy(array)
        return bytes_

    def synchronise(self) -> None:
        self._device.synchronize()


Library = TorchLibrary | CupyLibrary  # on one GPU: arrays there, most of bytes, which can be sliced
LIBRARIES: tuple[type[Library], ...] = (TorchLibrary, CupyLibrary)


def find_library() -> type[Library]:
    """Return the first of `LIBRARIES` that is installed (SpecError: none is)."""
    for library in LIBRARIES:
        if find_spec(library.module):
            return library
    raise missing_library_error(platform.node(), sys.executable)


Buffers = Literal["cpu", "cuda"]
CHUNK = 1 << 26  # bytes compared at a time: the comparison allocates as many again


class Moves(NamedTuple):
    """How the ranks of a communicator move blocks: the same arguments as MPI's calls."""

    ready: Callable[[], object]
    send: Callable[[Piece, int, int], object]
    receive: Callable[[Piece, int, int], object]
    isend: Callable[[Piece, int, int], Any]
    irecv: Callable[[Piece, int, int], Any]
    wait: Callable[[list[Any]], object]


class CpuMemory:
    """The processor's memory; its blocks are arrays."""

    def put(self, bytes_: Buffer) -> Piece:
        """Make a block with the bytes of an array."""
        return bytes_

    def zeros(self, size: int) -> Piece:
        """Make a block of zeros, of a size in bytes, that starts at a page boundary."""
        return allocate(size)

    def clear(self, block: Buffer) -> None:
        block[:] = 0

    def check(self, actual: Buffer, expected: Buffer, label: str) -> None:
        """Compare the bytes received with those expected, as many (WrongDataError: one differs)."""
        check_data(actual, expected, label)

    def moves(self, comm: Comm) -> Moves:
        """Return MPI's own calls, so that their times include no code of cluster."""
        from mpi4py.MPI import Request  # noqa: PLC0415 - importing it starts MPI

        return Moves(comm.Barrier, comm.Send, comm.Recv, comm.Isend, comm.Irecv, Request.Waitall)

    def redefine(self, definition: Definition) -> Definition:
        """Return the definition of a metric for messages in this memory."""
        return definition


class Block:
    """A piece of a GPU's memory."""

    __slots__ = ("array", "library", "mpi")

    def __init__(self, library: Library, array: Piece) -> None:
        from mpi4py import MPI  # noqa: PLC0415 - importing it starts MPI

        self.library = library
        self.array = array
        self.mpi = MPI.buffer.fromaddress(library.address(array), len(array))

    def __len__(self) -> int:
        return len(self.mpi)

    def __getitem__(self, part: slice) -> Block:
        return Block(self.library, self.array[part])


class GpuMemory:
    """The memory of one GPU, with the same functions."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def put(self, bytes_: Buffer) -> Piece:
        block = Block(self._library, self._library.put(bytes_))
        self._library.synchronise()
        return block

    def zeros(self, size: int) -> Piece:
        return Block(self._library, self._library.zeros(size))

    def clear(self, block: Block) -> None:
        self._library.clear(block.array)
        self._library.synchronise()

    def check(self, actual: Block, expected: Block, label: str) -> None:
        """Compare them on the GPU; only bytes that differ are copied from it."""
        for start in range(0, len(actual), CHUNK):
            part = slice(start, start + CHUNK)
            if not self._library.equal(actual.array[part], expected.array[part]):
                check_data(
                    self._library.fetch(actual.array), self._library.fetch(expected.array), label
                )
                raise WrongDataError(f"{label}: it arrived wrong, and is correct now")

    def moves(self, comm: Comm) -> Moves:
        """Return calls that return when the GPU has finished the move."""
        from mpi4py.MPI import Request  # noqa: PLC0415

        result = self._library.synchronise

        def ready() -> None:
            result()
            comm.Barrier()

        def send(block: Block, peer: int, tag: int) -> None:
            comm.Send(block.mpi, peer, tag)
            result()

        def receive(block: Block, peer: int, tag: int) -> None:
            comm.Recv(block.mpi, peer, tag)
            result()

        def wait(requests: list[Any]) -> None:
            Request.Waitall(requests)
            result()

        return Moves(
            ready,
            send,
            receive,
            lambda block, peer, tag: comm.Isend(block.mpi, peer, tag),
            lambda block, peer, tag: comm.Irecv(block.mpi, peer, tag),
            wait,
        )

    def redefine(self, definition: Definition) -> Definition:
        return on_gpus(definition)


Memory = CpuMemory | GpuMemory  # a rank's, for messages; its blocks can be sliced


def on_gpus(definition: Definition) -> Definition:
    """Return the definition of a metric for messages in the memory of GPUs."""
    return msgspec.structs.replace(
        definition,
        buffer="cuda",
        what=f"{definition.what}. The messages are in the memory of GPUs, a GPU for each rank, and "
        "MPI is given their addresses there; each side's move is over when its GPU is done with it "
        "(cudaDeviceSynchronize, within the time)",
        synchronisation=f"cudaDeviceSynchronize on both sides, then: {definition.synchronisation}",
    )


def open_memory(buffer: Buffers, comm: Comm) -> Memory:
    """Open the memory for messages; a rank without it is a SpecError on all, before any timing."""
    if buffer == "cpu":
        return CpuMemory()
    memory, why = None, None
    place = place_on_host(comm)
    try:
        open_ = own_gpu(place)
        check_mpi(platform.node(), gpus.mpi_flags())
        memory = GpuMemory(open_())
    except SpecError as error:
        why = error
    reasons = [reason for reason in comm.allgather(why) if reason]
    if memory is None or reasons:
        raise reasons[0]
    return memory


def own_gpu(place: tuple[int, int], instead: str = INSTEAD) -> Callable[[], Library]:
    """Return what opens the GPU of a rank at a place on its host (SpecError: there are too few)."""
    number, ranks = place
    library = find_library()
    count = library.count()
    if count < ranks:
        reason = f"{library.module} sees none there; see whether the driver does: nvidia-smi"
        raise missing_gpus_error(platform.node(), count, ranks, reason, instead=instead)
    return partial(library, number)


def place_on_host(comm: Comm) -> tuple[int, int]:
    """Return this rank's local rank, from 0, and the number of ranks on its host."""
    from mpi4py import MPI  # noqa: PLC0415

    host = comm.Split_type(MPI.COMM_TYPE_SHARED)
    place = host.Get_rank(), host.Get_size()
    host.Free()
    return place
