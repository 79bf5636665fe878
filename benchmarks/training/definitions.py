"""The metrics of `training`."""

from functools import partial

from cluster.analysis.models.step_limits import PART_METRICS, TIMED_STEP
from cluster.core.definitions import define

_training = partial(
    define,
    "training",
    synchronisation="ranks begin a round together; then each step's exchange keeps them together",
    warm_up="the first steps of each round, which also fill the loader",
)
_timed = partial(_training, clock="time.perf_counter of each rank, read once the device is idle")

(SAMPLES_RATE, LINK_RATE, PREPARATION_RATE, EXCHANGE_RATE, MODEL_FLOPS, REQUESTS, BYTES_READ) = (
    _timed(
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
(STEP_TIME,) = _timed(
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
    part: _timed(f"{PART_METRICS[part]} (s, all ranks): {meaning}")[0]
    for part, meaning in _PARTS.items()
}
(GPU_BUSY,) = _training(
    """
    gpu_busy (%, all ranks): of the driver's last period, the part in which any kernel ran: busy,
        not efficient
    """,
    clock="nvidia-smi, five times a second",
)
GRADIENT_BYTES, *ACCURACY = _timed(
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
