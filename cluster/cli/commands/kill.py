"""End a job: SIGTERM, then SIGKILL, to all its processes.

Example: cluster kill mine train
"""

import sys

from cluster.cli import flags
from cluster.orchestration.cluster import attach


def command(name: flags.ClusterName, job: flags.JobName) -> None:
    target = attach(name).jobs[job]
    target.stop()
    sys.stdout.write(f"{job} is {target.state}. Its output: {target.record.folder}\n")
