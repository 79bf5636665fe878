"""What a reader of numbers must know, as values; reports/words/notes.py has the words."""

from typing import Literal

from cluster.core.model.value import Scalar, Value

NoteKind = Literal[
    "quoted", "setting", "device", "device_at", "repeated", "within_host", "only_intervals",
    "rows_not_understood", "succeeded", "other_step", "no_rows", "no_node_rows", "no_total",
    "neither_gpu_nor_all", "under_load", "no_cores", "no_mean", "round_trips", "html_comments",
    "one_or_all", "nvbandwidth_unnamed", "waived", "only_sum", "only_help", "no_streams",
    "no_streams_both_ways", "no_head", "unknown_side", "no_client", "sum_of_both_ways", "only_sent",
    "server_stopped", "server_stopped_after", "ranks_on_hosts", "unknown_hosts", "family",
    "only_mean", "no_header", "no_foot", "unchecked", "each_alone", "one_rank", "partial_algbw",
    "unfinished_row", "imb_unnamed", "times_with_wait", "mnnvl", "not_connected", "torn_lines",
    "nccl_went_on", "nccl_succeeded", "mixed_processes", "several_totals", "other_total",
    "other_total_each", "no_verdict", "p2p_matrix_no_title", "first_is_warm_up", "some_iterations",
    "perftest_no_title", "wrong_head", "osu_no_title", "no_profile_totals", "unknown_rank",
    "other_calls", "other_sum", "impossible_au", "no_step_counted", "data_fit_memory",
    "emulated_accelerators", "other_mean", "rocm_no_title",
    "may_be_one_of_several", "container_image", "shared_cores", "same_order", "order", "profiled",
    "tcp_instead", "proven_provider", "simulated", "other_gpu", "lines_not_understood",
    "made_from_logs", "assumed", "left_out", "not_shared",
]  # fmt: skip


class Note(Value, frozen=True):
    """A note on a run, or on a result in a log."""

    kind: NoteKind
    values: tuple[Scalar, ...] = ()  # that its words name
    title: str = ""  # of the result in a log that it is about

    def __str__(self) -> str:
        return " ".join(map(str, (self.kind, *self.values)))
