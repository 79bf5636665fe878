"""The command: its help, its refusals, its version, and what `cluster doctor` says."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster.cli import overview
from cluster.cli.command_line import Commands, app
from cluster.cli.commands import doctor
from cluster.core import plugins
from cluster.measure.benchmark import Benchmark
from cluster.providers import Provider
from tests.conftest import COMMAND, PATIENCE, answer, command, run
from tests.forked import run_forked

COMMANDS = (
    *("bench", "ls", "runs", "show", "status", "logs", "wait", "fetch", "connect", "down"),
    *("doctor", "judge", "up", "run", "put", "get", "lab", "compare", "plot", "report"),
    *("more gc", "more profile", "more topology", "more push", "more scaling", "more script"),
)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_fits_a_screen_and_shows_an_example(name: str) -> None:
    page = command(*name.split(), "--help").stdout

    assert len(page.splitlines()) <= 40
    assert max(len(line) for line in page.splitlines()) <= 100
    assert "Example: cluster " in page


def test_the_first_help_names_every_command() -> None:
    page = command("--help").stdout

    assert len(page.splitlines()) < 50, "two dozen commands in four groups"
    assert "Example: cluster bench p2p --run-local" in page
    assert "Options: --version --install-completion --show-completion -h --help -v -q" in page
    assert not re.search(r"^  .*\.\.\.$", page, re.MULTILINE), "a summary is cut off"
    assert "Measure:" in command(status=2).stderr
    grouped = overview.names()
    assert sorted(grouped) == sorted(set(grouped))
    listed = re.findall(r"^  ([a-z]+(?:, [a-z]+)*) {2,}\S", page, re.MULTILINE)
    assert [name for names in listed for name in names.split(", ")] == grouped
    assert {name.partition(" ")[0] for name in COMMANDS} <= set(grouped)
    assert isinstance(app, Commands)
    assert set(app.commands) == set(grouped)


@pytest.mark.parametrize("name", ["p2p", "collectives", "iperf"])
def test_the_help_of_a_benchmark_fits_a_screen(name: str) -> None:
    """It explains what is usual, names the rest, and says how that is explained."""
    page = command("bench", name, "--help").stdout
    every = command("bench", name, "--help-all").stdout

    assert len(page.splitlines()) <= 40
    assert f"Example: cluster bench {name} --run-local" in page
    for flag in ("--iterations", "--provider", "--hosts", "--placement", "--json", "--ab"):
        assert re.search(rf"^  {flag} ", page, re.MULTILINE)
    declared = re.findall(r"^  (?:-h, )?(--[a-z-]+)", every, re.MULTILINE)
    assert {"--ttl", "--accelerator", "--mca", "--plan"} <= set(declared)
    assert all(flag in page for flag in declared)
    assert "--help-all" in page
    assert "More" not in every


@pytest.mark.parametrize(
    ("words", "suggestions"),
    [
        ("cluster be", {"bench"}),
        ("cluster bench ", set(plugins.names(Benchmark))),
        ("cluster bench p2p --until", {"--until-precise"}),
        ("cluster bench p2p --accel", {"--accelerator"}),
        ("cluster more script gate-slurm --w", {"--within"}),
        ("cluster more script gate-kubernetes --limit 1gbit --w", {"--within", "--wait"}),
        ("cluster more script gate-slurm --ho", set()),
        ("cluster bench p2p --buffer ", {"cpu", "cuda"}),
        ("cluster bench p2p --provider ", set(plugins.names(Provider))),
        ("cluster show --format ", {"terminal", "markdown", "csv", "html", "json"}),
    ],
)
def test_shell_completion(words: str, suggestions: set[str]) -> None:
    """As bash asks for it, after `cluster --install-completion`."""
    result = run_forked(
        COMMAND,
        timeout=PATIENCE,
        _CLUSTER_COMPLETE="bash_complete",
        COMP_WORDS=words,
        COMP_CWORD=str(len(words.split(" ")) - 1),
    )

    assert {line.removeprefix("plain,") for line in result.stdout.split()} == suggestions


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["bench", "nothing"],
            "There is no benchmark 'nothing'.\nThere are: collectives, gpu, iperf, p2p",
        ),
        (["bench", "p2p", "latency"], "Type: cluster bench p2p --metrics latency"),
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
def test_refusals_say_what_to_type(words: list[str], message: str) -> None:
    result = command(*words, status=2)

    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_doctor_says_what_is_well(tools: None) -> None:
    del tools
    checks: list[dict[str, Any]] = answer("doctor")

    assert all(check["ok"] for check in checks)
    assert {"Python", "tmux", "MPI", "mpi4py", "cores", "two ranks"} <= {c["what"] for c in checks}


def test_doctor_names_the_command_that_mends(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = home / "bin"
    bare.mkdir()
    monkeypatch.setenv("PATH", str(bare))

    output = command("doctor", status=1).stdout
    assert re.search(r"BAD +tmux: missing\n +sudo apt-get install tmux", output)


def test_doctor_names_the_commands_that_need_what_is_optional(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    checks = {check.what: check for check in doctor.optional()}
    (home.parent / ".aws").mkdir()
    (home.parent / ".aws" / "config").touch()
    again = {check.what: check for check in doctor.optional()}

    assert {name.rpartition(" ")[2] for name in checks} == {
        *("compiler", "iperf3", "nvidia-smi", "obstore", "matplotlib", "aws", "gcp")
    }
    assert all(check.ok and check.needed_for for check in checks.values())
    assert checks["credentials for aws"].missing
    assert checks["credentials for aws"].remedy == "aws configure"
    assert not again["credentials for aws"].missing


def test_version() -> None:
    assert re.fullmatch(r"cluster \d+\.\d+\.\d+\n", command("--version").stdout)


def test_the_module_does_not_shadow_the_standard_library() -> None:
    """reports/csv.py and reports/json.py are named by their formats."""
    line = "import cluster.reports.formats.csv, csv, json; print(csv.writer, json.dumps)"
    assert "built-in function writer" in run(sys.executable, "-c", line).stdout


def test_contradicting_flags_are_refused(tools: None) -> None:
    """Every flag that is accepted takes effect."""
    del tools
    for words, message in (
        (["--no-keep", "--detach"], "--no-keep and --detach contradict each other"),
        (["--iterations=9", "--until-precise"], "--iterations and --until-precise contradict"),
        (["--max-iterations=9"], "--max-iterations has no effect without --until-precise"),
        (["--metrics=latency", "--window=3"], "--window has no effect without"),
    ):
        assert message in command("bench", "p2p", *words, status=2).stderr


def test_a_closed_standard_output_ends_nothing_badly(tools: None) -> None:
    del tools
    words = f"{COMMAND} bench p2p --metrics=latency --sizes=8 --iters=9"
    run("bash", "-c", f"{words} >&-")
    assert answer("runs")[0]["status"] == "done"
    assert "Traceback" not in run("bash", "-c", f"{words} > /dev/full", status=None).stderr
