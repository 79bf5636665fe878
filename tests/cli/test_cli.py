"""The command: what it prints, for people and for programs."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import libtmux
import msgspec
import pytest
from typer.main import get_command

from cluster.cli import clusters, doctor
from cluster.cli.app import GROUPS, Commands, app
from cluster.core.errors import ProvisionError
from cluster.core.model.measurements import Definition
from cluster.providers.local import LocalProvider
from cluster.reports.formats import Report
from tests.conftest import COMMAND, answer, command, run, runs_folder, sessions, until

COMMANDS = (
    *("bench", "ls", "runs", "show", "status", "logs", "wait", "fetch", "connect", "down"),
    *(
        "doctor",
        "judge",
        "up",
        "hosts",
        "run",
        "put",
        "get",
        "lab",
        "gc",
        "compare",
        "profile",
        "topology",
        "sql",
        "push",
        "fit",
        "scaling",
        "plot",
        "report",
    ),
)


def test_the_promised_json(tools: None) -> None:
    """Base units, every field, and nothing but JSON on standard output."""
    del tools
    shown = answer(
        *("bench", "p2p", "--provider", "local", "--metrics", "latency,bandwidth"),
        *("--sizes", "8,65536"),
    )

    assert shown["status"] == "done"
    assert Path(shown["run"]).parent == runs_folder() / "p2p"
    cells = [(s["metric"], s["params"]["size"], s["unit"], s["n"]) for s in shown["summaries"]]
    assert cells == [
        ("latency", 8, "s", 10_000),
        ("latency", 65536, "s", 1_000),
        ("bandwidth", 8, "B/s", 100),
        ("bandwidth", 65536, "B/s", 20),
    ]
    for s in shown["summaries"]:
        assert {"ci", "p5", "p95", "p99", "converged"} <= set(s)
        assert s["p5"] <= s["ci"][0] <= s["median"] <= s["ci"][1] <= s["p95"] <= s["p99"]
        plausible = (1e-8, 1e-2) if s["unit"] == "s" else (1e5, 1e12)
        assert plausible[0] < s["median"] < plausible[1]


def test_a_run_is_listed_shown_and_rendered_in_every_format(tools: None) -> None:
    del tools
    made = answer("bench", "p2p", "--metrics=oneway_time", "--sizes=1kB", "--iters=8")

    [row] = answer("runs")
    assert row["run"] == made["run"]
    assert (row["name"], row["benchmark"], row["status"]) == ("p2p", "p2p", "done")
    assert answer("show") == made
    assert answer("show", made["run"]) == made
    assert answer("show", Path(made["run"]).name) == made
    assert "1 kB, rank 1" in command("show", "p2p").stdout
    assert command("show", "p2p", "--format=markdown").stdout.startswith("| metric |")
    assert command("show", "p2p", "--format=csv").stdout.startswith("metric,unit,size,rank,n,")
    assert json.loads(command("show", "p2p", "--format=json").stdout) == made["summaries"]
    refused = command("show", "p2p", "--format=pdf", status=2).stderr
    assert "There is no report 'pdf'." in refused
    assert "csv, html, json, markdown, terminal" in refused


def test_what_is_faster_than_possible_is_said(home: Path) -> None:
    """In the table and in JSON: the values of a run whose link is slower than they are."""
    old = Path(__file__).parents[1] / "old_run"
    known = json.loads((old / "run.json").read_text())
    for number, machine in enumerate(known["machines"]):
        machine |= {"address": f"10.0.0.{number}", "link": {"rate": 125e3, "source": "test"}}
    [before] = (key for key, of in known["definitions"].items() if of["metric"] == "bandwidth")
    words = known["definitions"].pop(before) | {"flow": "one way"}
    after = msgspec.convert(words, Definition).id
    known["definitions"][after] = words
    folder = home / "fast"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(known))
    values = (old / "measurements.jsonl").read_text().replace(before, after)
    (folder / "measurements.jsonl").write_text(values)

    shown = answer("show", str(folder))
    latency, bandwidth = shown["summaries"]
    assert latency["bound"] is None
    assert bandwidth["bound"] == pytest.approx(125e3 * 1448 / 1538)
    assert bandwidth["share"] == pytest.approx(bandwidth["median"] / bandwidth["bound"])
    [note] = shown["notes"]
    assert note.startswith(f"bandwidth (8 B) is {bandwidth['share']:.1%} of its bound")
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
    made = answer("bench", "p2p", "--metrics=latency", "--sizes=8", "--iters=50")
    folder = Path(made["run"])
    record = json.loads((folder / "run.json").read_text())

    assert record["status"] == "done"
    assert record["exit_status"] == 0
    assert record["command"][0] == "mpirun"
    assert record["argv"][1:3] == ["bench", "p2p"]
    assert record["params"]["iterations"] == 50
    [definition] = record["definitions"].values()
    assert definition["metric"] == "latency"
    assert all(definition[key] for key in ("clock", "synchronisation", "warm_up", "aggregation"))
    [facts] = record["environment"]
    assert facts["variables"]["OMPI_MCA_btl"] == "tcp,self"
    assert facts["cores"] == os.cpu_count()
    assert set(record["phases"]) == {"launch", "start", "run", "fetch"}
    raw = {path.name for path in (folder / "raw").iterdir()}
    assert {"job.sh", "p2p.py", "stdout", "stderr", "status"} <= raw
    everything = b"".join(p.read_bytes() for p in folder.rglob("*") if p.is_file())
    assert b"very-secret" not in everything
    # The variable took effect: a message over TCP takes longer than one through shared memory.
    assert made["summaries"][0]["median"] > 3e-6


def test_too_many_ranks_are_noticed_and_reported(tools: None) -> None:
    """The definition of the numbers changes, so the reader is told."""
    del tools
    cores = len(os.sched_getaffinity(0))
    shown = answer(
        *("bench", "p2p", "--hosts", str(cores + 2), "--metrics=latency", "--sizes=8"),
        *("--iters=20", f"--pair={cores},{cores + 1}"),
    )

    assert shown["status"] == "done"
    assert f"{cores + 2} ranks share {cores} usable core(s)" in shown["notes"][0]
    record = json.loads((Path(shown["run"]) / "run.json").read_text())
    assert "mpi_yield_when_idle" in record["command"]
    assert "Note: " in command("show", "p2p").stdout


def test_bench_show_and_report_end_with_the_same_answer(tools: None, home: Path) -> None:
    """The figure, its share of the limit, the word, and what to do next: in one line."""
    del tools
    words = ("--metrics=memory_copy,bandwidth", "--sizes=1MiB", "--iterations=20")
    said = answer("bench", "p2p", *words)
    page = home / "report.html"
    command("report", "p2p", "-o", str(page))

    assert said["verdict"] == "plausible"
    assert re.fullmatch(
        r"bandwidth 1 MiB: [\d.]+ [MG]B/s, \d+% of a memory copy here\. PLAUSIBLE\. "
        r"Next: cluster bench p2p --provider ssh --option hosts=HOST1,HOST2",
        said["answer"],
    )
    assert command("show", "p2p").stdout.splitlines()[-1] == said["answer"]
    assert said["answer"].partition(". PLAUSIBLE")[0] in page.read_text()


def test_detach_wait_fetch(tools: None) -> None:
    del tools
    started = command("bench", "p2p", "--detach", "--metrics=latency", "--sizes=8").stdout

    assert "cluster wait p2p; cluster fetch p2p" in started
    command("wait", "p2p")
    assert "latency" in command("fetch", "p2p").stdout
    assert "Process 0 latency 8 B: " in command("logs", "p2p").stdout


def test_wait_gives_the_jobs_exit_status(tools: None, faulty: None) -> None:
    del tools, faulty
    command("bench", "faulty", "--how=raise", "--detach")

    command("wait", "faulty", status=1)
    assert "exit status 1" in command("fetch", "faulty", status=1).stderr


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


def test_ls_status_and_down(tools: None) -> None:
    del tools
    command("bench", "p2p", "--name=a1", "--metrics=latency", "--sizes=8", "--iters=9")
    command("bench", "p2p", "--name=a2", "--metrics=latency", "--sizes=8", "--iters=9")

    assert [row["name"] for row in answer("ls")] == ["a2", "a1"]
    assert "a1" in command("ls").stdout
    assert command("status", "a1").stdout.startswith("a1: done (exit status 0)")
    assert "a1 is down; 0 left." in command("down", "a1").stdout
    assert "To do it without a question: -y" in command("down", "--all", status=2).stderr
    assert sessions() == ["a2"]
    assert "a2 is down; 0 left." in command("down", "--all", "-y").stdout
    assert answer("ls") == []
    assert "0 left" in command("down", "--all", "-y").stdout
    assert "There is no cluster 'a1'." in command("down", "a1", status=2).stderr
    assert "Nothing was named." in command("down", status=2).stderr


def test_connect_finds_the_newest_match(tools: None) -> None:
    del tools
    for name in ("first", "second"):
        words = ("--metrics=latency", "--sizes=8", "--iters=9")
        command("bench", "p2p", "--name", name, *words)

    assert command("connect").stdout == "tmux attach-session -t =second\n"
    assert command("connect", "irs").stdout == "tmux attach-session -t =first\n"
    assert command("connect", "0.mpi.first").stdout == "tmux attach-session -t =first\n"
    assert command("connect", "127.0.0").stdout == "tmux attach-session -t =second\n"
    refused = command("connect", "third", status=2)
    assert "no cluster or host with 'third' in its name" in refused.stderr


def test_connect_attaches_on_a_terminal(tools: None) -> None:
    """A person sees the exchange in the session."""
    del tools
    command("bench", "p2p", "--metrics=latency", "--sizes=8", "--iters=9")
    viewer = libtmux.Server(socket_name="viewer")
    terminal = viewer.new_session(
        "terminal", x=120, y=40, window_command=f"env -u TMUX {COMMAND} connect p2p"
    )
    pane = terminal.active_pane
    assert pane is not None
    try:
        until(
            lambda: "Process 0 latency 8 B" in "\n".join(pane.capture_pane()),
            "the line of the rank is on the screen",
        )
    finally:
        viewer.kill()


def test_connect_switches_inside_tmux(tools: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session inside a session would be refused by tmux."""
    del tools
    command("bench", "p2p", "--metrics=latency", "--sizes=8", "--iters=9")
    monkeypatch.setenv("TMUX", "/some/socket,1,0")

    assert command("connect", "p2p", "--print").stdout == "tmux switch-client -t =p2p\n"


def test_progress_on_a_terminal_is_a_bar(tools: None) -> None:
    del tools
    controller, terminal = pty.openpty()
    words = ["bench", "p2p", "--metrics=oneway_time", "--sizes=20MB", "--iters=60"]
    shown = subprocess.Popen([COMMAND, *words], stdout=terminal, stderr=terminal)
    os.close(terminal)
    seen = b""
    while True:
        try:
            piece = os.read(controller, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        seen += piece
    assert shown.wait(timeout=30) == 0
    assert "━" in seen.decode(errors="replace")
    assert b"oneway_time 20 MB" in seen


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_fits_a_screen_and_shows_an_example(name: str) -> None:
    shown = command(name, "--help").stdout

    assert len(shown.splitlines()) <= 40
    assert max(len(line) for line in shown.splitlines()) <= 100
    assert "Example: cluster " in shown


def test_the_first_help_names_every_command() -> None:
    shown = command("--help").stdout

    assert len(shown.splitlines()) < 50, "37 commands in four groups"
    assert "Example: cluster bench p2p --run-local" in shown
    assert "Options: --version, --install-completion, --show-completion, -h --help" in shown
    assert not re.search(r"^  .*\.\.\.$", shown, re.MULTILINE), "a summary is cut off"
    assert "Measure:" in command(status=2).stderr
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(set(grouped))
    listed = re.findall(r"^  ([a-z]+(?:, [a-z]+)*) {2,}\S", shown, re.MULTILINE)
    assert [name for names in listed for name in names.split(", ")] == grouped
    assert set(COMMANDS) <= set(grouped)
    command_group = get_command(app)
    assert isinstance(command_group, Commands)
    assert set(command_group.commands) == set(grouped)


@pytest.mark.parametrize("name", ["p2p", "collectives", "iperf"])
def test_the_help_of_a_benchmark_fits_a_screen(name: str) -> None:
    """It explains what is usual, names the rest, and says how that is explained."""
    shown = command("bench", name, "--help").stdout
    every = command("bench", name, "--help-all").stdout

    assert len(shown.splitlines()) <= 40
    assert f"Example: cluster bench {name} --run-local" in shown
    for flag in ("--iterations", "--provider", "--hosts", "--placement", "--json", "--ab"):
        assert re.search(rf"^  {flag} ", shown, re.MULTILINE)
    declared = re.findall(r"^  (?:-h, )?(--[a-z-]+)", every, re.MULTILINE)
    assert {"--ttl", "--accelerator", "--mca", "--plan"} <= set(declared)
    assert all(flag in shown for flag in declared)
    assert "More (explained by --help-all)" in shown
    assert "More" not in every


@pytest.mark.parametrize(
    ("words", "suggestions"),
    [
        ("cluster be", {"bench"}),
        ("cluster bench ", {"collectives", "iperf", "p2p", "pairs", "program"}),
        ("cluster bench p2p --until", {"--until-precise"}),
        ("cluster bench p2p --accel", {"--accelerator"}),
        ("cluster bench p2p --buffer ", {"cpu", "cuda"}),
        ("cluster bench p2p --provider ", {"aws", "gcp", "lab", "local", "sim", "ssh"}),
        ("cluster show --format ", {"terminal", "markdown", "csv", "html", "json"}),
    ],
)
def test_shell_completion(words: str, suggestions: set[str]) -> None:
    """As bash asks for it, after `cluster --install-completion`."""
    environment = {
        **os.environ,
        "_CLUSTER_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = run(COMMAND, status=None, env=environment)

    assert set(done.stdout.split()) == suggestions


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["bench", "nothing"],
            "There is no benchmark 'nothing'.\nThere are: collectives, iperf, p2p",
        ),
        (["bench", "p2p", "--metrics", "speed"], "p2p has no metric 'speed'.\nThere are: oneway"),
        (["bench", "p2p", "--sizes", "64MiB:8"], "--sizes 8:64MiB"),
        (["bench", "p2p", "--sizes", "0"], "The size 0 is not between"),
        (["bench", "p2p", "--sizes", "-8"], "'-8' is not a size"),
        (["bench", "p2p", "--sizes", "x"], "'x' is not a size"),
        (["bench", "p2p", "--pair", "0,0"], "--pair 0,0 does not name two of the 2 rank(s)"),
        (["bench", "p2p", "--pair", "0,2"], "--pair 0,2 does not name two of the 2 rank(s)"),
        (["bench", "p2p", "--pair", "0"], "pair: 2 values are needed"),
        (["bench", "p2p", "--window", "0"], "--window is 0"),
        (["bench", "p2p", "--warm-up", "-1"], "--warm-up is -1"),
        (["bench", "p2p", "--provider", "moon"], "There is no provider 'moon'."),
        (["show", "nothing"], "There is no run 'nothing'"),
        (["status", "nothing"], "There is no cluster 'nothing'."),
        (["status", "a;b"], "cannot be the name of a cluster"),
        (["connect", "x"], "no cluster or host with 'x' in its name"),
    ],
)
def test_refusals_say_what_to_type(words: list[str], said: str) -> None:
    done = command(*words, status=2)

    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_doctor_says_what_is_well(tools: None) -> None:
    del tools
    checks: list[dict[str, Any]] = answer("doctor")

    assert all(check["ok"] for check in checks)
    assert {"Python", "tmux", "MPI", "mpi4py", "cores", "two ranks"} <= {c["what"] for c in checks}
    assert "ok    two ranks: they found each other" in command("doctor").stdout


def test_doctor_names_the_command_that_mends(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = home / "bin"
    bare.mkdir()
    monkeypatch.setenv("PATH", str(bare))

    done = command("doctor", status=1).stdout
    assert re.search(r"BAD +tmux: missing\n +sudo apt-get install tmux", done)


def test_doctor_names_the_commands_that_need_what_is_optional(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    found = {check.what: check for check in doctor.optional()}
    (home.parent / ".aws").mkdir()
    (home.parent / ".aws" / "config").touch()
    again = {check.what: check for check in doctor.optional()}

    assert set(found) == {
        *("C compiler", "iperf3", "nvidia-smi", "DuckDB", "obstore", "matplotlib"),
        *("credentials for aws", "credentials for gcp"),
    }
    assert all(check.ok and check.needed_for for check in found.values())
    assert found["credentials for aws"].missing
    assert found["credentials for aws"].remedy == "aws configure"
    assert not again["credentials for aws"].missing


def test_a_report_is_a_file_in_a_folder() -> None:
    assert Report.folder == "cluster.reports.formats"
    assert msgspec.json.decode(command("runs", "--json").stdout) == []


def test_version() -> None:
    assert re.fullmatch(r"cluster \d+\.\d+\.\d+\n", command("--version").stdout)


def test_the_module_does_not_shadow_the_standard_library() -> None:
    """reports/csv.py and reports/json.py are named by their formats."""
    line = "import cluster.reports.formats.csv, csv, json; print(csv.writer, json.dumps)"
    assert "built-in function writer" in run(sys.executable, "-c", line).stdout


def test_contradicting_flags_are_refused(tools: None) -> None:
    """Every flag that is accepted takes effect."""
    del tools
    for words, said in (
        (["--no-keep", "--detach"], "--no-keep and --detach contradict each other"),
        (["--iterations=9", "--until-precise"], "--iterations and --until-precise contradict"),
        (["--max-iterations=9"], "--max-iterations has no effect without --until-precise"),
        (["--metrics=latency", "--window=3"], "--window has no effect without"),
    ):
        assert said in command("bench", "p2p", *words, status=2).stderr


def test_a_name_is_never_cut_and_ascii_is_enough(
    tools: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a narrow terminal, and where nothing but ASCII can be printed."""
    del tools
    made = answer("bench", "p2p", "--metrics=latency", "--sizes=8", "--iters=9")
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")

    for words in (["runs"], ["ls"], ["show"]):
        assert Path(made["run"]).name in command(*words).stdout


def test_a_closed_standard_output_ends_nothing_badly(tools: None) -> None:
    del tools
    words = f"{COMMAND} bench p2p --metrics=latency --sizes=8 --iters=9"
    run("bash", "-c", f"{words} >&-")
    assert answer("runs")[0]["status"] == "done"
    assert "Traceback" not in run("bash", "-c", f"{words} > /dev/full", status=None).stderr


def test_measurements_and_definitions_are_joined_by_an_id(tools: None) -> None:
    del tools
    made = answer("bench", "p2p", "--metrics=latency", "--sizes=8", "--iters=9")
    record = json.loads((Path(made["run"]) / "run.json").read_text())
    line = json.loads((Path(made["run"]) / "measurements.jsonl").read_text())

    assert record["definitions"][line["definition"]]["metric"] == "latency"


def test_newest_is_what_was_launched_last(tools: None) -> None:
    """Not what was touched last."""
    del tools
    words = ("--metrics=latency", "--sizes=8", "--iters=9")
    command("bench", "p2p", "--name=older", "--detach", *words)
    command("bench", "p2p", "--name=newer", *words)
    command("wait", "older")
    command("fetch", "older")

    assert command("connect").stdout == "tmux attach-session -t =newer\n"


def test_down_takes_what_there_is(tools: None) -> None:
    """A name that does not exist is said, once the others are down."""
    del tools
    command("bench", "p2p", "--metrics=latency", "--sizes=8", "--iters=9")

    done = command("down", "nothing", "p2p", status=2)
    assert "p2p is down; 0 left." in done.stdout
    assert "There is no cluster 'nothing'." in done.stderr
    assert sessions() == []


def test_a_journal_of_another_version_hides_no_other_cluster(tools: None) -> None:
    del tools
    command("bench", "p2p", "--metrics=latency", "--sizes=8", "--iters=9")
    other = Path(os.environ["CLUSTER_STATE"]) / "other"
    other.mkdir()
    (other / "journal.jsonl").write_text('{"type":"of another version"}\n')

    assert {row["name"]: row["status"] for row in answer("ls")} == {
        "p2p": "done",
        "other": "unreadable",
    }


def test_down_goes_on_past_a_cluster_that_cannot_be_taken_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever types `--all` wants nothing left up but what cannot be helped."""
    for name in ("good", "bad"):
        command("up", name)
    destroy = LocalProvider.destroy

    def fail(self: LocalProvider, name: str) -> None:
        if name == "bad":
            raise ProvisionError("bad is stuck.")
        destroy(self, name)

    monkeypatch.setattr(LocalProvider, "destroy", fail)
    with pytest.raises(ProvisionError, match=r"bad is stuck\."):
        clusters.down(every=True, yes=True)

    assert [row["name"] for row in answer("ls")] == ["bad"]
