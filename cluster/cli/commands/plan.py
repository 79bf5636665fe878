"""Show what would be created, and its price.

Example: cluster plan --provider aws --instance c5.18xlarge --placement
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cluster.cli import flags
from cluster.cli.show import show_plan
from cluster.orchestration.launch.launch import plan_spec


def command(*, json: bool, **machines: Any) -> None:  # noqa: ANN401 - each flag has its own type
    show_plan(plan_spec(flags.spec(**machines))[1], as_json=json)


PLAN: flags.Declared = {
    "name": (
        Annotated[str, typer.Argument(metavar="[NAME]", help="Name of the cluster.")],
        "mpi_test",
    ),
    "provider": flags.with_default("provider", flags.DEFAULT_PROVIDER),
    "hosts": flags.SPEC["hosts"],
    **flags.MACHINES,
    "json": (flags.Json, False),
}
flags.with_flags(command, flags.parameters(PLAN))
