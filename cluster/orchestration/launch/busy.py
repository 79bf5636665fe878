"""Whether hosts are in use by others, so that a measurement would disturb both."""

from collections.abc import Iterator
from contextlib import suppress

from cluster.core import journal
from cluster.core.errors import ClusterError
from cluster.core.model.hosts import SIMULATED
from cluster.orchestration.cluster import Cluster, attach

# The times of all processors since boot, twice; and the processes that compute on GPUs.
GPU_PROBE = """
command -v nvidia-smi > /dev/null || exit 0
nvidia-smi --query-compute-apps=pid --format=csv,noheader
"""
PROBE = f"head -n 1 /proc/stat; sleep 1; head -n 1 /proc/stat\n{GPU_PROBE}"
PATIENCE = 30.0  # seconds
IDLE = slice(3, 5)  # idle and iowait in a line of /proc/stat: proc(5)


def why_busy(name: str, most: float) -> str:
    """Return why a cluster should not be measured now, in one line; empty if it may.

    `most` is the share of a host's processors that may be in use. A host that does not answer is no
    reason: a measurement says more about it.
    """
    if name not in journal.names():
        return ""
    if journal.for_cluster(name).is_launching():
        return f"another process is launching {name}, or replaces its hosts"
    cluster = attach(name)
    if (by := cluster.bench_jobs.user()) is not None:
        return f"a job runs on {name}: {by.words}"
    if running := _jobs(cluster):
        return f"a job runs on {name}: {', '.join(running)}"
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
    if (by := cluster.bench_jobs.user()) is not None:
        return dict.fromkeys(names, by.words)
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


def _reasons(printed: str, most: float) -> Iterator[str]:
    """Read what the probe printed; a host without /proc/stat may be idle."""
    lines = printed.splitlines()
    times = [[int(word) for word in line.split()[1:9]] for line in lines if line[:4] == "cpu "]
    if len(times) == 2:  # noqa: PLR2004 - the probe reads it twice
        spent = [b - a for a, b in zip(*times, strict=True)]
        used = 1 - sum(spent[IDLE]) / max(1, sum(spent))
        if used > most:
            yield f"{used:.0%} of its processors are in use"
    apps = [line for line in lines if line.strip().isdigit()]
    if apps:
        yield f"{len(apps)} process(es) use its GPUs"
