"""What the hosts of a cluster do now, against what tests proved that their links carry."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from cluster.agent.protocol import AGENT
from cluster.core import decoders
from cluster.core.errors import ClusterError, ShellError
from cluster.core.model.hosts import Completed, HostUsage
from cluster.fleet.pair_measurements import pair_tests, proven_rates
from cluster.orchestration.cluster import Cluster
from cluster.orchestration.jobs.registry import FOLDER
from cluster.remote.hosts import DEAD_AFTER
from cluster.remote.parallel import try_each
from cluster.remote.shells import Shell
from cluster.runs import store
from cluster.runs.run import PAIRS


def watch_usage(
    cluster: Cluster, seconds: float, count: int, on_usage: Callable[[HostUsage], None]
) -> dict[str, ClusterError]:
    """Call `on_usage` for each host and interval, `count` times or for ever; return what failed.

    It is called by several threads, and once for a host that does not answer.
    """
    machines = {machine.name: machine for machine in cluster.machines}
    failed: dict[str, ClusterError] = {**cluster.remote.omit_dead(DEAD_AFTER)}
    for host, error in failed.items():
        none = HostUsage(at=time.time(), seconds=0, processor=0, memory=0, sent=0, received=0)
        on_usage(replace(none, host=host, reason=error.what))
    if not cluster.shells():
        return failed
    cluster.install()
    proven = link_rates(cluster)
    addresses = tuple(machine.address for machine in cluster.machines)

    def look(name: str, shell: Shell) -> Completed:
        def take(line: str) -> None:
            usage = decoders.decode(line, HostUsage)
            sends, receives = proven.get(name, (0.0, 0.0))
            on_usage(
                replace(
                    usage,
                    host=name,
                    sent_share=round(usage.sent / sends, 4) if sends else None,
                    received_share=round(usage.received / receives, 4) if receives else None,
                )
            )

        words = (f"{machines[name].bin}/python3", *AGENT, "usage", str(seconds), str(count))
        jobs = f"{machines[name].folder}/{FOLDER}"
        result = shell.run((*words, jobs, *addresses), on_line=take)
        if result.status:
            raise ShellError(f"{name} cannot say what it does.", means=result.stderr.strip())
        return result

    answers = try_each(cluster.shells(), look)
    return failed | {n: error for n, error in answers.items() if isinstance(error, ClusterError)}


def link_rates(cluster: Cluster) -> dict[str, tuple[float, float]]:
    """Return what each host sent and received at best in the newest check, in bytes per second."""
    for job in reversed(cluster.state.jobs):
        if job.benchmark == PAIRS and Path(job.run).exists():
            run = store.read(Path(job.run))
            names = [machine.name for machine in run.record.machines]
            rates = proven_rates(pair_tests(m for m in run.measurements if m.metric == "bandwidth"))
            return {names[host]: own for host, own in rates.items() if host < len(names)}
    return {}
