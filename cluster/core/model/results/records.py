"""What is recorded of a job and of a run, with what a reader of its numbers must know."""

from functools import partial
from typing import Literal

import msgspec

from cluster.core.model.hosts import SIMULATED, Facts, Machine
from cluster.core.model.resources import Receipt
from cluster.core.model.results.limits import Hardware
from cluster.core.model.results.measurements import Definition, Planned
from cluster.core.model.spec import ClusterSpec
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
Status = Literal["planned", "running", "done", "failed", "interrupted"]
NOTES_FILE = "notes"  # the file in a job's folder with the notes of rank 0, one per line


class Note(Value, frozen=True):
    """A note on a run, or on a result in a log; reports/words/notes.py has its words."""

    kind: NoteKind
    values: tuple[Scalar, ...] = ()  # that its words name
    title: str = ""  # of the result in a log that it is about

    def __str__(self) -> str:
        return " ".join(map(str, (self.kind, *self.values)))


class ExpectedResult(Value, frozen=True, kw_only=True):
    """The result that the user expected of a run."""

    value: float  # in `unit`
    unit: str = ""  # `s`, `B/s` or any other; empty means the unit of the result


class Condition(Value, frozen=True, kw_only=True):
    """What distinguishes a run, besides its benchmark's parameters."""

    name: str = ""  # to compare by; empty if the run is not part of an experiment
    variables: dict[str, str] = {}  # for the environment of every rank
    description: str = ""  # of the run, by who started it
    expected: ExpectedResult | None = None  # the result that the user expects, if given
    launch_of: str = ""  # what all launches of one command share; empty for a single launch


class JobRecord(Value, frozen=True, kw_only=True):
    """A job that was started, as another process needs to find it again."""

    session: str  # the name of its tmux session
    folder: str  # on the host, where its files are
    run: str  # the folder of its run, on this machine
    benchmark: str  # that it runs
    at: float  # when it was started
    workdir: bool = False  # whether its ranks run in a copy of a folder of this machine
    hosts: tuple[str, ...] = ()  # the names of its machines, in the order of the ranks


class Record(Value, frozen=True, kw_only=True):
    """What `run.json` holds."""

    version: int = 1  # Version of this format
    id: str  # Name of the run's folder
    benchmark: str  # Benchmark that was run
    status: Status  # How far the run got
    at: float  # When it was started, in seconds since the epoch
    spec: ClusterSpec  # The cluster asked for
    machines: tuple[Machine, ...] = ()  # Machines that it ran on, in the order of the ranks
    # Parameters of the benchmark, as JSON
    params: msgspec.Raw = msgspec.field(default_factory=partial(msgspec.Raw, b"{}"))
    command: tuple[str, ...] = ()  # Command line that started the ranks
    argv: tuple[str, ...] = ()  # Command line of the process that started the run
    definitions: dict[str, Definition] = {}  # Definitions of the metrics, by their ids
    environment: tuple[Facts, ...] = ()  # Facts of each host
    # What a reader of the numbers must know; a text is of the benchmark itself, or of an older run
    notes: tuple[Note | str, ...] = ()
    phases: dict[str, float] = {}  # Seconds spent in each phase
    receipt: Receipt | None = None  # what the machines cost, if anything, and what was proven
    exit_status: int | None = None  # Exit status of the job, once it ended
    reason: str = ""  # Why it is not `done`
    software: str = ""  # Version of `cluster`
    revision: str = ""  # Revision of its sources, which changes when any of them does
    variables: dict[str, str] = {}  # Environment variables that the user set for every rank
    # of an experiment with several, such as `mca:btl_tcp_links=4`; empty if it was none
    condition: str = ""
    description: str = ""  # Description by the user who started it
    expected: ExpectedResult | None = None  # The result that the user expects, if given
    # Every series that it should measure, if the benchmark lists them
    planned: tuple[Planned, ...] = ()
    # Hardware of the hosts that an imported log was written on, if known
    hardware: Hardware | None = None
    launch_of: str = ""  # What all launches of one command share; empty for a single launch
    # Numbers that the machines have in their cluster, if the ranks were handed out along a
    # placement (`--order near`); `machines` and `environment` are in this order, too
    order: tuple[int, ...] = ()

    @property
    def simulated(self) -> bool:
        """Whether its values come from a simulation, and nothing was measured."""
        return any(machine.shell == SIMULATED for machine in self.machines)
