"""The options of the provider `slurm`."""

import math
import os
from typing import Literal

from cluster.core import decoders
from cluster.core.errors import SpecError
from cluster.core.model.spec import ClusterSpec, EnvironmentOptions
from cluster.core.text.units import parse_seconds

TIME = 3600.0  # seconds, if neither --ttl nor the option time is given
MINUTE = 60.0  # seconds; Slurm counts time limits in minutes
ASKED = ("partition", "account", "qos", "constraint", "nodelist", "exclude", "gres", "reservation")
"""The options that are flags of sbatch."""


class SlurmOptions(EnvironmentOptions, frozen=True, kw_only=True):
    """The options of the provider `slurm`.

    Args:
        partition: of the job, as all up to `reservation` are flags of sbatch.
        account: that is charged.
        qos: quality of service.
        constraint: features that the nodes must have.
        nodelist: nodes that must be among those given, such as `node[1-4]`.
        exclude: nodes that must not be.
        gres: generic resources of each node, such as `gpu:8`.
        reservation: from which the nodes are taken.
        time: the time limit of the job, such as `30m`; --ttl is the same. One hour, if neither is
            given.
        extra: more flags of sbatch, as in a shell.
        login: a host on which Slurm's commands are, such as `alice@login1`; this machine, if empty.
        lab: the name of a laboratory that was made with `--option slurm=1`, to rehearse.
        reach: how commands reach the nodes: by `ssh`, by `srun` steps in the job, or `auto`: by
            SSH if the first node accepts the login.
        interrupt: what Ctrl-C does while the job waits: `cancel` it, or `leave` it in the queue.
    """

    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    nodelist: str = ""
    exclude: str = ""
    gres: str = ""
    reservation: str = ""
    time: str = ""
    extra: str = ""
    login: str = ""
    lab: str = ""
    reach: Literal["auto", "ssh", "srun"] = "auto"
    interrupt: Literal["cancel", "leave"] = "cancel"


def options_of(spec: ClusterSpec) -> SlurmOptions:
    return decoders.convert(spec.options, SlurmOptions, strict=False)


def time_limit(spec: ClusterSpec) -> float:
    """Return the time limit of the job (SpecError: `--ttl` and the option differ, or are wrong)."""
    option = options_of(spec).time
    seconds = parse_seconds(option) if option else None
    if seconds is not None and spec.ttl not in (None, seconds):
        raise SpecError(
            f"--ttl is {spec.ttl:g} s, and --option time={option} is another time.",
            means="Both are the time limit of the job.",
            remedy="Leave one out.",
        )
    return MINUTE * math.ceil((seconds or spec.ttl or TIME) / MINUTE)


def own_allocation(options: SlurmOptions) -> str:
    """Return the id of the job that this process runs in, if the options ask for no other."""
    asks = any(getattr(options, flag) for flag in (*ASKED, "time", "extra", "login", "lab"))
    return "" if asks else os.environ.get("SLURM_JOB_ID", "")
