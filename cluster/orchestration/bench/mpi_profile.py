"""MPI profiles of a job, by a library that LD_PRELOAD loads into its ranks.

The library is IBM's libmpitrace, if its path is given, else our own `kernels/profile.c`, which
writes the same files. They are downloaded with the job's others; `cluster more profile` reads them.
"""

import posixpath
from collections.abc import Mapping

from cluster.core.errors import SpecError
from cluster.core.model.value import Value
from cluster.orchestration.hosts.setup import ReadyHosts
from cluster.remote.environment.steps import PROGRAM as IN_IMAGE
from cluster.remote.parallel import on_each
from cluster.remote.shells import Shell

OWN = "own"  # in place of a library's path: our own library
PRELOAD = "LD_PRELOAD"
MOST_FILES = 64  # up to this number of ranks, each writes a file; of more, only four do
WITHIN = 120.0  # seconds to compile
NEEDS = "Install a C compiler {where}: sudo apt-get install gcc libc6-dev"
LOOK = "import os, sys; sys.exit(not os.path.isfile(sys.argv[1]))"  # run by the ranks' Python
SEPARATORS = " :\t\n"  # of paths in LD_PRELOAD; they cannot be quoted (ld.so(8))


class Toolchain(Value, frozen=True, kw_only=True):
    """The folder of compiled libraries on a host, and the Python that compiles them."""

    folder: str  # of compiled libraries, absolute
    python: tuple[str, ...]  # the command that runs the ranks' Python: on the host, or in the image
    image: str = ""  # of the container that the ranks run in; empty without one

    @property
    def words(self) -> str:
        """Where to install a missing compiler, for messages."""
        return f"in the image {self.image}" if self.image else "there"


def prepare(
    environment: Mapping[str, str], library: str, hosts: ReadyHosts, shells: Mapping[str, Shell]
) -> dict[str, str]:
    """Prepare a profiler on the hosts; return the variables of the ranks (SpecError)."""
    from cluster.measure.kernels import FOLDER  # noqa: PLC0415 - imports ctypes, which is slow

    tools = {}
    for machine, fact in zip(hosts.machines, hosts.facts, strict=False):
        bin_ = posixpath.join(fact.home, machine.bin)
        words = (posixpath.join(bin_, IN_IMAGE), "python3") if hosts.image else (f"{bin_}/python3",)
        folder = posixpath.join(fact.home, machine.folder, FOLDER)
        tools[machine.name] = Toolchain(folder=folder, python=words, image=hosts.image)
    return variables(shells, tools, library, hosts.layout.size, environment)


def variables(
    shells: Mapping[str, Shell],
    tools: Mapping[str, Toolchain],
    library: str,
    ranks: int,
    environment: Mapping[str, str],
) -> dict[str, str]:
    """Return the variables of profiled ranks; `own` compiles our library (SpecError)."""
    path = _compile_own(shells, tools) if library == OWN else _check_library(shells, tools, library)
    if any(mark in path for mark in SEPARATORS):
        raise SpecError(
            f"{path} cannot be loaded into the ranks.",
            means="The dynamic linker takes a space or a colon for the end of a path.",
            remedy="Use a path without: --profile=/tmp/libmpitrace.so, or for our own library "
            "another folder: export CLUSTER_STATE=/tmp/cluster",
        )
    before = environment.get(PRELOAD, "")
    variables = {"SAVE_ALL_TASKS": "yes"} if ranks <= MOST_FILES else {}
    return {**variables, **environment, PRELOAD: f"{path}:{before}" if before else path}


def _check_library(
    shells: Mapping[str, Shell], tools: Mapping[str, Toolchain], library: str
) -> str:
    if not library.startswith("/"):
        raise SpecError(
            f"--profile={library} is no absolute path.",
            remedy="Name a library that is on every host: --profile=/opt/lib/libmpitrace.so, or "
            "use the built-in profiler: --profile=own",
        )

    def look(name: str, shell: Shell) -> None:
        host = tools[name]
        result = shell.run([*host.python, "-c", LOOK, library], timeout=WITHIN)
        if result.status != 0:
            place, means = name, "Each rank must be able to load it."
            if host.image:
                place = f"{name}, {host.words}"
                means = f"A container sees /tmp of its host, and no other folder outside. {means}"
            raise SpecError(
                f"{library} does not exist on {place}.",
                means=means,
                remedy="Copy it there: cluster put NAME libmpitrace.so /tmp/libmpitrace.so. Or "
                "use the built-in profiler: --profile=own",
                host=name,
            )

    on_each(shells, look)
    return library


def _compile_own(shells: Mapping[str, Shell], tools: Mapping[str, Toolchain]) -> str:
    def compile_(name: str, shell: Shell) -> str:
        host = tools[name]
        argv = [*host.python, "-P", "-m", "cluster.measure.kernels", "profile", host.folder]
        result = shell.run(argv, timeout=WITHIN)
        if result.status != 0:
            reason = (result.stderr.strip().splitlines() or ["no reason"])[-1]
            raise SpecError(
                f"{name}: the profiler could not be compiled: {reason}",
                means="It must fit the MPI that runs there.",
                remedy=f"{NEEDS.format(where=host.words)}. Or name IBM's library: "
                "--profile=/path/libmpitrace.so",
                host=name,
            )
        return result.stdout.strip()

    paths = on_each(shells, compile_)
    if len(set(paths.values())) > 1:
        raise SpecError(
            "The hosts have different MPIs or processors, and no one profiler fits them all.",
            means=", ".join(f"{name}: {path}" for name, path in paths.items()),
            remedy="Name a library that is on every host: --profile=/path/libmpitrace.so",
        )
    return next(iter(paths.values()))
