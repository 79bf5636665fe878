"""Nodes of a Slurm: a job of ours holds them, or the allocation that we run in."""

import getpass
import os
import platform
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace

from cluster import providers
from cluster.core import decoders
from cluster.core.errors import ClusterError, LaunchLeft, ProvisionError, SpecError, on_failure
from cluster.core.model.hosts import Access, Machine, ssh_command
from cluster.core.model.resources import Plan, RemoteCluster, Resource
from cluster.core.model.spec import ClusterSpec, machine_name
from cluster.core.model.value import StateCallback, Value, ignore
from cluster.core.state import journal
from cluster.core.text.units import format_seconds
from cluster.providers.slurm import states
from cluster.providers.slurm.client import (
    HERE,
    LAB,
    LOGIN,
    NoSuchNodesNow,
    PartitionClosed,
    SlurmClient,
    client_of,
    lab_machines,
)
from cluster.providers.slurm.options import (
    ASKED,
    MINUTE,
    SlurmOptions,
    options_of,
    own_allocation,
    time_limit,
)
from cluster.providers.slurm.states import LOST, why_closed, words_on_node

REFUSED_OPTIONS = {
    "instance": "Slurm's nodes are what they are; choose with --option partition or constraint",
    "zone": "its nodes are where they are",
    "image": "its nodes keep their system; ranks can run in one: --option image=IMAGE",
    "accelerator": "ask Slurm for GPUs: --option gres=gpu:8",
    "max_cost": "its nodes have no price here; limit their time: --ttl 2h",
    "idle": "no node can end its job; limit their time: --ttl 2h",
    "spot": "ask Slurm for a partition that can be preempted: --option partition=NAME",
}
POLLS = (0.2, 0.5, 1.0, 2.0, 5.0)  # seconds between two questions, the last for ever
SILENT = 60  # questions in a row that slurmctld may leave unanswered while a job waits
SEEN_WITHIN = 30.0  # seconds in which a submitted job is listed, also if its answer was lost
GONE_WITHIN = 90.0  # seconds for a cancelled job to end
WORDS_WITHIN = 3.0  # seconds to ask what Slurm knows of a lost host: the run is to end soon
KIND = "job"


class SlurmProvider(
    providers.Provider,
    providers.Regional,
    providers.Searchable,
    providers.Resumes,
    providers.ExistingHosts,
    providers.CountsHosts,
    providers.PreparesHosts,
    providers.RevokedAtOnce,
    providers.HintsReplacement,
):
    """Nodes that Slurm gives to a job of ours."""

    Options: ClassVar[type[Value]] = SlurmOptions

    def default_hosts(self, options: dict[str, str]) -> int:
        if own_allocation(decoders.convert(options, SlurmOptions, strict=False)):
            return int(os.environ.get("SLURM_JOB_NUM_NODES", "1"))
        return 2

    def plan(self, spec: ClusterSpec) -> Plan:
        providers.refuse(spec, REFUSED_OPTIONS)
        providers.refuse_groups(spec, "The nodes of a job of Slurm are of one kind")
        options = options_of(spec)
        client = client_of(options)
        if number := own_allocation(options):
            job = client.job(number)
            if job is None or job.state != states.RUNNING:
                raise SpecError(
                    f"SLURM_JOB_ID is {number}, but this job does not run.",
                    means="It is taken to be the allocation whose nodes are to be used.",
                    remedy="Unset it for a job of its own: unset SLURM_JOB_ID",
                )
            return Plan(lines=(f"use {spec.hosts} nodes of the job {number}: {job.nodes}",))
        limit = time_limit(spec)
        words = ["sbatch", *flags(spec)]
        lines = (
            f"submit a job {client.words}: {shlex.join(words)}",
            f"time limit: {format_seconds(limit)}; {_expected_start(client, spec)}",
        )
        return Plan(lines=lines, ttl=limit)

    def create(
        self, spec: ClusterSpec, journal: journal.Journal, on_state: StateCallback = ignore
    ) -> tuple[Machine, ...]:
        """Wait until the job runs; return its first nodes as machines, in Slurm's order."""
        options = options_of(spec)
        client = client_of(options)
        token = secrets.token_hex(8)
        number = own_allocation(options)
        with on_failure(lambda: self._take_back(spec.name)):
            if not number:
                token, number = self._submit(client, spec, journal, token)
            try:
                job = self._wait(client, number, spec, on_state)
            except KeyboardInterrupt as interrupt:
                if options.interrupt == "cancel":
                    raise
                raise LaunchLeft(
                    f"The job {number} stays in the queue.",
                    remedy=f"Go on with the same command; or cancel it: cluster down {spec.name}",
                ) from interrupt
            names = client.names_in(job.nodes)
            if len(names) < spec.hosts:
                raise ProvisionError(
                    f"The job {job.id} has {len(names)} nodes, not {spec.hosts}: {job.nodes}"
                )
            addresses = {node.name: node.address for node in client.nodes(job.nodes)}
            # the nodes may share a home
            scratch = f"/tmp/cluster-{token}"  # noqa: S108 - nobody can guess it
            machines = tuple(
                Machine(  # noqa: S604 - "shell" names a plug-in
                    name=machine_name(spec.name, number),
                    id=node,
                    address=addresses.get(node, node),
                    shell="ssh",
                    folder=scratch,
                    bin=f"{scratch}/env/bin",
                    access=_access(client, addresses.get(node, node), journal.folder),
                    job=job.id,
                )
                for number, node in enumerate(names[: spec.hosts])
            )
            if client.place.startswith(LAB):
                lab = {node.id: node for node in lab_machines(client.place.removeprefix(LAB))}
                machines = tuple(
                    replace(machine, access=lab[machine.id].access, link=lab[machine.id].link)
                    for machine in machines
                )
            if options.reach == "ssh" or (options.reach == "auto" and _lets_in(machines[0])):
                return machines
            access = client.access
            return tuple(replace(machine, shell="srun", access=access) for machine in machines)  # noqa: S604

    def _take_back(self, name: str) -> None:
        if not isinstance(sys.exception(), LaunchLeft):
            self.destroy(name)

    def _submit(
        self, client: SlurmClient, spec: ClusterSpec, cluster: journal.Journal, token: str
    ) -> tuple[str, str]:
        """Submit the job, unless an interrupted launch did; return its token and its number."""
        # Search only places already used: an old login host may be unreachable.
        for job in _active(client, spec.name) if client in self._clients(spec.name) else ():
            mark = mark_of(job)
            if mark:
                return mark.token, job.id
        journal.remember_region(self.name, client.place)
        request_ = journal.Requested(
            provider=self.name, region=client.place, kind=KIND, token=token, at=time.time()
        )
        cluster.append(request_)
        try:
            result = client.run(request(spec, token))
        except (SpecError, ProvisionError):
            cluster.append(journal.Answered(token=token))
            raise
        number = job_number(result.stdout)
        cluster.append(journal.Answered(token=token, ids=(number,)))
        return token, number

    def _wait(
        self, client: SlurmClient, number: str, spec: ClusterSpec, on_state: StateCallback
    ) -> states.SlurmJob:
        failures, attempts = 0, 0
        while True:
            try:
                job, failures = client.job(number), 0
            except ProvisionError:
                failures += 1
                if failures > SILENT:
                    raise
                self._report_all(spec, on_state, "waiting: slurmctld does not answer")
            else:
                if job is not None and job.state == states.RUNNING:
                    return job
                if job is None or job.is_over:
                    raise ProvisionError(
                        f"The job {number} ended before it ran: {states.why_over(job)}.",
                        remedy="Launch it again, or look: scontrol show job " + number,
                    )
                if states.is_hopeless(job):
                    raise ProvisionError(
                        f"The job {number} would wait for ever. {states.words_of(job)}.",
                        means="It was cancelled: waiting does not help.",
                        remedy="Ask for less, or for another partition, account or QOS.",
                    )
                self._report_all(spec, on_state, states.words_of(job))
            time.sleep(POLLS[min(attempts, len(POLLS) - 1)])
            attempts += 1

    def _report_all(self, spec: ClusterSpec, on_state: StateCallback, state: str) -> None:
        for number in range(spec.hosts):
            on_state(machine_name(spec.name, number), state)

    def revocation_reason(
        self, spec: ClusterSpec, machines: tuple[Machine, ...]
    ) -> ProvisionError | None:
        """Return why the job that holds the machines is over; none while it runs, or is unknown."""
        if not machines:  # the launch was interrupted before it had any
            return None
        number = machines[0].job
        try:
            client = client_of(options_of(spec))
            job = _poll_job(client, number)
        except ClusterError:
            return None  # who does not answer does not say that it is over
        reason = "; ".join(filter(None, (states.why_over(job), *_known_of(client, job))))
        outcome = (
            "is over"
            if job is None or job.state not in states.STAYING
            else "cannot be used any more"
        )
        return ProvisionError(f"Slurm's job {number} {outcome}. {reason}.") if reason else None

    def describe_unreachable(self, spec: ClusterSpec, machines: tuple[Machine, ...]) -> str:
        client = client_of(options_of(spec))
        try:
            names = ",".join(machine.id for machine in machines)
            nodes = client.nodes(names, within=WORDS_WITHIN, tries=1)
        except ClusterError:
            return "Slurm does not answer, either"
        return "; ".join(words_on_node(node) for node in nodes)

    def replacement_hint(self, spec: ClusterSpec, bad: tuple[Machine, ...]) -> str:
        options = {k: v for k, v in spec.options.items() if k != "exclude"}
        out = ",".join(filter(None, (spec.options.get("exclude"), *(m.id for m in bad))))
        rest = "".join(
            f" --option {shlex.quote(f'{k}={v}')}" for k, v in {**options, "exclude": out}.items()
        )
        command = f"cluster up {spec.name} --provider slurm --hosts {spec.hosts}{rest}"
        return f"Ask for other nodes: cluster down {spec.name}; {command}"

    @classmethod
    def has_region(cls, text: str) -> bool:
        return text == HERE or text.startswith((LAB, LOGIN))

    def find(self, name: str) -> tuple[Resource, ...]:
        jobs = (job for client in self._clients(name) for job in _active(client, name))
        return tuple(Resource(kind=KIND, id=job.id) for job in jobs)

    def destroy(self, name: str) -> None:
        """A job whose submission was never answered may appear late, so that is waited for."""
        deadline = time.monotonic() + GONE_WITHIN
        attempts = 0
        while True:
            try:
                alive = [job for client in self._clients(name) for job in _cancel(client, name)]
            except ProvisionError as error:
                raise _not_cancelled(name, error) from error
            if not alive and time.time() > journal.pending_since(name) + SEEN_WITHIN:
                return
            if time.monotonic() > deadline:
                raise ProvisionError(
                    f"The jobs {', '.join(job.id for job in alive)} of {name} were cancelled, and "
                    f"are still {', '.join(sorted({job.state for job in alive}))}.",
                    means="A node of theirs does not answer Slurm; their time limits end them.",
                    remedy=f"Try again later: cluster down {name}; look: squeue --me",
                )
            time.sleep(POLLS[min(attempts, len(POLLS) - 1)])
            attempts += 1

    def _clients(self, name: str) -> tuple[SlurmClient, ...]:
        regions = [e.region for e in journal.entries_of(name) if isinstance(e, journal.Requested)]
        places = regions or (*self.regions, *journal.used_regions(self.name))
        return tuple(SlurmClient(place=place) for place in dict.fromkeys(places))

    def live(self) -> tuple[RemoteCluster, ...]:
        regions = (*self.regions, *journal.used_regions(self.name))
        clusters = [c for place in dict.fromkeys(regions) for c in _live(SlurmClient(place=place))]
        if HERE not in regions and shutil.which("squeue"):
            with suppress(ProvisionError, SpecError):  # Slurm is installed, but not set up
                clusters += _live(SlurmClient())
        return tuple(clusters)

    def search_scope(self, name: str) -> str:
        places = ", ".join(client.words for client in self._clients(name))
        return f"jobs of Slurm {places}" if places else ""

    def describe_search(self, name: str) -> str:
        scope = self.search_scope(name)
        return f"{scope}, as {getpass.getuser()} unless the login names another" if scope else ""


def _poll_job(client: SlurmClient, number: str) -> states.SlurmJob | None:
    """Ask for a job; while it is being ended, its state may not yet say why."""
    job = client.job(number)
    for pause in POLLS:
        if job is None or job.state != states.COMPLETING or job.reason in states.ENDING:
            break
        time.sleep(pause)
        job = client.job(number)
    return job


def _known_of(client: SlurmClient, job: states.SlurmJob | None) -> Iterator[str]:
    """Say what else Slurm knows: which nodes a job lost, or why it was requeued."""
    if job is None:
        return
    with suppress(ClusterError):
        if job.nodes and states.NODE_FAIL in (job.state, states.ENDING.get(job.reason)):
            nodes = client.nodes(job.nodes, within=WORDS_WITHIN, tries=1)
            yield from (words_on_node(node) for node in nodes if node.state in LOST)
    if job.state in states.PUT_BACK:
        try:
            before = client.states_before(job.id, within=WORDS_WITHIN)
        except ClusterError:  # as where Slurm keeps no accounts
            before = ()
        yield states.why_put_back(before)


def _active(client: SlurmClient, name: str) -> tuple[states.SlurmJob, ...]:
    """List the jobs of a cluster that are not over.

    Only those that its journal names count, where there is one: another machine may have a
    cluster of the same name.
    """
    entries = journal.entries_of(name)
    tokens = {e.token for e in entries if isinstance(e, journal.Requested)}
    rows = ((job, mark_of(job)) for job in _jobs_of(client) if not job.is_over)
    return tuple(
        job
        for job, mark in rows
        if mark and mark.name == name and (mark.token in tokens or not entries)
    )


def _cancel(client: SlurmClient, name: str) -> tuple[states.SlurmJob, ...]:
    jobs = _active(client, name)
    if jobs:
        client.run(("scancel", *(job.id for job in jobs)))
    return jobs


def _not_cancelled(name: str, error: ProvisionError) -> ProvisionError:
    """Name the jobs that may still run, where Slurm could not be asked."""
    numbers = " ".join(
        n for e in journal.entries_of(name) if isinstance(e, journal.Answered) for n in e.ids
    )
    if not numbers:
        return error
    return ProvisionError(
        error.what,
        means=f"{error.means} What was submitted may still run, until its time limit: {numbers}.",
        remedy=f"{error.remedy}; or where squeue --me shows it: scancel {numbers}",
    )


def _jobs_of(client: SlurmClient) -> tuple[states.SlurmJob, ...]:
    """List the jobs of this user; none if the laboratory is gone, and its Slurm with it."""
    try:
        return client.jobs()
    except SpecError:
        if not client.place.startswith(LAB):
            raise
        return ()


def _live(client: SlurmClient) -> list[RemoteCluster]:
    rows = [(job, mark_of(job)) for job in _jobs_of(client) if not job.is_over]
    return [
        RemoteCluster(
            name=mark.name,
            region=client.place,
            host=mark.host,
            addresses=(job.nodes,) if job.nodes else (),
            states=(job.state.lower() if job.state == states.RUNNING else job.state,),
            since=_epoch(job.start),
            expires=time.time() + job.remaining
            if job.remaining and job.state == states.RUNNING
            else 0.0,
        )
        for job, mark in rows
        if mark
    ]


def _epoch(text: str) -> float:
    """Read a time of squeue, which is in the time zone of its host; taken to be ours."""
    with suppress(ValueError):
        return datetime.fromisoformat(text).astimezone(UTC).timestamp()
    return 0.0


def _expected_start(client: SlurmClient, spec: ClusterSpec) -> str:
    """Ask Slurm whether it takes the job, without submitting it, and when it may start."""
    partitions_ = options_of(spec).partition
    try:
        result = client.run(("sbatch", "--test-only", *flags(spec), "--wrap=true"))
    except (NoSuchNodesNow, PartitionClosed) as error:  # also where the job would wait for nodes
        reason = why_closed(client.partitions(), partitions_)
        return f"{error.what}; {reason or 'it would be refused, or wait until nodes are up'}"
    lines = [line for line in result.stderr.splitlines() if " to start at " in line]
    start, _, rest = (
        lines[-1].partition(" to start at ")[2].partition(" ") if lines else ("", "", "")
    )
    if reason := why_closed(
        client.partitions(), rest.partition(" in partition ")[2] or partitions_
    ):
        return reason  # also then, sbatch expects it to start now
    return f"may start at {start.replace('T', ' ')}" if start else "Slurm would take it"


NUMBER = re.compile(r"^(\d+)(?:;[\w.-]+)?\s*$", re.MULTILINE)
PREFIX = "cluster"  # of the comment by which our jobs are found

# Sessions of tmux belong to the job if its server does: where Slurm tracks processes by cgroups,
# what a step of srun starts ends with the step.
HOLDER = """\
tmux start-server ';' set-option -g exit-empty off 2> /dev/null
exec sleep infinity"""


class Mark(Value, frozen=True, kw_only=True):
    name: str  # of the cluster
    token: str  # of the request, which our journal has
    host: str  # that submitted the job


def mark_of(job: states.SlurmJob) -> Mark | None:
    """Read the mark of a job; None if the job is not ours."""
    prefix, _, rest = job.comment.partition(":")
    name, colon, tail = rest.partition(":")
    token, separator, host = tail.partition("@")
    whole = prefix == PREFIX and bool(name and colon and token and separator)
    return Mark(name=name, token=token, host=host) if whole else None


def request(spec: ClusterSpec, token: str) -> tuple[str, ...]:
    """Return the command that submits the job, marked as ours by its comment."""
    comment = f"{PREFIX}:{spec.name}:{token}@{platform.node()}"
    return ("sbatch", "--parsable", *flags(spec), f"--comment={comment}", f"--wrap={HOLDER}")


def job_number(output: str) -> str:
    """Read the number of a job from what `sbatch --parsable` prints.

    A site's wrapper may print lines before it; in a federation, the cluster follows: `42;north`.
    ProvisionError: there is none; the job may have been submitted all the same.
    """
    numbers = NUMBER.findall(output)
    if not numbers:
        raise ProvisionError(
            f"sbatch printed no number of a job: {output.strip() or 'nothing'!r}",
            means="The job may be in the queue; it is looked for by its comment, and cancelled.",
            remedy="Try it by hand: sbatch --parsable --wrap=true",
        )
    number: str = numbers[-1]
    return number


def flags(spec: ClusterSpec) -> tuple[str, ...]:
    options = options_of(spec)
    values = ((flag, getattr(options, flag)) for flag in ASKED)
    return (
        f"--job-name={PREFIX}-{spec.name}",
        f"--nodes={spec.hosts}",
        "--ntasks-per-node=1",
        "--exclusive",  # others' jobs on its nodes would be measured too
        "--no-requeue",
        f"--time={round(time_limit(spec) / MINUTE)}",
        "--chdir=/",
        "--output=/dev/null",
        *(f"--{flag}={value}" for flag, value in values if value),
        *shlex.split(options.extra),
    )


ASKED_WITHIN = 20.0  # seconds for a node to let us in by SSH, or not


def _access(client: SlurmClient, address: str, folder: Path) -> Access:
    """Say how SSH reaches a node: through the login host, if there is one."""
    login = client.access
    jump = ""
    if login:
        user = f"{login.user}@" if login.user else ""
        jump = f"{user}{login.host}" + (f":{login.port}" if login.port else "")
    return Access(
        host=address,
        user=login.user if login else "",
        known_hosts=str(folder / "known_hosts"),
        pin=True,
        jump=jump,
    )


def _lets_in(machine: Machine) -> bool:
    """Try to log in to a node, as pam_slurm_adopt or the site may permit."""
    if machine.access is None:
        return False
    words = ssh_command(machine.access, "true", "-o", "StrictHostKeyChecking=accept-new")
    try:
        result = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=ASKED_WITHIN
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0
