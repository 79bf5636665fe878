"""`cluster more script`: scripts that run as printed."""

import json
import os
import platform
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster.cli.commands.more.script import GATES
from cluster.core.model.value import Value
from tests.conftest import command, run, write_program

SMALL = ("--sizes", "8", "--metrics", "latency", "--iterations", "20")
# aprun of one host: it takes only the flags that Cray's has, and starts the ranks by mpirun.
APRUN = """#!/bin/sh
set -eu
[ "$1" = -n ] && [ "$3" = -N ] && [ "$5 $6" = "-cc depth" ] && [ "$7" = -d ] || exit 64
ranks=$2
shift 8
exec mpirun --allow-run-as-root --oversubscribe -x CLUSTER_RANKS -np "$ranks" "$@"
"""
# torchrun of one host: it refuses what torchrun does not know, and starts the processes.
TORCHRUN = Path(__file__).with_name("torchrun").read_text()


def write_script(tmp_path: Path, *words: str) -> Path:
    """Print a script, which bash understands, and shellcheck where it is installed."""
    path = tmp_path / "job.sh"
    path.write_text(command("more", "script", *words).stdout)
    run("bash", "-n", str(path))
    if shutil.which("shellcheck"):
        run("shellcheck", "--severity=warning", str(path))
    return path


def batch(script: Path, status: int = 0, **variables: str) -> str:
    """Run a script as its batch system would."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "PBS_", "LSB_"))}
    result = run("bash", str(script), status=status, env={**clean, **variables}, cwd=script.parent)
    return result.stdout + result.stderr


def show(tmp_path: Path, name: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(command("show", name, "--json").stdout)
    return answer


def program(folder: Path, name: str, text: str) -> str:
    """Put a stand-in before the PATH."""
    write_program(folder / name, text)
    return f"{folder}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def test_a_pbs_script_leaves_a_run_that_show_and_judge_take(home: Path, tmp_path: Path) -> None:
    """Real ranks, 5 s: only the list of hosts stands in for PBS."""
    (tmp_path / "nodes").write_text(f"{platform.node()}\n" * 2)
    words = ("pbs", "p2p", "--hosts", "1", "--ranks-per-host", "2", "--name", "night", *SMALL)
    script = write_script(tmp_path, *words)
    assert "#PBS -l select=1:ncpus=2:mpiprocs=2" in script.read_text()
    batch(script, PBS_NODEFILE=str(tmp_path / "nodes"), PBS_JOBID="7.server")

    answer = show(tmp_path, "night")
    assert answer["status"] == "done"
    assert [row["metric"] for row in answer["summaries"]] == ["latency"]
    command("judge", "night")


def test_too_few_slots_or_hosts_are_refused_before_anything_starts(
    home: Path, tmp_path: Path
) -> None:
    script = write_script(tmp_path, "lsf", "p2p", "--hosts", "1", "--ranks-per-host", "2", *SMALL)
    assert '#BSUB -R "span[ptile=2]"' in script.read_text()

    output = batch(script, 1, LSB_JOBID="9", LSB_MCPU_HOSTS="h1 1")
    assert re.search(r" 9 .* 1 .* h1, .* 2 ", output)
    batch(script, 1)
    two = write_script(tmp_path, "lsf", "p2p", *SMALL)
    output = batch(two, 1, LSB_JOBID="9", LSB_HOSTS="h1")
    assert re.search(r" 1 .* 2\.?$", output, re.MULTILINE)
    assert not list(home.glob("runs/*/*/run.json"))


def test_aprun_in_a_qsub_as_in_the_origin(home: Path, tmp_path: Path) -> None:
    """A strict stand-in for aprun; real ranks."""
    words = ("aprun", "p2p", "--hosts", "1", "--ranks-per-host", "2", "--name", "cray", *SMALL)
    script = write_script(tmp_path, *words)
    assert "#COBALT -n 1" in script.read_text()
    (tmp_path / "nodes").write_text("mom1\n")
    nodes = str(tmp_path / "nodes")

    assert "aprun" in batch(script, 1, PBS_NODEFILE=nodes)
    batch(script, PBS_NODEFILE=nodes, PATH=program(tmp_path / "bin", "aprun", APRUN))
    assert show(tmp_path, "cray")["status"] == "done"


def test_torchrun_gives_each_process_its_rank(home: Path, tmp_path: Path) -> None:
    """A strict stand-in for torchrun; real processes."""
    (tmp_path / "hosts").write_text(f"{platform.node()} slots=2\n")
    line = f'touch "{tmp_path}/$RANK.of.$WORLD_SIZE"'
    words = ("--hosts", "1", "--ranks-per-host", "2", "--name", "torch", "--command", line)
    script = write_script(tmp_path, "torchrun", "program", *words)
    path = program(tmp_path / "bin", "torchrun", TORCHRUN)
    batch(script, CLUSTER_HOSTFILE=str(tmp_path / "hosts"), PATH=path)

    assert sorted(file.name for file in tmp_path.glob("*.of.*")) == ["0.of.2", "1.of.2"]
    assert show(tmp_path, "torch")["summaries"][0]["n"] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("sge",), "There is no script for 'sge'"),
        (("srun", "nix"), "There is no benchmark 'nix'"),
        (("srun", "p2p", "--starter", "nix"), "There is no starter 'nix'"),
        (("pbs", "p2p", "--starter", "srun"), "srun does not start ranks on pbs"),
        (("torchrun", "p2p"), "p2p needs ranks of MPI, and torchrun starts none"),
        (("aprun", "check"), "which aprun does not do"),
        (("srun", "p2p", "--time", "1min"), "a batch job needs more than 120 s"),
        (("srun", "p2p", "--size", "8"), "No such option"),
        (("gate-slurm", "--within", "0s"), "must be more than 0"),
        (("gate-slurm", "--within", "60"), "60s"),
        (("gate-slurm", "--witihn", "60s"), "'cluster more script gate-slurm --help'"),
        (("srun", "p2p", "--starter", "mpirun:pmix"), "only srun takes a PMI"),
    ],
)
def test_what_no_job_could_run_is_refused_here(
    home: Path, words: tuple[str, ...], message: str
) -> None:
    result = command("more", "script", *words, status=2)

    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not result.stdout


@pytest.mark.parametrize(("system", "kind"), GATES.items())
def test_the_flags_of_gates_are_in_the_help(system: str, kind: type[Value]) -> None:
    """And no others: a gate refuses those of jobs."""
    page = command("more", "script", system, "--help").stdout

    flags = [f"--{field.replace('_', '-')}" for field in kind.__struct_fields__]
    options = re.findall(r"^  (?:-h, )?(--[a-z-]+)", page, re.MULTILINE)
    assert options == ["--python", "--runs", *flags, "--help"]


def test_a_line_for_the_batch_system_may_have_its_prefix(tmp_path: Path) -> None:
    extras = ("--extra", "#SBATCH --mem=0", "--extra", "--exclusive")
    lines = write_script(tmp_path, "srun", "p2p", "--hosts", "2", *extras).read_text().splitlines()

    assert {"#SBATCH --mem=0", "#SBATCH --exclusive"} <= set(lines)
