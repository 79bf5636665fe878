"""The parameters of `training`."""

from typing import Literal

from cluster.core.errors import SpecError
from cluster.core.model.value import Value
from cluster.measure.training.digits import Dataset

STORES = ("s3://", "gs://", "az://")
MOST_WIDTH = 4096


class TrainingParams(Value, frozen=True, kw_only=True):
    """The parameters of `training`.

    Args:
        source: Where the data are: memory, disk, or s3://BUCKET/PREFIX.
        folder: For --source=disk, on each host. [default: the job's]
        samples: How many, made of 1,437 real images.
        shard: Samples of a file.
        batch: Samples of a rank's step.
        width: Channels of the model; computing grows with its square.
        workers: Threads that fetch, and as many that prepare, per rank.
        rounds: Each has steps with data resident, in memory and as asked.
        steps: Timed steps of each kind per round.
        warm_up: Steps before them, not timed; at least a shard of each worker.
        seed: Of the data and the weights.
        target: Also train until this accuracy, such as 0.97.
        seeds: How often, each time with other weights.
        epochs: At most, to reach it.
        device: cpu with gloo, or cuda with nccl.
    """

    source: str = "memory"
    folder: str = ""
    samples: int = 16384
    shard: int = 256
    batch: int = 64
    width: int = 24
    workers: int = 1
    rounds: int = 8
    steps: int = 12
    warm_up: int = 4
    seed: int = 0
    target: float = 0.0
    seeds: int = 5
    epochs: int = 40
    device: Literal["cpu", "cuda"] = "cpu"

    @property
    def dataset(self) -> Dataset:
        return Dataset(samples=self.samples, shard=self.shard, seed=self.seed)

    @property
    def in_store(self) -> bool:
        return self.source.startswith(STORES)

    @property
    def phases(self) -> tuple[str, ...]:
        """The kinds of steps in a round, by where their data are."""
        source = "store" if self.in_store else self.source
        return tuple(dict.fromkeys(("resident", "memory", source)))

    @property
    def cycle(self) -> int:
        """Steps that use up one shard of each worker: waits repeat after as many."""
        return max(1, self.workers) * (self.shard // self.batch)

    @property
    def untimed(self) -> int:
        """Steps of a round before those that are timed: the workers' first shards come together."""
        return max(self.warm_up, self.cycle)

    def check(self, ranks: int) -> None:
        """Refuse what these ranks cannot train on (SpecError)."""
        self._check_counts()
        if self.source not in ("memory", "disk") and not self.in_store:
            raise SpecError(
                f"--source is {self.source!r}; data are in memory, on disk, or in a store.",
                remedy="Use --source memory, --source disk or --source s3://BUCKET/PREFIX",
            )
        if self.shard % self.batch or self.samples % self.shard:
            raise SpecError(
                "A shard holds a whole number of batches, and the data a whole number of shards; "
                f"{self.samples} samples, {self.shard} in a shard, {self.batch} in a batch.",
                remedy=f"Such as: --samples {64 * self.batch * 4} --shard {4 * self.batch} "
                f"--batch {self.batch}",
            )
        if self.steps % self.cycle:
            raise SpecError(
                f"--steps is {self.steps}, and the shards that {max(1, self.workers)} worker(s) "
                f"fetch at once have {self.cycle} batches.",
                means="A round that ends within a shard would count its fetch for too few steps.",
                remedy=f"Use --steps {max(1, self.steps // self.cycle) * self.cycle}",
            )
        if self.dataset.shards < ranks:
            raise SpecError(
                f"There are {self.dataset.shards} shards for {ranks} ranks.",
                remedy=f"Ask for more data: --samples {ranks * self.shard}",
            )

    def _check_counts(self) -> None:
        for field in ("samples", "shard", "batch", "width", "rounds", "steps", "seeds", "epochs"):
            if getattr(self, field) < 1:
                raise SpecError(f"--{field} is {getattr(self, field)}; it must be at least 1.")
        for field in ("workers", "warm_up", "seed"):
            if getattr(self, field) < 0:
                flag = field.replace("_", "-")
                raise SpecError(f"--{flag} is {getattr(self, field)}; it must not be negative.")
        if not 0 <= self.target < 1:
            raise SpecError(
                f"--target is {self.target:g}; an accuracy is a share.", remedy="Use --target 0.97"
            )
        if self.width > MOST_WIDTH:
            raise SpecError(f"--width is {self.width}; at most {MOST_WIDTH}.")
