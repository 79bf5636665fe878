"""The commands for hosts as such: up, hosts, run, put, get."""

from __future__ import annotations

import shlex
import sys
import threading
from contextlib import suppress
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cluster.cli import flags
from cluster.cli.confirm import confirm_cost
from cluster.cli.console import console
from cluster.cli.host_progress import HostProgress
from cluster.cli.launches import BenchOptions, run_launches
from cluster.cli.show import print_json, print_lines, show_plan, table
from cluster.core.errors import ClusterError, SpecError
from cluster.core.model.hosts import Completed, Machine
from cluster.core.model.value import Value
from cluster.orchestration.bench.bench import TIMEOUT
from cluster.orchestration.bench.working_folder import LEFT_OUT, find_files
from cluster.orchestration.cluster import Cluster, attach
from cluster.orchestration.launch.launch import launch_spec, plan_spec
from cluster.remote.parallel import results
from cluster.runs import store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.orchestration.bench.working_folder import WorkingFolder

MOST_SHOWN = 64  # hosts, after `up` and `start`
NONE = "none"  # `--workdir none` copies nothing

Command = Annotated[
    list[str], typer.Argument(metavar="COMMAND", help="Command and its arguments, after --.")
]


class HostRow(Value, frozen=True, kw_only=True):
    """One line of `cluster hosts`."""

    name: str
    id: str
    address: str
    user: str
    port: int


class Outcome(Value, frozen=True, kw_only=True):
    """The exit status and output of a command on one host, or the error."""

    host: str
    status: int | None = None
    stdout: str = ""
    stderr: str = ""
    error: str = ""


def up(
    *,
    plan: bool = False,
    install: bool = False,
    replace: bool = False,
    yes: bool = False,
    json: bool = False,
    **machines: Any,  # noqa: ANN401 - each flag has its own type
) -> None:
    """Launch a cluster, and leave it up.

    Example: cluster up mine --provider ssh --option hosts=alice@h1,h2:2222
    """
    if machines["provider"] is None:
        machines = flags.like_running(machines["name"], machines)
    spec = flags.spec(**machines)
    planned = plan_spec(spec)
    if plan:
        show_plan(planned[1], as_json=json)
        return
    confirm_cost(spec, planned[1], lambda line: sys.stderr.write(f"{line}\n"), yes=yes)
    with HostProgress(console(stderr=True)) as waiting:
        cluster = launch_spec(spec, waiting, planned, replace=replace)
        if install:
            cluster.install(tell=waiting)
    _show(cluster, as_json=json, most=MOST_SHOWN)


def plan_(*, json: bool, **machines: Any) -> None:  # noqa: ANN401 - each flag has its own type
    """Show what would be created, and its price.

    Example: cluster plan --provider aws --instance c5.18xlarge --placement
    """
    show_plan(plan_spec(flags.spec(**machines))[1], as_json=json)


UP: flags.Declared = {
    "name": (flags.ClusterName, Parameter.empty),
    **flags.SPEC,
    "plan": (flags.PlanOnly, False),
    "install": (
        Annotated[bool, typer.Option("--install", help="Install now what benchmarks need.")],
        False,
    ),
    "replace": (
        Annotated[bool, typer.Option("--replace", help="Rebuild it if its hosts do not answer.")],
        False,
    ),
    "yes": (flags.Yes, False),
    "json": (flags.Json, False),
}
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
flags.with_flags(up, flags.parameters(UP))
flags.with_flags(plan_, flags.parameters(PLAN))


def stop(name: flags.ClusterName) -> None:
    """Switch machines off; their disks stay.

    Example: cluster stop mine
    """
    attach(name).stop()
    sys.stdout.write(f"{name} is stopped. On again: cluster start {name}\n")


def start_(name: flags.ClusterName, json: flags.Json = False) -> None:
    """Switch stopped machines on again.

    Example: cluster start mine
    """
    cluster = attach(name)
    with HostProgress(console(stderr=True)) as waiting:
        cluster.start(waiting)
    _show(cluster, as_json=json, most=MOST_SHOWN)


def hosts_(
    name: flags.ClusterName,
    json: flags.Json = False,
    ssh_config: Annotated[
        bool, typer.Option("--ssh-config", help="Print Host blocks for ssh -F.")
    ] = False,
) -> None:
    """List the hosts of a cluster.

    Example: cluster hosts mine --ssh-config > mine.conf; ssh -F mine.conf 0.mpi.mine
    """
    cluster = attach(name)
    if ssh_config:
        sys.stdout.write("\n".join(_block(machine) for machine in cluster.machines))
    else:
        _show(cluster, as_json=json)


def _show(cluster: Cluster, *, as_json: bool, most: int = 0) -> None:
    """Show the hosts of a cluster: all, or the first few."""
    rows = [_row(machine) for machine in cluster.machines]
    if as_json:
        print_json(rows)
        return
    table(
        ("name", "id", "address", "user", "port"),
        [
            (r.name, r.id, r.address, r.user or "-", str(r.port or "-"))
            for r in rows[: most or None]
        ],
        empty="It has no hosts.",
    )
    if 0 < most < len(rows):
        print_lines(f"{len(rows) - most} more; all: cluster hosts {cluster.name}")


def _row(machine: Machine) -> HostRow:
    user, port = (machine.access.user, machine.access.port) if machine.access else ("", 0)
    return HostRow(name=machine.name, id=machine.id, address=machine.address, user=user, port=port)


def _block(machine: Machine) -> str:
    """Return what OpenSSH's client needs to reach a machine as we do."""
    access = machine.access
    if access is None:
        return f"# {machine.name} is this machine\n"
    settings = {
        "HostName": access.host,
        "User": access.user,
        "Port": str(access.port or ""),
        "IdentityFile": access.key,
        "IdentitiesOnly": "yes" if access.key else "",
        "UserKnownHostsFile": access.known_hosts,
        "HostKeyAlias": access.alias,
    }
    lines = [f'  {key} "{value}"' for key, value in settings.items() if value]
    return "\n".join([f"Host {machine.name}", *lines]) + "\n"


def run(  # noqa: PLR0913 - each is a flag
    name: flags.ClusterName,
    words: Command,
    *,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="S", help="Seconds it may take.")
    ] = None,
    mpi: Annotated[
        bool, typer.Option("--mpi", help="As one MPI program, in a job, with a run folder.")
    ] = False,
    workdir: Annotated[
        str | None,
        typer.Option(
            "--workdir",
            metavar="DIR",
            help="With --mpi: run in a copy of it; none: copy nothing.  "
            "[default: . if COMMAND names a file in it]",
        ),
    ] = None,
    profile: flags.Profile = None,
    starter: flags.Starter = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="With --mpi: end a job that runs there.")
    ] = False,
    root: flags.Runs = None,
    json: flags.Json = False,
) -> None:
    """Run a command on all hosts at once; --mpi: on ranks.

    Example: cluster run mine --mpi -- python3 hello.py
    """
    if mpi or starter or profile is not None:
        folder = _working_folder(words, workdir, root)
        cluster = attach(name)
        if folder is not None:
            sys.stderr.write(f"The ranks run in a copy of {folder}.\n")
        options = BenchOptions(
            runs=root,
            timeout=timeout or TIMEOUT,
            json=json,
            profile=profile,
            workdir=folder,
            starter=starter,
            replace=replace,
            launches=1,
        )
        run_launches(cluster, "program", {"command": shlex.join(words)}, options)
        return
    if workdir is not None:
        raise SpecError(
            "--workdir has no effect without --mpi.",
            remedy=f"cluster put {name} FILE PATH copies files to all hosts.",
        )
    _run_on_each_host(attach(name), words, timeout, as_json=json)


def _run_on_each_host(
    cluster: Cluster, words: Sequence[str], timeout: float | None, *, as_json: bool
) -> None:
    """Run a command once per host, and show what each prints."""
    turn = threading.Lock()

    def show(host: str, line: str) -> None:
        with turn:
            sys.stdout.write(f"{host}: {line}\n")
            sys.stdout.flush()

    ended = cluster.try_run(words, timeout=timeout, on_line=None if as_json else show)
    outcomes = [_outcome(host, end) for host, end in ended.items()]
    if as_json:
        print_json(outcomes)
    for outcome in [] if as_json else outcomes:
        for line in outcome.stderr.splitlines():
            sys.stderr.write(f"{outcome.host}: {line}\n")
        if outcome.status:
            sys.stderr.write(f"{outcome.host}: exit status {outcome.status}\n")
    results(ended)
    raise typer.Exit(next((o.status for o in outcomes if o.status), 0))


def _working_folder(
    words: Sequence[str], given: str | None, runs: str | None
) -> WorkingFolder | None:
    """Find the folder that is copied: the current one if a word is the path of a file in it."""
    named = [Path(word) for word in words if _names_file(word)]
    if given == NONE or (given is None and not named):
        return None
    folder = find_files("." if given is None else given, store.root(runs))
    left_out = [] if given else [path for path in named if path not in folder.files]
    if left_out:
        raise SpecError(
            f"{left_out[0]} is not copied to the hosts, so the ranks would not find it.",
            means=f"{LEFT_OUT} are left out.",
            remedy=f"Use its absolute path on the hosts; or copy nothing: --workdir {NONE}",
        )
    return folder


def _names_file(word: str) -> bool:
    """Tell whether a word is the path of a file in the current folder."""
    path = Path(word)
    with suppress(OSError):  # too long to be a path, such as the text behind python3 -c
        return not path.is_absolute() and ".." not in path.parts and path.is_file()
    return False


def _outcome(host: str, end: Completed | ClusterError) -> Outcome:
    if isinstance(end, ClusterError):
        return Outcome(host=host, error=str(end))
    return Outcome(host=host, status=end.status, stdout=end.stdout, stderr=end.stderr)


def put(
    name: flags.ClusterName,
    path: Annotated[Path, typer.Argument(metavar="HERE", help="A file or folder here.")],
    to: Annotated[str, typer.Argument(metavar="THERE", help="Its path on every host.")],
) -> None:
    """Copy a file or folder to all hosts at once.

    Example: cluster put mine data.bin /tmp/data.bin
    """
    cluster = attach(name)
    cluster.put(path, to)
    sys.stdout.write(f"{path} is on {len(cluster.shells())} host(s) as {to}.\n")


def get(
    name: flags.ClusterName,
    path: Annotated[str, typer.Argument(metavar="THERE", help="A folder on every host.")],
    to: Annotated[Path, typer.Argument(metavar="HERE", help="A folder here.")],
) -> None:
    """Copy a folder from all hosts to this machine.

    Example: cluster get mine /var/log/journal logs
    """
    for host, folder in attach(name).get(path, to).items():
        sys.stdout.write(f"{host}: {folder}\n")
