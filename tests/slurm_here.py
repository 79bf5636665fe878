"""A real Slurm of one node on this machine, for tests that need no other host."""

import os
import platform
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from tests.conftest import run, until

PROGRAMS = ("/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged", "/usr/bin/srun")

CONF = Path(__file__).with_name("slurm.conf")


class SlurmHere:
    """slurmctld, slurmd and munged, in the foreground, as children of the tests."""

    def __init__(self, folder: Path, *, job_age: int = 300, most_jobs: int = 10000) -> None:
        self.folder = folder
        for name in ("state", "spool"):
            (folder / name).mkdir()
        key = folder / "key"
        key.write_text(secrets.token_hex(64))
        key.chmod(0o400)
        self.conf = folder / "slurm.conf"
        controller, worker = _free_ports(2)
        host = platform.node().partition(".")[0]
        self.conf.write_text(
            CONF.read_text().format(
                folder=folder,
                host=host,
                controller=controller,
                worker=worker,
                job_age=job_age,
                most_jobs=most_jobs,
            )
        )
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        folder = self.folder
        munge = ("--foreground", "--force", f"--key-file={folder}/key")
        files = (f"--socket={folder}/munge.socket", f"--pid-file={folder}/munged.pid")
        logs = (f"--log-file={folder}/munged.log", f"--seed-file={folder}/seed")
        self._start("/usr/sbin/munged", *munge, *files, *logs)
        until((folder / "munge.socket").exists, "munged listens")
        self._start("/usr/sbin/slurmctld", "-D", "-f", str(self.conf))
        self._start("/usr/sbin/slurmd", "-D", "-f", str(self.conf), "-N", "here")
        until(lambda: "idle" in self.call("sinfo", "-h", "-o", "%T"), "the node is idle")
        return self

    def __exit__(self, *_: object) -> None:
        self.call("scancel", "--me")
        until(lambda: not self.call("squeue", "-h").strip(), "no job is left")
        for process in reversed(self._running):
            process.send_signal(signal.SIGTERM)
            process.wait()

    def call(self, *words: str) -> str:
        return run(*words, env={**os.environ, "SLURM_CONF": str(self.conf)}, status=None).stdout

    def _start(self, *words: str) -> None:
        env = {**os.environ, "SLURM_CONF": str(self.conf)}
        with (self.folder / "daemons").open("ab") as log:
            self._running.append(subprocess.Popen(words, stdout=log, stderr=log, env=env))

    def hold(self) -> str:
        """Submit a job that waits on the node; give its number once it runs."""
        job = self.call("sbatch", "--parsable", "--output=/dev/null", "--wrap=sleep 600").strip()
        until(lambda: "RUNNING" in self.call("squeue", "-h", "-j", job, "-o", "%T"), "it runs")
        return job

    def end(self, job: str) -> None:
        """Cancel a job, and wait until it is over."""
        self.call("scancel", job)
        until(lambda: job not in self.call("squeue", "-h", "-o", "%A"), "the job is over")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for sock in sockets:
        sock.bind(("127.0.0.1", 0))
    ports: list[int] = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports


def skip_without_slurm() -> None:
    """Skip, with the reason, where no Slurm can be started."""
    missing = [name for name in PROGRAMS if not Path(name).exists()]
    if missing or os.geteuid() != 0:
        pytest.skip(f"no Slurm: {missing[0] if missing else 'only root may start slurmd'}")


@pytest.fixture(scope="session")
def slurm_here() -> Iterator[SlurmHere]:
    """Start Slurm once for all tests of a worker; 2 s. Its commands find it by `SLURM_CONF`."""
    skip_without_slurm()
    folder = Path(tempfile.mkdtemp(prefix="slurm"))  # short: the path of a socket has a limit
    with SlurmHere(folder) as instance:
        yield instance
    shutil.rmtree(folder)
