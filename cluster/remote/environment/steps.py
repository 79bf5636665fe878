"""The steps of an installation, with hashes of scripts and files, from a probe; pure functions."""

import hashlib
import shlex
from collections.abc import Sequence
from itertools import zip_longest

from cluster.core.model.spec import Environment
from cluster.core.model.value import Value
from cluster.remote import open_mpi
from cluster.remote.environment import benchmark_libraries, wheels

PROGRAM = "in-image"  # in the environment's bin: runs its arguments in the image
NEEDS = "Python 3.11 or newer with mpi4py, msgspec and NumPy"

# Files that ranks write must belong to our user: podman maps a container's root to its caller.
USERS = {"podman": "", "docker": '--user "$(id -u):$(id -g)" '}

# Ranks share the host's network, process and IPC namespaces: the host's network is measured, not
# the container's own, and MPI finds the other ranks there. The variables of mpirun are passed on.
CONTAINER_WRAPPER = """\
#!/bin/sh
set -- {image} "$@"
for name in $(env | sed -nE 's/^((OMPI|PMIX|PRTE|PMI|CLUSTER)_[A-Za-z0-9_]*)=.*/\\1/p'); do
  set -- -e "$name" "$@"
done
here=$(cd -- "${{0%/*}}/../.." && pwd)
exec {engine} run --rm --network host --ipc host --pid host {user}-v /tmp:/tmp \\
  -v "$here:$here" -w "$PWD" -e PYTHONPATH="$here/env/image" "$@"
"""
CONTAINER_STEP = """\
packages=$(env/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
rm -rf env/image && mkdir env/image && cp -R "$packages/cluster" env/image
{engine} image inspect {image} > /dev/null 2>&1 || {engine} pull -q {image}
printf '%s' {wrapper} > env/bin/{program}
chmod 755 env/bin/{program}
env/bin/{program} python3 -P -c '
import mpi4py, msgspec, numpy, sys
sys.exit(sys.version_info < (3, 11))' || {{ echo {lacks}; exit 1; }}
"""


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

# The environment's own Python comes first: if it works, it is kept, whatever else there is. A
# Python that the user named decides alone, and the steps tell whether it made the environment.
LOOK = f"""\
folder=$1 token=$2 name=$3 mpi=$4 image=$5 given=$6 libraries=$7 distributions=$8
shift 8
unset PYTHONPATH PYTHONHOME
PATH="$PATH:{PLACES}"
mkdir -p -- "$folder" && cd -- "$folder" || exit
for old in .claim-*; do [ "$old" = ".claim-$token" ] || rm -f -- "$old"; done
ln -sn "$name" ".claim-$token" 2> /dev/null
echo "claim $(readlink ".claim-$token")"
names="env/bin/python3 python3 python3.14 python3.13 python3.12 python3.11"
[ -z "$given" ] || names=
for python in "$given" $names; do
  command -v "$python" > /dev/null || continue
  "$python" -IS -c '
import sys
if sys.version_info < (3, 11):
    sys.exit(1)
import os
from importlib.util import find_spec
if not find_spec("venv"):
    sys.exit(2)
libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else ""
print("python " + os.path.realpath(sys.executable))
print("version %d.%d" % sys.version_info[:2])
print("abi cp%d%d%s" % (*sys.version_info[:2], sys.abiflags))
print("arch " + os.uname().machine)
print("glibc " + (libc or "").replace("glibc ", ""))
' 2> /dev/null && break
  [ $? = 2 ] && without=" without the module venv" || without=
  echo "seen $python $("$python" --version 2>&1 | sed -n '1s/^Python //p')$without"
done
own=env/bin/python3
[ -z "$given" ] || ! $own -IS -c "" 2> /dev/null || python=$own
if [ "$python" = $own ]; then sed 's/^/done /' {MARKER} 2> /dev/null; fi
{benchmark_libraries.LACKS}for program in "$@"; do
  command -v "$program" > /dev/null || echo "missing $program"
done
for program in "$@"; do
  command -v "$program" > /dev/null && continue
  if [ "$(id -u)" = 0 ] || sudo -n true 2> /dev/null; then echo "may install"; fi
  break
done
for manager in apt-get dnf apk pacman zypper; do
  command -v $manager > /dev/null && echo "manager $manager" && break
done
[ -z "$mpi" ] || [ -x "$mpi/bin/mpirun" ] || echo "without mpi"
for engine in podman docker; do
  [ -n "$image" ] && command -v $engine > /dev/null || continue
  $engine info > /dev/null 2>&1 && echo "engine $engine" && break
  echo "engineless $engine"
done
exit 0
"""

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
# A file of paths, which come after the environment's own: its libraries have precedence.
SHARED = """\
packages=$(env/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
{python} -I -c '
import sys
print(*(path for path in sys.path if path.endswith(("site-packages", "dist-packages"))), sep="\\n")
' > "$packages/shared.pth"
"""

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
WRAPPER = """\
#!/bin/sh
LD_LIBRARY_PATH={folders}"${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
export LD_LIBRARY_PATH
exec {prefix}/bin/"${{0##*/}}" "$@"
"""

INSTALL = """\
root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
apt() {
  root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -q "$@"
}
add() {
  if command -v apt-get > /dev/null; then
    apt install -y --no-install-recommends "$1" || { apt update; apt install -y "$1"; }
  elif command -v dnf > /dev/null; then root dnf install -y -q "$1"
  elif command -v apk > /dev/null; then root apk add -q "$1"
  elif command -v pacman > /dev/null; then root pacman -S --noconfirm "$1"
  elif command -v zypper > /dev/null; then root zypper -n install "$1"
  fi
}
"""
ADD = """\
command -v {program} || add {program} || :
command -v {program} || {{ echo {without}; exit 1; }}
"""
WITHOUT = "{program} is missing, and could not be installed. Type there: sudo {install} {program}"

# Check that the installed modules load; the threads of OpenBLAS would only take time.
OWN = """\
packages=$(env/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
rm -rf "$packages"/cluster
env/bin/python3 -IS -m zipfile -e "$new"/*.whl "$packages"
{setting}OPENBLAS_NUM_THREADS=1 env/bin/python3 -P -c '
import cluster.agent.__main__, cluster.agent.facts, cluster.measure.main, mpi4py, numpy
mpi4py.rc.initialize = False
from mpi4py import MPI
print(MPI.Get_library_version().strip("\\0"))'
"""


class HostProbe(Value, frozen=True, kw_only=True):
    """What the probe found on a host before anything is installed there."""

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
    """A step that is still to do."""

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
    todo: list[PendingStep] = []
    before = line = ""
    for step, was in zip_longest(steps, probe.marker[: len(steps)]):
        line = step.mark(line)
        after = f"{before}{line}\n"
        if todo or line != was:
            todo.append(PendingStep(step=step, before=before, after=after))
        before = after
    unmarked = (
        *((_benchmark_libraries(libraries),) if libraries and probe.lacks_libraries else ()),
        *((_programs(probe),) if probe.missing else ()),
    )
    return [
        *todo,
        *(PendingStep(step=pending, before=before, after=before) for pending in unmarked),
    ]


def _benchmark_libraries(libraries: tuple[str, ...]) -> Step:
    """Install them beside those of the environment; NumPy stays the version that it has."""
    packages = (*libraries, wheels.pinned("numpy"))
    script = benchmark_libraries.script(libraries, packages)
    return Step(name=BENCHMARK_STEP, script=script, libraries=packages, with_dependencies=True)


def _programs(probe: HostProbe) -> Step:
    script = INSTALL
    for program in probe.missing:
        hint = WITHOUT.format(program=program, install=probe.install_words)
        script += ADD.format(program=shlex.quote(program), without=shlex.quote(hint))
    return Step(name="programs", script=script)


def steps(environment: Environment, probe: HostProbe, own: tuple[str, bytes]) -> tuple[Step, ...]:
    """Return all steps for a host; what changes most often comes last."""
    mpi, image = environment.mpi, environment.image
    return (
        _libraries(probe.python, wheels.libraries(mpi), environment.python),
        *((_prepared(mpi),) if mpi else ()),
        Step(
            name="cluster",
            script=OWN.format(setting=f"LD_LIBRARY_PATH={_folders(mpi)} " if mpi else ""),
            files=(own,),
        ),
        *((Step(name="image", script=step(probe.engine, image)),) if image else ()),
    )


def _libraries(python: str, requirements: Sequence[str], shared: str) -> Step:
    script = LIBRARIES.format(
        python=shlex.quote(python), requirements=" ".join(map(shlex.quote, requirements))
    )
    return Step(
        name=LIBRARIES_STEP,
        script=script + (SHARED.format(python=shlex.quote(shared)) if shared else ""),
        libraries=tuple(requirements),
    )


def _prepared(mpi: str) -> Step:
    pth = f"import os; os.environ.setdefault('MPI4PY_LIBMPI', {_libmpi(mpi)!r})"
    prefix = shlex.quote(mpi)
    return Step(
        name="prepared MPI",
        script=PREPARED.format(
            prefix=prefix,
            wrapper=shlex.quote(WRAPPER.format(prefix=prefix, folders=_folders(mpi))),
            pth=shlex.quote(pth),
        ),
    )


def _folders(mpi: str) -> str:
    return shlex.quote(f"{mpi}/lib:{mpi}/lib64")


def _libmpi(mpi: str) -> str:
    """Return folders where mpi4py looks for the library; an empty one is the linker's default."""
    return f"{mpi}/lib:{mpi}/lib64:"


def variables(environment: Environment) -> dict[str, str]:
    """Return the variables that processes need for a prepared MPI; none for one from pip."""
    mpi = environment.mpi
    if not mpi:
        return {}
    return {"LD_LIBRARY_PATH": f"{mpi}/lib:{mpi}/lib64", "MPI4PY_LIBMPI": _libmpi(mpi)}
