"""`cluster import`: a log becomes a run that looks like our own."""

import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cluster.core.errors import ParseError, SpecError
from cluster.runs import store
from cluster.runs.import_.logs import import_logs
from tests.conftest import command
from tests.logs.samples import LOGS
from tests.snapshots import Snapshot


def cluster(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return command("import", *words, status=None, text=text)


def import_json(*words: str, text: str = "") -> Any:
    return json.loads(cluster(*words, "--json", text=text).stdout)


def test_a_log_becomes_a_run_with_its_raw_file(tmp_path: Path) -> None:
    result = import_logs([str(LOGS / "osu.latency.txt")], tmp_path)
    run = store.read(result.folder)

    assert run.status == "done"
    assert run.record.benchmark == "osu"
    assert [s.median for s in run.summary()] == pytest.approx(
        [1.31e-6, 1.30e-6, 1.29e-6, 112.75e-6]
    )
    assert (run.folder / "raw" / "osu.latency.txt").read_bytes() == (
        LOGS / "osu.latency.txt"
    ).read_bytes()
    assert store.find(tmp_path, "imported") == result.folder


def test_the_raw_file_has_no_secret_and_neither_has_the_record(tmp_path: Path) -> None:
    log = tmp_path / "log"
    secret = "hunter2hunter2"  # noqa: S105 - that is what is looked for
    log.write_text(
        f"export API_TOKEN={secret}\n"
        + (LOGS / "osu.latency.txt").read_text()
        + f"password={secret}\n"
    )
    result = import_logs([str(log)], tmp_path / "runs")
    files = [path for path in result.folder.rglob("*") if path.is_file()]

    assert len(files) == 4
    assert not any(secret.encode() in path.read_bytes() for path in files)


def test_several_logs_are_one_run_and_what_was_measured_twice_is_told_apart(tmp_path: Path) -> None:
    log = str(LOGS / "mpi_test.two_ranks.txt")
    run = store.read(import_logs([log, log], tmp_path).folder)

    assert len({m.key for m in run.measurements}) == len(run.measurements) == 4
    assert [m.params["part"] for m in run.measurements] == [1, 1, 2, 2]
    assert sorted(p.name for p in (run.folder / "raw").iterdir()) == [
        "mpi_test.two_ranks.txt",
        "mpi_test.two_ranks.txt.2",
    ]


def test_a_log_that_records_a_failure_is_a_failed_run(snapshot: Snapshot) -> None:
    result = cluster(str(LOGS / "iperf3.json.txt"))

    assert result.returncode == 1
    snapshot(result.stdout)


def test_pasted_text_and_json() -> None:
    answer = import_json("-", text=(LOGS / "nccl_log.two_nodes.txt").read_text())

    (result,) = answer["readings"][0]["results"]
    assert answer["status"] == "done"
    assert result["detail"]["type"] == "nccl-log"
    assert result["detail"]["size"] == 4


def test_the_answer_has_no_line_per_value() -> None:
    answer = import_json(str(LOGS / "osu.latency.txt"))
    (result,) = answer["readings"][0]["results"]
    lines = (Path(answer["run"]) / "measurements.jsonl").read_text().splitlines()

    assert result["measurements"] == []
    assert len(lines) == 4
    assert len(answer["summaries"]) == 4


def test_what_was_not_understood_is_counted_and_shown(snapshot: Snapshot) -> None:
    answer = import_json("-", text="hello\n" + (LOGS / "osu.latency.txt").read_text() + "bye\n")

    assert answer["readings"][0]["unread"] == 2
    snapshot(answer["notes"][-1])


def test_a_format_can_be_forced_and_must_exist(snapshot: Snapshot) -> None:
    text = (LOGS / "osu.latency.txt").read_text()
    wrong, unknown = (
        cluster("-", "--log-format", "imb", text=text),
        cluster("-", "--log-format", "x"),
    )

    snapshot(wrong.stderr)
    snapshot(unknown.stderr)
    assert import_json("-", "--log-format", "osu", text=text)["status"] == "done"


def test_nothing_readable_leaves_no_run(snapshot: Snapshot, tmp_path: Path) -> None:
    junk = tmp_path / "junk"
    junk.write_bytes(b"\x00\xff" * 999)
    with snapshot.raises(ParseError):
        import_logs([str(junk)], tmp_path / "runs")
    with snapshot.raises(SpecError):
        import_logs([str(tmp_path / "absent")], tmp_path / "runs")

    assert store.folders(tmp_path / "runs") == []
    assert not (tmp_path / "runs").exists()


def test_a_log_in_gzip_is_unpacked(tmp_path: Path) -> None:
    log = tmp_path / "iperf.log.gz"
    log.write_bytes(gzip.compress((LOGS / "iperf3.text.txt").read_bytes()))
    plain = import_logs([str(LOGS / "iperf3.text.txt")], tmp_path / "a").results
    copy = import_logs([str(log)], tmp_path / "b")

    assert copy.results == plain
    assert (
        b"Connecting to host" in (copy.folder / "raw" / "iperf.log.gz").read_bytes()
    )  # readable text

    log.write_bytes(log.read_bytes()[:40] + b"damaged" * 20)
    with pytest.raises(SpecError, match="damaged"):
        import_logs([str(log)], tmp_path / "c")
