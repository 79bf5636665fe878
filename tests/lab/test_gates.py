"""A gate on a link that is slower than it says: LOW, exit status 3, and JUnit that others read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from junitparser import Failure, JUnitXml

import cluster
from tests.conftest import command
from tests.lab.conftest import must

if TYPE_CHECKING:
    from pathlib import Path

SLOW = (
    "dev=$(ip -o link | sed -n 's/^[0-9]*: \\([^:@]*\\).*/\\1/p' | grep -v '^lo$' | head -n 1); "
    "tc qdisc replace dev $dev root tbf rate 100mbit burst 64kb limit 1mb"
)


@pytest.mark.usefixtures("own", "tools")
def test_a_link_slowed_to_a_tenth_is_low_and_hits_the_gate(tmp_path: Path) -> None:
    """The lab says 1 Gbit/s; a tenth passes. A busy machine only makes it slower still."""
    junit = tmp_path / "junit.xml"
    lab = cluster.launch("slow", provider="lab", options={"rate": "1gbit"})
    for number in (0, 1):
        must(lab, number, SLOW)
    lab.bench("p2p", metrics=["bandwidth"], sizes="2MiB", iterations=3, window=8)
    said = command("judge", "latest", "--fail-on", "low", "--junit", str(junit), status=3)

    assert "LOW" in said.stdout.splitlines()[-1]
    assert "is LOW." in said.stderr
    [suite] = JUnitXml.fromfile(str(junit))
    [result] = next(case for case in suite if case.name.startswith("bandwidth")).result
    assert isinstance(result, Failure)
    assert result.type == "low"
    assert suite.failures == sum(isinstance(c.result[0], Failure) for c in suite if c.result)
