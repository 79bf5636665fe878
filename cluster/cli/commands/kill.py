"""End a job: SIGTERM, then SIGKILL, to all its processes.

Example: cluster kill mine train
"""

import sys

from cluster.cli import flags
from cluster.orchestration.cluster import attach


def command(name: flags.ClusterName, job: flags.JobName) -> None:
    ended = attach(name).jobs[job]
    ended.stop()
    sys.stdout.write(f"{job} is {ended.state}. Its output: {ended.record.folder}\n")
