"""Environments and kernels for hosts that are this machine, each made once in a run of the suite.

The steps of an installation are the subject of a few tests; all others take a copy of what these
steps make, with its modules compiled. The first installation with the same marker makes it, in any
process; a host that does not see the folder (`/var/cache`, as hosts of the lab have their own /tmp)
installs its own.

Beside other workers, ranks of these hosts that wait leave the cores to them: Open MPI polls, so a
test in which ranks wait for one that hangs kept all cores busy.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from filelock import FileLock

from cluster.core.errors import ClusterError
from cluster.remote.environment.install import HostInstaller
from cluster.remote.environment.steps import HostProbe, PendingStep
from cluster.remote.open_mpi import PARAMETERS
from cluster.remote.sessions.jobs import COMMAND_TIMEOUT
from cluster.remote.shells.local import LocalShell
from tests import clean

IMAGE_STEP = "image"  # pulls it, on the host
FOLDER = "CLUSTER_TESTS_PREPARED"  # variable: where a run keeps them; if it is empty, hosts install
IDLE = {
    "mpi_yield_when_idle": "1",
    "threads_pthreads_yield_strategy": "nanosleep",
    "threads_pthreads_nanosleep_time": "50000",
}
"""Parameters of Open MPI with which a rank that waits sleeps, for 50 us at a time."""
COPY = """\
[ -d "$1" ] && cd -- "$2" && rm -rf env && cp -a -- "$1" env
"""
really = HostInstaller._do


def use() -> None:
    """Let what this process installs on hosts come from there."""
    HostInstaller._do = take  # type: ignore[method-assign]


def begin(config: pytest.Config) -> None:
    """Choose a folder for this run, unless it is part of another one or may not write there."""
    if FOLDER not in os.environ:
        with suppress(OSError):
            folder = Path(tempfile.mkdtemp(prefix=clean.PREFIX, dir=clean.VISIBLE))
            config.add_cleanup(lambda: shutil.rmtree(folder))
            folder.chmod(0o755)
            (folder / clean.RUN).write_text(clean.mark())
            os.environ[FOLDER] = str(folder)


def shares_cores() -> bool:
    """Tell whether this is a worker of the suite: others, or other parts, run at the same time."""
    return "PYTEST_XDIST_WORKER" in os.environ


def take(self: HostInstaller, pending: list[PendingStep], probe: HostProbe) -> None:
    """Copy the environment if all of it is to be made; then do what depends on the host."""
    steps = [t for t in pending if t.before != t.after and t.step.name != IMAGE_STEP]
    if not os.environ.get(FOLDER) or not steps or steps[0].before:
        return really(self, pending, probe)
    name = hashlib.blake2s(steps[-1].after.encode(), digest_size=8).hexdigest()
    env = Path(os.environ[FOLDER], name)
    with FileLock(f"{env}.lock"):
        if not env.exists():
            _make(self, steps, probe, env)
    argv = ["sh", "-c", COPY, "sh", str(env), self._machine.folder]
    if self._shell.run(argv, timeout=COMMAND_TIMEOUT).status != 0:
        return really(self, pending, probe)
    for todo in steps:
        self._begin(todo.step.name)
    rest = [todo for todo in pending if todo not in steps]
    return really(self, rest, probe) if rest else None


def _make(installer: HostInstaller, steps: list[PendingStep], probe: HostProbe, env: Path) -> None:
    """Make it on this machine, if that is possible."""
    part = env.with_suffix(".part")
    part.mkdir()
    machine = msgspec.structs.replace(installer._machine, folder=str(part))
    installation = installer._installation
    with suppress(ClusterError), Path(f"{env}.log").open("w") as log:
        local = HostInstaller(machine, LocalShell(machine), log, lambda _: None, installation)
        really(local, steps, probe)
        parameters = part / "env" / PARAMETERS
        if shares_cores() and parameters.is_file():
            with parameters.open("a") as file:
                file.writelines(f"{name} = {value}\n" for name, value in IDLE.items())
        python = part / "env" / "bin" / "python3"
        packages = part.glob("env/lib/python*/site-packages/cluster")
        subprocess.run([python, "-m", "compileall", "-q", *packages], check=True)
        (part / "env").rename(env)
    shutil.rmtree(part)
