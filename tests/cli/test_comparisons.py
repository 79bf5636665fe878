"""The founding comparisons, verb by verb: what is measured, refused, drawn, and left."""

import json
import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster.agent.facts import host_facts
from tests.conftest import ROOT, answer, run_script, runs_folder, until
from tests.fakes.gcp import Cloud, Fault
from tests.snapshots import Snapshot

ZONE = ("--zone", "us-central1-a", "--yes")
SHORT = ("--max-bytes", "40000", "--iterations", "20")
BRIEF = ("--max-bytes", "0.4kB", "--iterations", "9")
# Two conditions that need no GPU.
PATHS = """
from cluster.cli import start
from cluster.cli.launchers import ComparedCondition, ComparisonLauncher
LAUNCHER = ComparisonLauncher(
    name="paths", provider="gcp", hosts=1, ranks_per_host=2, accelerator="t4:2",
    conditions=(
        ComparedCondition(
            verb="memory", what="By shared memory.", variables={"OMPI_MCA_btl": "self,sm"}
        ),
        ComparedCondition(verb="tcp", what="By TCP.", params={"kernel": "python"},
                  variables={"OMPI_MCA_btl": "self,tcp"}),
    ),
)
start(*LAUNCHER.verbs())
"""


def compare(
    *words: str, status: int = 0, kind: str = "cpu_gpu"
) -> subprocess.CompletedProcess[str]:
    return run_script(str(ROOT / "launchers" / f"compare_{kind}.py"), *words, status=status)


def records() -> list[Any]:
    return [json.loads(path.read_text()) for path in sorted(runs_folder().glob("*/*/run.json"))]


def rows(output: str) -> list[list[str]]:
    lines = output.splitlines()
    return [line.split()[1:3] for line in lines if line.startswith(" oneway_bandwidth")]


@pytest.fixture
def google(gcp_hosts: Cloud, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """Let Google be consistent after a second: the test cloud is."""
    monkeypatch.setenv("CLUSTER_LATE", "1")
    return gcp_hosts


def test_create_cpu_and_clean_up_on_google(google: Cloud) -> None:
    before = google.things()
    result = compare("create-cluster", *ZONE)
    assert "make 2 x n1-standard-8 with 1 x nvidia-tesla-t4" in result.stderr
    assert answer("ls")[0]["name"] == "cpu-gpu-p2p"

    output = compare("cpu", *SHORT).stdout
    assert rows(output) == [["40", "B"], ["400", "B"], ["4", "kB"], ["40", "kB"]]
    refused = compare("gpu", *SHORT, status=2).stderr
    assert "ip-10-128-0-" in refused
    [record] = records()  # nothing was begun of what was refused
    assert (record["status"], record["condition"]) == ("done", "cpu")

    assert "0 left" in compare("cleanup-cluster").stdout
    assert google.things() == before


def test_all_cleans_up_after_what_is_refused(google: Cloud) -> None:
    before = google.things()
    result = compare("all", *ZONE, *SHORT, status=2)

    assert len(rows(result.stdout)) == 4  # of cpu
    assert "GPU" in result.stderr
    assert "0 left" in result.stdout
    assert google.things() == before
    assert answer("ls") == []


def test_cuda_ipc_is_refused_on_a_node_without_its_gpus(google: Cloud) -> None:
    before = google.things()
    result = compare("all", *ZONE, *SHORT, status=2, kind="cuda_ipc")

    assert "make 1 x n1-standard-8 with 2 x nvidia-tesla-t4" in result.stderr
    assert "GPU" in result.stderr
    assert records() == []
    assert google.things() == before


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--instance", "n1-standard-8"), "Each of these machines has no GPU"),
        (("--instance", "n1-standard-8"), "such as --accelerator t4:2, or the processor's memory"),
        (("--accelerator", "t4:1"), "Each of these machines has 1 GPU(s) for 2 ranks"),
        (("--accelerator", "t4:1"), "machines with 2, such as --accelerator t4:2, or for a rank"),
        (("--accelerator", "k80:2"), "Google retired the K80 on 2024-05-01"),
        (("--max-bytes", "39"), "There are no sizes"),
    ],
)
def test_what_is_known_before_costs_nothing(gcp: Cloud, words: tuple[str, str], error: str) -> None:
    assert error in compare("all", *ZONE, *words, status=2, kind="cuda_ipc").stderr
    assert not gcp.mutating()


def test_a_k80_cannot_be_had(snapshot: Snapshot, gcp: Cloud) -> None:
    result = compare("create-cluster", "--zone", "europe-west1-b", "--accelerator=k80:1", status=2)

    snapshot(result.stderr)
    assert not gcp.calls()


def test_one_deletion_that_fails_keeps_no_other(google: Cloud) -> None:
    """What is left is said, and goes when the verb is typed again."""
    before = google.things()
    compare("create-cluster", *ZONE)
    google.fail(Fault(action="firewalls.delete", code="forbidden", status=403))
    failed = compare("cleanup-cluster", status=1)
    kinds = {thing.kind for thing in google.things() - before}
    google.mend()

    assert kinds == {"firewalls"}
    assert "firewall" in failed.stderr
    assert "0 left" in compare("cleanup-cluster").stdout
    assert google.things() == before


@pytest.mark.usefixtures("tools")
def test_all_of_it_and_the_picture(home: Path) -> None:
    """Each condition is a run with its name, its parameters and its variables."""
    script = home / "paths.py"
    script.write_text(PATHS)
    result = run_script(str(script), "all", "--provider=local", *BRIEF)

    assert "0 left" in result.stdout
    assert answer("ls") == []
    first, second = records()
    assert [first["condition"], second["condition"]] == ["memory", "tcp"]
    assert second["variables"] == {"OMPI_MCA_btl": "self,tcp"}
    assert second["params"]["kernel"] == "python"
    assert first["spec"]["ranks_per_host"] == 2
    assert first["definitions"].keys() != second["definitions"].keys()  # C, and Python

    run_script(str(script), "plot", "-o", "paths.png")
    assert Path("paths.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("tools")
def test_an_experiment_that_fails_is_cleaned_up_after_and_its_status_kept() -> None:
    words = ("--provider=local", "--iterations=1000000", "--timeout=2")
    result = compare("all", *words, status=1)

    assert "--timeout" in result.stderr
    assert "0 left" in result.stdout
    assert answer("ls") == []
    assert "cpu or gpu" in compare("plot", status=2).stderr


@pytest.mark.usefixtures("tools")
def test_ctrl_c_cleans_up() -> None:
    script = str(ROOT / "launchers" / "compare_cpu_gpu.py")
    with subprocess.Popen(
        # A shell that was itself started in the background may have left SIGINT ignored.
        [
            "env",
            "--default-signal",
            sys.executable,
            script,
            "all",
            "--provider=local",
            "--iterations=1000000",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        until(lambda: [r for r in records() if r["status"] == "running"], "it measures")
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=60)

    assert process.returncode == 130
    assert "0 left" in out
    assert answer("ls") == []
    assert [r["status"] for r in records()] == ["interrupted"]


def test_nothing_to_draw_is_said(snapshot: Snapshot) -> None:
    message = compare("plot", status=2, kind="cuda_ipc").stderr
    snapshot(message)


def test_the_conditions_are_those_of_the_founding_experiments() -> None:
    """An MCA variable of Open MPI's own path between GPUs, and UCX's switch beside it."""
    ipc, cpu_gpu = (
        runpy.run_path(str(ROOT / "launchers" / f"compare_{kind}.py"))["LAUNCHER"]
        for kind in ("cuda_ipc", "cpu_gpu")
    )
    switch = "OMPI_MCA_btl_smcuda_use_cuda_ipc"
    assert [(c.verb, c.variables) for c in ipc.conditions] == [
        ("cuda-ipc", {switch: "1"}),
        ("no-cuda-ipc", {switch: "0", "UCX_TLS": "^cuda_ipc"}),
    ]
    assert (ipc.hosts, ipc.ranks_per_host, ipc.accelerator) == (1, 2, "t4:2")
    assert [(c.verb, c.params["buffer"]) for c in cpu_gpu.conditions] == [
        ("cpu", "cpu"),
        ("gpu", "cuda"),
    ]
    assert (cpu_gpu.hosts, cpu_gpu.ranks_per_host, cpu_gpu.accelerator) == (2, 1, "t4:1")


@pytest.mark.usefixtures("tools")
def test_a_gpu_is_asked_for_where_there_is_none() -> None:
    """On this machine the processors' verb works, and the other one says what is missing."""
    if host_facts().gpus:
        pytest.skip("there is a GPU here")
    compare("create-cluster", "--provider=local")
    assert len(rows(compare("cpu", *BRIEF).stdout)) == 2
    assert host_facts().host in compare("gpu", *BRIEF, status=2).stderr
    assert "0 left" in compare("cleanup-cluster").stdout
