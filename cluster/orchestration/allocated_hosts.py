"""The hosts that a batch system has lent to the job that this process runs in."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.core.errors import SpecError
from cluster.core.model.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HOSTFILE = "CLUSTER_HOSTFILE"  # a host per line, with `slots=N`, `:N` or neither
MPIJOB_HOSTFILE = "OMPI_MCA_orte_default_hostfile"  # as the MPI operator of Kubernetes sets it
SLOTS = re.compile(r"(?:\bslots=|:)(\d+)")


class LentHosts(Value, frozen=True, kw_only=True):
    """The hosts of an allocation, as its batch system names them.

    Args:
        system: such as `slurm`.
        slots: how many ranks each host may run, in the order of the hosts; 0 if that is not said.

    """

    system: str
    job: str
    slots: dict[str, int]


def find_lent_hosts(
    variables: Mapping[str, str], expand: Callable[[str], str | None]
) -> LentHosts | None:
    """Find the hosts of the allocation around this process.

    Slurm's variables come first: its PBS wrappers set those of PBS as well.

    Args:
        expand: gives the names of a list of Slurm's, one per line; None if that failed.

    Raises:
        SpecError: there is an allocation, and its hosts cannot be read.

    """
    if variables.get("SLURM_JOB_ID"):
        return _of_slurm(variables, expand)
    if file := variables.get("PBS_NODEFILE"):
        return LentHosts(system="pbs", job=variables.get("PBS_JOBID", ""), slots=_read(file))
    if variables.get("LSB_JOBID"):
        return _of_lsf(variables)
    if file := variables.get(HOSTFILE) or variables.get(MPIJOB_HOSTFILE, ""):
        return LentHosts(system="hostfile", job="", slots=_read(file))
    return None


def _of_slurm(variables: Mapping[str, str], expand: Callable[[str], str | None]) -> LentHosts:
    nodes = variables.get("SLURM_JOB_NODELIST", "")
    names = (expand(nodes) or "").split()
    if not names:
        raise SpecError(
            f"The hosts of the Slurm job {variables['SLURM_JOB_ID']} are not known.",
            means=f"scontrol show hostnames {nodes or '(no SLURM_JOB_NODELIST)'} gave none.",
            remedy="Start the script with sbatch, on a host that has scontrol.",
        )
    return LentHosts(system="slurm", job=variables["SLURM_JOB_ID"], slots=dict.fromkeys(names, 0))


def _of_lsf(variables: Mapping[str, str]) -> LentHosts:
    """Read `LSB_MCPU_HOSTS` (`a 2 b 2`), or `LSB_HOSTS` (`a a b b`), which is empty for many."""
    words = variables.get("LSB_MCPU_HOSTS", "").split()
    if words and len(words) % 2 == 0 and all(word.isdecimal() for word in words[1::2]):
        slots = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    else:
        slots = dict(Counter(variables.get("LSB_HOSTS", "").split()))
    if not slots:
        raise SpecError(
            f"The hosts of the LSF job {variables['LSB_JOBID']} are not known.",
            means="Neither LSB_MCPU_HOSTS nor LSB_HOSTS names any.",
            remedy="Start the script with bsub < SCRIPT.",
        )
    return LentHosts(system="lsf", job=variables["LSB_JOBID"], slots=slots)


def _read(file: str) -> dict[str, int]:
    """Read a file of hosts: PBS names a host once per slot, others say `slots=N`."""
    try:
        lines = [line.strip() for line in Path(file).read_text().splitlines()]
    except OSError as error:
        raise SpecError(
            f"The list of hosts {file} cannot be read: {error.strerror}.",
            means="The batch system made it for this job, on its first host only.",
            remedy="Start the script with qsub, not on a login host.",
        ) from error
    lines = [line for line in lines if line and not line.startswith("#")]
    if not lines:
        raise SpecError(f"The list of hosts {file} is empty.")
    slots: Counter[str] = Counter()
    for line in lines:
        said = SLOTS.search(line)
        slots[line.split()[0].partition(":")[0]] += int(said[1]) if said else 1
    return dict(slots)
