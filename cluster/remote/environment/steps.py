"""The steps of an installation, with hashes of scripts and files, from a probe; pure functions."""

import hashlib
import shlex
from collections.abc import Sequence
from itertools import zip_longest

from cluster.core.model.spec import Environment
from cluster.core.model.value import Value
from cluster.core.state.files import load_script
from cluster.remote import open_mpi
from cluster.remote.environment import benchmark_libraries, wheels

PROGRAM = "in-image"  # in the environment's bin: runs its arguments in the image
NEEDS = "Python 3.11 or newer with mpi4py, msgspec and NumPy"

# Files that ranks write must belong to our user: podman maps a container's root to its caller.
USERS = {"podman": "", "docker": '--user "$(id -u):$(id -g)" '}

# Ranks share the host's network, process and IPC namespaces: the host's network is measured, not
# the container's own, and MPI finds the other ranks there. The variables of mpirun are passed on.
CONTAINER_WRAPPER = load_script(__file__, "container_wrapper.sh")
CONTAINER_STEP = load_script(__file__, "container_step.sh")


def step(engine: str, image: str) -> str:
    """Return the script that pulls an image, by the engine of the host, and tries a rank in it."""
    word = shlex.quote(image)
    return CONTAINER_STEP.format(
        engine=engine,
        image=word,
        wrapper=shlex.quote(
            CONTAINER_WRAPPER.format(engine=engine, image=word, user=USERS.get(engine, ""))
        ),
        program=PROGRAM,
        lacks=shlex.quote(f"The image {image} has no {NEEDS}."),
    )


NEEDED = "Python 3.11 or newer"
NEW = "new"  # folder for the files of a step, in the machine's folder
MARKER = "env/.steps"  # in the machine's folder; deleted when the environment is made anew
LIBRARIES_STEP = "libraries"
BENCHMARK_STEP = "benchmark libraries"
# Folders of programs that may be missing from the PATH of an SSH login without a terminal.
PLACES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LAUNCHERS = ("mpirun", "mpiexec", "mpicc", "prterun", "prted", "orterun", "orted", "ompi_info")

VERBS = {"apk": "add", "pacman": "-S"}  # of package managers; all others say "install"

LOOK = load_script(__file__, "probe_environment.sh", PLACES=PLACES, MARKER=MARKER)

# All remaining steps run as one command: starting a command takes longer than most steps.
BEGIN = f"""\
exec 2>&1
set -eu
cd -- "$1"
trap 'rm -rf {NEW}' EXIT
unset PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE
PATH="$PATH:{PLACES}"
mark() {{ printf '%s' "$1" > {MARKER}.part && mv -f {MARKER}.part {MARKER}; }}
"""
STEP = f"""
echo {{head}}
new={NEW}/$2/{{place}}
[ ! -d env ] || mark {{before}}
{{script}}mark {{after}}
"""
HEAD = "== "

LIBRARIES = f"""\
rm -rf env
{{python}} -m venv --without-pip env
if [ -e "$new"/pip-*.whl ]; then
  env/bin/python3 "$(echo "$new"/pip-*.whl)/pip" install --quiet --no-input \\
    --disable-pip-version-check --retries {wheels.RETRIES} --only-binary=:all: --no-deps \\
    --no-compile {{requirements}}
else
  PYTHONPATH=$(echo "$new"/installer-*.whl) env/bin/python3 -m installer --no-compile-bytecode \\
    "$new"/*.whl
fi
{open_mpi.SCRIPT}"""
SHARED = load_script(__file__, "shared_packages.sh")

# mpirun passes its own prefix to the other hosts. It is called by its real path: through a link, it
# would pass this environment's. As it exports no variables to other hosts, the environment's Python
# itself sets the one that mpi4py needs.
PREPARED = f"""\
for program in {" ".join(LAUNCHERS)}; do
  [ -x {{prefix}}/bin/$program ] || continue
  printf '%s' {{wrapper}} > env/bin/$program
  chmod 755 env/bin/$program
done
packages=$(env/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf '%s\\n' {{pth}} > "$packages/prepared_mpi.pth"
"""
WRAPPER = load_script(__file__, "mpi_wrapper.sh")

INSTALL = load_script(__file__, "install_program.sh")
ADD = """\
command -v {program} || add {program} || :
command -v {program} || {{ echo {without}; exit 1; }}
"""
WITHOUT = "{program} is missing, and could not be installed. Type there: sudo {install} {program}"

OWN = load_script(__file__, "own_package.sh")


class HostProbe(Value, frozen=True, kw_only=True):
    claim: str  # the host that installs in this folder, if several hosts or names share it
    python: str
    target: wheels.Target  # that wheels must fit
    pythons: tuple[str, ...]
    marker: tuple[str, ...]  # its lines; none if the environment's Python does not work
    lacks_libraries: bool
    missing: tuple[str, ...]
    may_install: bool
    manager: str  # the package manager, such as `apt-get`
    has_mpi: bool
    engine: str
    engineless: tuple[str, ...]

    @property
    def install_words(self) -> str:
        return f"{self.manager} {VERBS.get(self.manager, 'install')}"


def read_probe(lines: Sequence[str]) -> HostProbe:
    pairs = [line.partition(" ")[::2] for line in lines]
    last = dict(pairs)

    def every(word: str) -> tuple[str, ...]:
        return tuple(rest for first, rest in pairs if first == word)

    return HostProbe(
        claim=last.get("claim", ""),
        python=last.get("python", ""),
        target=wheels.Target(
            python=last.get("version", ""),
            abi=last.get("abi", ""),
            arch=last.get("arch", ""),
            glibc=last.get("glibc", ""),
        ),
        pythons=every("seen"),
        marker=every("done"),
        lacks_libraries="lacks" in last,
        missing=every("missing"),
        may_install="may" in last,
        manager=last.get("manager", "apt-get"),
        has_mpi="without" not in last,
        engine=last.get("engine", ""),
        engineless=every("engineless"),
    )


class Step(Value, frozen=True, kw_only=True):
    """One step of an installation; it can be repeated without harm."""

    name: str
    script: str  # POSIX sh, run in the machine's folder; `$new` is the folder of its files
    files: tuple[tuple[str, bytes], ...] = ()  # that it needs: their names and bytes
    # exact requirements, which the script names too; their wheels are sent, or come from an index
    libraries: tuple[str, ...] = ()
    with_dependencies: bool = False

    def mark(self, before: str) -> str:
        """Return the marker's line for this step: a hash of the line before it, script and files.

        Libraries count by name and version, not by their wheels: a finished host needs no download.
        """
        digest = hashlib.blake2s(f"{before}\n{BEGIN}{STEP}{self.script}".encode(), digest_size=12)
        for name, content in self.files:
            digest.update(f"\n{name} {len(content)}\n".encode() + content)
        return f"{digest.hexdigest()} {self.name}"


class PendingStep(Value, frozen=True, kw_only=True):
    step: Step
    before: str
    after: str

    @property
    def place(self) -> str:
        return self.step.name.replace(" ", "-")

    @property
    def script(self) -> str:
        """The step's part of the script, which also updates the marker."""
        return STEP.format(
            head=shlex.quote(HEAD + self.step.name),
            place=self.place,
            before=shlex.quote(self.before),
            script=self.step.script,
            after=shlex.quote(self.after),
        )


def pending_steps(
    steps: Sequence[Step], probe: HostProbe, libraries: tuple[str, ...] = ()
) -> list[PendingStep]:
    """Find the steps to do: all from the first one whose hash is not in the marker.

    Libraries of a benchmark and programs are probed each time and have no line in the marker:
    benchmarks need different ones, and a change of them must not repeat other steps.
    """
    work: list[PendingStep] = []
    before = line = ""
    for step, mark in zip_longest(steps, probe.marker[: len(steps)]):
        line = step.mark(line)
        after = f"{before}{line}\n"
        if work or line != mark:
            work.append(PendingStep(step=step, before=before, after=after))
        before = after
    extras: list[Step] = []
    if libraries and probe.lacks_libraries:
        packages = (*libraries, wheels.pin("numpy"))  # which stays the version that it is
        script = benchmark_libraries.script(libraries, packages)
        extras.append(
            Step(name=BENCHMARK_STEP, script=script, libraries=packages, with_dependencies=True)
        )
    if probe.missing:
        script = INSTALL
        for program in probe.missing:
            hint = WITHOUT.format(program=program, install=probe.install_words)
            script += ADD.format(program=shlex.quote(program), without=shlex.quote(hint))
        extras.append(Step(name="programs", script=script))
    return work + [PendingStep(step=pending, before=before, after=before) for pending in extras]


def steps(environment: Environment, probe: HostProbe, wheel: tuple[str, bytes]) -> tuple[Step, ...]:
    """Return all steps for a host; what changes most often comes last."""
    mpi, image, setting = environment.mpi, environment.image, ""
    requirements = wheels.libraries(mpi)
    script = LIBRARIES.format(
        python=shlex.quote(probe.python), requirements=" ".join(map(shlex.quote, requirements))
    )
    if environment.python:
        script += SHARED.format(python=shlex.quote(environment.python))
    result = [Step(name=LIBRARIES_STEP, script=script, libraries=requirements)]
    if mpi:
        prefix, folders = shlex.quote(mpi), shlex.quote(f"{mpi}/lib:{mpi}/lib64")
        wrapper = shlex.quote(WRAPPER.format(prefix=prefix, folders=folders))
        pth = f"import os; os.environ.setdefault('MPI4PY_LIBMPI', {_libmpi(mpi)!r})"
        script = PREPARED.format(prefix=prefix, wrapper=wrapper, pth=shlex.quote(pth))
        result.append(Step(name="prepared MPI", script=script))
        setting = f"LD_LIBRARY_PATH={folders} "
    result.append(Step(name="cluster", script=OWN.format(setting=setting), files=(wheel,)))
    if image:
        result.append(Step(name="image", script=step(probe.engine, image)))
    return tuple(result)


def _libmpi(mpi: str) -> str:
    """Return folders where mpi4py looks for the library; an empty one is the linker's default."""
    return f"{mpi}/lib:{mpi}/lib64:"


def variables(environment: Environment) -> dict[str, str]:
    """Return the variables that processes need for a prepared MPI; none for one from pip."""
    mpi = environment.mpi
    if not mpi:
        return {}
    return {"LD_LIBRARY_PATH": f"{mpi}/lib:{mpi}/lib64", "MPI4PY_LIBMPI": _libmpi(mpi)}
