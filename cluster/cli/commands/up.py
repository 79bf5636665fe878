"""Launch a cluster, and leave it up.

Example: cluster up mine --provider ssh --option hosts=alice@h1,h2:2222
"""

import sys
from pathlib import Path
from typing import Annotated

from cluster.cli import flags
from cluster.cli.commands.ls import MOST_SHOWN, show_hosts
from cluster.cli.confirm import confirm_cost
from cluster.cli.console import console
from cluster.cli.flags import group, option
from cluster.cli.progress import HostProgress
from cluster.cli.show import show_plan
from cluster.core.model.resources import Plan
from cluster.core.model.value import Value
from cluster.orchestration.jobs.host_group import read_script
from cluster.orchestration.launch.launch import (
    launch_spec,
    plan_spec,
    prove_launch,
    read_proof,
    set_up,
)


class Preparation(Value, frozen=True, kw_only=True):
    """What is done with new hosts, before a job starts on them."""

    install: Annotated[bool, option("--install", "Install now what benchmarks need.")] = False
    setup: Annotated[
        str, option("--setup FILE", "A script that each host runs, once for each content.")
    ] = ""
    prove: Annotated[
        str | None,
        option(
            "--prove TIME[,RATE]",
            "Prove all hosts in TIME, and replace bad ones, or fail; RATE: of a link.",
        ),
    ] = None
    keep: Annotated[bool, option("--keep", "Leave new hosts up if a later step fails.")] = False


def command(
    name: flags.ClusterName,
    *,
    machines: flags.Machines,
    plan: flags.PlanOnly = False,
    preparation: Annotated[Preparation, group(Preparation)],
    replace: Annotated[bool, option("--replace", "Rebuild it if its hosts do not answer.")] = False,
    yes: flags.Yes = False,
    json: flags.Json = False,
) -> None:
    if machines["provider"] is None:
        machines = flags.like_running(name, machines)
    spec = flags.spec(name=name, **machines)
    script = read_script(Path(preparation.setup)) if preparation.setup else ""
    proof = read_proof(preparation.prove)
    if plan:
        show_plan(plan_spec(spec, proof)[1], as_json=json)
        return

    def confirm(plan: Plan) -> None:
        confirm_cost(spec, plan, lambda line: sys.stderr.write(f"{line}\n"), yes=yes)

    with HostProgress(console(stderr=True)) as progress:
        cluster = launch_spec(spec, progress, confirm=confirm, replace=replace, proof=proof)
        if proof:
            answer = prove_launch(cluster, proof, progress, keep=preparation.keep).answer
            sys.stderr.write(f"{answer}\n")
        if preparation.install:
            cluster.install(on_state=progress)
        if script:
            set_up(cluster, script, keep=preparation.keep)
    show_hosts(cluster, as_json=json, most=MOST_SHOWN)
