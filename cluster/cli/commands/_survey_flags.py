"""The flags that `check` and `placement` share: both test the pairs of a cluster's hosts."""

from __future__ import annotations

from inspect import Parameter
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.cli import flags
from cluster.cli.commands._pair_logs import PAIR_LOGS
from cluster.orchestration.bench.bench import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES: flags.Declared = {
    "names": (
        Annotated[list[str] | None, typer.Argument(metavar="[NAME]", help="A running cluster.")],
        None,
    ),
}
SHARED: flags.Declared = {
    "from_": (
        Annotated[
            list[str] | None,
            typer.Option(
                "--from", metavar="RUN|LOG...", help="Judge a run, or logs of other tools."
            ),
        ],
        None,
    ),
    **PAIR_LOGS,
}
MACHINES: flags.Declared = {
    "provider": flags.SPEC["provider"],
    "hosts": flags.SPEC["hosts"],
    "ranks_per_host": flags.SPEC["ranks_per_host"],
    **flags.MACHINES,
    "runs": (flags.Runs, None),
    "keep": (flags.Keep, None),
    "timeout": (flags.Timeout, TIMEOUT),
    "yes": (flags.Yes, False),
    "json": (flags.Json, False),
}


def test_length(default: int) -> flags.Declared:
    """Declare the length of a test.

    Args:
        default: in milliseconds.

    """
    length = typer.Option("--milliseconds", metavar="N", help="Length of a test.")
    return {"milliseconds": (Annotated[int, length], default)}


def survey_command(function: Callable[..., None], own: flags.Declared) -> Callable[..., None]:
    """Make a command of pairs: its names, its own flags, and those of all such commands."""
    declared = flags.parameters({**NAMES, **own, **MACHINES})
    typed = [
        one.replace(kind=Parameter.POSITIONAL_OR_KEYWORD) if one.name == "names" else one
        for one in declared
    ]
    return flags.with_flags(function, typed)
