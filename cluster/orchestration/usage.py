"""What hosts do now: against what their links carry, and whether others use them."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from cluster.agent.protocol import AGENT
from cluster.core import decoders
from cluster.core.errors import ClusterError, ShellError
from cluster.core.model.hosts import SIMULATED, HostUsage
from cluster.core.state import journal
from cluster.fleet.pair_measurements import pair_tests, proven_rates
from cluster.orchestration.cluster import Cluster, attach
from cluster.orchestration.jobs.registry import FOLDER
from cluster.remote.hosts import DEAD_AFTER, distinct
from cluster.remote.parallel import name_host, start
from cluster.remote.shells import Shell
from cluster.reports.words.outcomes import outcome_words
from cluster.runs import store
from cluster.runs.run import PAIRS

# The times of all processors since boot, twice; and the processes that compute on GPUs.
GPU_PROBE = """
command -v nvidia-smi > /dev/null || exit 0
nvidia-smi --query-compute-apps=pid --format=csv,noheader
"""
PROBE = f"head -n 1 /proc/stat; sleep 1; head -n 1 /proc/stat\n{GPU_PROBE}"
PATIENCE = 30.0  # seconds
IDLE = slice(3, 5)  # idle and iowait in a line of /proc/stat: proc(5)


def watch_usage(
    cluster: Cluster, seconds: float, count: int, on_usage: Callable[[HostUsage], None]
) -> dict[str, ClusterError]:
    """Call `on_usage` for each host and interval, `count` times or for ever; return what failed.

    Several threads call it, with the reason each time that a host does not answer. Without `count`,
    such a host is asked again while another one answers.
    """
    absent: dict[str, ClusterError] = {**cluster.remote.omit_dead(DEAD_AFTER)}
    watch = _Watch(cluster, seconds, count, on_usage)
    for name, error in absent.items():
        watch.report(name, error)
    shells = cluster.shells()
    if not shells:
        return absent
    cluster.install()
    watch.proven = link_rates(cluster)
    if not count:
        machines = [m for m in distinct(cluster.machines) if m.name in absent]
        shells |= {machine.name: cluster.remote.shell(machine) for machine in machines}
    # not `try_each`, which at Ctrl-C waits until all calls have ended: these begin again
    calls = {name: start(partial(watch.look, name, shell)) for name, shell in shells.items()}
    try:
        answers = {name: call.result() for name, call in calls.items()}
    finally:
        watch.over.set()
        for shell in shells.values():
            shell.close()  # which ends its command
    return {name: error for name, error in (absent | answers).items() if error}


class _Watch:
    """What hosts of a cluster do."""

    def __init__(
        self, cluster: Cluster, seconds: float, count: int, on_usage: Callable[[HostUsage], None]
    ) -> None:
        self._machines = {machine.name: machine for machine in cluster.machines}
        self._seconds, self._count, self._on_usage = seconds, count, on_usage
        self._names = {machine.name for machine in distinct(cluster.machines)}
        self._silent: set[str] = set()  # the names of the hosts that do not answer
        self.proven: dict[str, tuple[float, float]] = {}  # of their links, as `link_rates`
        self.over = threading.Event()

    def report(self, name: str, error: ClusterError) -> None:
        """Say that a host does not answer."""
        self._silent.add(name)
        usage = HostUsage(at=time.time(), seconds=0, processor=0, memory=0, sent=0, received=0)
        self._on_usage(replace(usage, host=name, reason=error.what))

    def look(self, name: str, shell: Shell) -> ClusterError | None:
        """Look at a host, and again if it does not answer; return why it does not in the end."""
        while True:
            try:
                self._look(name, shell)
            except ClusterError as error:
                self.report(name, name_host(error, name))
                if self._count or self._silent >= self._names or self.over.wait(self._seconds):
                    return error
            else:
                return None

    def _look(self, name: str, shell: Shell) -> None:
        machine, addresses = self._machines[name], [m.address for m in self._machines.values()]
        words = (f"{machine.bin}/python3", *AGENT, "usage", str(self._seconds), str(self._count))
        jobs = f"{machine.folder}/{FOLDER}"
        result = shell.run((*words, jobs, *addresses), on_line=partial(self._take, name))
        if result.status:
            raise ShellError(
                f"{name} cannot say what it does.", means=result.stderr.strip(), host=name
            )

    def _take(self, name: str, line: str) -> None:
        self._silent.discard(name)
        usage = decoders.decode(line, HostUsage)
        sends, receives = self.proven.get(name, (0.0, 0.0))
        self._on_usage(
            replace(
                usage,
                host=name,
                sent_share=round(usage.sent / sends, 4) if sends else None,
                received_share=round(usage.received / receives, 4) if receives else None,
            )
        )


def link_rates(cluster: Cluster) -> dict[str, tuple[float, float]]:
    """Return what each host sent and received at best, in bytes per second.

    The rates are those of the newest check that tested a host's bandwidth: older ones may have had
    other hosts, or another metric.
    """
    machines = {(machine.name, machine.id) for machine in cluster.machines}
    rates: dict[str, tuple[float, float]] = {}
    for job in reversed(cluster.state.jobs):
        if len(rates) == len(machines):
            break
        if job.benchmark != PAIRS or not Path(job.run).exists():
            continue
        run = store.read(Path(job.run))
        tests = pair_tests(m for m in run.measurements if m.metric == "bandwidth")
        best = proven_rates(tests)
        for host, machine in enumerate(run.record.machines):
            if any(best.get(host, ())) and (machine.name, machine.id) in machines:
                rates.setdefault(machine.name, best[host])
    return rates


def why_busy(name: str, most: float) -> str:
    """Return why a cluster should not be measured now, in one line; empty if it may.

    `most` is the share of a host's processors that may be in use. A host that does not answer is no
    reason: a measurement says more about it.
    """
    if not journal.exists(name):
        return ""
    if journal.for_cluster(name).is_launching():
        return outcome_words("launching", name)
    cluster = attach(name)
    if (user := cluster.bench_jobs.user()) is not None:
        return outcome_words("job_runs", name, user.words)
    if running := _jobs(cluster):
        return outcome_words("job_runs", name, ", ".join(running))
    try:
        answers = cluster.remote.try_run(PROBE, timeout=PATIENCE)
    finally:
        cluster.close()
    reasons = {
        reason: host
        for host, result in answers.items()
        if not isinstance(result, ClusterError)
        for reason in _reasons(result.stdout, most)
    }
    return "; ".join(f"{host}: {reason}" for reason, host in reasons.items())


def busy_hosts(cluster: Cluster) -> dict[str, str]:
    """Return the hosts on which a job runs, by name, with what runs there (ClusterError)."""
    names = [machine.name for machine in cluster.machines]
    if cluster.machines[0].shell == SIMULATED:
        return {}
    if (user := cluster.bench_jobs.user()) is not None:
        return dict.fromkeys(names, user.words)
    jobs = {host: name for name, hosts in cluster.jobs.running().items() for host in hosts}
    answers = cluster.remote.try_run(GPU_PROBE, timeout=PATIENCE)
    apps = {
        host: reason
        for host, result in answers.items()
        if not isinstance(result, ClusterError)
        for reason in _reasons(result.stdout, 1.0)
    }
    return apps | jobs


def _jobs(cluster: Cluster) -> tuple[str, ...]:
    with suppress(ClusterError):  # a host without tmux runs no job
        return tuple(cluster.jobs.running())
    return ()


def _reasons(output: str, most: float) -> Iterator[str]:
    """Read what the probe printed; a host without /proc/stat may be idle."""
    lines = output.splitlines()
    times = [[int(word) for word in line.split()[1:9]] for line in lines if line[:4] == "cpu "]
    if len(times) == 2:  # noqa: PLR2004 - the probe reads it twice
        ticks = [b - a for a, b in zip(*times, strict=True)]
        share = 1 - sum(ticks[IDLE]) / max(1, sum(ticks))
        if share > most:
            yield outcome_words("cores_used", share)
    apps = [line for line in lines if line.strip().isdigit()]
    if apps:
        yield outcome_words("gpus_used", len(apps))
