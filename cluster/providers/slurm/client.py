"""The commands of Slurm, run on this machine or on a login host."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Sequence

from cluster.core import journal
from cluster.core.errors import ProvisionError, SpecError
from cluster.core.login_host import SSH_FAILED, login_command
from cluster.core.model.hosts import Access, Completed, Machine, parse_access, ssh_words
from cluster.core.model.value import Value
from cluster.providers.slurm import refusals
from cluster.providers.slurm.node_states import Partition, SlurmNode, parse_nodes, parse_partitions
from cluster.providers.slurm.options import SlurmOptions
from cluster.providers.slurm.states import ENDED, FORMAT, SlurmJob, parse_jobs

HERE, LAB, LOGIN = "this machine", "lab:", "login:"
ANSWERS_WITHIN = 60.0  # seconds; a busy slurmctld takes tens of them
TRIES = 4  # of a command that could not reach slurmctld
BETWEEN_TRIES = 2.0  # seconds
# slurmctld restarts or is busy: the same command will succeed later.
PASSING = ("Unable to contact slurm controller", "Socket timed out", "Connection refused")


class SlurmClient(Value, frozen=True, kw_only=True):
    """Runs the commands of one Slurm."""

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
        if result.status == refusals.NO_COMMANDS:
            raise refusals.no_commands(argv[0], self.words)
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
        raise refusals.refusal(argv[0], result.stderr, self.words)

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
            raise refusals.no_commands(words[0], self.words) from error
        except subprocess.TimeoutExpired as error:
            raise refusals.unanswered(argv[0], _text(error.stderr), self.words, within) from error
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
        except refusals.NoSuchJob:
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
    created = [entry.machines for entry in entries if isinstance(entry, journal.Created)]
    with_slurm = specs and specs[-1].provider == "lab" and specs[-1].options.get("slurm")
    if not with_slurm or not created:
        raise SpecError(
            f"There is no laboratory {name!r} with Slurm.",
            remedy=f"Make one: cluster up {name} --provider lab --hosts 4 --option slurm=1",
        )
    return created[-1]


def _text(stream: str | bytes | None) -> str:
    """Return what a command wrote until it was given up: bytes, also where text was asked for."""
    return stream.decode(errors="replace") if isinstance(stream, bytes) else stream or ""
