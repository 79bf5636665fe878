"""Optional libraries: is one installed, and the command that installs it into this environment."""

import importlib
import shlex
import shutil
import sys
from pathlib import Path

from cluster.core.errors import SpecError
from cluster.core.state.files import text_of

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


def pip_command(verb: str, packages: str) -> str:
    """Return a shell command: of pipx or uv if one made the environment, else of its pip."""
    prefix, python = Path(sys.prefix), shlex.quote(sys.executable)
    if (prefix / "pipx_metadata.json").exists():
        return f"pipx runpip {shlex.quote(prefix.name)} {verb} {packages}"
    settings = text_of(prefix / "pyvenv.cfg").splitlines()  # empty without a virtual environment
    is_made_by_uv = any(line.partition("=")[0].strip() == "uv" for line in settings)
    if is_made_by_uv and shutil.which("uv"):
        return f"uv pip {verb} --python {python} {packages}"
    return f"{python} -m pip {verb} {packages}"
