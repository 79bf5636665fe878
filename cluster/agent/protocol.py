"""What the agent on a host and the controller agree on: events, files, exit statuses."""

from __future__ import annotations

from cluster.core.model.value import Value

AGENT = ("-P", "-m", "cluster.agent")  # what Python on a host is told, before the verb
# Nothing else of the environment is ever recorded or passed on: secrets live there.
VARIABLE_PREFIXES = (
    "OMPI_MCA_",
    "PRTE_MCA_",
    "PMIX_MCA_",
    "UCX_",
    "NCCL_",
    "FI_",
    "MPI4PY_",
    "OMP_",
)
VARIABLE_NAMES = ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "TMPDIR")
TIMED_OUT = 124  # as coreutils' timeout says it
HOST_LOST = 113  # EHOSTUNREACH
NOTICE = "[cluster] "  # begins a line that is ours, among those of the ranks
REASON = "reason"  # the file that says more than an exit status
BY_SIGNAL = 128  # how a shell says that a signal ended a process
PROGRESS = "progress.jsonl"  # how far a job is, a line each time
FOLLOWED = ("stdout", "stderr", PROGRESS)
WORKDIR = "workdir"  # the folder inside a job's folder that holds a copy of the user's folder
COPIED = "copied.json"  # the SHA-256 of each file of that copy as it came, by its path


class Wrote(Value, frozen=True, kw_only=True, tag="wrote"):
    """A job's file grew by some whole lines."""

    file: str
    text: str


class Ended(Value, frozen=True, kw_only=True, tag="ended"):
    """The job ended by itself, or was stopped in good order."""

    status: int


class Lost(Value, frozen=True, kw_only=True, tag="lost"):
    """The job's processes have ended without recording an exit status."""

    reason: str


class Running(Value, frozen=True, kw_only=True, tag="running"):
    """The job runs, or is about to."""


Event = Wrote | Running | Ended | Lost
