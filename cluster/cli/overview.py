"""All commands in the order of use, and the help that lists them, without importing any."""

from __future__ import annotations

import re
import shutil
import textwrap
from pathlib import Path

from cluster.core.version import __version__

GROUPS = {
    "Measure": {
        "bench": "bench_commands:commands",
        "check": "check:check",
        "placement": "placement:placement",
        "judge": "judge:judge",
        "compare": "compare:compare_",
        "replay": "replay:replay",
        "report": "report:report_",
        "show": "launch_results:show",
        "runs": "runs:runs_",
        "watch": "watch:commands",
        "fit": "fit:fit",
        "plot": "plot:plot",
        "push": "runs:push",
        "share": "share:share",
        "verify": "share:verify",
    },
    "Clusters": {
        "up": "hosts:up",
        "run": "hosts:run",
        "put": "hosts:put",
        "get": "hosts:get",
        "ls": "clusters:ls",
        "hosts": "hosts:hosts_",
        "connect": "clusters:connect",
        "status": "jobs:status",
        "logs": "jobs:logs",
        "wait": "jobs:wait",
        "fetch": "jobs:fetch",
        "down": "clusters:down",
        "stop": "hosts:stop",
        "start": "hosts:start_",
        "lab": "lab:lab",
    },
    "Logs": {
        "import": "import_:import_",
        "topology": "topology:topology",
        "profile": "profile:profile",
        "scaling": "scaling:scaling",
        "corpus": "corpus:commands",
    },
    "Maintenance": {
        "gc": "gc:gc",
        "doctor": "doctor:doctor",
        "plan": "hosts:plan_",
        "script": "script:commands",
    },
}
"""All commands, in the order of use: the module of each, and its name there."""
LINES: dict[tuple[str, ...], str] = {
    ("bench",): "Launch a cluster and run a benchmark on it.",
    ("watch",): "Show when results changed, or measure on a timer.",
    ("corpus",): "List and check the results that others published.",
    ("put", "get"): "Copy a file or folder to all hosts, or a folder from them.",
    ("ls", "hosts"): "List the clusters that exist, or the hosts of one.",
    ("fit", "plot"): "Fit t = alpha + size / beta to sweeps, or draw runs.",
    ("compare", "replay"): "Compare runs, or measure again what one measured, and compare.",
    ("share", "verify"): "Write a run into one file with pseudonyms, or check one.",
    ("plan", "script"): "Show what would be created, or print a batch script.",
    ("stop", "start"): "Switch machines off, and on again; their disks stay.",
}
"""The lines of groups of commands, and of commands that share one, so that all fit a screen."""
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


def help_text() -> str:
    """Return the help that lists all commands."""
    names_of = {name: names for names in LINES for name in names}
    groups = {
        title: dict.fromkeys(names_of.get(name, (name,)) for name in commands)
        for title, commands in GROUPS.items()
    }
    indent = 4 + max(len(", ".join(names)) for group in groups.values() for names in group)
    room = max(min(shutil.get_terminal_size().columns, 80) - 2, 50) - indent
    lines = [HEAD]
    for title, group in groups.items():
        lines += ["", f"{title}:"]
        for names in group:
            first, *more = textwrap.wrap(LINES.get(names) or summary(names[0]), room)
            lines.append(f"  {', '.join(names)}".ljust(indent) + first)
            lines += [" " * indent + line for line in more]
    return "\n".join(lines)


def summary(command: str) -> str:
    """Return the first line of a command's docstring; an import would take ten times as long."""
    place = next(commands[command] for commands in GROUPS.values() if command in commands)
    module, _, function = place.partition(":")
    source = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    found = re.search(rf'^def {function}\(.*?"""(.*?)(?:"""|$)', source, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""
