"""The commands of Slurm, run on this machine or on a login host, and what they refuse."""

import os
import re
import shlex
import subprocess
import time
from collections.abc import Collection, Sequence

from cluster.core.errors import Denied, ProvisionError, Quota, SpecError
from cluster.core.login_host import SSH_FAILED, login_command
from cluster.core.model.hosts import Access, Completed, Machine, parse_access, ssh_words
from cluster.core.model.value import Value
from cluster.core.state import journal
from cluster.providers.slurm.options import SlurmOptions
from cluster.providers.slurm.states import (
    ENDED,
    FORMAT,
    Partition,
    SlurmJob,
    SlurmNode,
    parse_jobs,
    parse_nodes,
    parse_partitions,
)

HERE, LAB, LOGIN = "this machine", "lab:", "login:"
ANSWERS_WITHIN = 60.0  # seconds; a busy slurmctld takes tens of them
TRIES = 4  # of a command that could not reach slurmctld
BETWEEN_TRIES = 2.0  # seconds
# slurmctld restarts or is busy: the same command will succeed later.
PASSING = ("Unable to contact slurm controller", "Socket timed out", "Connection refused")


class SlurmClient(Value, frozen=True, kw_only=True):
    place: str = HERE  # where they are: `this machine`, `login:alice@login1` or `lab:NAME`

    @property
    def words(self) -> str:
        return "on this machine" if self.place == HERE else f"on {self.place.partition(':')[2]}"

    @property
    def access(self) -> Access | None:
        """How SSH reaches the host with the commands; None for this machine (SpecError)."""
        if self.place.startswith(LAB):
            return lab_machines(self.place.removeprefix(LAB))[0].access
        if self.place.startswith(LOGIN):
            return parse_access(self.place.removeprefix(LOGIN), "login host", "login1")
        return None

    def run(
        self, argv: Sequence[str], *, within: float | None = None, tries: int = TRIES
    ) -> Completed:
        """Run a command, up to `tries` times if slurmctld could not be reached.

        SpecError: there is no such command, or Slurm can never do it. ProvisionError: it failed, or
        took longer than `within` seconds (`ANSWERS_WITHIN`).
        """
        within = ANSWERS_WITHIN if within is None else within
        result = self._once(argv, within)
        for _ in range(tries - 1):
            if not any(words in result.stderr for words in PASSING):
                break
            time.sleep(BETWEEN_TRIES)
            result = self._once(argv, within)
        if result.status == 0:
            return result
        if result.status == NO_COMMANDS:
            raise no_commands(argv[0], self.words)
        if result.status == SSH_FAILED and (access := self.access):
            raise ProvisionError(
                f"{self.place.partition(':')[2]} cannot be reached by ssh: {result.stderr.strip()}",
                means=f"{argv[0]} was not run, or its answer was lost.",
                remedy=f"Try it: {shlex.join(['ssh', *ssh_words(access), 'sinfo'])}",
            )
        if any(words in result.stderr for words in PASSING):
            raise ProvisionError(
                f"slurmctld does not answer {argv[0]} {self.words}: {result.stderr.strip()}",
                means="Slurm's controller is down, or restarts. Jobs that run go on.",
                remedy="Ask again: scontrol ping",
            )
        raise refusal(argv[0], result.stderr, self.words)

    def _once(self, argv: Sequence[str], within: float) -> Completed:
        access = self.access
        words = login_command(access, argv) if access else list(argv)
        stdin, write_end = os.pipe()  # the command on a login host ends when it is closed
        try:
            result = subprocess.run(
                words,
                stdin=stdin if access else subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=within,
                env={**os.environ, "SLURM_TIME_FORMAT": "standard"},
            )
        except FileNotFoundError as error:
            raise no_commands(words[0], self.words) from error
        except subprocess.TimeoutExpired as error:
            raise no_answer(argv[0], _text(error.stderr), self.words, within) from error
        finally:
            os.close(stdin)
            os.close(write_end)
        return Completed(
            argv=tuple(argv), status=result.returncode, stdout=result.stdout, stderr=result.stderr
        )

    def job(self, number: str) -> SlurmJob | None:
        """Ask for one job; None if Slurm does not list it any more (ProvisionError: no answer)."""
        argv = ("squeue", "--noheader", "--states=all", f"--jobs={number}", f"--format={FORMAT}")
        try:
            text = self.run(argv).stdout
        except NoSuchJob:
            return None
        return next((job for job in parse_jobs(text) if job.id == number), None)

    def jobs(self) -> tuple[SlurmJob, ...]:
        """Ask for all jobs of this user that Slurm lists, also those that have just ended."""
        argv = ("squeue", "--me", "--noheader", "--states=all", f"--format={FORMAT}")
        return parse_jobs(self.run(argv).stdout)

    def states_before(self, number: str, *, within: float) -> tuple[str, ...]:
        """Return the states in which a requeued job has ended, by its accounts (ClusterError)."""
        job = ("--allocations", f"--jobs={number}", "--duplicates")
        argv = ("sacct", "--noheader", "--parsable2", *job, "--format=State")
        states = self.run(argv, within=within, tries=1).stdout.split("\n")
        words = (state.partition(" ")[0] for state in states)
        return tuple(word for word in words if word in ENDED or word == "REQUEUED")

    def names_in(self, nodes: str) -> tuple[str, ...]:
        """Return the names in a list of nodes, such as `node[1-3,7],gpu01`, in their order.

        Slurm itself is asked: its lists have more shapes than any other parser of them knows.
        """
        return tuple(self.run(("scontrol", "show", "hostnames", nodes)).stdout.split())

    def nodes(
        self, nodes: str, *, within: float | None = None, tries: int = TRIES
    ) -> tuple[SlurmNode, ...]:
        """Ask for the states and addresses of nodes such as `node[1-3]` (ProvisionError)."""
        argv = ("scontrol", "--oneliner", "show", "node", nodes)
        return parse_nodes(self.run(argv, within=within, tries=tries).stdout)

    def partitions(self) -> tuple[Partition, ...]:
        """Ask for the states of all partitions (ProvisionError: Slurm does not answer)."""
        return parse_partitions(self.run(("scontrol", "--oneliner", "show", "partition")).stdout)


def client_of(options: SlurmOptions) -> SlurmClient:
    """Return the client that the options name (SpecError: they name two places)."""
    if options.login and options.lab:
        raise SpecError(
            "The options login and lab name two Slurms.", remedy="Leave one of them out."
        )
    if options.lab:
        return SlurmClient(place=f"{LAB}{options.lab}")
    return SlurmClient(place=f"{LOGIN}{options.login}") if options.login else SlurmClient()


def lab_machines(name: str) -> tuple[Machine, ...]:
    """Return the hosts of a laboratory with Slurm (SpecError: it is none)."""
    entries = journal.for_cluster(name).entries()
    specs = [entry.spec for entry in entries if isinstance(entry, journal.Intended)]
    groups = [entry.machines for entry in entries if isinstance(entry, journal.Created)]
    with_slurm = specs and specs[-1].provider == "lab" and specs[-1].options.get("slurm")
    if not with_slurm or not groups:
        raise SpecError(
            f"There is no laboratory {name!r} with Slurm.",
            remedy=f"Make one: cluster up {name} --provider lab --hosts 4 --option slurm=1",
        )
    return groups[-1]


def _text(stream: str | bytes | None) -> str:
    """Return what a command wrote until it was given up: bytes, also where text was asked for."""
    return stream.decode(errors="replace") if isinstance(stream, bytes) else stream or ""


NO_COMMANDS = 127  # exit status of a shell if there is no such program

QUEUE_FULL = "temporarily unable to accept job"  # sbatch then tries again for minutes
# The line that names the limit, before the one about it: QOSMaxSubmitJobPerUserLimit.
LIMIT = re.compile(r"\w+: error: ((?:QOS|Assoc)\w+)")


MARK = re.compile(r"cluster-gate:(\d+):(bad|measured)")  # the job of a gate, and why


# A node that a gate drains has a mark in its reason: only a node with it is given back.
def drain(names: Collection[str], mark: tuple[str, str], why: str = "") -> None:
    """Drain nodes (ClusterError)."""
    nodes, reason = f"nodename={','.join(names)}", f"cluster-gate:{':'.join(mark)} {why}".strip()
    SlurmClient().run(("scontrol", "update", nodes, "state=drain", f"reason={reason}"))


def give_back(mark: tuple[str, ...] = ()) -> list[str]:
    """Undrain the nodes that have a mark of ours, or this one, and no others (ClusterError)."""
    marks = {name: mark_of(node) for name, node in nodes_by_name().items()}
    names = [name for name, value in marks.items() if value and value == (mark or value)]
    if names:
        SlurmClient().run(("scontrol", "update", f"nodename={','.join(names)}", "state=undrain"))
    return names


def mark_of(node: SlurmNode) -> tuple[str, ...]:
    """Return the job of a gate that has drained a node, and why; empty if none has."""
    mark = MARK.match(node.reason) if "DRAIN" in node.flags else None
    return mark.groups() if mark else ()


def nodes_by_name() -> dict[str, SlurmNode]:
    text = SlurmClient().run(("scontrol", "--oneliner", "show", "node")).stdout
    return {node.name: node for node in parse_nodes(text)}


class NoSuchJob(ProvisionError):
    """Slurm does not list the job any more."""


class NoSuchNodesNow(SpecError):
    """No nodes that are up have what is asked for; nodes that are down may."""


class PartitionClosed(ProvisionError):
    """The partition is down, drained or inactive."""


# A part of Slurm's message, the kind of error, what it means, and what to type.
REFUSALS: tuple[tuple[str, type[ProvisionError | SpecError], str, str], ...] = (
    ("Could not establish a configuration source", SpecError,
     "Slurm's commands are installed there, but belong to no Slurm: slurm.conf is missing.",
     "Name a host that has one: --option login=alice@login1"),
    # Before `time limit`, as the text about limits of an account ends with these words.
    ("Resource temporarily unavailable", Quota,
     "The queue is full: slurmctld accepts no more jobs of anyone (MaxJobCount).",
     "Try again later; look: squeue | wc -l; scontrol show config | grep MaxJobCount"),
    ("MaxSubmitJob", Quota,
     "The queue is full for you: the account or QOS allows no more jobs of yours in it.",
     "Look at yours: squeue --me; cancel one: scancel ID; or wait until one has ended."),
    ("MaxWallDuration", SpecError, "The account or QOS gives no job so much time.",
     "Ask for less: --ttl 30min; limits: sacctmgr show qos format=name,maxwall"),
    ("violates accounting/QOS policy", Quota,
     "The account's limit of jobs, nodes or time is reached.",
     "Look: sacctmgr show associations user=$USER; your jobs: squeue --me"),
    ("invalid partition", SpecError, "There is no such partition.",
     "List them: sinfo --summarize; then: --option partition=NAME"),
    ("Invalid account", Denied, "You have no such account, or it may not use this partition.",
     "List yours: sacctmgr show associations user=$USER; then: --option account=NAME"),
    ("Invalid qos", Denied, "You have no such QOS.",
     "List yours: sacctmgr show associations user=$USER format=qos; then: --option qos=NAME"),
    ("Invalid feature", SpecError, "No node has this feature.",
     "List them: sinfo --format '%N %f'; then: --option constraint=FEATURE"),
    ("reservation is invalid", SpecError, "There is no such reservation, or it is not for you.",
     "List them: scontrol show reservation; then: --option reservation=NAME"),
    ("Invalid generic resource", SpecError, "No node has such a generic resource.",
     "List them: sinfo --format '%N %G'; then: --option gres=gpu:8"),
    ("Invalid node name", SpecError, "There is no such node.",
     "List them: sinfo --Node; then: --option nodelist=NAMES"),
    ("time limit", SpecError, "The partition gives no job so much time.",
     "Look at its limit: sinfo --format '%P %l'; then: --ttl 30min"),
    ("Node count specification invalid", SpecError, "The partition has fewer nodes.",
     "Look: sinfo --format '%P %D'; then: --hosts N"),
    ("Invalid job id", NoSuchJob,
     "Slurm has forgotten it some minutes after its end, or it never was.",
     "Look in the accounts: sacct --jobs=ID"),
    ("Required partition not available", PartitionClosed,
     "The partition is down, drained or inactive.",
     "Look: sinfo --summarize; or name another: --option partition=NAME"),
    ("node configuration is not available", NoSuchNodesNow,
     "No nodes of the partition have all of what is asked for.",
     "Look: sinfo --Node --long; then ask for fewer --hosts, or leave an --option out."),
    ("Access/permission denied", Denied, "You may not submit jobs here.",
     "Ask the site's administrators, or name another login host: --option login=alice@login1"),
)  # fmt: skip


def refusal(program: str, output: str, place: str) -> ProvisionError | SpecError:
    words = output.strip()
    for part, kind, means, remedy in REFUSALS:
        if part.lower() in words.lower():
            return kind(f"{program} says {place}: {_last(words)}", means=means, remedy=remedy)
    return ProvisionError(
        f"{program} failed {place}: {_last(words) or 'it printed no reason'}",
        remedy=f"Try it by hand there: {program} --version; and: sinfo",
    )


def no_answer(program: str, output: str, place: str, within: float) -> ProvisionError:
    if QUEUE_FULL in output:
        return Quota(
            f"The queue is full: sbatch could not submit a job {place} within {within:g} s.",
            means=f"slurmctld accepts no more jobs of anyone (MaxJobCount): {_last(output)}",
            remedy="Try again later; look: squeue | wc -l; scontrol show config | grep MaxJobCount",
        )
    last = _last(output)
    return ProvisionError(
        f"{program} did not answer {place} within {within:g} s{': ' if last else ''}{last}.",
        means="slurmctld is down or very busy, or the file system of the command hangs.",
        remedy=f"Ask by hand: scontrol ping; {program} --version",
    )


def no_commands(program: str, place: str) -> SpecError:
    return SpecError(
        f"There is no {program} {place}.",
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
