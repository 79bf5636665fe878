"""The metrics of `training`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from cluster.analysis.models.step_limits import PART_METRICS, TIMED_STEP
from cluster.core.model.measurements import Definition

_training = partial(
    Definition,
    benchmark="training",
    clock="time.perf_counter of each rank, read once the device is idle",
    synchronisation="ranks begin a round together; then each step's exchange keeps them together",
    warm_up="the first steps of each round, which also fill the loader",
)
_part = partial(_training, unit="s", better="lower", aggregation="all ranks")
_rate = partial(_training, unit="samples/s", better="higher", aggregation="all ranks")

SAMPLES_RATE = _rate(
    metric="samples_rate",
    what="samples that all ranks train on in the timed steps of a round, over the time of the "
    "slowest rank",
)
STEP_TIME = _training(
    metric=TIMED_STEP,
    unit="s",
    better="lower",
    what="from the request for a batch to the request for the next one",
    aggregation="slowest rank",
)
PARTS: Mapping[str, Definition] = {
    "fetch": _part(
        metric=PART_METRICS["fetch"],
        what="a step's wait for its batch while the file of the batch is being read",
    ),
    "preparation": _part(
        metric=PART_METRICS["preparation"],
        what="the rest of a step's wait for its batch: decoding, and the worker's turn",
    ),
    "copy": _part(metric=PART_METRICS["copy"], what="the batch to the device"),
    "compute": _part(
        metric=PART_METRICS["compute"], what="forward and backward, until the last gradient"
    ),
    "exchange": _part(
        metric=PART_METRICS["exchange"],
        what="from a rank's last gradient until the gradients of all ranks are reduced; with the "
        "wait for slower ranks",
    ),
    "update": _part(
        metric=PART_METRICS["update"], what="of the weights, and the loss read from the device"
    ),
}
LINK_RATE = _training(
    metric="link_rate",
    unit="B/s",
    better="higher",
    what="bytes of shards that all ranks read at once and throw away, over the time of the slowest",
    aggregation="all ranks",
)
PREPARATION_RATE = _rate(
    metric="preparation_rate",
    what="samples in memory that the loaders of all ranks prepare while nothing is trained",
)
EXCHANGE_RATE = _rate(
    metric="exchange_rate",
    what="samples of a step over the time of an allreduce of the size of the gradients",
)
GPU_BUSY = _training(
    metric="gpu_busy",
    unit="%",
    better="higher",
    what="of the driver's last period, the part in which any kernel ran: busy, not efficient",
    clock="nvidia-smi, five times a second",
    aggregation="all ranks",
)
MODEL_FLOPS = _training(
    metric="model_flops_utilisation",
    unit="%",
    better="higher",
    what="FLOPs of the model, forward and backward, of all samples of a round over its time, over "
    "the peak of the GPUs in single precision without tensor cores, which are not used",
    aggregation="all ranks",
)
REQUESTS = _training(
    metric="store_requests",
    unit="requests",
    better="lower",
    what="requests of a rank to where the data are, with those repeated",
    aggregation="all ranks",
)
BYTES_READ = _training(
    metric="bytes_read",
    unit="B",
    better="lower",
    what="bytes that a rank read from where the data are, of all rounds and probes",
    aggregation="all ranks",
)
GRADIENT_BYTES = _training(
    metric="gradient_bytes",
    unit="B",
    better="lower",
    what="gradients of the model, which all ranks reduce per step",
    aggregation="one rank",
)
TIME_TO_ACCURACY = _training(
    metric="time_to_accuracy",
    unit="s",
    better="lower",
    what="training until the accuracy on the test images is reached, with data resident; a value "
    "per seed that reached it",
    aggregation="one rank",
)
FINAL_ACCURACY = _training(
    metric="final_accuracy",
    unit="%",
    better="higher",
    what="of the 360 test images, after the last epoch; a value per seed",
    aggregation="one rank",
)
FINAL_LOSS = _training(
    metric="final_loss",
    unit="nats",
    better="lower",
    what="mean cross-entropy of the last epoch's batches, of all ranks; a value per seed",
    aggregation="one rank",
)
WAITS = (PARTS["fetch"], PARTS["preparation"])  # none with data resident on the device
UTILISATION = (GPU_BUSY, MODEL_FLOPS)  # of GPUs
BY_PHASE = (SAMPLES_RATE, STEP_TIME, *PARTS.values())
ACCURACY = (TIME_TO_ACCURACY, FINAL_ACCURACY, FINAL_LOSS)
METRICS = (
    *BY_PHASE,
    LINK_RATE,
    PREPARATION_RATE,
    EXCHANGE_RATE,
    *UTILISATION,
    REQUESTS,
    BYTES_READ,
    GRADIENT_BYTES,
    *ACCURACY,
)
