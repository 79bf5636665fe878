"""Partitions that start no jobs: `sbatch --test-only` does not always say so."""

from collections.abc import Sequence

from cluster.core.model.value import Value
from cluster.providers.slurm.node_states import FIELD

UP = "UP"
CLOSED = {  # scontrol(1), "State" of a partition
    "DOWN": "jobs wait in it until it is UP",
    "DRAIN": "it takes no new jobs",
    "INACTIVE": "it takes no new jobs, and starts none",
}


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
