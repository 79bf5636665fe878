"""What is run, followed and shown: for people, and as JSON for programs."""

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from cluster.core.model.results.measurements import Definition
from cluster.reports.formats import Report
from tests.conftest import COMMAND, answer, command, runs_folder, sessions
from tests.snapshots import Snapshot


def test_the_promised_json(tools: None) -> None:
    """Base units, every field, and nothing but JSON on standard output."""
    del tools
    result = answer(
        *("bench", "p2p", "--provider", "local", "--metrics", "latency,bandwidth"),
        *("--sizes", "8,65536"),
    )

    assert result["status"] == "done"
    assert Path(result["run"]).parent == runs_folder() / "p2p"
    cells = [(s["metric"], s["params"]["size"], s["unit"]) for s in result["summaries"]]
    assert sorted(cells) == [
        ("bandwidth", 8, "B/s"),
        ("bandwidth", 65536, "B/s"),
        ("latency", 8, "s"),
        ("latency", 65536, "s"),
    ]
    for s in result["summaries"]:
        assert 10 <= s["n"] <= 10_000
        assert {"ci", "p5", "p95", "p99", "converged"} <= set(s)
        assert s["p5"] <= s["ci"][0] <= s["median"] <= s["ci"][1] <= s["p95"] <= s["p99"]
        plausible = (1e-8, 1e-2) if s["unit"] == "s" else (1e5, 1e12)
        assert plausible[0] < s["median"] < plausible[1]


def test_a_run_is_listed_shown_and_rendered_in_every_format(
    snapshot: Snapshot, tools: None
) -> None:
    del tools
    result = answer("bench", "p2p", "--metrics=oneway_time", "--sizes=1kB", "--iters=8")

    [row] = answer("runs")
    assert row["run"] == result["run"]
    assert (row["name"], row["benchmark"], row["status"]) == ("p2p", "p2p", "done")
    assert answer("show") == result
    assert answer("show", result["run"]) == result
    assert answer("show", Path(result["run"]).name) == result
    assert "1 kB, rank 1" in command("show", "p2p").stdout
    assert command("show", "p2p", "--format=markdown").stdout.startswith("| metric |")
    assert command("show", "p2p", "--format=csv").stdout.startswith("metric,unit,size,rank,n,")
    assert json.loads(command("show", "p2p", "--format=json").stdout) == result["summaries"]
    refused = command("show", "p2p", "--format=pdf", status=2).stderr
    snapshot(refused)


def test_what_is_faster_than_possible_is_said(snapshot: Snapshot, home: Path) -> None:
    """In the table and in JSON: the values of a run whose link is slower than they are."""
    old = Path(__file__).parents[1] / "plain_run"
    record = json.loads((old / "run.json").read_text())
    for number, machine in enumerate(record["machines"]):
        machine |= {"address": f"10.0.0.{number}", "link": {"rate": 125e3, "source": "test"}}
    [before] = (key for key, row in record["definitions"].items() if row["metric"] == "bandwidth")
    words = record["definitions"].pop(before) | {"flow": "one way"}
    after = msgspec.convert(words, Definition).id
    record["definitions"][after] = words
    folder = home / "fast"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(record))
    values = (old / "measurements.jsonl").read_text().replace(before, after)
    (folder / "measurements.jsonl").write_text(values)

    result = answer("show", str(folder))
    latency, bandwidth = result["summaries"]
    assert latency["bound"] is None
    assert bandwidth["bound"] == pytest.approx(125e3 * 1448 / 1538)
    assert bandwidth["share"] == pytest.approx(bandwidth["median"] / bandwidth["bound"])
    [note] = result["notes"]
    snapshot(note)
    text = command("show", str(folder)).stdout
    assert "117.7 kB/s" in text
    assert f"Note: {note}" in text


def test_the_record_holds_what_a_reader_must_know(
    tools: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the variables that take effect; and no secret."""
    del tools
    monkeypatch.setenv("OMPI_MCA_btl", "tcp,self")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    monkeypatch.setenv("OPENAI_API_KEY", "very-secret")
    result = answer("bench", "p2p", "--metrics=latency", "--sizes=8", "--iters=50")
    folder = Path(result["run"])
    record = json.loads((folder / "run.json").read_text())

    assert record["status"] == "done"
    assert record["exit_status"] == 0
    assert record["command"][0] == "mpirun"
    assert record["argv"][1:3] == ["bench", "p2p"]
    assert record["params"]["iterations"] == 50
    line = json.loads((folder / "measurements.jsonl").read_text())
    definition = record["definitions"][line["definition"]]
    assert definition["metric"] == "latency"
    assert all(definition[key] for key in ("clock", "synchronisation", "warm_up", "aggregation"))
    [facts] = record["environment"]
    assert facts["variables"]["OMPI_MCA_btl"] == "tcp,self"
    assert facts["cores"] == os.cpu_count()
    assert set(record["phases"]) == {"launch", "start", "run", "fetch"}
    raw = {path.name for path in (folder / "raw").iterdir()}
    assert {"job.sh", "p2p.py", "stdout", "stderr", "status"} <= raw
    content = b"".join(p.read_bytes() for p in folder.rglob("*") if p.is_file())
    assert b"very-secret" not in content
    # The variable took effect: a message over TCP takes longer than one through shared memory.
    assert result["summaries"][0]["median"] > 3e-6


def test_too_many_ranks_are_noticed_and_reported(snapshot: Snapshot, tools: None) -> None:
    """The definition of the numbers changes, so the reader is told."""
    del tools
    cores = len(os.sched_getaffinity(0))
    result = answer(
        *("bench", "p2p", "--hosts", str(cores + 2), "--metrics=latency", "--sizes=8"),
        *("--iters=20", f"--pair={cores},{cores + 1}"),
    )

    assert result["status"] == "done"
    snapshot(result["notes"][0])
    record = json.loads((Path(result["run"]) / "run.json").read_text())
    assert "mpi_yield_when_idle" in record["command"]
    assert "Note: " in command("show", "p2p").stdout


def test_bench_show_and_report_end_with_the_same_answer(tools: None, home: Path) -> None:
    """The figure, its share of the limit, the word, and what to do next: in one line."""
    del tools
    words = ("--metrics=memory_copy,bandwidth", "--sizes=1MiB", "--iterations=20")
    result = answer("bench", "p2p", *words)
    page = home / "report.html"
    command("report", "p2p", "-o", str(page))

    assert result["verdict"] == "plausible"
    assert re.fullmatch(
        r"bandwidth 1 MiB: [\d.]+ [MG]B/s, \d+% of a memory copy here"
        r"(\. PLAUSIBLE\. "
        r"Next: cluster bench p2p own-hosts --provider ssh --option hosts=HOST1,HOST2"
        r"|; other processes used [^;]*\. PLAUSIBLE\. "
        r"Next: again when quiet: cluster compare p2p --again)",
        result["answer"],
    )
    assert command("show", "p2p").stdout.splitlines()[-1] == result["answer"]
    assert result["answer"].partition(". PLAUSIBLE")[0] in page.read_text()


def test_detach_wait_fetch(tools: None) -> None:
    del tools
    output = command("bench", "p2p", "--detach", "--metrics=latency", "--sizes=8").stdout

    assert "cluster fetch p2p" in output
    command("wait", "p2p")
    assert "latency" in command("fetch", "p2p").stdout
    assert "Process 0 latency 8 B: " in command("logs", "p2p").stdout


def test_wait_gives_the_jobs_exit_status(tools: None, faulty: None) -> None:
    del tools, faulty
    command("bench", "faulty", "--how=raise", "--detach")

    command("wait", "faulty", status=1)
    command("fetch", "faulty", status=1)


def test_logs_are_followed_to_the_end(tools: None) -> None:
    del tools
    words = ("--metrics=oneway_time", "--sizes=10MB", "--iters=40", "--detach")
    command("bench", "p2p", *words)

    followed = command("logs", "-f", "p2p").stdout
    assert followed.count("transferred 10 MB in") == 80


def test_no_keep_leaves_nothing(tools: None) -> None:
    del tools
    command("bench", "p2p", "--no-keep", "--metrics=latency", "--sizes=8", "--iters=9")

    assert sessions() == []
    assert answer("ls") == []
    assert len(answer("runs")) == 1


def test_progress_on_a_terminal_is_a_bar(tools: None) -> None:
    del tools
    controller, terminal = pty.openpty()
    words = ["bench", "p2p", "--metrics=oneway_time", "--sizes=20MB", "--iters=60"]
    process = subprocess.Popen([COMMAND, *words], stdout=terminal, stderr=terminal)
    os.close(terminal)
    output = b""
    while True:
        try:
            piece = os.read(controller, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        output += piece
    assert process.wait(timeout=30) == 0
    assert "━" in output.decode(errors="replace")
    assert b"oneway_time 20 MB" in output


def test_a_report_is_a_file_in_a_folder() -> None:
    assert Report.folder == "cluster.reports.formats"
    assert msgspec.json.decode(command("runs", "--json").stdout) == []


def test_a_name_is_never_cut_and_ascii_is_enough(
    tools: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a narrow terminal, and where nothing but ASCII can be printed."""
    del tools
    result = answer("bench", "p2p", "--metrics=latency", "--sizes=8", "--iters=9")
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")

    for words in (["runs"], ["ls"], ["show"]):
        assert Path(result["run"]).name in command(*words).stdout


def test_the_first_of_many_series_are_shown(snapshot: Snapshot, home: Path, tmp_path: Path) -> None:
    """Of a log with thousands of tables, each row of the screen takes a millisecond."""
    rows = "".join(f"{2**power:<10}{1.5 + power:18.2f}\n" for power in range(20))
    log = tmp_path / "log"
    log.write_text(f"# OSU MPI Latency Test v5.9\n# Size          Latency (us)\n{rows}\n" * 30)
    output = command("import", str(log)).stdout
    (note,) = (line for line in output.splitlines() if line.startswith("These are"))

    snapshot(note)
    assert sum(line.lstrip().startswith("latency  ") for line in output.splitlines()) == 500
    assert len(answer("show", "latest")["summaries"]) == 600
