"""All ranks exchange messages at once: allreduce, allgather, reduce_scatter, bcast, alltoall ...

Sizes and bandwidths are those of NVIDIA's nccl-tests (doc/PERFORMANCE.md): S is what one rank ends
with or starts from, the algorithm bandwidth is S / t, and the bus bandwidth that times a factor of
the operation, so that a ring reaches the speed of its slowest link at any number of ranks.
Iteration and warm-up counts are those of the OSU Micro-Benchmarks 7.4 (c/util/osu_util.h).
"""

from __future__ import annotations

import ctypes
import os
import sys
from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from cluster.agent.interfaces import list_interfaces
from cluster.core.errors import ClusterError, SpecError
from cluster.core.model.measurements import Definition, Factor, Flow, Planned
from cluster.core.model.value import Value
from cluster.core.units import Sizes, format_size, format_value
from cluster.measure.benchmark import Benchmark
from cluster.measure.buffers import place_on_host
from cluster.measure.kernels import Choice, address, definitions_for, load, timed_in_c
from cluster.measure.main import main
from cluster.measure.payload import WrongDataError, aligned, check_data, inverse, pattern
from cluster.measure.repetitions import Repetitions, samples
from cluster.measure.subprocesses import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np
    from mpi4py.MPI import Intracomm
    from numpy.typing import NDArray

    from cluster.core.model.value import Scalar
    from cluster.measure.rank import Rank

    Data = NDArray[np.uint8] | NDArray[np.float32]

Transport = Literal["mpi", "gloo", "nccl"]
NUMBER = 4  # bytes of a 32-bit floating-point number
LARGE = 8192  # bytes; above it OSU does fewer iterations
MOST = 2**31 - 1  # bytes: what MPI takes as a count
AT_ONCE = 1 << 20  # bytes, about, that are exchanged before their times are looked at
MOST_AT_ONCE = 64  # repetitions
BARRIER = "barrier"


class Operation(Value, frozen=True, kw_only=True):
    """One collective.

    Args:
        name: as its metric is called.
        what: of a size S it does.
        factor: bus bandwidth over algorithm bandwidth.
        flow: who needs what passes a host's link.
        reduces: it sums 32-bit floating-point numbers; the others move bytes.
        divides: S is in as many parts as there are ranks.

    """

    name: str
    what: str
    factor: Factor = ""
    flow: Flow = "between hosts"
    reduces: bool = False
    divides: bool = False

    def real(self, size: int, ranks: int) -> int:
        """Give the size nearest below one, and above 0, that can be divided as it must be."""
        unit = (NUMBER if self.reduces else 1) * (ranks if self.divides else 1)
        return max(1, size // unit) * unit


OPERATIONS = (
    Operation(
        name="allreduce",
        what="every rank gives S bytes of 32-bit floats and gets their sum over all ranks",
        factor="2(n-1)/n",
        reduces=True,
    ),
    Operation(
        name="allgather",
        what="every rank gives S / n bytes and gets those of all ranks",
        factor="(n-1)/n",
        divides=True,
    ),
    Operation(
        name="reduce_scatter",
        what="every rank gives S bytes of 32-bit floats and gets its n-th of their sum",
        factor="(n-1)/n",
        reduces=True,
        divides=True,
    ),
    Operation(name="bcast", what="rank 0 gives S bytes to every other rank", factor="1"),
    Operation(
        name="reduce",
        what="every rank gives S bytes of 32-bit floats, and rank 0 gets their sum",
        factor="1",
        reduces=True,
    ),
    Operation(
        name="alltoall",
        what="every rank gives S / n bytes to each rank, itself included",
        factor="(n-1)/n",
        flow="between ranks",
        divides=True,
    ),
    Operation(name=BARRIER, what="no rank goes on before all have come", flow=""),
)
NAMED = {operation.name: operation for operation in OPERATIONS}
LIBRARIES = {
    "mpi": "MPI (blocking, out of place but for bcast)",
    "gloo": "torch.distributed with the backend gloo (in place where it allows nothing else)",
    "nccl": "torch.distributed with the backend nccl, from and to the memory of GPUs "
    "(in place where it allows nothing else), until the GPU is done (torch.cuda.synchronize)",
}


def timed(operation: Operation, transport: Transport = "mpi") -> Definition:
    """Define how long an operation takes, timed by a loop in Python.

    Args:
        operation: which.
        transport: what does it.

    Returns:
        The definition.

    """
    return Definition(
        benchmark="collectives",
        metric=operation.name,
        unit="s",
        better="lower",
        what=f"one {operation.name} by {LIBRARIES[transport]}: {operation.what}; "
        "then the result is checked",
        clock="time.perf_counter_ns of each rank (CLOCK_MONOTONIC)",
        synchronisation="barrier of all ranks (MPI) before each value, outside the timed region",
        warm_up="100 times up to 8192 B, 10 above, not timed, unless said otherwise",
        aggregation="slowest rank",
        flow=operation.flow,
        factor=operation.factor,
    )


def rates(base: Definition) -> tuple[Definition, ...]:
    """Define the bandwidths that follow from an operation's times.

    Args:
        base: its definition.

    Returns:
        Those of its algorithm and bus bandwidths; none for a barrier.

    """
    if not base.factor:
        return ()
    bus = f"S x {base.factor} for n ranks (nccl-tests, doc/PERFORMANCE.md)"
    shared = msgspec.structs.replace(base, unit="B/s", better="higher", rate_of=base.id)
    return (
        msgspec.structs.replace(
            shared,
            metric=f"{base.metric}_algbw",
            what=f"S over the time of {base.what}",
            rate="algorithm",
        ),
        msgspec.structs.replace(
            shared,
            metric=f"{base.metric}_busbw",
            what=f"{bus} over the time of {base.what}",
            rate="bus",
        ),
    )


TIMED = {operation.name: timed(operation) for operation in OPERATIONS}


class CollectivesParams(Repetitions, frozen=True, kw_only=True):
    """The parameters of `collectives`.

    Args:
        operations: allreduce, allgather, reduce_scatter, bcast, reduce, alltoall, barrier.
        sizes: S in bytes, such as 8:64MiB (powers of two) or 8,65536.
        transport: mpi; or gloo or nccl, by torch.
        kernel: The timed loops of MPI: c, python, or auto.

    """

    operations: tuple[str, ...] = ("allreduce",)
    sizes: Sizes = Sizes.parse("8:4MiB")
    transport: Transport = "mpi"
    kernel: Choice = "auto"


class Collectives(Benchmark[CollectivesParams]):
    """Collective operations of all ranks."""

    Params = CollectivesParams
    metrics: ClassVar[tuple[Definition, ...]] = tuple(
        of for base in TIMED.values() for of in (base, *rates(base))
    )

    def check(self, params: CollectivesParams, ranks: int) -> None:
        """Refuse unknown operations, empty work, and sizes that no library takes."""
        unknown = [name for name in params.operations if name not in NAMED]
        if unknown or not params.operations:
            raise SpecError(
                f"collectives has no operation {unknown[0]!r}."
                if unknown
                else "There are no operations.",
                remedy=f"There are: {', '.join(NAMED)}",
            )
        params.check()
        if not params.sizes:
            raise SpecError("There are no sizes.", remedy="Give some: --sizes 8:64MiB")
        if max(params.sizes) > MOST:
            raise SpecError(f"A size is {max(params.sizes)} B; it must be below 2 GiB.")
        if ranks < 2:  # noqa: PLR2004 - one rank has nobody to exchange anything with
            raise SpecError(
                "One rank has nobody to exchange anything with.",
                remedy="Ask for more: --hosts 2, or --ranks-per-host 2.",
            )
        if params.transport != "mpi" and params.kernel == "c":
            raise SpecError("--kernel c is for --transport mpi: torch has loops of its own.")

    def selected(self, params: CollectivesParams) -> tuple[Definition, ...]:
        """Give the definitions of the operations asked for, with their bandwidths."""
        return _with_rates(TIMED[name] for name in dict.fromkeys(params.operations))

    def recorded(self, params: CollectivesParams) -> tuple[Definition, ...]:
        """Give those of the transport, and of both loops, if the hosts decide which runs."""
        names = dict.fromkeys(params.operations)
        bases = tuple(timed(NAMED[name], params.transport) for name in names)
        choice = params.kernel if params.transport == "mpi" else "python"
        return _with_rates(definitions_for(bases, choice))

    def planned(self, params: CollectivesParams, ranks: int) -> Iterator[Planned]:
        """Give every operation at every size that so many ranks can share."""
        for name in dict.fromkeys(params.operations):
            for size in _sizes(NAMED[name], params.sizes, ranks):
                yield Planned(metric=TIMED[name].metric, params={"size": size} if size else {})

    def measure(self, rank: Rank, params: CollectivesParams) -> None:
        """Do every operation at every size."""
        cells = [
            Cell(rank.comm, NAMED[name], size)
            for name in dict.fromkeys(params.operations)
            for size in _sizes(NAMED[name], params.sizes, rank.size)
        ]
        loops = _loops(rank, params)
        for number, cell in enumerate(cells):
            rank.progress(number, len(cells), cell.what)
            _series(rank, params, loops, cell)
        rank.progress(len(cells), len(cells), cells[-1].what)
        loops.close()


def _with_rates(bases: Iterable[Definition]) -> tuple[Definition, ...]:
    return tuple(of for base in bases for of in (base, *rates(base)))


def _sizes(operation: Operation, sizes: Sizes, ranks: int) -> list[int]:
    """Give the sizes that can be divided as they must be; a barrier has none."""
    if operation.name == BARRIER:
        return [0]
    return list(dict.fromkeys(operation.real(size, ranks) for size in sizes))


class Cell:
    """One operation at one size, and the memory of one rank for it, once it is `filled`.

    Two sets of data take turns, so that what did not arrive is seen: bytes and the inverse bytes,
    or small whole numbers, whose sums are exact.

    Args:
        comm: of all ranks.
        operation: which.
        size: S, in bytes.

    """

    def __init__(self, comm: Intracomm, operation: Operation, size: int) -> None:
        """Note what it is."""
        self.comm = comm
        self.operation = operation
        self.size = size
        self.number = 0
        self.what = operation.name if not size else f"{operation.name} {format_size(size)}"

    @property
    def point(self) -> dict[str, Scalar]:
        """Its parameters."""
        sized: dict[str, Scalar] = {"size": self.size} if self.size else {}
        return {**sized, "ranks": self.comm.Get_size()}

    def fill(self) -> None:
        """Make the data: what is given, where the result goes, and what it must be."""
        n, me = self.comm.Get_size(), self.comm.Get_rank()
        numbers = self.operation.reduces
        data = _numbers(self.size, n, me) if numbers else _bytes(self.size)
        self.given, self.expected = zip(
            *(_parts(self.operation.name, given, whole, n, me) for given, whole in data),
            strict=True,
        )
        gets = self.expected[0]
        self.result = aligned(0 if gets is None else gets.nbytes)
        if numbers:
            self.result = self.result.view("float32")

    def check(self, number: int) -> None:
        """Compare the result of a repetition with what it must be."""
        wanted = self.expected[number % 2]
        if wanted is not None:
            check_data(self.result.view("uint8"), wanted.view("uint8"), self.what)


def _bytes(size: int) -> list[tuple[Data, Data]]:
    """Give bytes that every rank has alike, twice: those that are given, and those that come."""
    one = pattern(size)
    other = inverse(one)
    return [(one, one), (other, other)]


def _numbers(size: int, n: int, me: int) -> list[tuple[Data, Data]]:
    """Give numbers of this rank, and their sums over all: whole ones below 2**24 are exact."""
    import numpy as np  # noqa: PLC0415 - not needed to list or plan benchmarks

    common = (np.arange(size // NUMBER) % 13).astype(np.float32)
    all_ = float(sum(rank % 8 for rank in range(n)))
    return [(common + shift + me % 8, (common + shift) * n + all_) for shift in (0, 16)]


def _parts(name: str, given: Data, whole: Data, n: int, me: int) -> tuple[Data, Data | None]:
    """Give this rank's part of what is given, and of what comes.

    What rank s sends to rank d in an alltoall is part (s + d) of n: no two of one rank are alike.
    """
    import numpy as np  # noqa: PLC0415

    part = len(given) // n
    mine = slice(me * part, (me + 1) * part)
    if name == "allgather":
        return given[mine], whole
    if name == "reduce_scatter":
        return given, whole[mine]
    if name == "alltoall":
        turned = np.roll(given, -me * part)
        return turned, turned
    if name == "bcast":
        return given, None if me == 0 else whole
    return given, whole if me == 0 or name == "allreduce" else None


def _series(rank: Rank, params: CollectivesParams, loops: Loops, cell: Cell) -> None:
    """Take one operation at one size."""
    small = cell.size <= LARGE
    counts = params.counts(100, 1_000) if small else params.counts(10, 100)
    cell.fill()
    repeat = loops.prepared(cell)
    definition = loops.defined(timed(cell.operation, params.transport))
    most = max(1, min(MOST_AT_ONCE, AT_ONCE // max(1, cell.size)))
    values = rank.begin(definition, cell.point, size=cell.size)
    for _ in samples(repeat, counts, most, rank.comm, values):
        pass
    rank.end()
    slowest = rank.comm.reduce(values, lambda a, b: list(map(max, a, b)))
    if slowest is not None:
        middle = median(slowest)
        rank.print_line(
            f"Process 0 {cell.what}: {format_value(middle, 's')}"
            + (f", {format_value(cell.size / middle, 'B/s')}" if cell.size else "")
            + f" (n={len(values)}, slowest of {rank.size} ranks)"
        )


class Loops:
    """What does the repetitions: `prepared` gives a function of how many, which gives seconds."""

    def defined(self, definition: Definition) -> Definition:
        """Give the definition under which values are recorded.

        Args:
            definition: of the same operation, timed by a loop in Python.

        Returns:
            The definition.

        """
        return definition

    def prepared(self, cell: Cell) -> Callable[[int], list[float]]:
        """Give the function that repeats an operation.

        Args:
            cell: the operation, and its data.

        Returns:
            The function.

        """
        raise NotImplementedError

    def close(self) -> None:
        """Leave what was joined."""


def _loops(rank: Rank, params: CollectivesParams) -> Loops:
    if params.transport != "mpi":
        return Torch(rank, params.transport)
    library = load(rank, "collectives", params.kernel)
    return Mpi4py() if library is None else Compiled(rank.comm.Dup(), library)


class Mpi4py(Loops):
    """MPI by a loop in Python."""

    def prepared(self, cell: Cell) -> Callable[[int], list[float]]:
        """Give the function."""
        comm, result = cell.comm, cell.result
        operate: dict[str, Callable[[Data], object]] = {
            "allreduce": lambda given: comm.Allreduce(given, result),
            "allgather": lambda given: comm.Allgather(given, result),
            "reduce_scatter": lambda given: comm.Reduce_scatter_block(given, result),
            "bcast": lambda given: comm.Bcast(given if cell.expected[0] is None else result),
            "reduce": lambda given: comm.Reduce(given, result),
            "alltoall": lambda given: comm.Alltoall(given, result),
            BARRIER: lambda _: comm.Barrier(),
        }
        once = operate[cell.operation.name]

        def repeat(n: int) -> list[float]:
            found = []
            for _ in range(n):
                given = cell.given[cell.number % 2]
                comm.Barrier()
                start = perf_counter_ns()
                once(given)
                found.append((perf_counter_ns() - start) / 1e9)
                cell.check(cell.number)
                cell.number += 1
            return found

        return repeat


class Group(ctypes.Structure):
    """What the loop in C is told (`struct group` of kernels/collectives.c)."""

    _fields_: ClassVar = [
        ("comm", ctypes.c_void_p),
        ("given", ctypes.c_void_p * 2),
        ("result", ctypes.c_void_p),
        ("expected", ctypes.c_void_p * 2),
        ("nanoseconds", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("number", ctypes.c_int64),
        ("count", ctypes.c_int32),
        ("operation", ctypes.c_int32),
    ]


class Compiled(Loops):
    """MPI by a loop in C.

    Args:
        comm: of all ranks, for this alone.
        library: kernels/collectives.c, compiled.

    """

    def __init__(self, comm: Intracomm, library: ctypes.CDLL) -> None:
        """Make the memory of the times."""
        from mpi4py import MPI  # noqa: PLC0415 - importing it starts MPI

        comm.Set_errhandler(MPI.ERRORS_ARE_FATAL)  # the loop looks at no error
        self._comm = comm
        self._collect = library.collect
        self._collect.restype = ctypes.c_int64
        self._collect.argtypes = ctypes.POINTER(Group), ctypes.c_int64
        self._nanoseconds = aligned(8 * MOST_AT_ONCE).view("float64")

    def defined(self, definition: Definition) -> Definition:
        """Give the definition under which values are recorded."""
        return timed_in_c(definition)

    def prepared(self, cell: Cell) -> Callable[[int], list[float]]:
        """Give the function."""
        collect, nanoseconds = self._collect, self._nanoseconds
        places = tuple(None if wanted is None else wanted.ctypes.data for wanted in cell.expected)
        group = Group(
            comm=address(self._comm),
            given=tuple(given.ctypes.data for given in cell.given),
            result=cell.result.ctypes.data,
            expected=places,
            nanoseconds=nanoseconds.ctypes.data,
            bytes=cell.result.nbytes,
            count=_count(cell),
            operation=OPERATIONS.index(cell.operation),
        )

        def repeat(n: int) -> list[float]:
            wrong = collect(group, n)
            if wrong >= 0:
                cell.check(wrong)
                raise WrongDataError(f"{cell.what}: result {wrong} was wrong, and is right now")
            seconds: list[float] = (nanoseconds[:n] / 1e9).tolist()
            return seconds

        return repeat


def _count(cell: Cell) -> int:
    """Give the count that MPI takes: of the whole, or of one rank's part."""
    unit = NUMBER if cell.operation.reduces else 1
    parts = cell.comm.Get_size() if cell.operation.divides else 1
    return cell.size // unit // parts


class Torch(Loops):
    """torch.distributed by a loop in Python, with gloo or nccl.

    Args:
        rank: of all ranks.
        backend: which.

    """

    def __init__(self, rank: Rank, backend: str) -> None:
        """Join all ranks in a process group."""
        self._torch = _torch(backend)
        self._backend = backend
        self._device = _device(rank, self._torch) if backend == "nccl" else "cpu"
        rank.note(f"torch {self._torch.__version__} did the operations, over {backend}.")
        _join(rank, self._torch, backend)

    def prepared(self, cell: Cell) -> Callable[[int], list[float]]:
        """Give the function."""
        torch, comm = self._torch, cell.comm
        dist = torch.distributed
        result = torch.from_numpy(cell.result).to(self._device)
        given = [torch.from_numpy(g.copy()).to(self._device) for g in cell.given]
        place = torch.empty_like(given[0])  # of what is done in place
        operate: dict[str, Callable[[Any], object]] = {
            "allreduce": lambda _: dist.all_reduce(place),
            "allgather": lambda sent: dist.all_gather_into_tensor(result, sent),
            "reduce_scatter": lambda sent: dist.reduce_scatter_tensor(result, sent),
            "bcast": lambda _: dist.broadcast(place, 0),
            "reduce": lambda _: dist.reduce(place, 0),
            "alltoall": lambda sent: dist.all_to_all_single(result, sent),
            BARRIER: lambda _: dist.barrier(),
        }
        name = cell.operation.name
        once = operate[name]
        in_place = name in ("allreduce", "bcast", "reduce")
        sends = name != "bcast" or cell.expected[0] is None

        def repeat(n: int) -> list[float]:
            found = []
            for _ in range(n):
                sent = given[cell.number % 2]
                place.copy_(sent) if sends else place.zero_()
                self._wait()
                comm.Barrier()
                start = perf_counter_ns()
                once(sent)
                self._wait()
                found.append((perf_counter_ns() - start) / 1e9)
                if cell.expected[0] is not None:
                    cell.result[:] = (place if in_place else result).cpu().numpy()
                cell.check(cell.number)
                cell.number += 1
            return found

        return repeat

    def _wait(self) -> None:
        """Wait until the GPU has done what it was told."""
        if self._backend == "nccl":
            self._torch.cuda.synchronize()

    def close(self) -> None:
        """Leave the process group."""
        self._torch.distributed.destroy_process_group()


def _torch(backend: str) -> Any:  # noqa: ANN401 - a module that need not be there
    """Import torch, if it is there and has the backend."""
    try:
        import torch  # noqa: PLC0415 - hundreds of megabytes, and not ours to install
    except ImportError:
        raise ClusterError(
            f"torch is missing on {os.uname().nodename}.",
            means=f"--transport {backend} is done by it, and cluster does not install it.",
            remedy=f"Install it there: {sys.executable} -m pip install torch; or name an --option "
            "image that has it",
        ) from None
    if not getattr(torch.distributed, f"is_{backend}_available")():
        raise ClusterError(
            f"torch {torch.__version__} on {os.uname().nodename} comes without {backend}.",
            remedy="Install a torch that has it; nccl comes with those for CUDA.",
        )
    return torch


def _device(rank: Rank, torch: Any) -> str:  # noqa: ANN401
    """Give each rank of a host a GPU of its own."""
    own, all_ = place_on_host(rank.comm)
    there = torch.cuda.device_count()
    if there < all_:
        raise ClusterError(
            f"{os.uname().nodename} has {there} GPU(s) for {all_} ranks.",
            means="With nccl every rank needs a GPU of its own.",
            remedy=f"Ask for fewer: --ranks-per-host {max(1, there)}",
        )
    torch.cuda.set_device(own)
    return f"cuda:{own}"


def _join(rank: Rank, torch: Any, backend: str) -> None:  # noqa: ANN401
    """Let all ranks meet where the others reach rank 0, over the network that they have."""
    here = rank.addresses()
    for interface in list_interfaces():
        if interface.address == here[rank.number]:
            names = dict.fromkeys(("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"), interface.name)
            os.environ.update(names)
    port = rank.comm.bcast(free_port(here[0]) if rank.number == 0 else None)
    torch.distributed.init_process_group(
        backend,
        init_method=f"tcp://{here[0]}:{port}",
        rank=rank.number,
        world_size=rank.size,
    )


if __name__ == "__main__":
    main(Collectives())
