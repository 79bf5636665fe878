"""Nodes and partitions as `scontrol --oneliner` prints them, and their states in words."""

import re
from collections.abc import Sequence

from cluster.core.model.value import Value

# A value may contain blanks (`OS=Linux 5.4 ...`, `Reason=Not responding [root@...]`): it ends
# where the next key begins, with a capital letter.
FIELD = re.compile(r"(?:^|\s)([A-Z]\w*)=(.*?)(?=\s[A-Z]\w*=|$)")
FLAGS = {
    "DRAIN": "it takes no new jobs",
    "FAIL": "it is about to fail",
    "INVALID_REG": "it registered with another hardware than configured",
    "MAINTENANCE": "it is under maintenance",
    "NOT_RESPONDING": "it does not answer slurmctld",
    "POWERED_DOWN": "it is powered down",
    "POWERING_DOWN": "it is being powered down",
    "REBOOT_ISSUED": "it restarts",
    "REBOOT_REQUESTED": "it is to restart",
}
# The marks that sinfo, and scontrol before version 21.08, put after a state.
MARKS = {"*": "NOT_RESPONDING", "$": "MAINTENANCE", "@": "REBOOT_ISSUED", "^": "REBOOT_ISSUED"}
LOST = frozenset({"DOWN", "ERROR", "FUTURE", "UNKNOWN"})  # states in which a node runs nothing
UP = "UP"
CLOSED = {  # scontrol(1), "State" of a partition
    "DOWN": "jobs wait in it until it is UP",
    "DRAIN": "it takes no new jobs",
    "INACTIVE": "it takes no new jobs, and starts none",
}


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
    marked = [MARKS[mark] for mark in word[len(words) :]]
    return SlurmNode(
        name=name,
        address=row.get("NodeAddr", "").strip() or name,
        state=state or "UNKNOWN",
        flags=tuple(dict.fromkeys([*flags, *marked])),
        reason=row.get("Reason", "").strip(),
    )


def words_on_node(node: SlurmNode) -> str:
    """Say in which state Slurm has a node that does not answer us.

    Such as `Slurm calls nodes-2 DOWN: Not responding [root@2026-11-24T00:44:35]`, or `Slurm still
    calls nodes-2 ALLOCATED` where Slurm has not noticed it.
    """
    reason = [FLAGS.get(flag, flag) for flag in node.flags]
    reason += [node.reason] if node.reason else []
    noticed = node.state in LOST or bool(reason)
    still = "" if noticed else "still "
    return f"Slurm {still}calls {node.name} {node.state}{': ' if reason else ''}{'; '.join(reason)}"


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


def why_closed(partitions: Sequence[Partition], requested: str) -> str:
    """Say why a job would not start in its partitions, such as `gpu,cpu`, or empty for the default.

    Such as `the partition gpu is DOWN: jobs wait in it until it is UP`; empty if one of them is up,
    or none is known.
    """
    names = requested.split(",")
    matching = [p for p in partitions if (p.name in names if requested else p.default)]
    if any(p.state == UP for p in matching):
        return ""
    return "; ".join(
        f"the partition {p.name} is {p.state}: {CLOSED.get(p.state, 'not known here')}"
        for p in matching
    )
