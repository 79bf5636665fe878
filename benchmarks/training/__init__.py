"""Data-parallel training on real data: samples per second, and which stage of a step limits them.

Each rank trains a small network on handwritten digits, with torch's DistributedDataParallel. Rounds
of steps with data resident on the device, in memory, and where you asked for alternate, so that the
differences between them are stalls, and not the drift of a busy machine.
"""

from collections.abc import Iterator
from typing import ClassVar

from cluster.benchmarks.training import definitions
from cluster.benchmarks.training.definitions import TrainingParams
from cluster.core.model.results.measurements import Definition, Planned
from cluster.measure.benchmark import Benchmark
from cluster.measure.rank import Rank
from cluster.measure.training.digits import Digits

TORCH = "torch==2.13.0+cpu"  # for CUDA it brings gigabytes, which are no use to a processor


class Training(Benchmark[TrainingParams]):
    """Training of a small network on all ranks."""

    Params = TrainingParams
    metrics: ClassVar[tuple[Definition, ...]] = definitions.METRICS

    def check(self, params: TrainingParams, ranks: int) -> None:
        params.check(ranks)

    def libraries(self, params: TrainingParams) -> tuple[str, ...]:
        store = ("obstore", "boto3") if params.in_store else ()
        return ("torch" if params.device == "cuda" else TORCH, "scikit-learn", *store)

    def selection(self, params: TrainingParams) -> tuple[Definition, ...]:
        """Return definitions without those of other sources and of an accuracy not asked for."""
        left_out = set() if params.target else set(definitions.ACCURACY)
        if params.device == "cpu":
            left_out |= set(definitions.UTILISATION)
        if params.source == "memory":
            left_out.add(definitions.LINK_RATE)
        return tuple(definition for definition in self.metrics if definition not in left_out)

    def plan(self, params: TrainingParams, ranks: int) -> Iterator[Planned]:
        """Return each part of a step for each kind of step, and what is measured once."""
        for definition in self.selection(params):
            if definition in definitions.BY_PHASE:
                for phase in params.phases[definition in definitions.WAITS :]:
                    yield Planned(metric=definition.metric, params={"data": phase})
            elif definition not in (definitions.TIME_TO_ACCURACY, *definitions.UTILISATION) and (
                ranks > 1 or definition is not definitions.EXCHANGE_RATE
            ):
                yield Planned(metric=definition.metric)

    def gpus(self, params: TrainingParams, ranks_per_host: int) -> int:
        return ranks_per_host if params.device == "cuda" else 0

    def instead_of_gpus(self, params: TrainingParams) -> str:
        return "the processors: --device cpu"

    def transport(self, params: TrainingParams) -> str:
        """Return what reduces the gradients: nccl between GPUs."""
        return "nccl" if params.device == "cuda" else "gloo"

    def memory(self, params: TrainingParams, ranks: int) -> int:
        from cluster.benchmarks.training.rounds import KEPT, SAMPLE_BYTES  # noqa: PLC0415

        return ranks * min(KEPT, params.dataset.shards) * params.shard * SAMPLE_BYTES * 2

    def measure(self, rank: Rank, params: TrainingParams) -> None:
        from cluster.benchmarks.training.rounds import train  # noqa: PLC0415 - only on the hosts

        train(rank, params, self.prepare)

    def prepare(self, samples: Digits) -> Digits:
        """Prepare the samples of a batch; a benchmark of your own may do more."""
        from cluster.measure.training.digits import normalise  # noqa: PLC0415

        return normalise(samples)
