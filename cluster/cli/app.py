"""The commands; each is short and calls the layer below."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cluster.cli import (
    clusters,
    corpus,
    doctor,
    flags,
    gc,
    hosts,
    import_,
    jobs,
    lab,
    runs,
    watch,
)
from cluster.cli.bench_commands import BenchGroup
from cluster.cli.check import command as check
from cluster.cli.compare import compare_
from cluster.cli.fit import fit
from cluster.cli.judge import judge
from cluster.cli.launch_results import show_launches
from cluster.cli.placement import command as placement
from cluster.cli.plot import plot
from cluster.cli.profile import profile
from cluster.cli.replay import command as replay
from cluster.cli.report import report_
from cluster.cli.scaling import scaling
from cluster.cli.script import command as script
from cluster.cli.share import share, verify
from cluster.cli.show import (
    print_json,
    show_run,
)
from cluster.cli.topology import topology
from cluster.core import plugins
from cluster.core.version import __version__
from cluster.reports.formats import Report
from cluster.runs import shared_file, store

GROUPS = {
    "Measure": (
        *("bench", "check", "placement", "judge", "compare", "replay", "report", "show", "runs"),
        *("watch", "fit", "plot", "push", "share", "verify"),
    ),
    "Clusters": (
        *("up", "run", "put", "get", "ls", "hosts", "connect", "status", "logs", "wait", "fetch"),
        *("down", "stop", "start", "lab"),
    ),
    "Logs": ("import", "topology", "profile", "scaling", "corpus"),
    "Maintenance": ("gc", "doctor", "plan", "script"),
}
"""All commands, in the order of use."""
TOGETHER: dict[tuple[str, ...], str] = {
    ("put", "get"): "Copy a file or folder to all hosts, or a folder from them.",
    ("ls", "hosts"): "List the clusters that exist, or the hosts of one.",
    ("fit", "plot"): "Fit t = alpha + size / beta to sweeps, or draw runs.",
    ("compare", "replay"): "Compare runs, or measure again what one measured, and compare.",
    ("share", "verify"): "Write a run into one file with pseudonyms, or check one.",
    ("plan", "script"): "Show what would be created, or print a batch script.",
    ("stop", "start"): "Switch machines off, and on again; their disks stay.",
}
"""Commands that share a line of the help, so that it fits a screen of 50 lines."""


class Commands(TyperGroup):
    """All commands; the help names their options in one line, to fit a screen."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own types
        """Name the options, and describe the commands."""
        names = [" ".join(sorted(param.opts, key=len)) for param in self.get_params(ctx)]
        formatter.write_text(f"  Options: {' '.join([*names, '-v -q'])}")
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own types
        """Describe the commands, group by group, in the order in which they are used."""
        names_of = {name: names for names in TOGETHER for name in names}
        groups = {
            title: list(dict.fromkeys(names_of.get(name, (name,)) for name in names))
            for title, names in GROUPS.items()
        }
        longest = max(len(", ".join(names)) for group in groups.values() for names in group)
        limit = formatter.width - 6 - longest
        for title, group in groups.items():
            rows = [
                (", ".join(names).ljust(longest), self._help(ctx, names, limit)) for names in group
            ]
            with formatter.section(title):
                formatter.write_dl(rows)

    def _help(self, ctx: Any, names: tuple[str, ...], limit: int) -> str:  # noqa: ANN401
        command = self.get_command(ctx, names[0])
        text = "" if command is None else command.get_short_help_str(limit)
        return TOGETHER.get(names, text)


app = typer.Typer(
    name="cluster",
    cls=Commands,
    help="\b\nIs the network between your machines as fast as it should be? If not, why?\n"
    "Example: cluster bench p2p --run-local          measure this machine\n"
    "         cluster judge latest                   is that normal?\n"
    "         cluster report latest                  a page with plots\n"
    "Documentation: README.md and docs/ of the repository",
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
app.add_typer(corpus.commands)
app.add_typer(watch.commands)
app.command()(lab.lab)
app.command()(gc.gc)
app.command("compare")(compare_)
app.command()(fit)
app.command()(scaling)
app.command()(plot)
app.command("report")(report_)
app.command("script", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})(
    script
)
app.command("runs")(runs.runs_)
app.command()(runs.push)
app.command()(share)
app.command()(verify)
app.command("import")(import_.import_)
app.command()(profile)
app.command()(topology)
app.command()(judge)
app.command("check")(check)
app.command("placement")(placement)
app.command("replay")(replay)


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Handle the options that belong to no command."""
    if version:
        sys.stdout.write(f"cluster {__version__}\n")
        raise typer.Exit


def _run_names() -> list[str]:
    return ["latest", *(f"{f.parent.name}/{f.name}" for f in store.folders(store.root()))]


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
    wide: Annotated[
        bool, typer.Option("--wide", help="All columns, whatever the width of the terminal.")
    ] = False,
    root: flags.Runs = None,
    json: flags.Json = False,
) -> None:
    """Show a run's results; RUN: folder, id, cluster or latest.

    Example: cluster show mpi_test --format markdown
    """
    plugins.load(Report, report)
    found = [store.read(folder) for folder in store.find_launches(store.root(root), run)]
    if len(found) > 1 and report == "terminal":
        show_launches(found, as_json=json)
    else:
        shared = Path(run) if shared_file.is_shared(Path(run)) else None
        show_run(found[-1], as_json=json, report=report, wide=wide, shared=shared)


def doctor_(json: flags.Json = False) -> None:
    """Show what is missing here, and the command to install it.

    Example: cluster doctor
    """
    checks = doctor.examine()
    if json:
        print_json(checks)
    else:
        for check in checks:
            doctor.print_check(check)
    raise typer.Exit(0 if all(check.ok for check in checks) else 1)


app.command()(clusters.ls)
app.command()(show)
app.command()(jobs.status)
app.command()(jobs.logs)
app.command()(jobs.wait)
app.command()(jobs.fetch)
app.command()(clusters.connect)
app.command()(clusters.down)
app.command("doctor")(doctor_)
