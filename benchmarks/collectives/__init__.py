"""All ranks exchange messages at once: allreduce, allgather, reduce_scatter, bcast, alltoall ...

Sizes and bandwidths are those of NVIDIA's nccl-tests (doc/PERFORMANCE.md): S is the size of one
rank's whole input or result, the algorithm bandwidth is S / t, and the bus bandwidth is that times
a factor of the operation, so that a ring reaches the speed of its slowest link at any number of
ranks.
Iteration and warm-up counts are those of the OSU Micro-Benchmarks 7.4 (c/util/osu_util.h).
"""

from collections.abc import Iterable, Iterator
from statistics import median
from typing import ClassVar

from cluster.benchmarks.collectives.loops import (
    MOST_AT_ONCE,
    CollectiveLoops,
    CompiledLoops,
    MpiLoops,
    NcclLoops,
    TorchLoops,
)
from cluster.benchmarks.collectives.operations import (
    BARRIER,
    NAMED,
    TIMED,
    Collective,
    CollectiveSeries,
    Transport,
    rates,
    timing,
)
from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import Definition, Planned
from cluster.core.text.units import Sizes, format_value
from cluster.measure.benchmark import Benchmark
from cluster.measure.groups import INSTEAD
from cluster.measure.kernels import Choice, definitions_for, load
from cluster.measure.rank import Rank
from cluster.measure.repetitions import Repetitions, samples

LARGE = 8192  # bytes; above it OSU does fewer iterations
MOST = 2**31 - 1  # bytes: the largest count of MPI
AT_ONCE = 1 << 20  # bytes exchanged, about, between two checks of the precision
ON_GPUS = ("nccl", "nccl4py")  # the transports whose messages are in the memory of GPUs


class CollectivesParams(Repetitions, frozen=True, kw_only=True):
    """The parameters of `collectives`.

    Args:
        operations: allreduce, allgather, reduce_scatter, bcast, reduce, alltoall, barrier.
        sizes: 8:64MiB (powers of two) or 8,512.
        transport: mpi; gloo or nccl, by torch; or nccl4py.
        kernel: Timed loops: c, python, or auto.
    """

    operations: tuple[str, ...] = ("allreduce",)
    sizes: Sizes = Sizes.parse("8:4MiB")
    transport: Transport = "mpi"
    kernel: Choice = "auto"


def _with_rates(bases: Iterable[Definition]) -> tuple[Definition, ...]:
    return tuple(definition for base in bases for definition in (base, *rates(base)))


class Collectives(Benchmark[CollectivesParams]):
    """Collective operations of all ranks."""

    Params = CollectivesParams
    metrics: ClassVar[tuple[Definition, ...]] = _with_rates(TIMED.values())

    def check(self, params: CollectivesParams, ranks: int) -> None:
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
                "A collective needs at least two ranks.",
                means="One rank moves nothing to another: its bus bandwidth has the factor 0, and "
                "its algorithm bandwidth is that of a copy.",
                remedy="Ask for more: --hosts 2, or --ranks-per-host 2.",
            )
        if params.transport != "mpi" and params.kernel == "c":
            raise SpecError("--kernel=c is for --transport=mpi: torch and NCCL have no loops in C.")
        if params.transport == "nccl4py" and BARRIER in params.operations:
            raise SpecError(
                "NCCL has no barrier.",
                means="With --transport=nccl, torch does an allreduce of one number in its place.",
                remedy="Leave it out of --operations.",
            )

    def selection(self, params: CollectivesParams) -> tuple[Definition, ...]:
        return _with_rates(TIMED[name] for name in dict.fromkeys(params.operations))

    def variants(self, params: CollectivesParams) -> tuple[Definition, ...]:
        """Return definitions of the transport, of both loops if each host decides which runs."""
        names = dict.fromkeys(params.operations)
        bases = tuple(timing(NAMED[name], params.transport) for name in names)
        choice = params.kernel if params.transport == "mpi" else "python"
        return _with_rates(definitions_for(bases, choice))

    def transport(self, params: CollectivesParams) -> str:
        return "nccl" if params.transport in ON_GPUS else params.transport

    def gpus(self, params: CollectivesParams, ranks_per_host: int) -> int:
        """Each rank of a host needs a GPU of its own, for NCCL."""
        return ranks_per_host if params.transport in ON_GPUS else 0

    def instead_of_gpus(self, params: CollectivesParams) -> str:
        return INSTEAD

    def plan(self, params: CollectivesParams, ranks: int) -> Iterator[Planned]:
        """Return every operation at every size that can be divided among the ranks."""
        for name in dict.fromkeys(params.operations):
            for size in _sizes(NAMED[name], params.sizes, ranks):
                yield Planned(metric=TIMED[name].metric, params={"size": size} if size else {})

    def measure(self, rank: Rank, params: CollectivesParams) -> None:
        cells = [
            CollectiveSeries(rank.comm, NAMED[name], size)
            for name in dict.fromkeys(params.operations)
            for size in _sizes(NAMED[name], params.sizes, rank.size)
        ]
        loops: CollectiveLoops
        if params.transport == "nccl4py":
            loops = NcclLoops(rank)
        elif params.transport != "mpi":
            loops = TorchLoops(rank, params.transport)
        else:
            library = load(rank, "collectives", params.kernel)
            loops = MpiLoops() if library is None else CompiledLoops(rank.comm.Dup(), library)
        for number, cell in enumerate(cells):
            rank.progress(number, len(cells), cell.what)
            counts = params.counts(100, 1_000) if cell.size <= LARGE else params.counts(10, 100)
            cell.fill()
            repeat = loops.loop(cell)
            definition = loops.redefine(timing(cell.operation, params.transport))
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
        rank.progress(len(cells), len(cells), cells[-1].what)
        loops.close()


def _sizes(operation: Collective, sizes: Sizes, ranks: int) -> list[int]:
    """Return the sizes, rounded down to what can be divided among the ranks; a barrier has none."""
    if operation.name == BARRIER:
        return [0]
    return list(dict.fromkeys(operation.real(size, ranks) for size in sizes))
