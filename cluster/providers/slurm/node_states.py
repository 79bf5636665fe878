"""Nodes as `scontrol --oneliner show node` prints them, and their states in words."""

import re

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
    why = [FLAGS.get(flag, flag) for flag in node.flags]
    why += [node.reason] if node.reason else []
    noticed = node.state in LOST or bool(why)
    still = "" if noticed else "still "
    return f"Slurm {still}calls {node.name} {node.state}{': ' if why else ''}{'; '.join(why)}"
