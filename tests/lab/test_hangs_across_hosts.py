"""A rank on another host that the others wait for."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import cluster
from cluster.orchestration.cluster import Cluster
from tests.background import Background
from tests.conftest import answer, command, until

pytestmark = pytest.mark.usefixtures("compiler")
PROGRAM = """
import time
import numpy as np
from mpi4py import MPI
c = MPI.COMM_WORLD
for number in range(400):
    if c.rank == c.size - 1 and number == 5:
        print("late", flush=True)
        time.sleep(900)
    c.Allreduce(np.zeros(64), np.zeros(64))
"""

TORCH = """
import datetime, os, threading, time, torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=600))
def dump():
    while True:
        time.sleep(0.5)
        name = os.environ["TORCH_FR_DUMP_TEMP_FILE"] + os.environ["RANK"]
        with open(name + ".part", "wb") as file:
            file.write(torch._C._distributed_c10d._dump_fr_trace_json())
        os.replace(name + ".part", name)
threading.Thread(target=dump, daemon=True).start()
for _ in range(3):
    dist.all_reduce(torch.ones(4))
if dist.get_rank() == 2:
    time.sleep(600)
dist.all_reduce(torch.ones(4))
"""


def hung(*words: str) -> Any:
    """Return what `cluster hang` says if it is a hang."""
    output = command("hang", *words, "--json", status=None).stdout  # nothing before it runs
    record = json.loads(output) if output else {}
    return record if record.get("answer", {}).get("verdict") == "hung" else None


def times_of_a_program(wide: Cluster) -> float:
    """Return how many starts of Python on every host, which load slows as much, an answer takes."""
    start = time.monotonic()
    assert hung(wide.name)
    answered = time.monotonic()
    wide.hosts.run(["python3", "-c", "import json, subprocess"])
    return (answered - start) / (time.monotonic() - answered)


@pytest.mark.usefixtures("own_labs")
@pytest.mark.alone  # 16 ranks that wait
def test_sixteen_hosts_answer_in_ten_seconds(home: Path) -> None:
    """The late rank of the last host is named: certain, as all ranks were read, twice."""
    (home / "late.py").write_text(PROGRAM)
    with cluster.launch("wide", provider="lab", hosts=16) as wide:
        wide.put(home / "late.py", "/root/late.py")
        words = ("run", wide.name, "--profile", "--timeout", "900")
        with Background(*words, "--", "python3", "/root/late.py") as process:
            process.wait_for("late")
            record = until(lambda: hung(wide.name), "the wait is long")
            is_quick = any(times_of_a_program(wide) < 12 for _ in range(3))
            command("kill", wide.name, "bench-program")
            process.end()
    cause = record["answer"]["cause"]
    assert [(row["rank"], row["host"]) for row in cause["stragglers"]] == [(15, "wide-15")]
    assert (cause["kind"], cause["confidence"]) == ("rank_absent", "certain")
    assert cause["stuck"]["waiting"] == [*range(15)]
    assert is_quick


@pytest.mark.usefixtures("own_labs")
def test_the_late_rank_of_torch_by_its_flight_recorder(home: Path) -> None:
    python = os.environ.get("CLUSTER_TORCH_PYTHON", sys.executable)
    (home / "late.py").write_text(TORCH)
    env = {"TORCH_FR_BUFFER_SIZE": "200", "TORCH_FR_DUMP_TEMP_FILE": "/root/record_"}
    with cluster.launch("gloo", provider="lab", hosts=3) as gloo:
        results = gloo.hosts.try_run([python, "-c", "import torch"]).values()
        if any(isinstance(result, Exception) or result.status for result in results):
            pytest.skip("no torch on the hosts of a lab, which have no /tmp, /root, ... of here")
        gloo.put(home / "late.py", "/root/late.py")
        gloo.start([python, "/root/late.py"], name="late", env=env)
        record = until(lambda: hung(gloo.name, "late"), "the wait is long")

    cause = record["answer"]["cause"]
    assert [(row["rank"], row["host"]) for row in cause["stragglers"]] == [(2, "gloo-2")]
    assert (cause["kind"], cause["confidence"]) == ("rank_absent", "certain")
    assert (cause["stuck"]["name"], cause["stuck"]["waiting"]) == ("all_reduce", [0, 1])
    assert "flight_recorder" in record["answer"]["sources"]


def test_the_late_rank_of_another_host(lab: Cluster, home: Path) -> None:
    (home / "late.py").write_text(PROGRAM)
    lab.put(home / "late.py", "/root/late.py")
    words = ["run", lab.name, "--profile", "--timeout", "900", "--", "python3", "/root/late.py"]

    with Background(*words) as process:
        record = until(lambda: hung(lab.name), "the wait is long")
        command("kill", lab.name, "bench-program")
        process.end()
    cause = record["answer"]["cause"]
    assert [(row["rank"], row["host"]) for row in cause["stragglers"]] == [(1, "shared-1")]
    assert cause["stragglers"][0]["wchan"] == "hrtimer_nanosleep"
    assert cause["stuck"]["waiting"] == [0]
    run = Path(record["evidence"]).parents[1]
    for verb in ("show", "judge"):
        output = command(verb, str(run), status=None).stdout
        assert "HUNG; rank 1 (shared-1" in output
        assert answer(verb, str(run), status=None)["hang"] == record["answer"]
