"""A rank on another host that the others wait for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.background import Background
from tests.conftest import command, until

if TYPE_CHECKING:
    from cluster.orchestration.cluster import Cluster

pytestmark = pytest.mark.usefixtures("compiler")
PROGRAM = """
import time
import numpy as np
from mpi4py import MPI
c = MPI.COMM_WORLD
for number in range(400):
    if c.rank == 1 and number == 5:
        time.sleep(40)
    c.Allreduce(np.zeros(64), np.zeros(64))
"""


def test_the_late_rank_of_another_host(lab: Cluster, home: Path) -> None:
    (home / "late.py").write_text(PROGRAM)
    lab.put(home / "late.py", "/root/late.py")
    words = ["run", lab.name, "--profile", "--timeout", "90", "--", "python3", "/root/late.py"]

    def hung() -> object:
        said = command("hang", lab.name, "--json", status=None).stdout  # nothing before it runs
        found = json.loads(said) if said else {}
        return found if found.get("answer", {}).get("verdict") == "hung" else None

    with Background(*words) as ran:
        found = until(hung, "the wait is long")
        ran.end()
    cause = found["answer"]["cause"]
    assert [(one["rank"], one["host"]) for one in cause["stragglers"]] == [(1, "shared-1")]
    assert cause["stragglers"][0]["wchan"] == "hrtimer_nanosleep"
    assert cause["stuck"]["waiting"] == [0]
    run = Path(found["evidence"]).parents[1]
    assert "it has not entered the collective" in command("show", str(run)).stdout
