"""A gate on a link that is slower than it says: LOW, exit status 3, and JUnit that others read."""

from pathlib import Path

import pytest
from junitparser import Failure, JUnitXml

import cluster
from tests.conftest import command, until


@pytest.mark.serial  # beside other work, nothing is low for certain
@pytest.mark.usefixtures("own", "tools")
def test_a_link_slowed_to_a_tenth_is_low_and_hits_the_gate(tmp_path: Path) -> None:
    """The lab says 1 Gbit/s; a tenth passes. A busy machine only makes it slower still."""
    junit = tmp_path / "junit.xml"
    cluster.launch("slow", provider="lab", options={"rate": "1gbit"})
    command("lab", "slow", "slow", "1")
    lab = cluster.attach("slow")
    gate = ("judge", "latest", "--fail-on", "low", "--junit", str(junit))

    def is_low() -> bool:
        lab.bench("p2p", metrics=["bandwidth"], sizes="2MiB", iterations=3, window=8)
        return command(*gate, status=None).returncode == 3

    until(is_low, "other processes are not in the way")
    said = command(*gate, status=3)

    assert "LOW" in said.stdout.splitlines()[-1]
    assert "is LOW." in said.stderr
    [suite] = JUnitXml.fromfile(str(junit))
    [result] = next(case for case in suite if case.name.startswith("bandwidth")).result
    assert isinstance(result, Failure)
    assert result.type == "low"
    assert suite.failures == sum(isinstance(c.result[0], Failure) for c in suite if c.result)
