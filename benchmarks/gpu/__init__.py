"""What one host's GPUs do: copies to, from, within and between them, and the latency of launches.

The bounds are those of the hardware as it is during the copies: generation and width of PCIe, and
the clock of the GPU's memory.
"""

from typing import ClassVar

from cluster.benchmarks.gpu import definitions
from cluster.core.errors import SpecError
from cluster.core.model.measurements import Definition
from cluster.core.model.value import Value
from cluster.core.units import Sizes
from cluster.measure.benchmark import Benchmark
from cluster.measure.rank import Rank


class GpuParams(Value, frozen=True, kw_only=True):
    """The parameters of `gpu`.

    Args:
        sizes: Bytes of a copy, such as 4,1GiB.
        iterations: Copies of each kind and size; 0 for 20, and 200 below 1 MiB.
        kernels: That are launched to time it, and pairs of events.
    """

    sizes: Sizes = Sizes.parse("4,64KiB,1MiB,64MiB,1GiB")
    iterations: int = 0
    kernels: int = 1000


class Gpu(Benchmark[GpuParams]):
    """The GPUs of the first host, one after another."""

    Params = GpuParams
    metrics: ClassVar[tuple[Definition, ...]] = definitions.METRICS

    def check(self, params: GpuParams, ranks: int) -> None:
        del ranks
        if params.iterations < 0 or params.kernels < 1:
            raise SpecError("--iterations must not be negative, and --kernels at least 1.")
        if not params.sizes:
            raise SpecError("There are no sizes.", remedy="Give some: --sizes 4,1GiB")

    def instead_of_gpus(self, params: GpuParams) -> str:
        del params
        return "name one: --provider ssh --option hosts=HOST"

    def transport(self, params: GpuParams) -> str:
        del params
        return "cuda"

    def gpus(self, params: GpuParams, ranks_per_host: int) -> int:
        del params, ranks_per_host
        return 1

    def libraries(self, params: GpuParams) -> tuple[str, ...]:
        del params
        return ("torch",)

    def measure(self, rank: Rank, params: GpuParams) -> None:
        if rank.number == 0:
            from cluster.benchmarks.gpu.host import measure_host  # noqa: PLC0415 - only there

            measure_host(rank, params)
        rank.barrier()
