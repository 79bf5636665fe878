"""All commands in the order of use, the help that lists them, and exit statuses; imports none."""

from __future__ import annotations

import shutil
import textwrap
from itertools import chain
from keyword import iskeyword
from pathlib import Path

from cluster.core.version import __version__

FAILED = 1
REFUSED = 2
GATE_HIT = 3
INTERRUPTED = 130
TERMINATED = 143
STATUSES = {
    0: "success",
    FAILED: "the command failed; a verdict is FAILED or IMPOSSIBLE (`judge` always; `bench`, "
    "`report` and `compare` with `--fail-on`, `--junit` or `--github`); or `doctor` found a "
    "problem",
    REFUSED: "wrong usage, or refused before anything was created",
    GATE_HIT: "a verdict that `--fail-on` names; or an alarm of `cluster watch`",
    INTERRUPTED: "interrupted by Ctrl-C",
    TERMINATED: "ended by SIGTERM",
}
"""What each exit status of the command means; the page of exit statuses is made from it."""
FOLDER = Path(__file__).with_name("commands")
GROUPS = {
    "Measure": (
        *("bench", "check", "placement", "judge", "compare", "replay", "report", "show", "runs"),
        *("watch", "fit", "plot", "push", "share", "verify"),
    ),
    "Clusters": (
        *(
            "up",
            "launch",
            "run",
            "jobs",
            "kill",
            "put",
            "get",
            "sync",
            "forward",
            "ls",
            "hosts",
            "connect",
        ),
        *("status", "logs", "wait", "fetch", "down", "pause", "resume", "lab"),
    ),
    "Logs": ("import", "topology", "profile", "scaling", "corpus"),
    "Maintenance": ("gc", "doctor", "plan", "script"),
}
"""The order of use; a command that is not named here comes last, under `More`."""
LINES: dict[tuple[str, ...], str] = {
    ("up", "launch"): "Launch a cluster, or all that a file says; they stay up.",
    ("put", "get", "sync"): "Copy files to all hosts, from them, or what changed.",
    ("ls", "hosts"): "List the clusters that exist, or the hosts of one.",
    ("fit", "plot"): "Fit t = alpha + size / beta to sweeps, or draw runs.",
    ("compare", "replay"): "Compare runs, or a run with a new one of the same.",
    ("share", "verify"): "Write an anonymised export of a run, or check one.",
    ("plan", "script"): "Show what would be created, or print a batch script.",
    ("jobs", "kill"): "List the jobs and benchmarks of a cluster, or end a job.",
    ("logs", "wait"): "Print what a job prints, or wait for it.",
    ("pause", "resume"): "Switch machines off, and on again; their disks stay.",
}
"""The lines of commands that share one, so that all fit a screen."""
HEAD = """\
Usage: cluster [OPTIONS] COMMAND [ARGS]...

  Is the network between your machines as fast as it should be? If not, why?
  Example: cluster bench p2p --run-local          measure this machine
           cluster judge latest                   is that normal?
           cluster report latest                  a page with plots
  Documentation: README.md and docs/ of the repository
  Options: --version --install-completion --show-completion -h --help -v -q"""


def answer(words: list[str]) -> str | None:
    """Return what a command line asks that needs no command, such as --help; else nothing."""
    if words == ["--version"]:
        return f"cluster {__version__}"
    return help_text() if words in (["--help"], ["-h"]) else None


def names() -> list[str]:
    """List the commands, which are the files of their folder, without importing any."""
    files = (path.stem.removesuffix("_") for path in FOLDER.glob("[!_]*.py"))
    place = {name: number for number, name in enumerate(chain(*GROUPS.values()))}
    return sorted(files, key=lambda name: (place.get(name, len(place)), name))


def groups() -> dict[str, tuple[str, ...]]:
    """Return the commands by the title under which the help lists them."""
    more = tuple(name for name in names() if not any(name in group for group in GROUPS.values()))
    return GROUPS | ({"More": more} if more else {})


def help_text() -> str:
    """Return the help that lists all commands."""
    shared = {name: line for line in LINES for name in line}
    groups_ = {
        title: dict.fromkeys(shared.get(name, (name,)) for name in commands)
        for title, commands in groups().items()
    }
    indent = 4 + max(len(", ".join(line)) for group in groups_.values() for line in group)
    room = max(min(shutil.get_terminal_size().columns, 80) - 2, 50) - indent
    lines = [HEAD]
    for title, group in groups_.items():
        lines += ["", f"{title}:"]
        for line in group:
            first, *more = textwrap.wrap(LINES.get(line) or summary(line[0]), room)
            lines.append(f"  {', '.join(line)}".ljust(indent) + first)
            lines += [" " * indent + text for text in more]
    return "\n".join(lines)


def module(command: str) -> str:
    """Return the module of a command: `import_` of `import`, which is a word of Python."""
    return f"{command}_" if iskeyword(command) else command


def summary(command: str) -> str:
    """Return the first line of a command's file; an import would take ten times as long."""
    with (FOLDER / f"{module(command)}.py").open(encoding="utf-8") as file:
        return file.readline().strip().strip('"')
