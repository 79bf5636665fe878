"""Switch paused machines on again.

Example: cluster more resume mine
"""

from cluster.cli import flags
from cluster.cli.commands.ls import MOST_SHOWN, show_hosts
from cluster.cli.console import console
from cluster.cli.progress import HostProgress
from cluster.orchestration.cluster import attach


def command(name: flags.ClusterName, json: flags.Json = False) -> None:
    cluster = attach(name)
    with HostProgress(console(stderr=True)) as progress:
        cluster.resume(progress)
    show_hosts(cluster, as_json=json, most=MOST_SHOWN)
