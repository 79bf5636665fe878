"""All commands in the order of use, the help that lists them, and exit statuses; imports none."""

import shutil
import textwrap
from itertools import chain
from keyword import iskeyword
from pathlib import Path

from cluster.core.version import __version__

# exit statuses; docs/reference/exit-statuses.md says what each means
FAILED, REFUSED, GATE_HIT, UNDECIDED, INTERRUPTED, TERMINATED = 1, 2, 3, 75, 130, 143
FOLDER = Path(__file__).with_name("commands")
GROUPS = {
    "Measure": (
        *("bench", "check", "judge", "compare", "report", "show", "runs"),
        *("import", "watch", "plot"),
    ),
    "Clusters": ("up", "launch", "ls", "connect", "put", "get", "lab", "down"),
    "Jobs": ("run", "status", "top", "logs", "hang", "wait", "fetch", "kill"),
    "Help": ("doctor", "providers", "help", "more"),
}
"""The order of use; a command that is not named here comes last, under `Others`."""
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
    return help_text() if words in (["--help"], ["-h"], ["help"]) else None


def names(folder: Path = FOLDER) -> list[str]:
    """List the commands, which are the files and folders of a folder, without importing any."""
    inits = (path.parent for path in folder.glob("[!_]*/__init__.py"))
    files = (path.stem.removesuffix("_") for path in (*folder.glob("[!_]*.py"), *inits))
    place = {name: number for number, name in enumerate(chain(*GROUPS.values()))}
    return sorted(files, key=lambda name: (place.get(name, len(place)), name))


def groups() -> dict[str, tuple[str, ...]]:
    rest = tuple(n for n in names() if not any(n in group for group in GROUPS.values()))
    return GROUPS | ({"Others": rest} if rest else {})


def help_text() -> str:
    indent = 4 + max(map(len, names()))
    room = max(min(shutil.get_terminal_size().columns, 80) - 2, 50) - indent
    lines = [HEAD]
    for title, group in groups().items():
        lines += ["", f"{title}:"]
        for name in group:
            first, *more = textwrap.wrap(summary(name), room)
            lines.append(f"  {name}".ljust(indent) + first)
            lines += [" " * indent + text for text in more]
    return "\n".join(lines)


def module(command: str) -> str:
    """Return the module of a command: `import_` of `import`, which is a word of Python."""
    return f"{command}_" if iskeyword(command) else command


def summary(command: str, folder: Path = FOLDER) -> str:
    """Return the first line of a command's file; an import would take ten times as long."""
    path = folder / module(command)
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    with path.open(encoding="utf-8") as file:
        return file.readline().strip().strip('"')
