"""The states of Slurm's jobs, and the reasons for which they wait, in words.

States and reasons: squeue(1), "JOB STATE CODES" and "JOB REASON CODES", Slurm 20.11 to 24.05.
"""

import re
from collections.abc import Collection

from cluster.core.model.value import Value

WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "POWER_UP_NODE"})
HELD = frozenset({"REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
RUNNING = "RUNNING"
# The job has its nodes still, but runs nothing new, or nothing at all.
COMPLETING = "COMPLETING"
NODE_FAIL, PREEMPTED = "NODE_FAIL", "PREEMPTED"
TIMEOUT, TIME_LIMIT = "TIMEOUT", "TimeLimit"  # a state, and its reason
# Its processes are stopped; a new step waits until the job goes on.
STOPPED = {
    "STOPPED": "its processes are stopped",
    "SUSPENDED": "it was suspended (scontrol suspend), or jobs of another partition have its turn",
}
LEAVING = frozenset({COMPLETING, "SIGNALING", "STAGE_OUT", "RESIZING", *STOPPED})
ENDED = {
    "BOOT_FAIL": "its nodes could not be started",
    "CANCELLED": "somebody cancelled it (scancel)",
    "COMPLETED": "its script ended",
    "DEADLINE": "its deadline has passed",
    "FAILED": "its script failed",
    "LAUNCH_FAILED": "it could not be launched on its nodes",
    NODE_FAIL: "one of its nodes failed",
    "OUT_OF_MEMORY": "it ran out of memory",
    PREEMPTED: "it was preempted by another job",
    "RECONFIG_FAIL": "its nodes could not be reconfigured",
    "REVOKED": "another cluster of the federation started it",
    TIMEOUT: "its time limit was reached",
}
# Why a job is being ended, before its state says so.
ENDING = {"NodeDown": NODE_FAIL, "OutOfMemory": "OUT_OF_MEMORY", TIME_LIMIT: TIMEOUT}
PUT_BACK = WAITING | HELD  # of a job that had nodes
STAYING = PUT_BACK | STOPPED.keys() | {RUNNING}  # it is not over, but its nodes are of no use
UNUSABLE = {
    COMPLETING: "it is being ended",
    **dict.fromkeys(PUT_BACK, "it was requeued"),
    **{state: f"{why}; it goes on with scontrol resume {{id}}" for state, why in STOPPED.items()},
}
KNOWN = WAITING | HELD | LEAVING | ENDED.keys() | {RUNNING}

REASONS = {
    "AssocGrpJobsLimit": "the account is at its limit of running jobs",
    "AssocGrpNodeLimit": "the account's nodes are all in use",
    "AssocMaxJobsLimit": "the account is at its limit of running jobs",
    "AssocMaxNodePerJobLimit": "the account may not have so many nodes in a job",
    "AssociationJobLimit": "the account is at its limit of running jobs",
    "AssociationResourceLimit": "the account's share is in use",
    "BadConstraints": "no nodes can ever satisfy the constraints",
    "BeginTime": "its begin time is in the future",
    "Dependency": "it waits for another job",
    "InvalidAccount": "the account is not valid",
    "InvalidQOS": "the QOS is not valid",
    "JobHeldAdmin": "an administrator holds it",
    "JobHeldUser": "its user holds it",
    "Licenses": "licenses are all in use",
    "MaxMemPerLimit": "it asks for more memory than allowed",
    "NodeDown": "a node that it needs is down",
    "None": "it was just submitted",
    "PartitionConfig": "the partition gives no job so many nodes or so much time",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition is inactive",
    "PartitionNodeLimit": "the partition gives no job so many nodes",
    "PartitionTimeLimit": "the partition gives no job so much time",
    "Priority": "jobs of higher priority wait before it",
    "QOSJobLimit": "the QOS is at its limit of running jobs",
    "QOSMaxJobsPerUserLimit": "you have as many jobs running as the QOS allows",
    "QOSMaxNodePerJobLimit": "the QOS gives no job so many nodes",
    "QOSMaxNodePerUserLimit": "the QOS gives no user so many nodes",
    "QOSMaxWallDurationPerJobLimit": "the QOS gives no job so much time",
    "QOSResourceLimit": "the QOS's share is in use",
    "QOSTimeLimit": "the QOS's time is used up",
    "ReqNodeNotAvail": "a node that it needs is not available",
    "Reservation": "its reservation has not begun",
    "Resources": "it waits for nodes to become free",
}
# With these, waiting does not help: someone has to change the request, or the site's settings.
HOPELESS = frozenset(
    {
        "AssocMaxNodePerJobLimit",
        "BadConstraints",
        "InvalidAccount",
        "InvalidQOS",
        "MaxMemPerLimit",
        "PartitionConfig",
        "PartitionNodeLimit",
        "PartitionTimeLimit",
        "QOSMaxNodePerJobLimit",
        "QOSMaxWallDurationPerJobLimit",
    }
)
# The end is in parentheses, such as: (gpu allows high not normal)
CLOSED = re.compile(r"Job's (account|QOS) not permitted to use this partition")
FORMAT = "%A|%T|%r|%S|%L|%N|%k"  # of squeue; the comment is last, as it may contain anything
# What is left of the time limit: 1-02:03:04, 59:00, 0:00, or another word.
LEFT = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)")
OVERDUE = "INVALID"  # the limit is past
NOTHING = frozenset({"", "N/A", "(null)", "NONE", "Unknown"})


class SlurmJob(Value, frozen=True, kw_only=True):
    """A job, as squeue prints it."""

    id: str  # its number
    state: str  # such as `PENDING`; any word, as other versions of Slurm may have more
    reason: str = ""  # for which it waits, or ended; empty if there is none
    # when it started or is expected to, such as `2026-11-22T14:05:00`; empty if unknown
    start: str = ""
    # seconds until its time limit is reached; None if it has none, or is not known
    remaining: float | None = None
    nodes: str = ""  # that it has, such as `node[1-4]`; empty while it has none
    comment: str = ""  # that it was submitted with

    @property
    def is_over(self) -> bool:
        return self.state in ENDED


def parse_jobs(text: str) -> tuple[SlurmJob, ...]:
    """Read what `squeue --noheader --format FORMAT` prints; lines of another shape are left out."""
    rows = (line.strip().split("|", 6) for line in text.splitlines())
    return tuple(_job(row) for row in rows if len(row) == len(FORMAT.split("|")))


def _job(row: list[str]) -> SlurmJob:
    number, state, *rest = (field.strip() for field in row)
    reason, start, remaining, nodes, comment = ("" if word in NOTHING else word for word in rest)
    # sacct and some versions write CANCELLED by 1000, or CANCELLED+ where a column is narrow.
    name = state.partition(" ")[0].rstrip("+").upper()
    return SlurmJob(
        id=number,
        state=name,
        reason=reason,
        start=start,
        remaining=_seconds(remaining),
        nodes=nodes,
        comment=comment,
    )


def _seconds(text: str) -> float | None:
    """Read what is left of a time limit; a job may be past it until Slurm ends it."""
    if text == OVERDUE:
        return 0.0
    match = LEFT.fullmatch(text)
    if not match:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def words_of(job: SlurmJob) -> str:
    """Say in which state a waiting job is, why, and when it may start: `PENDING: it waits ...`."""
    if job.state not in KNOWN:
        return f"in the state {job.state!r}, which is not known here"
    code = job.reason.partition(",")[0].strip("()")
    reason = REASONS.get(code, job.reason)
    more = f" ({job.reason})" if code in REASONS and code != job.reason.strip("()") else ""
    start = f", may start at {job.start.replace('T', ' ')}" if job.start else ""
    return f"{job.state}: {reason}{more}{start}" if reason else f"{job.state}{start}"


def why_over(job: SlurmJob | None) -> str:
    """Say why the hosts of a job (None: not listed any more) cannot be used any more.

    Such as `TIMEOUT: its time limit was reached`; empty while it runs, or may still.
    """
    if job is None:
        return "Slurm does not list it any more"
    state = ENDING.get(job.reason, job.state) if job.state == COMPLETING else job.state
    if state in ENDED:
        is_clear = job.reason in ("", "None") or job.reason in ENDING
        return f"{state}: {ENDED[state]}{'' if is_clear else f' ({job.reason})'}"
    if state == RUNNING and job.remaining == 0:  # Slurm looks every 30 s, and may permit more time
        return f"{TIMEOUT}: {ENDED[TIMEOUT]}, and Slurm is about to end it"
    return f"{state}: {UNUSABLE[state].format(id=job.id)}" if state in UNUSABLE else ""


def why_put_back(states: Collection[str]) -> str:
    """Say why a job that had nodes waits in the queue again: `it was preempted by another job`.

    The states are those in which it has ended before, by Slurm's accounts; none if unknown.
    """
    if PREEMPTED in states:
        return ENDED[PREEMPTED]
    if not states:
        return "whether another job preempted it is not known: only Slurm's accounts would say so"
    return f"its state before was {', '.join(sorted(states))}"


def is_hopeless(job: SlurmJob) -> bool:
    """Tell whether a waiting job will never start as it is."""
    code = job.reason.partition(",")[0].strip("()")
    return job.state == "PENDING" and (code in HOPELESS or bool(CLOSED.match(job.reason)))
