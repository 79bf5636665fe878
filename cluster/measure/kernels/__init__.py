"""Kernels in C, compiled on the measured hosts for the MPI that runs there.

Their timed loops are called through ctypes; set-up, progress and files stay in Python. Without a
compiler, mpi4py's loops do the same work, slower for small messages; the definition of every value
says which of the two ran. `profile.c` is not a loop: it is preloaded into the ranks of a profiled
job, and `python3 -m cluster.measure.kernels profile FOLDER` compiles it before they start.
"""

import ctypes
import hashlib
import platform
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

import msgspec

from cluster.agent.commands import find_program
from cluster.core.errors import ClusterError
from cluster.core.model.results.measurements import Definition
from cluster.measure.rank import Rank

Choice = Literal["auto", "c", "python"]

FOLDER = "kernels"  # in cluster's folder on a host, beside those of its jobs
FLAGS = ("-O2", "-shared", "-fPIC")  # no -march: hosts with different processors may share a folder
TIMEOUT = 60.0  # seconds; a second or two is usual
CLOCK = (
    "clock_gettime(CLOCK_MONOTONIC) of the rank that took the value; round trips that follow one "
    "another share a reading"
)
LOG = "kernel.{rank}.log"  # in the job's folder: the command, the compiler and its output


class NotBuiltError(Exception):
    """Why a kernel could not be built."""


def timed_in_c(definition: Definition) -> Definition:
    """Return the definition of a metric whose timed loop runs in C instead of mpi4py."""
    return msgspec.structs.replace(definition, clock=CLOCK, kernel="C")


def definitions_for(definitions: tuple[Definition, ...], choice: Choice) -> tuple[Definition, ...]:
    """Return the definitions of the values; both kinds if each host decides (`auto`)."""
    c_definitions = tuple(map(timed_in_c, definitions)) if choice != "python" else ()
    return (*c_definitions, *(definitions if choice != "c" else ()))


def load(rank: Rank, name: str, choice: Choice) -> ctypes.CDLL | None:
    """Compile a kernel on every host, unless it was compiled before, and load it on every rank.

    `c` requires it (ClusterError: a rank cannot load it); `python` does nothing; `auto` uses C if
    all ranks can, else notes the reason and returns None on all of them.
    """
    if choice == "python":
        return None
    library, why = _try_load(rank, name)
    reasons = [reason for reason in rank.comm.allgather(why) if reason]
    if not reasons:
        return library
    if choice == "c":
        raise ClusterError(
            f"The C kernel could not be built: {reasons[0]}",
            remedy="Install a C compiler there: sudo apt-get install gcc libc6-dev. "
            "Or leave it out: --kernel python",
        )
    rank.note(
        f"The timed loops ran in Python, not in C: {reasons[0]} Small messages take "
        "longer in Python; do not compare them with values timed in C."
    )
    return None


def _try_load(rank: Rank, name: str) -> tuple[ctypes.CDLL | None, str]:
    """Let one rank of each host compile; return the library, or the reason why there is none."""
    from mpi4py import MPI  # noqa: PLC0415 - importing it starts MPI

    host = rank.comm.Split_type(MPI.COMM_TYPE_SHARED)
    path: Path | None = None
    reason = ""
    if host.Get_rank() == 0:
        try:
            path = compile_kernel(name, Path.cwd().parent / FOLDER)
            shutil.copyfile(path.with_suffix(".log"), LOG.format(rank=rank.number))
        except (NotBuiltError, OSError) as error:
            reason = f"{platform.node()}: {error}"
    rank.barrier()  # a compiler takes a while, and needs a core
    path, reason = host.bcast((path, reason))
    host.Free()
    if path is None:
        return None, reason
    try:
        return _open_library(path), ""
    except NotBuiltError as error:
        return None, f"{platform.node()}: {error}"


def compile_kernel(name: str, folder: Path) -> Path:
    """Compile a kernel, unless the same source was compiled for the same MPI before.

    The log of the compilation is beside the library, with the suffix `.log`. NotBuiltError: it
    could not be compiled.
    """
    from mpi4py import MPI  # noqa: PLC0415

    mpicc = find_program("mpicc")  # of the MPI that runs
    if mpicc is None:
        raise NotBuiltError("there is no mpicc.")
    sources = Path(__file__).parent
    digest = hashlib.blake2s(digest_size=8)
    for part in ((sources / f"{name}.c").read_bytes(), (sources / "kernel.h").read_bytes()):
        digest.update(part)
    made_for = (*FLAGS, mpicc, platform.machine(), MPI.Get_library_version())
    digest.update("\n".join(made_for).encode())
    target = folder / f"{name}-{digest.hexdigest()}.so"
    try:
        if not target.exists():
            folder.mkdir(parents=True, exist_ok=True)
            _compile(
                [mpicc, *FLAGS, str(sources / f"{name}.c")], target, target.with_suffix(".log")
            )
    except OSError as error:
        raise NotBuiltError(f"{error.filename}: {error.strerror}.") from error
    return target


def _compile(words: list[str], target: Path, record: Path) -> None:
    """Compile into a file that appears at once: other hosts may share the folder."""
    with tempfile.TemporaryDirectory(dir=target.parent) as staging:
        library = Path(staging, target.name)
        argv = [*words, "-o", str(library)]
        output = _run(argv)
        version = _run([words[0], "--version"]).partition("\n")[0]
        part = Path(staging, record.name)
        part.write_text(f"{shlex.join(argv)}\n{version}\n{output}")
        part.rename(record)
        library.rename(target)


def _run(argv: list[str]) -> str:
    try:
        result = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        raise NotBuiltError(f"mpicc did not end within {TIMEOUT:g} s.") from None
    if result.returncode != 0:
        # The compiler's errors, or the framed message of Open MPI's wrapper.
        lines = [line.strip() for line in result.stderr.splitlines()]
        meaning = [line for line in lines if line and not line.startswith("---")]
        errors = [line for line in meaning if "error" in line]
        words = " ".join(errors[:1] or meaning[:2]) or "it failed without a message"
        raise NotBuiltError(f"mpicc: {words.rstrip('.')}.")
    return result.stdout + result.stderr


def _open_library(path: Path) -> ctypes.CDLL:
    """Load a library, and refuse one that was linked to another MPI than mpi4py."""
    from mpi4py import MPI  # noqa: PLC0415

    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise NotBuiltError(f"{error}.") from error
    if library.kernel_handle() != MPI._sizeof(MPI.Comm):  # noqa: SLF001 - made for this use
        raise NotBuiltError("mpicc belongs to another MPI than the one that runs.")
    return library


def address(thing: object) -> int:
    """Return the address of a handle of mpi4py, which must outlive it, as a C pointer."""
    from mpi4py import MPI  # noqa: PLC0415

    return MPI._addressof(thing)  # noqa: SLF001
