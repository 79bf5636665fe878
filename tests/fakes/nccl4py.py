"""nccl4py and a GPU without either: arrays here, moved by MPI when the GPU is waited for.

It has what `groups` and `NcclLoops` use of nccl4py 0.6.0, with its signatures, and refuses
what nccl4py refuses: a test compares both where the real one is installed. An operation is only
queued, as on a GPU, so that whoever reads a result too early gets the old one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from enum import IntEnum
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

from numpy.typing import NDArray

from cluster.measure import buffers

ID_BYTES = 128  # of ncclUniqueId


class NcclInvalid(Exception):
    """What was given cannot be."""


class NcclRedOp(IntEnum):
    """Operations of a reduction."""

    SUM = 0


class Array:
    """An array on the GPU: only the library of the GPU may look into it."""

    def __init__(self, data: NDArray[Any]) -> None:
        self.data = data.copy()


class Library:
    """Stands for torch or CuPy with one GPU."""

    module = "numpy"
    there: ClassVar[int] = 2
    queue: ClassVar[list[Callable[[], object]]] = []
    harm: ClassVar[Callable[[], object]] = lambda: None

    def __init__(self, number: int) -> None:
        assert number < self.there

    @classmethod
    def count(cls) -> int:
        return cls.there

    def put(self, bytes_: NDArray[Any]) -> Array:
        return Array(bytes_)

    def fetch(self, array: Array) -> NDArray[Any]:
        return array.data.copy()

    def synchronise(self) -> None:
        """Do what is queued."""
        while self.queue:
            self.queue.pop(0)()


class UniqueId:
    """What ranks find each other by."""

    def __init__(self, _internal: bytes | None = None) -> None:
        self._internal = _internal or bytes(ID_BYTES)

    def __bytes__(self) -> bytes:
        return self._internal

    @staticmethod
    def from_bytes(b: bytes | bytearray | memoryview) -> UniqueId:
        if len(b) != ID_BYTES:
            raise ValueError(b)
        return UniqueId(bytes(b))


def get_unique_id(empty: bool = False) -> UniqueId:  # noqa: FBT001, FBT002 - nccl4py's signature
    return UniqueId(bytes(ID_BYTES) if empty else bytes(range(ID_BYTES)))


def get_version() -> SimpleNamespace:
    return SimpleNamespace(nccl4py="0.6.0", libnccl=SimpleNamespace(version="2.30.0"))


class Communicator:
    """The ranks, each with a GPU."""

    def __init__(self, ptr: int | None = None) -> None:
        assert ptr is None
        self._comm: Any = None

    @classmethod
    def init(
        cls, nranks: int, rank: int, unique_id: UniqueId | Sequence[UniqueId], config: Any = None
    ) -> Communicator:
        """Join the others, which all have the same id."""
        from mpi4py import MPI  # noqa: PLC0415 - importing it starts MPI

        assert config is None
        communicator = cls()
        communicator._comm = MPI.COMM_WORLD.Dup()
        assert (nranks, rank) == (communicator._comm.Get_size(), communicator._comm.Get_rank())
        assert isinstance(unique_id, UniqueId)
        assert set(communicator._comm.allgather(bytes(unique_id))) == {bytes(range(ID_BYTES))}
        return communicator

    def allreduce(
        self, sendbuf: Any, recvbuf: Any, op: Any, *, stream: Any = None, config: Any = None
    ) -> None:
        self._check_stream(stream, config)
        self._sum(op)
        source, output = _pair(sendbuf, recvbuf)
        _enough(output, len(source))
        self._queue(lambda: self._comm.Allreduce(source.copy(), output[: len(source)]))

    def reduce(
        self,
        sendbuf: Any,
        recvbuf: Any,
        op: Any,
        root: int | None = None,
        *,
        stream: Any = None,
        config: Any = None,
    ) -> None:
        """Queue it; only the root's `recvbuf` is looked at."""
        assert root is not None
        self._check_stream(stream, config)
        self._sum(op)
        if self._comm.Get_rank() == root:
            source, output = _pair(sendbuf, recvbuf)
            _enough(output, len(source))
            self._queue(lambda: self._comm.Reduce(source.copy(), output[: len(source)], root=root))
        else:
            data = _data(sendbuf)
            self._queue(lambda: self._comm.Reduce(data.copy(), None, root=root))

    def broadcast(
        self, sendbuf: Any, recvbuf: Any, root: int, *, stream: Any = None, config: Any = None
    ) -> None:
        """Queue it; only the root's `sendbuf` is looked at."""
        self._check_stream(stream, config)
        output = _data(recvbuf)
        if self._comm.Get_rank() == root:
            source, output = _pair(sendbuf, recvbuf)
            if len(source) != len(output):
                raise NcclInvalid("Buffer count mismatch")
            output[:] = source
        self._queue(lambda: self._comm.Bcast(output, root=root))

    def allgather(
        self, sendbuf: Any, recvbuf: Any, *, stream: Any = None, config: Any = None
    ) -> None:
        self._check_stream(stream, config)
        source, output = _pair(sendbuf, recvbuf)
        _enough(output, len(source) * self._comm.Get_size())
        self._queue(lambda: self._comm.Allgather(source.copy(), output))

    def reduce_scatter(
        self, sendbuf: Any, recvbuf: Any, op: Any, *, stream: Any = None, config: Any = None
    ) -> None:
        self._check_stream(stream, config)
        self._sum(op)
        source, output = _pair(sendbuf, recvbuf)
        part = self._part(source)
        _enough(output, part)
        self._queue(lambda: self._comm.Reduce_scatter_block(source.copy(), output[:part]))

    def alltoall(
        self, sendbuf: Any, recvbuf: Any, *, stream: Any = None, config: Any = None
    ) -> None:
        self._check_stream(stream, config)
        source, output = _pair(sendbuf, recvbuf)
        self._part(source)
        _enough(output, len(source))
        self._queue(lambda: self._comm.Alltoall(source.copy(), output))

    def destroy(self) -> None:
        """Leave the others."""
        assert not Library.queue
        self._comm.Free()
        self._comm = None
        sys.stdout.write("destroyed\n")

    def _queue(self, do: Callable[[], object]) -> None:
        Library.queue += [do, Library.harm]

    def _part(self, source: NDArray[Any]) -> int:
        if len(source) < self._comm.Get_size():
            raise NcclInvalid("Buffer count mismatch")
        return len(source) // int(self._comm.Get_size())

    @staticmethod
    def _check_stream(stream: Any, config: Any) -> None:
        """Know no other stream than the default one, which torch and CuPy work in, too."""
        assert stream is None
        assert config is None

    @staticmethod
    def _sum(op: Any) -> None:
        assert op is NcclRedOp.SUM


def _data(array: Any) -> NDArray[Any]:
    if not isinstance(array, Array):
        raise NcclInvalid(f"{type(array)} is not on the GPU")
    return array.data


def _pair(sendbuf: Any, other: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    source, output = _data(sendbuf), _data(other)
    if source.dtype != output.dtype:
        raise NcclInvalid("Dtype mismatch")
    return source, output


def _enough(output: NDArray[Any], count: int) -> None:
    if len(output) < count:
        raise NcclInvalid("Buffer count mismatch")


def install() -> None:
    """Take the place of nccl4py and of the libraries of GPUs, in this process."""
    package, core = ModuleType("nccl"), ModuleType("nccl.core")
    package.__spec__ = ModuleSpec("nccl", None)
    for export in (Communicator, UniqueId, get_unique_id, get_version):
        setattr(core, export.__name__, export)
    core.SUM = NcclRedOp.SUM  # type: ignore[attr-defined]
    package.core = core  # type: ignore[attr-defined]
    sys.modules.update({"nccl": package, "nccl.core": core})
    buffers.LIBRARIES = (Library,)  # type: ignore[assignment]
