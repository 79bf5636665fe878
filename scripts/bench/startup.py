"""What a person waits for before and after a measurement."""

import sys
from functools import partial

from stopwatch import BIN, ROOT, command_times, processor_seconds, say, taking_turns

from cluster.agent.facts import host_facts


def starting(repetitions: int) -> None:
    """Measure what a person waits for before anything happens."""
    plain = [sys.executable, "-c", "import json, typing, dataclasses"]
    command_line = [sys.executable, "-c", "import cluster; cluster.launch"]
    base, cost = command_times([plain, command_line], repetitions)
    bound = 1.5 * base + 0.060
    value = f"{cost * 1e3:.0f} ms, {cost / base:.2f} x of {base * 1e3:.0f} ms"
    limit = f"1.5 x + 60 ms = {bound * 1e3:.0f} ms"
    say("import cluster; cluster.launch", value, limit, good=cost <= bound)
    # Of commands the processor time, which a busy machine changes little.
    log = str(ROOT / "tests" / "logs" / "nccl_tests.hopper.txt")
    bounds = {("--help",): 4.0, ("--version",): 4.0, ("judge", log): 32.0}  # 0.4 s
    starts = [[sys.executable, "-c", ""], *([str(BIN / "cluster"), *words] for words in bounds)]
    ways = [partial(processor_seconds, argv) for argv in starts]
    base, *times = taking_turns(ways, max(repetitions, 7))
    for (words, bound), cost in zip(bounds.items(), times, strict=True):
        value = f"{cost * 1e3:.0f} ms of a processor, {cost / base:.1f} x of {base * 1e3:.0f} ms"
        say(f"cluster {words[0]}", value, f"{bound:.0f} x", good=cost <= bound * base)


def around_commands(repetitions: int) -> None:
    """Measure everything around a measurement that is itself over in a moment."""
    root = ["--allow-run-as-root"] if host_facts().user == "root" else []
    line = "from mpi4py import MPI"
    command = [str(BIN / "mpirun"), *root, "-np", "2", sys.executable, "-c", line]
    launcher = str(ROOT / "launchers" / "launch_mpi_test.py")
    command_line = [sys.executable, launcher, "--run-local", "--data-mb=1", "--iters=1"]
    base, cost = command_times([command, command_line], repetitions)
    value = f"{cost - base:.2f} s more than a bare mpirun ({cost:.2f} s, {base:.2f} s)"
    say("--run-local", value, "1.5 s", good=cost - base <= 1.5)  # noqa: PLR2004
