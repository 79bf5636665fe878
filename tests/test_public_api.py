"""What `import cluster` gives, and what it costs."""

from __future__ import annotations

import sys

import cluster
from tests.conftest import run

FROZEN = {
    *("Capacity", "Cluster", "ClusterError", "ClusterSpec", "Definition", "Denied", "JobError"),
    *("Listener", "Machine", "Measurement", "ParseError", "ProvisionError", "Quota", "Record"),
    *(
        "Run",
        "ShellError",
        "SpecError",
        "Summary",
        "Timeout",
        "Unreachable",
        "__version__",
        "attach",
        "launch",
    ),
}
HEAVY = (
    "numpy",
    "scipy",
    "matplotlib",
    "boto3",
    "google.cloud",
    "mpi4py",
    "rich",
    "typer",
    "fabric",
)


def test_the_public_names_are_these() -> None:
    """A change here is a change for users: it needs a line in CHANGELOG.md."""
    assert set(cluster.__all__) == FROZEN
    assert all(hasattr(cluster, name) for name in cluster.__all__)


def test_importing_it_loads_nothing_heavy() -> None:
    line = f"import cluster, sys; cluster.launch; print([m for m in {HEAVY!r} if m in sys.modules])"

    assert run(sys.executable, "-c", line).stdout == "[]\n"


def test_listing_and_planning_need_no_mpi() -> None:
    """A definition can be read on a machine that measures nothing."""
    line = (
        "import sys\n"
        "from cluster.core import plugins; from cluster.measure.benchmark import Benchmark\n"
        "b = plugins.load(Benchmark, 'p2p'); b.check(b.Params(), 2)\n"
        "print('mpi4py' in sys.modules)"
    )
    assert run(sys.executable, "-c", line).stdout == "False\n"


def test_names_are_found_and_unknown_ones_are_not() -> None:
    assert set(cluster.__all__) <= set(dir(cluster))
    assert not hasattr(cluster, "util")
