"""Slurm on the hosts of a lab: its controller on the first host, a worker and munge on each."""

from __future__ import annotations

import secrets
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.core.errors import SpecError
from cluster.providers.lab.options import LabFolder, LabOptions, upper_of
from cluster.providers.lab.rootfs import SLURM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.core.model.hosts import Machine

# What must be there, and its Debian package.
PROGRAMS = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "munged": "munge",
}
KEY = "/etc/cluster-munge.key"
SETTINGS = "/etc/slurm/slurm.conf"
PARTITION = "lab"

# Processes are found by their parents and not by cgroups, which a namespace cannot own. A lost
# worker is noticed in 10 s (`SlurmdTimeout`); Slurm's default is 300 s.
CONF = """\
ClusterName=lab
SlurmctldHost={controller}({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CryptoType=crypto/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
StateSaveLocation=/var/spool/cluster-slurmctld
SlurmdSpoolDir=/var/spool/cluster-slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/cluster-slurmctld.log
SlurmdLogFile=/var/log/cluster-slurmd.log
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,bf_interval=2
SlurmdTimeout=10
KillWait=2
ReturnToService=2
NodeName={nodes} CPUs={cores} State=UNKNOWN
PartitionName={partition} Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

# $1 is the number of the host. Each daemon goes into the background once it works.
SCRIPT = f"""\
#!/bin/sh
set -eu
mkdir -p /run/munge /var/spool/cluster-slurmctld /var/spool/cluster-slurmd
munged --key-file={KEY} --socket=/run/munge/munge.socket.2 --pid-file=/run/munge/munged.pid \\
  --log-file=/var/log/cluster-munged.log --seed-file=/run/munge/seed
[ "$1" != 0 ] || slurmctld
slurmd -N "$(hostname)"
"""


def check_programs(root: str) -> None:
    """Refuse a root file system that lacks a program of Slurm (SpecError)."""
    folders = ("usr/sbin", "usr/bin")
    missing = sorted(
        package
        for program, package in PROGRAMS.items()
        if not any((Path(root) / folder / program).exists() for folder in folders)
    )
    if missing:
        words = f"apt-get install --no-install-recommends {' '.join(missing)}"
        chroot = "" if root == "/" else f"chroot {shlex.quote(root)} "
        raise SpecError(
            f"A lab with Slurm needs {' and '.join(missing)}, missing in {root}.",
            remedy=f"Type: sudo {chroot}{words}",
        )


def write_slurm(files: LabFolder, hosts: int, options: LabOptions) -> None:
    """Write the files of Slurm that each host has before it starts, but for its configuration."""
    key = secrets.token_hex(64)
    for number in range(hosts):
        upper = upper_of(files, number, options)
        upper.write(KEY, key, mode=0o400)
        upper.write(SLURM, SCRIPT, mode=0o755)


def write_settings(
    files: LabFolder, machines: Sequence[Machine], options: LabOptions, cores: int
) -> None:
    """Write the configuration, which names the addresses of the hosts."""
    text = CONF.format(
        controller=machines[0].id,
        address=machines[0].address,
        nodes=",".join(machine.id for machine in machines),
        cores=cores,
        partition=PARTITION,
    )
    for number in range(len(machines)):
        upper_of(files, number, options).write(SETTINGS, text)
