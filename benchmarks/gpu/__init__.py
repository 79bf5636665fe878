"""What one host's GPUs do: copies to, from, within and between them, and the latency of launches.

The bounds are those of the hardware as it is during the copies: generation and width of PCIe, and
the clock of the GPU's memory.
"""

from typing import ClassVar

from cluster.benchmarks.gpu import definitions
from cluster.benchmarks.gpu.definitions import GpuParams
from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import Definition
from cluster.measure.benchmark import Benchmark
from cluster.measure.rank import Rank


class Gpu(Benchmark[GpuParams]):
    """The GPUs of the first host, one after another."""

    Params = GpuParams
    metrics: ClassVar[tuple[Definition, ...]] = definitions.METRICS

    def check(self, params: GpuParams, ranks: int) -> None:
        if params.iterations < 0 or params.kernels < 1:
            raise SpecError("--iterations must not be negative, and --kernels at least 1.")
        if not params.sizes:
            raise SpecError("There are no sizes.", remedy="Give some: --sizes 4,1GiB")

    def instead_of_gpus(self, params: GpuParams) -> str:
        return "name one: --provider ssh --option hosts=HOST"

    def transport(self, params: GpuParams) -> str:
        return "cuda"

    def gpus(self, params: GpuParams, ranks_per_host: int) -> int:
        return 1

    def libraries(self, params: GpuParams) -> tuple[str, ...]:
        return ("torch",)

    def measure(self, rank: Rank, params: GpuParams) -> None:
        if rank.number == 0:
            from cluster.benchmarks.gpu.host import measure_host  # noqa: PLC0415 - only there

            measure_host(rank, params)
        rank.barrier()
