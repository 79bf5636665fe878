"""Two ranks exchange messages: one-way time, latency, bandwidth, bidirectional bandwidth.

The numbers of iterations and warm-ups, and the window of 64, are those of the OSU Micro-Benchmarks
7.4 (c/util/osu_util.h), where messages above 8192 B are "large".
"""

from typing import ClassVar

from cluster.benchmarks.p2p.definitions import (
    BANDWIDTH,
    BIDIRECTIONAL,
    COPY,
    LATENCY,
    ONEWAY,
    RECEIVED,
    P2PParams,
    series_of,
)
from cluster.benchmarks.p2p.exchange import Exchange
from cluster.benchmarks.p2p.loops import CompiledPairLoops, MpiPairLoops, PairMemory
from cluster.core.errors import SpecError
from cluster.core.model.hosts import Facts
from cluster.core.model.results.measurements import Definition, Planned
from cluster.measure.benchmark import Benchmark, check_pair
from cluster.measure.buffers import on_gpus, open_memory
from cluster.measure.kernels import definitions_for, load
from cluster.measure.rank import Rank


class P2P(Benchmark[P2PParams]):
    """Point-to-point messages between any two ranks."""

    Params = P2PParams
    metrics: ClassVar[tuple[Definition, ...]] = (
        *(ONEWAY, RECEIVED, LATENCY, BANDWIDTH, BIDIRECTIONAL, COPY),
    )
    launches_on_one_host = 3  # where a message takes 0.2 us, launches differ

    def check(self, params: P2PParams, ranks: int) -> None:
        if not self.selection(params):
            raise SpecError(
                "--buffer cuda leaves nothing to measure: memory_copy measures host memory.",
                remedy="Name other metrics: --metrics latency,bandwidth",
            )
        params.check()
        if params.buffer == "cuda" and params.kernel == "c":
            raise SpecError("--kernel c needs --buffer cpu: the C loops have no GPU support.")
        if not params.sizes:
            raise SpecError("There are no sizes.", remedy="Give some: --sizes 8:64MiB")
        check_pair(params.pair, ranks)

    def selection(self, params: P2PParams) -> tuple[Definition, ...]:
        """Return the definitions of the metrics asked for, in that order.

        With GPUs, memory_copy is left out: it measures the processor's memory.
        """
        metrics = self.find_metrics(params.metrics)
        return tuple(
            definition for definition in metrics if params.buffer == "cpu" or definition is not COPY
        )

    def variants(self, params: P2PParams) -> tuple[Definition, ...]:
        """Return the definitions of both loops, if each host decides which of them runs."""
        definitions = self.selection(params)
        if params.buffer == "cuda":
            return tuple(map(on_gpus, definitions))
        return definitions_for(definitions, params.kernel)

    def memory(self, params: P2PParams, ranks: int) -> int:
        """Count two patterns and the receive buffer, for both ranks of the pair."""
        return 3 * min(2, ranks) * max(params.sizes) if params.buffer == "cpu" else 0

    def transport(self, params: P2PParams) -> str:
        """MPI sends its messages, from whatever memory."""
        return "mpi"

    def gpus(self, params: P2PParams, ranks_per_host: int) -> int:
        """Tell how many GPUs a host needs: one for each rank of the pair that is there."""
        if params.buffer == "cpu":
            return 0
        first, second = (number // ranks_per_host for number in params.pair)
        return 2 if first == second else 1

    def notes(self, params: P2PParams, facts: tuple[Facts, ...]) -> tuple[str, ...]:
        if params.buffer == "cpu" or COPY.metric not in params.metrics:
            return ()
        return ("memory_copy is left out: it measures host memory.",)

    def measure(self, rank: Rank, params: P2PParams) -> None:
        """Exchange messages on the pair; all other ranks sleep until it is done."""
        library = load(rank, "p2p", params.kernel) if params.buffer == "cpu" else None
        member = rank.number in params.pair
        comm = rank.comm.Split(int(member), params.pair.index(rank.number) if member else 0)
        if member:
            data = PairMemory(comm, params, open_memory(params.buffer, comm))
            loops = MpiPairLoops(data) if library is None else CompiledPairLoops(data, library)
            Exchange(rank, data, loops, params).run(self.selection(params))
        rank.barrier()

    def plan(self, params: P2PParams, ranks: int) -> list[Planned]:
        series = series_of(self.selection(params), params)
        return [Planned(metric=kind.metric, params={"size": size}) for kind, size in series]
