"""Compile C on a host before a job needs it: `python3 -m cluster.measure.kernels NAME FOLDER`.

It prints the path of the library, or exits with 1 and prints the reason.
"""

import sys
from pathlib import Path

from cluster.measure.kernels import NotBuiltError, compile_kernel


def main(name: str, folder: str) -> int:
    import mpi4py  # noqa: PLC0415

    mpi4py.rc.initialize = False  # MPI is not needed, only its version
    try:
        sys.stdout.write(f"{compile_kernel(name, Path(folder))}\n")
    except NotBuiltError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
