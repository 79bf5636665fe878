"""A gate on a link that is slower than it says: LOW, exit status 3, and JUnit that others read."""

from pathlib import Path

import pytest
from junitparser import Failure, JUnitXml

import cluster
from tests.conftest import command


@pytest.mark.usefixtures("own_labs", "tools")
def test_a_slow_link_is_low_and_hits_the_gate(tmp_path: Path) -> None:
    """The lab says 1 Gbit/s, and a fiftieth of it passes: no other load slows a rank 50 times."""
    junit = tmp_path / "junit.xml"
    cluster.launch("slow", provider="lab", options={"rate": "1gbit"})
    command("lab", "slow", "slow", "1", "--rate", "20mbit")
    lab = cluster.attach("slow")
    lab.bench("p2p", metrics=["bandwidth"], sizes="1MiB", iterations=2, window=1)

    gate = ("judge", "latest", "--fail-on", "low", "--junit", str(junit))
    completed = command(*gate, status=3)

    assert "LOW" in completed.stdout.splitlines()[-1]
    assert "is LOW." in completed.stderr
    [suite] = JUnitXml.fromfile(str(junit))
    [result] = next(case for case in suite if case.name.startswith("bandwidth")).result
    assert isinstance(result, Failure)
    assert result.type == "low"
    assert suite.failures == sum(isinstance(c.result[0], Failure) for c in suite if c.result)
