"""Programs of this host that are asked what they know: `mpirun`, `nvidia-smi`, `ompi_info`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PATIENCE = 10.0  # seconds for an answer


def find_program(program: str) -> str | None:
    """Find a program: beside our Python, where an MPI's programs are, or on the PATH.

    Args:
        program: its name.

    Returns:
        Its path; none if it is not there.

    """
    beside = Path(sys.executable).parent
    return shutil.which(program, path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")


def output_of(program: str, *words: str) -> str | None:
    """Ask a program.

    Args:
        program: its name.
        words: of its command line.

    Returns:
        What it printed; none if it is missing, failed, or exceeded its time.

    """
    path = find_program(program)
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=True,
            env={"HOME": str(Path.home()), **os.environ},  # mpirun does nothing without one
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def version_of(program: str, flag: str) -> str | None:
    """Ask a program for its version.

    Args:
        program: its name.
        flag: that asks.

    Returns:
        The first line of what it printed; none if it did not answer.

    """
    answer = output_of(program, flag)
    return None if answer is None else answer.strip().partition("\n")[0]
