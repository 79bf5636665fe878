"""scripts/first-gpu: what it skips and why, and how it judges a part that ended."""

import importlib.util
import json
import os
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

from cluster.core.plugins import names
from cluster.measure.benchmark import Benchmark
from tests.clean import start_time
from tests.conftest import ROOT, Install, run, until
from tests.snapshots import Snapshot

SCRIPT = ROOT / "scripts" / "first-gpu"


@pytest.fixture
def script() -> Any:
    """Return the script as a module."""
    loader = SourceFileLoader("first_gpu", str(SCRIPT))
    spec = importlib.util.spec_from_loader("first_gpu", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["first_gpu"] = module  # dataclasses look their module up
    loader.exec_module(module)
    return module


def test_without_a_gpu_every_part_is_skipped_with_its_reason(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    run(
        sys.executable,
        str(SCRIPT),
        str(tmp_path / "out"),
        env={**os.environ, "PATH": str(programs)},
    )
    page = (tmp_path / "out" / "summary.md").read_text()
    outcomes = json.loads(page.partition("```json\n")[2].partition("```")[0])

    assert len(outcomes) > 10
    assert {outcome["word"] for outcome in outcomes.values()} == {"skipped"}


def test_one_gpu_skips_what_needs_two_and_a_program_that_is_missing(
    snapshot: Snapshot, script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script.shutil, "which", lambda _: None)
    monkeypatch.setattr(script, "has_package", lambda name: name != "nccl4py")
    why = {part.name: script.reason(part, 1, 100.0) for part in script.parts(1)}

    assert why["gpu"] == ""
    install = f"nccl4py is not installed: {sys.executable} -m pip install nccl4py"
    assert why["nccl4py-one-rank"] == install
    snapshot(why["toggle-level"])
    snapshot(why["ncu"])
    snapshot(script.reason(script.parts(1)[0], 1, 0.0))


def test_a_package_is_installed_or_not(script: Any) -> None:
    assert script.has_package("msgspec")
    assert not script.has_package("no-such-package")


def test_a_part_whose_time_is_up_ends_with_what_it_started_and_keeps_what_it_printed(
    script: Any, tmp_path: Path
) -> None:
    """2 s, the part's limit: far more than a shell needs for three words, on any machine."""
    waits = 'echo begun; echo so far >&2; sleep infinity & echo "$!"; wait'
    outcome = script.run(script.Part("slow", "waits", ("sh", "-c", waits)), 2.0, tmp_path)
    lines = (tmp_path / "slow.txt").read_text().splitlines()

    assert outcome.word == "failed"
    assert [lines[1], lines[3]] == ["begun", "so far"]
    until(lambda: not start_time(int(lines[2])), "what the part started has ended")


def test_a_limit_is_said_as_it_was_given(script: Any, tmp_path: Path) -> None:
    outcome = script.run(script.Part("slow", "waits", ("sleep", "infinity")), 0.5, tmp_path)

    assert "0.5 s" in outcome.why


def test_a_right_refusal_is_no_failure_and_another_one_is(snapshot: Snapshot, script: Any) -> None:
    part = script.Part("x", "y", ("x",), refuses="at least two ranks")
    right = script.outcome_of(
        part, 2, "", "Error: A collective needs at least two ranks.\nMore", 1.0
    )
    wrong = script.outcome_of(part, 2, "", "Error: torch is missing on h.\nInstall it", 1.0)
    good = script.outcome_of(part, 0, "a\nthe answer\n\n", "", 1.0)

    assert [outcome.word for outcome in (right, wrong, good)] == ["refused", "failed", "ran"]
    snapshot(script.count([right, wrong, good]))


def test_its_commands_are_ours_and_its_parts_have_names_of_their_own(script: Any) -> None:
    parts = script.parts(2)
    benches = {part.argv[4] for part in parts if part.argv[2:4] == ("cluster", "bench")}

    assert len({part.name for part in parts}) == len(parts)
    assert benches <= set(names(Benchmark))
    assert {"gpu", "training", "collectives", "within", "p2p"} == benches


def test_the_driver_counts_the_gpus(script: Any, install: Install) -> None:
    program = install(
        "nvidia-smi",
        '#!/bin/sh\n[ "$*" = "-L" ] || exit 1\n'
        "echo 'GPU 0: NVIDIA H200 (UUID: GPU-1db694db)'\necho 'GPU 1: NVIDIA H200 (UUID: GPU-2)'\n",
    )

    assert script.count_gpus() == 2
    program.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n")
    assert script.count_gpus() == 0
