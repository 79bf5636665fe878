"""Slow, cut, heal or kill a host of a lab.

Example: cluster lab mine slow 1 --rate 100mbit
"""

import re
import sys
from typing import Annotated

from cluster.cli import flags
from cluster.cli.flags import argument, option
from cluster.core.errors import SpecError
from cluster.core.model.hosts import Machine
from cluster.core.text.units import format_rate
from cluster.orchestration.cluster import Cluster, attach
from cluster.providers.lab.network import Direction, Verb, alter, alter_pair, alter_uplink

LEAF = re.compile(r"leaf:(\d{1,9})")
PAIR = re.compile(r"(\d+)-(\d+)")
VERBS: dict[str, Verb] = {"slow": "slow", "cut": "cut", "heal": "heal", "kill": "kill"}
DIRECTIONS: dict[str, Direction] = {"tx": "tx", "rx": "rx", "both": "both"}
DONE = {
    "slow": "is slow now",
    "cut": "is cut off now",
    "heal": "is as it was made",
    "kill": "is dead now",
}


def command(
    name: flags.ClusterName,
    verb: Annotated[
        str,
        argument("slow|cut|heal|kill", "What to do with it.", autocompletion=lambda: list(DONE)),
    ],
    host: Annotated[
        str,
        argument(
            "HOST|A-B|leaf:N", "A host (number, name or address), a pair, or the uplink of a leaf."
        ),
    ],
    rate: Annotated[str, option("--rate RATE", "Rate for slow: 100mbit.  [default: a tenth]")] = "",
    direction: Annotated[
        str, option("--direction tx|rx|both", "In which a slow host is slow.")
    ] = "both",
) -> None:
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
    if direction not in DIRECTIONS:
        raise SpecError(
            f"{direction!r} is no direction.", remedy=f"There are: {', '.join(DIRECTIONS)}"
        )
    leaf, pair = LEAF.fullmatch(host), PAIR.fullmatch(host)
    now = None
    if leaf:
        change, now = host, alter_uplink(cluster.name, int(leaf[1]), VERBS[verb], rate)
    elif pair:
        first, second = (_machine(cluster, number) for number in pair.groups())
        alter_pair(first, second, VERBS[verb])
        change = f"The way between {first.name} and {second.name}"
    else:
        machine = _machine(cluster, host)
        change, now = machine.name, alter(machine, VERBS[verb], rate, DIRECTIONS[direction])
    speed = f" ({format_rate(now)})" if now else ""
    sys.stdout.write(f"{change} {DONE[verb]}{speed}.\n")


def _machine(cluster: Cluster, host: str) -> Machine:
    for machine in cluster.machines:
        number = machine.name.partition(".")[0]
        if host in (number, machine.name, machine.id, machine.address):
            return machine
    raise SpecError(
        f"{cluster.name} has no host {host!r}.",
        remedy=f"There are: {', '.join(machine.name for machine in cluster.machines)}",
    )
