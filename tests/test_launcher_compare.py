"""The founding comparison between two nodes, verb by verb."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from tests.conftest import ROOT, answer, run, runs_folder

if TYPE_CHECKING:
    import subprocess

    import pytest

    from tests.fakes.gcp import Cloud


def compare(*words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    script = str(ROOT / "launchers" / "compare_cpu_gpu.py")
    return run(sys.executable, script, *words, status=status)


def test_create_cpu_and_clean_up_on_google(
    gcp_hosts: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER_LATE", "1")
    before = gcp_hosts.things()
    made = compare("create-cluster", "--zone", "us-central1-a")
    assert "make 2 x n1-standard-8 with 1 x nvidia-tesla-t4" in made.stderr
    assert answer("ls")[0]["name"] == "cpu-gpu-p2p"

    said = compare("cpu", "--max-bytes", "40000", "--iterations", "20").stdout
    rows = [line.split()[:2] for line in said.splitlines() if line.startswith(" oneway_time")]
    assert len(rows) == 8  # four sizes, both ranks
    [path] = runs_folder().glob("*/*/run.json")
    assert json.loads(path.read_text())["status"] == "done"

    assert "0 left" in compare("cleanup-cluster").stdout
    assert gcp_hosts.things() == before


def test_a_k80_cannot_be_had(gcp: Cloud) -> None:
    said = compare("create-cluster", "--zone", "europe-west1-b", "--accelerator=k80:1", status=2)

    assert "took its K80s away on 2024-05-01" in said.stderr
    assert "--accelerator t4:1" in said.stderr
    assert not gcp.calls()
