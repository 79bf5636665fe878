"""What scripts/setup installs is what it looks for, and what cannot come is said."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tests.conftest import ROOT, path_of, run

SETUP = ROOT / "scripts" / "setup"
NEEDS = [
    words
    for line in SETUP.read_text().splitlines()
    if (words := shlex.split(line, comments=True))[:1] == ["need"]
]
TOOLS = ("sh", "id", "sed", "cat", "dirname", "true")


def places(wanted: str) -> list[str]:
    """Find a program, or the files of a pattern, as scripts/setup does."""
    if "/" in wanted:
        return [str(path) for path in Path("/").glob(wanted.lstrip("/"))]
    path = shutil.which(wanted) or shutil.which(wanted, path="/usr/sbin")
    return [path] if path else []


def names(path: str) -> list[str]:
    """Give the names of a file: those of each link on the way, and with and without /usr."""
    known = [path]
    while Path(known[-1]).is_symlink():
        known.append(os.path.normpath(Path(known[-1]).parent / Path(known[-1]).readlink()))
    return [*known, *(name.removeprefix("/usr") for name in known)]


def owners(path: str) -> set[str]:
    """Give the installed packages that a file is of."""
    found = run("dpkg-query", "-S", *names(path), status=None).stdout.splitlines()
    owning = [line.rpartition(": ")[0] for line in found if not line.startswith("diversion ")]
    return {package.split(":")[0] for line in owning for package in line.split(", ")}


@pytest.mark.parametrize(("wanted", "package"), [(words[1], words[2]) for words in NEEDS])
def test_a_package_that_is_named_has_the_file_that_is_looked_for(wanted: str, package: str) -> None:
    if shutil.which("dpkg-query") is None:
        pytest.skip("the packages of scripts/setup are Debian's, and this is another system")
    found = places(wanted)
    if not found and os.geteuid() != 0:
        pytest.skip(f"{wanted} is missing, and only root may install it: apt-get install {package}")

    assert found, f"{wanted} is not here, after scripts/setup has installed {package}"
    assert any(package in owners(path) for path in found), (found, [*map(owners, found)])


def test_every_need_is_read() -> None:
    """The test above sees all lines, and each says what is lost without it."""
    assert len(NEEDS) == SETUP.read_text().count("\n  need ") + 1
    assert all(len(words) == 4 and words[3] for words in NEEDS)
    assert {"tmux", "/usr/include/stdio.h", "gfortran"} <= {words[1] for words in NEEDS}


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """Give an environment in which nothing is installed but what scripts/setup itself uses."""
    folder = tmp_path / "bin"
    path = path_of(folder, *TOOLS)
    (folder / "sudo").write_text('#!/bin/sh\nshift\nexec "$@"\n')
    (folder / "sudo").chmod(0o755)
    return {"PATH": path, "PYTHON": sys.executable}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (0, "tmux is missing, also with the package tmux: jobs run in its sessions.\nInstall"),
        (1, "tmux is missing, and may not be installed from here: jobs run in its sessions."),
    ],
)
def test_what_did_not_come_is_said(status: int, said: str, bare: dict[str, str]) -> None:
    """A package manager that brings something else, and one that fails."""
    manager = Path(bare["PATH"]) / "apt-get"
    manager.write_text(f"#!/bin/sh\nexit {status}\n")
    manager.chmod(0o755)
    done = run(str(SETUP), status=2, env=bare)
    assert said in done.stderr
    assert ("Type: sudo apt-get install tmux" in done.stderr) == bool(status)


def test_what_is_locked_installs_with_the_oldest_python_of_debian_12() -> None:
    """Debian 12 has 3.11.2; a package for 3.11.5 and newer ended `scripts/setup dev` there."""
    names = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    needed = {
        name: found
        for name in names
        if (found := metadata.metadata(name).json.get("requires_python"))
        and "3.11.2" not in SpecifierSet(str(found))
    }

    assert len(names) > 100
    assert needed == {}


def test_the_lock_is_complete() -> None:
    """scripts/setup installs what it names and resolves nothing."""
    run(sys.executable, "-m", "pip", "check")
