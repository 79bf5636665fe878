"""The protocol between the agent on a host and the controller: events, files, exit statuses."""

from cluster.core.model.value import Value

AGENT = ("-P", "-m", "cluster.agent")  # the arguments of Python on a host, before the verb
# No other variables are recorded or passed on: the environment may hold secrets.
VARIABLE_PREFIXES = (
    *("OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_", "UCX_", "NCCL_", "FI_", "MPI4PY_", "OMP_"),
)
VARIABLE_NAMES = ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "TMPDIR")
TIMED_OUT = 124  # as coreutils' timeout exits
HOST_LOST = 113  # EHOSTUNREACH
NOTICE = "[cluster] "  # begins a line of cluster's own among those of the ranks
REASON = "reason"  # the file that explains the exit status
ADVICE = "\n\n"  # in that file, between the reason and what it means and what to do
LOST_HOSTS = "lost_hosts"  # the file with the names of the machines that were lost, one per line
HEARTBEAT = 5.0  # seconds between two events `Running` of a watcher
BY_SIGNAL = 128  # plus the signal's number: the exit status of a process that a signal ended
PROGRESS = "progress.jsonl"  # the progress of a job, a line per report
FOLLOWED = ("stdout", "stderr", PROGRESS)
WORKDIR = "workdir"  # the folder inside a job's folder that holds a copy of the user's folder
COPIED = "copied.json"  # the SHA-256 of each file of that copy as it came, by its path


class Wrote(Value, frozen=True, kw_only=True, tag="wrote"):
    """A job's file grew by some whole lines."""

    file: str
    text: str


class Ended(Value, frozen=True, kw_only=True, tag="ended"):
    """The job ended by itself, or was stopped cleanly."""

    status: int


class Lost(Value, frozen=True, kw_only=True, tag="lost"):
    """The job's processes have ended without recording an exit status."""

    reason: str


class Running(Value, frozen=True, kw_only=True, tag="running"):
    """The job runs, or is about to."""


Event = Wrote | Running | Ended | Lost
