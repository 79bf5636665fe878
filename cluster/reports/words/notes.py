"""Notes in words, what logs of pairs leave open, and why a pair has no value."""

from cluster.core.model.network.fleet import AssumptionCode, NoValue, PairAssumption, PairLogs
from cluster.core.model.results.records import Note, NoteKind
from cluster.core.text.units import format_size, format_value

MOST_TIMES = 1000.0  # that are counted in a message

WORDS: dict[NoteKind, str] = {
    "quoted": "{}",
    "setting": "{}: {}",
    "device": "device {} is {}",
    "device_at": "device {} is {} at PCI bus {}",
    "repeated": "{} more line(s) say the same of other ranks, hosts or sizes",
    "within_host": "both ends are on one host: its figures are of no network",
    "only_intervals": "its totals are missing: it was stopped, or the log is cut off; these are "
    "the rates of its intervals",
    "rows_not_understood": "its rows were not understood; line {}: {!r}; expected: {}",
    "succeeded": "it succeeded all the same: {}",
    "other_step": "{}: another step, as the figures are whole",
    "no_rows": "the rows of {} are missing",
    "no_node_rows": "the rows of nodes {} are missing",
    "no_total": "there is no total: it was stopped, or the log is cut off",
    "neither_gpu_nor_all": "its iterations are neither of one GPU nor of all: they are not used",
    "under_load": "latencies under load (its rows by inject delay) are not read",
    "no_cores": "the rows of nodes {} are missing: they have no cores, or the log is cut off",
    "no_mean": "the line of its mean is missing: whether its times are round trips is not known",
    "round_trips": "it printed round trips (--full-rtt): half of them is one way",
    "html_comments": "rows in HTML comments were read, too: they are marked `commented`",
    "one_or_all": "the log does not say whether its rates are of one process or of all",
    "nvbandwidth_unnamed": "the name of a test (Running ...) is missing: it is called by the title"
    " of its matrix",
    "waived": "some tests were waived: this host lacks what they need",
    "only_sum": "only its sum is there: the matrix is missing",
    "only_help": "it lists its options or its tests, and ran none",
    "no_streams": "lines of streams are missing: how many [SUM] counts is not known",
    "no_streams_both_ways": "lines of streams are missing: how many [SUM] counts, and in which "
    "directions, is not known",
    "no_head": "its first lines are missing",
    "unknown_side": "the log does not say whether the client or the server wrote it",
    "no_client": "no client connected to this server",
    "sum_of_both_ways": "[SUM] is of both directions: rates of the streams were added instead",
    "only_sent": "there is only the sender's figure: some of its bytes may not have arrived",
    "server_stopped": "the server was stopped",
    "server_stopped_after": "the server was stopped after the test",
    "ranks_on_hosts": "{} rank(s) on {} host(s)",
    "unknown_hosts": "{} ranks, of which {} are named; the number of hosts is not known (use "
    "--hosts)",
    "family": "its bus bandwidth is that of {} on {} ranks",
    "only_mean": "only its last lines are there, so the sizes behind this mean are not known",
    "no_header": "its header is missing: the columns are as nccl-tests prints them",
    "no_foot": "its last lines are missing: it was stopped, or the log is cut off",
    "unchecked": "its data were not checked (validation: 0)",
    "each_alone": "its processes did not find each other: each ran a test of its own, as nccl-"
    "tests does that was built without MPI=1",
    "one_rank": "of one rank alone: nothing passed between GPUs",
    "partial_algbw": "its algorithm bandwidth was printed as (n-1)/n of size over time: it is size"
    " over time here, as in all other tests",
    "unfinished_row": "its row of {} B was begun, and has no end",
    "imb_unnamed": "the name of a benchmark is missing (# Benchmarking ...)",
    "times_with_wait": "its times hold the wait for the slowest rank",
    "mnnvl": "NVLink joins its hosts (MNNVL), so their network is not a limit",
    "not_connected": "no rank said that all rings are connected: it may have hung, or was cut off",
    "torn_lines": "{} line(s) were torn by lines of other ranks",
    "nccl_went_on": "NCCL went on after: {}",
    "nccl_succeeded": "its test succeeded all the same: NCCL WARN {}",
    "mixed_processes": "{} processes wrote into this log; each step's rate is of one of them",
    "several_totals": "{} processes printed the global rate: it is not summed",
    "other_total": "total images/sec is printed as {:g}, and the last step gives {:g}",
    "other_total_each": "total images/sec is printed as {:g}, and the last step gives {:g} for "
    "each process",
    "no_verdict": "its verdict is missing: it was stopped, or the log is cut off",
    "p2p_matrix_no_title": "the title of a matrix is missing: whether its copies go in one "
    "direction or in both, and with or without peer-to-peer, is not known",
    "first_is_warm_up": "the first of {} iterations is a warm-up, and not among the values of {}: "
    "it is kept as {}",
    "some_iterations": "{} of {} iterations are there",
    "perftest_no_title": "its title is missing: whether its rates are of one direction or of both "
    "is not known",
    "wrong_head": "its head says MB/sec, and its messages per second {}",
    "osu_no_title": "its title is missing: which test it is, and in how many directions, is not "
    "known",
    "no_profile_totals": "its totals are missing: it was stopped, or the file is cut off",
    "unknown_rank": "its first lines are missing: which rank it is of is not known",
    "other_calls": "{}: {} calls, but {} in the distribution of sizes",
    "other_sum": "its routines sum to {:.3f} s, but the total is {:.3f} s",
    "impossible_au": "train_au of epoch {} is {:g} %, which is impossible",
    "no_step_counted": "train_au of epoch {} is 0 % at {:g} samples/s: no step was counted, so it "
    "says nothing",
    "data_fit_memory": "the data fit in the memory of a host: later epochs need not have read the "
    "storage",
    "emulated_accelerators": "train_au is a mean of percentages, and its accelerators sleep: "
    "readers had all cores",
    "other_mean": "{} is printed as {:g}, and its epochs give {:g}",
    "rocm_no_title": "the title of a matrix is missing, so it is not used",
    "may_be_one_of_several": "the last line of a test is missing: its transfer may be one of "
    "several",
    "container_image": "Ranks ran in the container image {}.",
    "shared_cores": "{} ranks share {} usable core(s): a waiting rank gives its core away "
    "(mpi_yield_when_idle), and that is in every time.",
    "same_order": "--order near changes nothing: the placement shows no structure, or this very "
    "order.",
    "order": "--order near: ranks are handed out to the hosts {}.",
    "profiled": "The ranks were profiled (--profile={}): each MPI call took longer, so do not "
    "compare these times with those of other runs.",
    "tcp_instead": "TCP: these ranks were given {}, so their values are not {}'s.",
    "proven_provider": "MPI's messages passed {}: libfabric lists it on every host (fi_info), and "
    "Open MPI was allowed nothing else (pml cm, mtl ofi).",
    "simulated": "simulated: {}; nothing was measured.",
    "other_gpu": "the log says {}, and --hardware {}",
    "lines_not_understood": "{} of {} lines were not understood; the first is line {}: {!r}",
    "made_from_logs": "made from logs: {}",
    "assumed": "assumed: {}",
    "left_out": "left out: {}",
    "not_shared": "{} parameters and variables are not shared, as they may hold names",
}


def note_words(note: Note | str) -> str:
    if isinstance(note, str):
        return note
    words = WORDS[note.kind].format(*note.values)
    return f"{note.title}: {words}" if note.title else words


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
    "fastest_copy": "a pair can do what its fastest copy did",
    "one_kind": "all hosts are of one kind: pairs are compared with those of other hosts, too",
}


FAILED_TESTS = "tests that failed"


def other_tests(logs: PairLogs) -> tuple[str, ...]:
    return tuple(f"{count} result(s) of {title}" for title, count in logs.others.items())


def assumption_words(assumption: PairAssumption) -> str:
    return ASSUMED[assumption.code].format(", ".join(assumption.names))


def no_value_words(reason: NoValue) -> str:
    text = format_value(reason.value, "B/s" if reason.metric == "bandwidth" else "s")
    times = (
        f"{reason.times:.0f}" if 0 < reason.times < MOST_TIMES else f"more than {MOST_TIMES:.0f}"
    )
    match reason.code:
        case "failed":
            return reason.text
        case "no_metric":
            at_size = f" at {format_size(reason.size)}" if reason.size else ""
            return f"the log has no {reason.metric}{at_size}"
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
