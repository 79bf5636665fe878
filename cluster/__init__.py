"""From nothing to a believable interconnect measurement, with nothing left running.

>>> import cluster
>>> with cluster.launch("example", provider="local", hosts=2) as c:  # doctest: +SKIP
...     run = c.bench("p2p", metrics=["latency"], sizes=[8])
...     print(run.summary()[0].median)
"""

from cluster.clusters import Cluster, Listener, attach, launch
from cluster.errors import (
    Capacity,
    ClusterError,
    Denied,
    JobError,
    ParseError,
    ProvisionError,
    Quota,
    ShellError,
    SpecError,
    Timeout,
)
from cluster.model import ClusterSpec, Definition, Machine, Measurement, Record, Summary
from cluster.runs import Run
from cluster.version import __version__

__all__ = [
    "Capacity",
    "Cluster",
    "ClusterError",
    "ClusterSpec",
    "Definition",
    "Denied",
    "JobError",
    "Listener",
    "Machine",
    "Measurement",
    "ParseError",
    "ProvisionError",
    "Quota",
    "Record",
    "Run",
    "ShellError",
    "SpecError",
    "Summary",
    "Timeout",
    "__version__",
    "attach",
    "launch",
]
