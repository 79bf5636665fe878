"""`cluster lab`: slow, cut off or kill hosts of a lab, to see how jobs react.

The only command for a single provider; a second one would be a reason to make such commands a part
of the provider interface.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.cli import flags
from cluster.core.errors import SpecError
from cluster.core.model.hosts import Machine
from cluster.core.units import format_rate
from cluster.orchestration.cluster import attach
from cluster.providers.lab.control import Verb, alter

if TYPE_CHECKING:
    from cluster.orchestration.cluster import Cluster

DONE = {
    "slow": "is slow now",
    "cut": "is cut off now",
    "heal": "is as it was made",
    "kill": "is dead now",
}


def lab(
    name: flags.ClusterName,
    verb: Annotated[
        str,
        typer.Argument(
            metavar="slow|cut|heal|kill",
            help="What to do with it.",
            autocompletion=lambda: list(DONE),
        ),
    ],
    host: Annotated[str, typer.Argument(metavar="HOST", help="Its number, name or address.")],
    rate: Annotated[
        str,
        typer.Option("--rate", metavar="RATE", help="Rate for slow: 100mbit.  [default: a tenth]"),
    ] = "",
) -> None:
    """Slow, cut, heal or kill a host of a lab.

    Example: cluster lab mine slow 1 --rate 100mbit
    """
    if verb not in DONE:
        raise SpecError(
            f"{verb!r} is not an action for a host.", remedy=f"There are: {', '.join(DONE)}"
        )
    if rate and verb != "slow":
        raise SpecError(f"--rate has no effect on {verb!r}.", remedy="Leave it out.")
    cluster = attach(name)
    if cluster.spec.provider != "lab":
        raise SpecError(
            f"{name} is not a lab: its provider is {cluster.spec.provider!r}.",
            remedy=f"Make one: cluster up {name}-lab --provider lab",
        )
    chosen = _machine(cluster, host)
    now = alter(chosen, _verb(verb), rate)
    speed = f" ({format_rate(now)})" if now else ""
    sys.stdout.write(f"{chosen.name} {DONE[verb]}{speed}.\n")


def _verb(word: str) -> Verb:
    verbs: dict[str, Verb] = {"slow": "slow", "cut": "cut", "heal": "heal", "kill": "kill"}
    return verbs[word]


def _machine(cluster: Cluster, host: str) -> Machine:
    for machine in cluster.machines:
        number = machine.name.partition(".")[0]
        if host in (number, machine.name, machine.id, machine.address):
            return machine
    raise SpecError(
        f"{cluster.name} has no host {host!r}.",
        remedy=f"There are: {', '.join(machine.name for machine in cluster.machines)}",
    )
