"""The job that holds the nodes: what sbatch is asked for, and the script that waits."""

from __future__ import annotations

import platform
import re
import shlex
from typing import TYPE_CHECKING

from cluster.core.errors import ProvisionError
from cluster.core.model.value import Value
from cluster.providers.slurm.options import ASKED, MINUTE, options_of, time_limit

if TYPE_CHECKING:
    from cluster.core.model.spec import ClusterSpec
    from cluster.providers.slurm.states import SlurmJob

NUMBER = re.compile(r"^(\d+)(?:;[\w.-]+)?\s*$", re.MULTILINE)
PREFIX = "cluster"  # of the comment by which our jobs are found

# Sessions of tmux belong to the job if its server does: where Slurm tracks processes by cgroups,
# what a step of srun starts ends with the step.
HOLDER = """\
tmux start-server ';' set-option -g exit-empty off 2> /dev/null
exec sleep infinity"""


class Mark(Value, frozen=True, kw_only=True):
    """The comment of a job of ours."""

    name: str  # of the cluster
    token: str  # of the request, which our journal has
    host: str  # that submitted the job

    @property
    def comment(self) -> str:
        """As sbatch gets it."""
        return f"{PREFIX}:{self.name}:{self.token}@{self.host}"


def new_mark(name: str, token: str) -> Mark:
    """Mark a job that this machine submits."""
    return Mark(name=name, token=token, host=platform.node())


def mark_of(job: SlurmJob) -> Mark | None:
    """Read the mark of a job; None if the job is not ours."""
    prefix, _, rest = job.comment.partition(":")
    name, colon, tail = rest.partition(":")
    token, at, host = tail.partition("@")
    whole = prefix == PREFIX and bool(name and colon and token and at)
    return Mark(name=name, token=token, host=host) if whole else None


def request(spec: ClusterSpec, mark: Mark) -> tuple[str, ...]:
    """Return the command that submits the job; others' jobs on its nodes would be measured too."""
    return ("sbatch", "--parsable", *flags(spec), f"--comment={mark.comment}", f"--wrap={HOLDER}")


def job_number(printed: str) -> str:
    """Read the number of a job from what `sbatch --parsable` prints.

    A site's wrapper may print lines before it; in a federation, the cluster follows: `42;north`.
    ProvisionError: there is none; the job may have been submitted all the same.
    """
    numbers = NUMBER.findall(printed)
    if not numbers:
        raise ProvisionError(
            f"sbatch printed no number of a job: {printed.strip() or 'nothing'!r}",
            means="The job may be in the queue; it is looked for by its comment, and cancelled.",
            remedy="Try it by hand: sbatch --parsable --wrap=true",
        )
    number: str = numbers[-1]
    return number


def flags(spec: ClusterSpec) -> tuple[str, ...]:
    """Return the flags of sbatch by which the nodes are chosen."""
    options = options_of(spec)
    values = ((flag, getattr(options, flag)) for flag in ASKED)
    return (
        f"--job-name={PREFIX}-{spec.name}",
        f"--nodes={spec.hosts}",
        "--ntasks-per-node=1",
        "--exclusive",
        "--no-requeue",
        f"--time={round(time_limit(spec) / MINUTE)}",
        "--chdir=/",
        "--output=/dev/null",
        *(f"--{flag}={value}" for flag, value in values if value),
        *shlex.split(options.extra),
    )
