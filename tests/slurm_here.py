"""A real Slurm of one node on this machine, for tests that need no other host."""

from __future__ import annotations

import os
import platform
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

from tests.conftest import run, until

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS = ("/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged", "/usr/bin/srun")
CONF = """\
ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,bf_interval=1
KillWait=1
MinJobAge={job_age}
MaxJobCount={most_jobs}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=here NodeHostname={host} NodeAddr=127.0.0.1 Port={worker} CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=60 State=UP
PartitionName=off Nodes=ALL State=DOWN
PartitionName=requeued Nodes=ALL State=UP PriorityTier=1 PreemptMode=REQUEUE
PartitionName=cancelled Nodes=ALL State=UP PriorityTier=1 PreemptMode=CANCEL
PartitionName=first Nodes=ALL State=UP PriorityTier=10 PreemptMode=OFF
"""


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
            CONF.format(
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
        where = self.folder
        munge = ("--foreground", "--force", f"--key-file={where}/key")
        files = (f"--socket={where}/munge.socket", f"--pid-file={where}/munged.pid")
        logs = (f"--log-file={where}/munged.log", f"--seed-file={where}/seed")
        self._start("/usr/sbin/munged", *munge, *files, *logs)
        until((where / "munge.socket").exists, "munged listens")
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
        """Run one of Slurm's commands, and give what it prints."""
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


def _free_ports(many: int) -> list[int]:
    sockets = [socket.socket() for _ in range(many)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports: list[int] = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
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
    with SlurmHere(folder) as here:
        yield here
    shutil.rmtree(folder)
