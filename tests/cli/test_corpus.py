"""`cluster more corpus`, and what `cluster judge` says of others' results."""

import json
import tomllib
from pathlib import Path

import pytest

from tests.cli.test_judge import all_reduce, answer, judge
from tests.conftest import command
from tests.snapshots import Snapshot

LATENCY = "# OSU MPI Latency Test v7.3\n# Size          Latency (us)\n8                      {us}\n"
SOURCE = "https://github.com/you/logs/blob/0123456789abcdef/all_reduce.log#L31"


def test_a_latency_is_judged_beside_published_ones(snapshot: Snapshot) -> None:
    words = ("-", "--hardware", "c5n.18xlarge", "--hosts", "2")
    result = answer(*words, text=LATENCY.format(us="40.00"))
    (verdict,) = result["verdicts"]

    assert result["verdict"] == "low"
    assert verdict["published"]["runs"] == 6
    assert answer(*words, text=LATENCY.format(us="19.50"))["verdict"] == "normal"
    output = judge(*words, text=LATENCY.format(us="40.00")).stdout
    snapshot(output)


def test_a_latency_within_one_host_is_not_compared() -> None:
    result = answer(
        "-", "--hardware", "c5n.18xlarge", "--hosts", "1", text=LATENCY.format(us="40.00")
    )

    assert result["verdict"] == "unknown"
    assert result["verdicts"][0]["published"]["runs"] == 0


def test_an_entry_is_printed_listed_and_shown(tmp_path: Path) -> None:
    log = tmp_path / "all_reduce.log"
    log.write_text(all_reduce(440.0, 16, 2, "NVIDIA H100 80GB HBM3"))
    words = ("more", "corpus", "add", str(log), "--hardware", "p5.48xlarge", "--source", SOURCE)
    added = command(*words)
    (entry,) = tomllib.loads(added.stdout)["run"]

    assert entry["hosts"] == 2
    assert entry["ranks"] == 16
    assert entry["test"] == "all_reduce"
    assert entry["source"]["commit"] == "0123456789abcdef"
    assert entry["points"] == [{"size": "1 GiB", "values": [440.0, 440.0]}]
    assert "grade A" in added.stdout
    assert "p5.48xlarge-all_reduce-AUTHOR" in added.stdout
    listed = json.loads(
        command("more", "corpus", "list", "--hardware", "p5.48xlarge", "--json").stdout
    )
    assert {result["run"]["hardware"] for result in listed} == {"p5.48xlarge"}
    output = command("more", "corpus", "show", "c5n-latency-centos7-intelmpi").stdout
    assert "grade X" in output
    assert "/blob/4f5fb041f6fcc2ed2adfef94b872b821adca8c58/" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--source", ""), "no address that begins with https://"),
        (("--source", "ftp://example.org/a"), "no address that begins with https://"),
        (("--source", SOURCE, "--hosts", "-3"), "--hosts is -3"),
        (("--source", SOURCE, "--hardware", "p9.huge"), "There is no hardware 'p9.huge'"),
    ],
)
def test_an_entry_that_no_reader_could_check_is_refused(
    words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    log = tmp_path / "latency.log"
    log.write_text(LATENCY.format(us="17.21"))

    assert message in command("more", "corpus", "add", str(log), *words, status=2).stderr


def test_a_shared_run_is_read_from_its_logs_and_a_simulated_one_is_refused(
    snapshot: Snapshot, tmp_path: Path
) -> None:
    log, real, model = tmp_path / "a.log", tmp_path / "a.share.json", tmp_path / "sim.share.json"
    log.write_text(all_reduce(440.0, 16, 2, "NVIDIA H100 80GB HBM3"))
    command("import", str(log))
    command("more", "share", "imported", "-o", str(real))
    add = ("--hardware", "p5.48xlarge", "--source", SOURCE)
    snapshot(command("more", "corpus", "add", str(real), *add, status=2).stderr)
    command("more", "share", "imported", "-o", str(real), "--with-logs", "-y")
    (entry,) = tomllib.loads(command("more", "corpus", "add", str(real), *add).stdout)["run"]
    command("check", "model", "--provider", "sim", "--hosts", "3")
    command("more", "share", "model", "-o", str(model), "-y")

    assert entry["points"] == [{"size": "1 GiB", "values": [440.0, 440.0]}]
    message = command("more", "corpus", "add", str(model), *add, status=2).stderr
    snapshot(message)


def test_it_is_checked() -> None:
    checked = json.loads(command("more", "corpus", "check", "--json").stdout)

    assert checked["problems"] == []
    assert checked["read_again"] >= 60
