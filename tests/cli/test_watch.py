"""`cluster watch`: a series of runs that became slower, and what changed with it."""

import json
from pathlib import Path

import pytest

from tests.conftest import ROOT, command
from tests.snapshots import Snapshot

MEASURED = (ROOT / "tests" / "plain_run" / "measurements.jsonl").read_text()
RECORD = json.loads((ROOT / "tests" / "plain_run" / "run.json").read_text())


def add_run(root: Path, number: int, times: float) -> None:
    """Write a run whose values are as many times those of the old one."""
    folder = root / "old" / f"202611{number + 1:02}T120000Z-p2p"
    folder.mkdir(parents=True)
    record = {**RECORD, "id": folder.name, "at": RECORD["at"] + 86_400 * number}
    record["variables"] = {"NCCL_ALGO": "Ring"} if times > 1.1 else {}
    (folder / "run.json").write_text(json.dumps(record))
    with (folder / "measurements.jsonl").open("w") as file:
        for line in map(json.loads, MEASURED.splitlines()):
            line["values"] = [value * times for value in line["values"]]
            file.write(json.dumps(line) + "\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number in range(12):
        add_run(tmp_path, number, 1 + 0.002 * (number * 7 % 5))
    return tmp_path


def test_two_slow_runs_are_an_alarm_and_one_is_watched(root: Path) -> None:
    words = ("watch", "old", "--runs", str(root))
    steady = json.loads(command(*words, "--json").stdout)
    add_run(root, 12, 1.25)
    first = json.loads(command(*words, "--json").stdout)
    add_run(root, 13, 1.251)
    second = json.loads(command(*words, "--json", status=3).stdout)
    output = command(*words, status=3).stdout

    assert {series["state"] for series in steady} == {"steady"}
    assert {series["state"] for series in first} == {"watch"}
    assert {series["state"] for series in second} == {"alarm"}
    (change,) = second[0]["changes"]
    assert change["run"] == "20261113T120000Z-p2p"
    assert change["point"]["after"] / change["point"]["before"] == pytest.approx(1.25, abs=0.01)
    assert "env:NCCL_ALGO: - -> Ring" in output


def test_too_few_runs_say_so(snapshot: Snapshot, tmp_path: Path) -> None:
    add_run(tmp_path, 0, 1.0)

    snapshot(command("watch", "old", "--runs", str(tmp_path)).stdout)
