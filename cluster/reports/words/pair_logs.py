"""What is assumed of logs of pairs, and why a pair has no value, in words."""

from cluster.core.model.pair_logs import AssumptionCode, NoValue, PairAssumption
from cluster.core.units import format_size, format_value

MOST_TIMES = 1000.0  # that are counted in a message

ASSUMED: dict[AssumptionCode, str] = {
    "both_ways": "a value counts for both directions of its pair, which the logs do not tell apart",
    "row_sends": "the row of a matrix, or the first host of a line, is the host that sends",
    "alone_or_at_once": "whether tests ran one after another or at once is not known: contention "
    "can explain a low one",
    "no_limit": "no limit of a pair is known (--limit): a fleet that is slow as a whole looks "
    "healthy",
    "same_numbers": "GPU n of CUDA is GPU n of nvidia-smi (CUDA_DEVICE_ORDER=PCI_BUS_ID)",
    "slower_direction": "a pair has the rate of its slower direction",
    "no_gpu_paths": "how the GPUs are connected is not known: add the output of nvidia-smi topo -m "
    "as a log",
    "inferred_links": "the NVLinks of the pairs are inferred from their rates",
    "no_nic_paths": "how NICs and GPUs are connected is not known: add the output of nvidia-smi "
    "topo -m",
    "nearest_gpu": "a NIC without a GPU in its test has the class of its path to the nearest GPU",
    "other_end": "the other end of each test is as fast as its NIC",
    "unknown_nics": "the topology has no {}: their paths are not known",
    "no_node_paths": "which node each GPU is at is not known: add the output of nvidia-smi topo -m",
    "memory_bound": "the memory of each test was on its node: with --cpunodebind alone, "
    "nvbandwidth moves to the cores near each GPU unless it runs with -d; --membind keeps it there",
    "cores": "the cores of the first node of a pair use the memory of the second",
    "no_distances": "how far the nodes are from one another is not known: add the output of "
    "numactl --hardware",
}


def assumption_words(assumed: PairAssumption) -> str:
    return ASSUMED[assumed.code].format(", ".join(assumed.names))


def no_value_words(reason: NoValue) -> str:
    text = format_value(reason.value, "B/s" if reason.metric == "bandwidth" else "s")
    times = (
        f"{reason.times:.0f}" if 0 < reason.times < MOST_TIMES else f"more than {MOST_TIMES:.0f}"
    )
    match reason.code:
        case "failed":
            return reason.text
        case "no_metric":
            at = f" at {format_size(reason.size)}" if reason.size else ""
            return f"the log has no {reason.metric}{at}"
        case "empty_cell":
            return f"line {reason.line} has no value"
        case "negative":
            return f"{text} is no {reason.metric}"
        case "absurd":
            return f"{text} is {times} times the median of all pairs: not believed"
        case "no_copy":
            return "its bandwidth was not measured"
        case "no_log":
            return "there is no log of this pair"
