"""What Slurm's commands refuse, as errors that say what to type."""

import re

from cluster.core.errors import Denied, ProvisionError, Quota, SpecError

NO_COMMANDS = 127  # exit status of a shell if there is no such program

QUEUE_FULL = "temporarily unable to accept job"  # sbatch then tries again for minutes
# The line that names the limit, before the one about it: QOSMaxSubmitJobPerUserLimit.
LIMIT = re.compile(r"\w+: error: ((?:QOS|Assoc)\w+)")


class NoSuchJob(ProvisionError):
    """Slurm does not list the job any more."""


class NoSuchNodesNow(SpecError):
    """No nodes that are up have what is asked for; nodes that are down may."""


class PartitionClosed(ProvisionError):
    """The partition is down, drained or inactive."""


# A part of Slurm's message, the kind of error, what it means, and what to type.
REFUSALS: tuple[tuple[str, type[ProvisionError | SpecError], str, str], ...] = (
    (
        "Could not establish a configuration source",
        SpecError,
        "Slurm's commands are installed there, but belong to no Slurm: slurm.conf is missing.",
        "Name a host that has one: --option login=alice@login1",
    ),
    # Before `time limit`, as the text about limits of an account ends with these words.
    (
        "Resource temporarily unavailable",
        Quota,
        "The queue is full: slurmctld accepts no more jobs of anyone (MaxJobCount).",
        "Try again later; look: squeue | wc -l; scontrol show config | grep MaxJobCount",
    ),
    (
        "MaxSubmitJob",
        Quota,
        "The queue is full for you: the account or QOS allows no more jobs of yours in it.",
        "Look at yours: squeue --me; cancel one: scancel ID; or wait until one has ended.",
    ),
    (
        "MaxWallDuration",
        SpecError,
        "The account or QOS gives no job so much time.",
        "Ask for less: --ttl 30min; limits: sacctmgr show qos format=name,maxwall",
    ),
    (
        "violates accounting/QOS policy",
        Quota,
        "The account's limit of jobs, nodes or time is reached.",
        "Look: sacctmgr show associations user=$USER; your jobs: squeue --me",
    ),
    (
        "invalid partition",
        SpecError,
        "There is no such partition.",
        "List them: sinfo --summarize; then: --option partition=NAME",
    ),
    (
        "Invalid account",
        Denied,
        "You have no such account, or it may not use this partition.",
        "List yours: sacctmgr show associations user=$USER; then: --option account=NAME",
    ),
    (
        "Invalid qos",
        Denied,
        "You have no such QOS.",
        "List yours: sacctmgr show associations user=$USER format=qos; then: --option qos=NAME",
    ),
    (
        "Invalid feature",
        SpecError,
        "No node has this feature.",
        "List them: sinfo --format '%N %f'; then: --option constraint=FEATURE",
    ),
    (
        "reservation is invalid",
        SpecError,
        "There is no such reservation, or it is not for you.",
        "List them: scontrol show reservation; then: --option reservation=NAME",
    ),
    (
        "Invalid generic resource",
        SpecError,
        "No node has such a generic resource.",
        "List them: sinfo --format '%N %G'; then: --option gres=gpu:8",
    ),
    (
        "Invalid node name",
        SpecError,
        "There is no such node.",
        "List them: sinfo --Node; then: --option nodelist=NAMES",
    ),
    (
        "time limit",
        SpecError,
        "The partition gives no job so much time.",
        "Look at its limit: sinfo --format '%P %l'; then: --ttl 30min",
    ),
    (
        "Node count specification invalid",
        SpecError,
        "The partition has fewer nodes.",
        "Look: sinfo --format '%P %D'; then: --hosts N",
    ),
    (
        "Invalid job id",
        NoSuchJob,
        "Slurm has forgotten it some minutes after its end, or it never was.",
        "Look in the accounts: sacct --jobs=ID",
    ),
    (
        "Required partition not available",
        PartitionClosed,
        "The partition is down, drained or inactive.",
        "Look: sinfo --summarize; or name another: --option partition=NAME",
    ),
    (
        "node configuration is not available",
        NoSuchNodesNow,
        "No nodes of the partition have all of what is asked for.",
        "Look: sinfo --Node --long; then ask for fewer --hosts, or leave an --option out.",
    ),
    (
        "Access/permission denied",
        Denied,
        "You may not submit jobs here.",
        "Ask the site's administrators, or name another login host: --option login=alice@login1",
    ),
)


def refusal(program: str, output: str, where: str) -> ProvisionError | SpecError:
    words = output.strip()
    for part, kind, means, remedy in REFUSALS:
        if part.lower() in words.lower():
            return kind(f"{program} says {where}: {_last(words)}", means=means, remedy=remedy)
    return ProvisionError(
        f"{program} failed {where}: {_last(words) or 'it printed no reason'}",
        remedy=f"Try it by hand there: {program} --version; and: sinfo",
    )


def unanswered(program: str, output: str, where: str, within: float) -> ProvisionError:
    if QUEUE_FULL in output:
        return Quota(
            f"The queue is full: sbatch could not submit a job {where} within {within:g} s.",
            means=f"slurmctld accepts no more jobs of anyone (MaxJobCount): {_last(output)}",
            remedy="Try again later; look: squeue | wc -l; scontrol show config | grep MaxJobCount",
        )
    last = _last(output)
    return ProvisionError(
        f"{program} did not answer {where} within {within:g} s{': ' if last else ''}{last}.",
        means="slurmctld is down or very busy, or the file system of the command hangs.",
        remedy=f"Ask by hand: scontrol ping; {program} --version",
    )


def no_commands(program: str, where: str) -> SpecError:
    return SpecError(
        f"There is no {program} {where}.",
        means="The provider 'slurm' uses the commands of Slurm, as on a login node.",
        remedy="Name a host that has them: --option login=alice@login1; or rehearse in a lab: "
        "cluster up rehearsal --provider lab --hosts 4 --option slurm=1",
    )


def _last(words: str) -> str:
    """Return the last line that is not about the batch job in general."""
    lines = [line.strip() for line in words.splitlines()]
    lines = [line for line in lines if line and not line.startswith("Try ")]
    failures = [line for line in lines if "Batch job submission failed" in line] or lines
    limits = [match[1] for line in lines if (match := LIMIT.fullmatch(line))]
    limit = f" ({limits[-1]})" if limits and limits[-1] not in failures[-1] else ""
    return f"{failures[-1]}{limit}" if failures else ""
