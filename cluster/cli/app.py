"""The commands; each is short, and what it does is in the layer below."""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from typer.core import TyperGroup

from cluster.cli import doctor, flags, gc, hosts, importing, lab, listing
from cluster.cli.bench import BenchGroup
from cluster.cli.compare import compare_
from cluster.cli.fit import fit
from cluster.cli.judge import judge
from cluster.cli.live import Live
from cluster.cli.plot import plot
from cluster.cli.profile import profile
from cluster.cli.report import report_
from cluster.cli.scaling import scaling
from cluster.cli.show import (
    print_json,
    receipt_lines,
    shortened,
    show_newest,
    show_run,
    table,
)
from cluster.cli.sql import sql
from cluster.cli.topology import topology
from cluster.clusters import Cluster, Listener, attach
from cluster.core import journal, plugins
from cluster.core.errors import ClusterError, JobError, ParseError, ShellError, SpecError
from cluster.core.model.billing import Sighting
from cluster.core.model.hosts import Machine
from cluster.core.model.spec import check_name
from cluster.core.model.value import Value
from cluster.core.money import dollars
from cluster.core.units import format_seconds
from cluster.core.version import __version__
from cluster.forgotten import take_down
from cluster.providers import Provider
from cluster.reports.formats import Report
from cluster.runs import store

if TYPE_CHECKING:
    from collections.abc import Sequence


class Commands(TyperGroup):
    """All commands; their options take one line of a help that fits a screen."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own types
        """Name the options, and describe the commands."""
        names = [" ".join(param.opts) for param in self.get_params(ctx)]
        formatter.write_paragraph()
        formatter.write_text(f"Options: {', '.join(names)}")
        self.format_commands(ctx, formatter)


app = typer.Typer(
    name="cluster",
    cls=Commands,
    help="\b\nIs the network between your machines as fast as it should be? If not, why?\n"
    "Example: cluster bench p2p --run-local",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(
    typer.Typer(
        cls=BenchGroup,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        help="Launch a cluster and run a benchmark on it.\n\n"
        "Example: cluster bench p2p --metrics latency --sizes 8:64MiB --json",
        callback=lambda: None,
    ),
    name="bench",
)
app.add_typer(hosts.commands)
app.command()(lab.lab)
app.command()(gc.gc)
app.command("compare")(compare_)
app.command()(fit)
app.command()(scaling)
app.command()(plot)
app.command("report")(report_)
app.command()(sql)
app.command("runs")(listing.runs_)
app.command()(listing.push)
app.command("import")(importing.import_)
app.command()(profile)
app.command()(topology)
app.command()(judge)


class ClusterRow(Value, frozen=True, kw_only=True):
    """One line of `cluster ls`."""

    name: str
    provider: str
    hosts: int
    addresses: tuple[str, ...]
    age: float
    status: str
    run: str | None
    region: str = ""
    dollars: float | None = None
    expires: float | None = None


class StatusAnswer(Value, frozen=True, kw_only=True):
    """What `cluster status --json` prints."""

    name: str
    status: str
    exit_status: int | None
    run: str | None


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Handle what concerns no command."""
    if version:
        sys.stdout.write(f"cluster {__version__}\n")
        raise typer.Exit


@app.command()
def ls(region: flags.Regions = None, json: flags.Json = False) -> None:
    """List the clusters that exist.

    Example: cluster ls
    """
    rows = _with_clouds([_cluster_row(name) for name in journal.names()], region or ())
    if json:
        print_json(rows)
        return
    costly = any(row.expires for row in rows)
    table(
        ("name", "provider", "hosts", "age", "status", "newest run", "cost", "ends in")[
            : None if costly else 6
        ],
        [_cells(row)[: None if costly else 6] for row in rows],
        empty="There are no clusters.",
    )


def _cells(row: ClusterRow) -> tuple[str, ...]:
    left = "-" if row.expires is None else format_seconds(max(0.0, row.expires - time.time()))
    return (
        row.name,
        row.provider,
        str(row.hosts),
        format_seconds(row.age),
        row.status,
        _short(row.run),
        "-" if row.dollars is None else f"${row.dollars:.2f}",
        left,
    )


def _with_clouds(rows: list[ClusterRow], regions: Sequence[str]) -> list[ClusterRow]:
    """Ask the clouds for clusters of ours that another machine launched, and for what is off."""
    known = {row.name: row for row in rows}
    for kind in plugins.names(Provider):
        try:
            live = plugins.find(Provider, kind)(tuple(regions)).live()
        except ClusterError as error:  # those that are known are listed all the same
            sys.stderr.write(f"{kind} was not asked: {error}\n")
            continue
        for one in live:
            row = known.get(one.name)
            if row is None:
                known[one.name] = _live_row(kind, one)
            elif set(one.states) - {"running"}:
                known[one.name] = msgspec.structs.replace(row, status=_states(one))
    return list(known.values())


def _states(live: Sighting) -> str:
    return "/".join(sorted(set(live.states))) or "no machines"


def _live_row(kind: str, live: Sighting) -> ClusterRow:
    age = max(0.0, time.time() - live.since) if live.since else 0.0
    return ClusterRow(
        name=live.name,
        provider=kind,
        hosts=len(live.states),
        addresses=live.addresses,
        age=age,
        status=f"{_states(live)}, of {live.host or 'another machine'}",
        run=None,
        region=live.region,
        dollars=None if live.price is None else dollars(live.price, len(live.states), age),
        expires=live.expires or None,
    )


def _short(run: str | None) -> str:
    return str(shortened(Path(run))) if run else "-"


def _cluster_row(name: str) -> ClusterRow:
    try:
        cluster = attach(name)
    except ParseError:  # of another version, perhaps: the others are listed all the same
        return ClusterRow(
            name=name, provider="?", hosts=0, addresses=(), age=0.0, status="unreadable", run=None
        )
    status, _, run = _state(cluster)
    receipt = cluster.receipt()
    return ClusterRow(
        name=name,
        provider=cluster.spec.provider,
        hosts=len(cluster.machines),
        addresses=tuple(machine.address for machine in cluster.machines),
        age=time.time() - cluster.at,
        status=status,
        run=run,
        dollars=receipt.dollars if receipt else None,
        expires=cluster.expires,
    )


def _state(cluster: Cluster) -> tuple[str, int | None, str | None]:
    """Give status, exit status and run of the newest job."""
    if not cluster.machines:
        return "incomplete", None, None
    try:
        record, status = cluster.job()
    except SpecError:
        return "idle", None, None
    try:
        code = cluster.exit_status()
    except JobError:
        return "lost", None, record.run
    except ShellError:  # it may still run there, and the other clusters are listed all the same
        return "out of reach", None, record.run
    if status in ("planned", "running") and code is not None:
        return "ended, to be fetched", code, record.run
    return status, code, record.run


def _run_names() -> list[str]:
    return ["latest", *(f"{f.parent.name}/{f.name}" for f in store.folders(store.root()))]


@app.command()
def show(
    run: Annotated[str, typer.Argument(metavar="RUN", autocompletion=_run_names)] = "latest",
    report: Annotated[
        str,
        typer.Option(
            "--format",
            help="terminal, markdown, csv, json or html.",
            autocompletion=lambda: list(plugins.names(Report)),
        ),
    ] = "terminal",
    root: flags.Runs = None,
    json: flags.Json = False,
) -> None:
    """Show what a run says; RUN is a folder, id, cluster or latest.

    Example: cluster show mpi_test --format markdown
    """
    plugins.load(Report, report)
    show_run(store.read(store.find(store.root(root), run)), as_json=json, report=report)


@app.command()
def status(name: flags.ClusterName, json: flags.Json = False) -> None:
    """Tell how far the newest job of a cluster is.

    Example: cluster status mpi_test
    """
    state, code, run = _state(attach(name))
    if json:
        print_json(StatusAnswer(name=name, status=state, exit_status=code, run=run))
        return
    ended = "" if code is None else f" (exit status {code})"
    sys.stdout.write(f"{name}: {state}{ended}\n" + (f"Run folder: {_short(run)}\n" if run else ""))


class _Lines(Listener):
    """Prints every line that the ranks print."""

    def output(self, line: str) -> None:
        """Print it now."""
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    def notice(self, line: str) -> None:
        """Print it now, apart from theirs."""
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


@app.command()
def logs(
    name: flags.ClusterName,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until it ends.")] = False,
) -> None:
    """Print what the ranks of the newest job print.

    Example: cluster logs mpi_test -f
    """
    cluster = attach(name)
    if follow:
        cluster.wait(_Lines())
    else:
        sys.stdout.write(cluster.logs())


@app.command()
def wait(name: flags.ClusterName) -> None:
    """Wait for the newest job; exits with its exit status.

    Example: cluster wait mpi_test && cluster fetch mpi_test
    """
    cluster = attach(name)
    try:
        with Live(stderr=False) as live:
            code = cluster.wait(live)
    except KeyboardInterrupt:
        sys.stderr.write(f"The job goes on. To stop it: cluster down {name}\n")
        raise
    sys.stdout.write(f"It ended with exit status {code}. Then: cluster fetch {name}\n")
    raise typer.Exit(code)


@app.command()
def fetch(name: flags.ClusterName, json: flags.Json = False) -> None:
    """Bring the results of the newest job home, and show them.

    Example: cluster fetch mpi_test
    """
    cluster = attach(name)
    try:
        cluster.fetch()
    except JobError:
        show_newest(cluster, as_json=json)
        raise
    show_newest(cluster, as_json=json)


@app.command()
def connect(
    fragment: Annotated[
        str, typer.Argument(metavar="[FRAGMENT]", help="Of a name, address or id.")
    ] = "",
    print_: Annotated[
        bool, typer.Option("--print", help="Print the command instead of running it.")
    ] = False,
) -> None:
    """Go to the newest cluster or host that FRAGMENT is part of.

    Example: cluster connect mpi_test
    """
    cluster, machine = matching(fragment)
    command = cluster.attach_command(machine, inside="TMUX" in os.environ)
    if print_ or not (sys.stdin.isatty() and sys.stdout.isatty()):
        sys.stdout.write(shlex.join(command) + "\n")
        return
    os.execvp(command[0], command)  # noqa: S606 - a list, and no shell


def matching(fragment: str) -> tuple[Cluster, Machine | None]:
    """Find the newest cluster that a fragment means.

    Args:
        fragment: of a cluster's or machine's name, an address or an id; empty means any.

    Returns:
        The cluster, and the machine if the fragment means one of them only.

    Raises:
        SpecError: there is none.

    """
    for name in journal.names():
        cluster = attach(name)
        if fragment in cluster.name:
            return cluster, None
        for machine in cluster.machines:
            if any(fragment in word for word in (machine.name, machine.address, machine.id)):
                return cluster, machine
    raise SpecError(
        f"no instance id contains fragment {fragment!r}", remedy="List what exists: cluster ls"
    )


@app.command()
def down(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", autocompletion=lambda: list(journal.names())),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All clusters.")] = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
    region: flags.Regions = None,
) -> None:
    """Take clusters down; results come home first.

    A cluster that was launched from another machine is found by its tags, in --region.

    Example: cluster down mpi_test
    """
    chosen = list(journal.names()) if every else list(names or ())
    if not chosen and not every:
        raise SpecError("Nothing was named.", remedy="Type: cluster down NAME, or --all")
    known = journal.names()
    clusters = [attach(name) for name in chosen if name in known]
    if every and clusters and not yes and not _agreed(clusters):
        raise SpecError("Nothing was taken down.", remedy="To do it without a question: -y")
    failed = [error for cluster in clusters if (error := _taken_down(cluster))]
    if not clusters:
        sys.stdout.write("There are no clusters; 0 left.\n" if every else "")
    for name in chosen:
        if name in known:
            continue
        looked = take_down(check_name(name), region or ())
        if not looked:
            attach(name)  # says so, once the others are down
        sys.stdout.write(f"{name} is down; 0 left (looked for {'; '.join(looked)}).\n")
    if failed:
        raise failed[0] if len(failed) == 1 else ExceptionGroup(_still_up(failed), failed)


def _taken_down(cluster: Cluster) -> Exception | None:
    """Take one cluster down; a failure is no reason to leave the others up."""
    try:
        cluster.down()
    except (ClusterError, ExceptionGroup) as error:
        return error
    shown = receipt_lines(cluster) or [f"{cluster.name} is down; 0 left."]
    sys.stdout.write("".join(f"{line}\n" for line in shown))
    return None


def _still_up(failed: Sequence[Exception]) -> str:
    return f"{len(failed)} clusters could not be taken down"


def _agreed(clusters: Sequence[Cluster]) -> bool:
    if not sys.stdin.isatty():
        return False
    names = ", ".join(cluster.name for cluster in clusters)
    return typer.confirm(f"{len(clusters)} cluster(s) found: {names}. Take them down?")


@app.command("doctor")
def doctor_(json: flags.Json = False) -> None:
    """Tell what is missing here, and what mends it.

    Example: cluster doctor
    """
    checks = doctor.examine()
    if json:
        print_json(checks)
    else:
        for check in checks:
            mend = "" if check.ok else f"\n      {check.remedy}"
            sys.stdout.write(
                f"{'ok  ' if check.ok else 'BAD '}  {check.what}: {check.found}{mend}\n"
            )
    raise typer.Exit(0 if all(check.ok for check in checks) else 1)
