"""Run programs of this host for what they print: `mpirun`, `nvidia-smi`, `ompi_info`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

PATIENCE = 10.0  # seconds for an answer


def find_program(program: str) -> str | None:
    """Find a program: beside this Python, where pip puts an MPI's programs, or on the PATH."""
    folder = Path(sys.executable).parent
    return shutil.which(program, path=f"{folder}{os.pathsep}{os.environ.get('PATH', '')}")


def output_of(program: str, *words: str) -> str | None:
    """Run a program, and return its output; None if it is missing, failed, or exceeded its time."""
    path = find_program(program)
    if path is None:
        return None
    try:
        result = subprocess.run(
            [path, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=True,
            env={"HOME": str(Path.home()), **os.environ},  # mpirun needs HOME
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout


def version_of(program: str, flag: str) -> str | None:
    """Return the first line that a program prints with a flag, such as `--version`, or None."""
    answer = output_of(program, flag)
    return None if answer is None else answer.strip().partition("\n")[0]
