"""Copies between the NUMA nodes, cores or GPUs of each host; `cluster check --devices` judges them.

One rank of each host measures, one pair after another, in both directions.
"""

import platform
from collections.abc import Callable
from typing import Literal, NamedTuple

from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import define
from cluster.core.model.value import Scalar, Value
from cluster.measure.benchmark import Benchmark
from cluster.measure.main import main
from cluster.measure.rank import Rank

NUMA, CORES, GPUS = "numa", "cores", "gpus"
ROUNDS = 10  # of disjoint pairs of cores; up to 17 cores, all pairs
SEVERAL = 2  # units, which make a pair
SIZES = {NUMA: 128 << 20, CORES: 256 << 10, GPUS: 256 << 20}  # bytes: memory, or caches
COUNTS = {NUMA: 3, CORES: 50, GPUS: 10}

(COPY,) = define(
    "within",
    """
    device_pair_copy (B/s): bytes over the time in which a core copies what a core of another NUMA
        node, or another core, wrote before; or a GPU what another one has
    """,
    clock="time.perf_counter of the rank",
    synchronisation="one pair at a time on a host; hosts measure at the same time",
    warm_up="between cores, none: memory was written before; between GPUs, two copies",
)


class WithinParams(Value, frozen=True, kw_only=True):
    """The parameters of `within`.

    Args:
        devices: What to compare: gpus, numa, cores; auto: the first of them of which the host has
            several.
        size: Bytes of a copy; 0 for 128 MiB between NUMA nodes, 256 KiB between cores, and 256 MiB
            between GPUs.
        iterations: Copies in each direction; 0 for 3 between NUMA nodes, 50 between cores, and 10
            between GPUs.
    """

    devices: Literal["auto", "gpus", "numa", "cores"] = "auto"
    size: int = 0
    iterations: int = 0


class _Pair(NamedTuple):
    """Two units: the first one reads what the second one has."""

    reader: int
    writer: int
    path: str


class Within(Benchmark[WithinParams]):
    """Pairs of NUMA nodes, cores or GPUs of each host."""

    Params = WithinParams
    metrics = (COPY,)

    def check(self, params: WithinParams, ranks: int) -> None:
        if params.size < 0 or params.iterations < 0:
            raise SpecError("--size and --iterations must not be negative.")

    def measure(self, rank: Rank, params: WithinParams) -> None:
        """Measure on the first rank of each host, while its others wait."""
        from mpi4py import MPI  # noqa: PLC0415 - it is initialised by now

        host = rank.comm.Split_type(MPI.COMM_TYPE_SHARED)
        if host.Get_rank() == 0:
            _Host(rank, params).measure()
        rank.barrier()


class _Host:
    """The host of a rank, and what it compares."""

    def __init__(self, rank: Rank, params: WithinParams) -> None:
        from cluster.measure.within import cores, numa_nodes, usable_cpus  # noqa: PLC0415

        self._rank = rank
        self._params = params
        cpus = usable_cpus()
        self.nodes, self.without_cores = numa_nodes(cpus)
        self.cores = cores(cpus)

    def measure(self) -> None:
        from cluster.agent.hardware.gpus import list_gpus  # noqa: PLC0415
        from cluster.measure.within import (  # noqa: PLC0415
            CoreCopies,
            core_path,
            node_distance,
        )

        devices: str = self._params.devices
        if devices == "auto":  # the first of which there are several
            processors = NUMA if len(self.nodes) >= SEVERAL else CORES
            devices = GPUS if len(list_gpus()) >= SEVERAL else processors
        size = self._params.size or SIZES[devices]
        if devices == GPUS:
            self._measure_gpus(size)
            return
        if devices == NUMA:
            for number in self.without_cores:
                self._rank.note(
                    f"{platform.node()}: NUMA node {number} has no core that the rank may use: not "
                    "tested"
                )
            units = {node.number: node for node in self.nodes}
            pairs = [_Pair(a, b, node_distance(units[a], units[b])) for a in units for b in units]
        else:
            from cluster.fleet.rounds import planned_rounds  # noqa: PLC0415 - slow: numpy

            units = {core.number: core for core in self.cores}
            numbers = list(units)
            rounds = planned_rounds((0,) * len(numbers), ROUNDS) if len(numbers) >= SEVERAL else []
            pairs_by_unit = dict.fromkeys((int(a), int(b)) for pairs in rounds for a, b in pairs)
            pairs = [
                _Pair(numbers[a], numbers[b], core_path(units[numbers[a]], units[numbers[b]]))
                for unit in pairs_by_unit
                for a, b in (unit, unit[::-1])
            ]
        memory = CoreCopies(size)
        self._time(devices, pairs, lambda p, n: memory.times(units[p.reader], units[p.writer], n))

    def _measure_gpus(self, size: int) -> None:
        from cluster.measure.gpu import CudaCopies  # noqa: PLC0415
        from cluster.measure.groups import import_torch  # noqa: PLC0415

        torch = import_torch("A comparison of GPUs", "\nOr compare what needs none: --devices numa")
        count = int(torch.cuda.device_count()) if torch.cuda.is_available() else 0
        pairs = [_Pair(a, b, "") for a in range(count) for b in range(count) if a != b]
        self._time(GPUS, pairs, lambda p, n: CudaCopies(torch, p.writer, size).to_peer(p.reader, n))

    def _time(
        self, devices: str, pairs: list[_Pair], times: Callable[[_Pair, int], list[float]]
    ) -> None:
        """Record the copies of each pair; without any pair, how many units there are."""
        size = self._params.size or SIZES[devices]
        count = self._params.iterations or COUNTS[devices]
        for index, pair in enumerate(pairs):
            point: dict[str, Scalar] = {"devices": devices, "reader": pair.reader}
            point |= {"writer": pair.writer, **({"path": pair.path} if pair.path else {})}
            values = self._rank.begin(COPY, point, size=size)
            values += times(pair, count)
            self._rank.end()
            self._rank.progress(index + 1, len(pairs), f"{pair.reader} from {pair.writer}")
        label = f"{len(pairs)} pairs of {devices}"
        if not pairs:
            self._rank.note(f"{platform.node()}: it has no two {devices} to compare")
        self._rank.print_line(f"{platform.node()}: {label}")


if __name__ == "__main__":
    main(Within())
