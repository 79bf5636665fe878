"""Optional libraries: is one installed, and the command that installs it into this environment."""

import importlib
import shlex
import shutil
import sys
from pathlib import Path

from cluster.core.errors import SpecError

DISTRIBUTION = "cluster-ruler"  # the name under which pip knows this project
# Another project's distribution in the Python package index; it also installs a folder `cluster`.
FOREIGN = "cluster"


def require(library: str, extra: str, purpose: str) -> None:
    """Import an optional library, or say which extra of this project installs it (SpecError)."""
    try:
        importlib.import_module(library)
    except ImportError as error:
        raise SpecError(
            f"{purpose} needs {library}, which is not installed.",
            remedy=f"Type: {install_command(extra)}",
        ) from error


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this environment: by pipx or uv if these made it."""
    return pip_command("install", shlex.quote(f"{DISTRIBUTION}[{extra}]"))


def foreign_version() -> str:
    """Return the version of a foreign distribution `cluster`; empty if it is not installed."""
    from importlib import metadata  # noqa: PLC0415 - slow to import

    try:
        return metadata.version(FOREIGN)
    except metadata.PackageNotFoundError:
        return ""


def pip_command(verb: str, packages: str) -> str:
    """Return a shell command: of pipx or uv if one made the environment, else of its pip."""
    prefix, python = Path(sys.prefix), shlex.quote(sys.executable)
    if (prefix / "pipx_metadata.json").exists():
        return f"pipx runpip {shlex.quote(prefix.name)} {verb} {packages}"
    if _is_made_by_uv(prefix) and shutil.which("uv"):
        return f"uv pip {verb} --python {python} {packages}"
    return f"{python} -m pip {verb} {packages}"


def _is_made_by_uv(prefix: Path) -> bool:
    try:
        lines = (prefix / "pyvenv.cfg").read_text().splitlines()
    except OSError:  # no virtual environment
        return False
    return any(line.partition("=")[0].strip() == "uv" for line in lines)
