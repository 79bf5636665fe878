"""The states of Slurm's jobs, nodes and partitions, as its commands print them and in words.

States and reasons of jobs: squeue(1), "JOB STATE CODES" and "JOB REASON CODES", 20.11 to 24.05.
"""

import re
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

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
WORDS = msgspec.toml.decode(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"), type=dict[str, dict[str, str]]
)
ENDED = WORDS["ended"]
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

REASONS = WORDS["reasons"]
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
    detail = f" ({job.reason})" if code in REASONS and code != job.reason.strip("()") else ""
    start = f", may start at {job.start.replace('T', ' ')}" if job.start else ""
    return f"{job.state}: {reason}{detail}{start}" if reason else f"{job.state}{start}"


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


# A value may contain blanks (`OS=Linux 5.4 ...`, `Reason=Not responding [root@...]`): it ends
# where the next key begins, with a capital letter.
FIELD = re.compile(r"(?:^|\s)([A-Z]\w*)=(.*?)(?=\s[A-Z]\w*=|$)")
FLAGS = WORDS["flags"]
# The marks that sinfo, and scontrol before version 21.08, put after a state.
MARKS = {"*": "NOT_RESPONDING", "$": "MAINTENANCE", "@": "REBOOT_ISSUED", "^": "REBOOT_ISSUED"}
LOST = frozenset({"DOWN", "ERROR", "FUTURE", "UNKNOWN"})  # states in which a node runs nothing
UP = "UP"
CLOSED_PARTITIONS = WORDS["closed_partitions"]


class SlurmNode(Value, frozen=True, kw_only=True):
    """A node, as scontrol prints it."""

    name: str  # in Slurm
    address: str  # at which Slurm reaches it; a name or an IP address
    state: str  # such as `ALLOCATED`; any word
    flags: tuple[str, ...] = ()  # of the state, such as `NOT_RESPONDING` or `DRAIN`
    reason: str = ""  # that an administrator or Slurm gave for the state; empty if there is none


def parse_nodes(text: str) -> tuple[SlurmNode, ...]:
    """Read what `scontrol --oneliner show node` prints; lines without a `NodeName` are left out."""
    rows = (dict(FIELD.findall(line.strip())) for line in text.splitlines())
    return tuple(_node(row) for row in rows if row.get("NodeName"))


def _node(row: dict[str, str]) -> SlurmNode:
    name, word = row["NodeName"], row.get("State", "UNKNOWN").strip()
    words = word.rstrip("".join(MARKS))
    state, *flags = words.split("+")
    marks = [MARKS[mark] for mark in word[len(words) :]]
    return SlurmNode(
        name=name,
        address=row.get("NodeAddr", "").strip() or name,
        state=state or "UNKNOWN",
        flags=tuple(dict.fromkeys([*flags, *marks])),
        reason=row.get("Reason", "").strip(),
    )


def words_on_node(node: SlurmNode) -> str:
    """Say in which state Slurm has a node that does not answer us.

    Such as `Slurm calls nodes-2 DOWN: Not responding [root@2026-11-24T00:44:35]`, or `Slurm still
    calls nodes-2 ALLOCATED` where Slurm has not noticed it.
    """
    reason = [FLAGS.get(flag, flag) for flag in node.flags]
    reason += [node.reason] if node.reason else []
    is_noticed = node.state in LOST or bool(reason)
    word = "" if is_noticed else "still "
    return f"Slurm {word}calls {node.name} {node.state}{': ' if reason else ''}{'; '.join(reason)}"


class Partition(Value, frozen=True, kw_only=True):
    """A partition, as scontrol prints it."""

    name: str  # in Slurm
    state: str  # such as `UP`; any word
    default: bool = False  # whether jobs that name none go there


def parse_partitions(text: str) -> tuple[Partition, ...]:
    """Read what `scontrol --oneliner show partition` prints, in lines with name and state."""
    rows = (dict(FIELD.findall(line.strip())) for line in text.splitlines())
    return tuple(
        Partition(
            name=row["PartitionName"], state=row["State"], default=row.get("Default") == "YES"
        )
        for row in rows
        if row.get("PartitionName") and row.get("State")
    )


def why_closed(partitions: Sequence[Partition], partition: str) -> str:
    """Say why a job would not start in its partitions, such as `gpu,cpu`, or empty for the default.

    Such as `the partition gpu is DOWN: jobs wait in it until it is UP`; empty if one of them is up,
    or none is known.
    """
    names = partition.split(",")
    matches = [p for p in partitions if (p.name in names if partition else p.default)]
    if any(p.state == UP for p in matches):
        return ""
    return "; ".join(
        f"the partition {p.name} is {p.state}: {CLOSED_PARTITIONS.get(p.state, 'not known here')}"
        for p in matches
    )
