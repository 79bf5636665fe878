"""The parameters and the metrics of `training`."""

from functools import partial
from typing import Literal

from cluster.analysis.models.step_limits import PART_METRICS, TIMED_STEP
from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import define
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
    def lead_steps(self) -> int:
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


_training = partial(
    define,
    "training",
    synchronisation="ranks begin a round together; then each step's exchange keeps them together",
    warm_up="the first steps of each round, which also fill the loader",
)
_metrics = partial(_training, clock="time.perf_counter of each rank, read once the device is idle")

(SAMPLES_RATE, LINK_RATE, PREPARATION_RATE, EXCHANGE_RATE, MODEL_FLOPS, REQUESTS, BYTES_READ) = (
    _metrics(
        """
    samples_rate (samples/s): samples that all ranks train on in the timed steps of a round, over
        the time of the slowest rank
    link_rate (B/s): bytes of shards that all ranks read at once and throw away, over the time of
        the slowest
    preparation_rate (samples/s): samples in memory that the loaders of all ranks prepare while
        nothing is trained
    exchange_rate (samples/s): samples of a step over the time of an allreduce of the size of the
        gradients
    model_flops_utilisation (%): FLOPs of the model, forward and backward, of all samples of a round
        over its time, over the peak of the GPUs in single precision without tensor cores, which are
        not used
    store_requests (requests, lower): requests of a rank to where the data are, with those repeated
    bytes_read (B, lower): bytes that a rank read from where the data are, of all rounds and probes
    """,
        aggregation="all ranks",
    )
)
(STEP_TIME,) = _metrics(
    f"{TIMED_STEP} (s, slowest rank): from the request for a batch to the request for the next one"
)
_PARTS = {
    "fetch": "a step's wait for its batch while the file of the batch is being read",
    "preparation": "the rest of a step's wait for its batch: decoding, and the worker's turn",
    "copy": "the batch to the device",
    "compute": "forward and backward, until the last gradient",
    "exchange": "from a rank's last gradient until the gradients of all ranks are reduced; with "
    "the wait for slower ranks",
    "update": "of the weights, and the loss read from the device",
}
PARTS = {
    part: _metrics(f"{PART_METRICS[part]} (s, all ranks): {meaning}")[0]
    for part, meaning in _PARTS.items()
}
(GPU_BUSY,) = _training(
    """
    gpu_busy (%, all ranks): of the driver's last period, the part in which any kernel ran: busy,
        not efficient
    """,
    clock="nvidia-smi, five times a second",
)
GRADIENT_BYTES, *ACCURACY = _metrics(
    """
    gradient_bytes (B, lower): gradients of the model, which all ranks reduce per step
    time_to_accuracy (s): training until the accuracy on the test images is reached, with data
        resident; a value per seed that reached it
    final_accuracy (%): of the 360 test images, after the last epoch; a value per seed
    final_loss (nats, lower): mean cross-entropy of the last epoch's batches, of all ranks; a value
        per seed
    """
)
TIME_TO_ACCURACY = ACCURACY[0]
WAITS = (PARTS["fetch"], PARTS["preparation"])  # none with data resident on the device
UTILISATION = (GPU_BUSY, MODEL_FLOPS)  # of GPUs
BY_PHASE = (SAMPLES_RATE, STEP_TIME, *PARTS.values())
METRICS = (
    *(*BY_PHASE, LINK_RATE, PREPARATION_RATE, EXCHANGE_RATE, *UTILISATION, REQUESTS, BYTES_READ),
    *(GRADIENT_BYTES, *ACCURACY),
)
