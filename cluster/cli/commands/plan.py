"""Show what would be created, and its price.

Example: cluster plan --provider aws --instance c5.18xlarge --placement
"""

from __future__ import annotations

from typing import Annotated, Any

from cluster.cli import flags
from cluster.cli.flags import argument
from cluster.cli.show import show_plan
from cluster.orchestration.launch.launch import plan_spec

PLANNED = flags.Group(
    (
        flags.with_default("provider", flags.DEFAULT_PROVIDER),
        flags.SPEC["hosts"],
        flags.SPEC["groups"],
        *flags.MACHINES,
    )
)


def command(
    name: Annotated[str, argument("[NAME]", "Name of the cluster.")] = "mpi_test",
    *,
    machines: Annotated[dict[str, Any], PLANNED],
    json: flags.Json = False,
) -> None:
    show_plan(plan_spec(flags.spec(name=name, **machines))[1], as_json=json)
