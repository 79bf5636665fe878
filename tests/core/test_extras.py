"""Optional libraries: where they are missing, everything else works, and a message helps."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from cluster.cli.commands import doctor
from cluster.core import extras
from cluster.core.version import version_of_library
from tests.conftest import ROOT, command, run, write_program
from tests.snapshots import Snapshot

LOG = str(ROOT / "tests" / "logs" / "osu.latency.txt")
OPTIONAL = ("boto3", "botocore", "google", "matplotlib", "obstore", "fsspec", "scipy")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def needed_by(name: str, distributions: dict[str, Distribution]) -> dict[str, Distribution]:
    """Collect what a distribution needs, and what those need, without extras."""
    for text in distribution(name).requires or ():
        requirement = Requirement(text)
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and requirement.name not in distributions:
            distributions[requirement.name] = distribution(requirement.name)
            needed_by(requirement.name, distributions)
    return distributions


def packages(package: Distribution) -> Iterator[Path]:
    """Yield the top-level entries of a distribution in its folder."""
    names = {path.parts[0] for path in package.files or () if not path.parts[0].startswith("..")}
    yield from (Path(str(package.locate_file(name))) for name in names - {"__pycache__"})


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment with what the project needs always; give its interpreter."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True)
    [site] = folder.glob("lib/python*/site-packages")
    (site / "cluster").symlink_to(ROOT / "cluster")
    for package in needed_by("cluster-ruler", {}).values():
        for path in packages(package):
            if not (site / path.name).exists():
                (site / path.name).symlink_to(path)
    python = folder / "bin" / "python"
    for library in OPTIONAL:
        assert f"'{library}'" in run(str(python), "-c", f"import {library}", status=1).stderr
    return python


def in_bare(python: Path, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    line = "import sys; from cluster.cli import main; sys.argv[0] = 'cluster'; main()"
    return run(str(python), "-c", line, *words, status=status)


@pytest.mark.quick(False)  # seconds
def test_every_module_can_be_imported_without_the_extras(bare: Path) -> None:
    """Only the functions that call a cloud or draw need their libraries."""
    line = (
        "import pkgutil, importlib, cluster\n"
        "names = [m.name for m in pkgutil.walk_packages(cluster.__path__, 'cluster.')]\n"
        "names = [n for n in names if not n.endswith('__main__')]\n"
        "[importlib.import_module(n) for n in names]; print(len(names))"
    )
    assert int(run(str(bare), "-c", line).stdout) > 150


@pytest.mark.quick(False)  # seconds
@pytest.mark.parametrize(
    "words",
    [
        ("up", "a", "--plan", "--provider", "aws", "--instance", "c5.large"),
        ("up", "a", "--plan", "--provider", "gcp", "--zone", "us-central1-a"),
        ("plot", "osu"),
        ("more", "push", "s3://nowhere/here", "osu"),
        ("more", "push", "file:///nowhere/here", "osu"),
    ],
    ids=["boto3", "google", "matplotlib", "obstore", "fsspec"],
)
def test_a_missing_library_is_answered_with_the_command_that_installs_it(
    bare: Path, words: tuple[str, ...], snapshot: Snapshot
) -> None:
    command("import", LOG, "--name", "osu")

    snapshot(in_bare(bare, *words, status=2).stderr.replace(str(bare), "BARE"))


def test_clusters_are_listed_where_a_cloud_cannot_be_asked(
    bare: Path, monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "mine")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "mine")

    result = in_bare(bare, "ls")
    snapshot(f"{result.stdout}{result.stderr}".replace(str(bare), "BARE"))


def test_a_report_without_matplotlib_comes_without_plots_and_says_so(
    bare: Path, home: Path, snapshot: Snapshot
) -> None:
    command("import", LOG, "--name", "osu")
    command("report", "osu", "-o", "with.html")

    result = in_bare(bare, "report", "osu", "-o", "without.html")
    snapshot(result.stderr.replace(str(bare), "BARE"))
    page, bare_page = (home / "with.html").read_text(), (home / "without.html").read_text()
    assert "<svg" in page
    assert "<svg" not in bare_page
    assert "matplotlib" in bare_page
    assert re.findall(r"<td.*?</td>", page) == re.findall(r"<td.*?</td>", bare_page)


@pytest.mark.quick(False)  # seconds
def test_the_command_keeps_this_project_and_adds_what_the_extra_needs(bare: Path) -> None:
    """The words that a message prints, given to the pip of the environment, which asks no index."""
    words = shlex.split(extras.install_command("plot").replace("-m pip", "-Im pip"))
    result = run(*words, "--dry-run", "--no-index", "--no-build-isolation")

    assert f"Requirement already satisfied: {words[-1]}" in result.stdout
    assert "Requirement already satisfied: matplotlib" in result.stdout


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        (
            "pyvenv.cfg",
            "home = /usr/bin\n",
            "{prefix}/bin/python -m pip install 'cluster-ruler[aws]'",
        ),
        (
            "pyvenv.cfg",
            "home = /usr/bin\nuv = 0.9.2\n",
            "uv pip install --python {prefix}/bin/python 'cluster-ruler[aws]'",
        ),
        ("pipx_metadata.json", "{}", "pipx runpip measure install 'cluster-ruler[aws]'"),
    ],
    ids=["venv", "uv", "pipx"],
)
def test_the_command_is_for_what_made_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, expected: str
) -> None:
    prefix, tools = tmp_path / "measure", tmp_path / "tools"
    prefix.mkdir()
    (prefix / file).write_text(text)
    write_program(tools / "uv", "#!/bin/sh\n")
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(sys, "executable", f"{prefix}/bin/python")

    assert extras.install_command("aws") == expected.format(prefix=prefix)


def test_the_foreign_package_of_the_old_name_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pip install cluster` installs another project, whose folder has the same name."""
    assert version_of_library(extras.FOREIGN) == ""
    assert doctor.foreign_package() == ()

    folder = tmp_path / "cluster-1.4.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: cluster\nVersion: 1.4.1\n")
    monkeypatch.syspath_prepend(tmp_path)
    [check] = doctor.foreign_package()
    assert not check.ok
    assert "cluster 1.4.1" in check.found
    pip = f"{shlex.quote(sys.executable)} -m pip"
    assert check.remedy == (
        f"{pip} uninstall cluster; then, in the folder of its sources: "
        f"{pip} install --force-reinstall ."
    )


def test_the_names_are_those_of_the_project() -> None:
    """Messages name the distribution and extras that there are; `all` has the small ones."""
    dependencies = PYPROJECT["project"]["optional-dependencies"]
    texts = [path.read_text() for path in (ROOT / "cluster").rglob("*.py")]
    names = re.findall(r'require\(\s*"[\w.]+", "(\w+)"', "\n".join(texts))

    assert PYPROJECT["project"]["name"] == extras.DISTRIBUTION
    assert set(names) >= {"aws", "gcp", "plot"}
    assert set(names) <= set(dependencies)
    assert dependencies["all"] == ["cluster-ruler[aws,frames,gcp,plot,stores]"]
    assert set(dependencies) == {"aws", "frames", "gcp", "plot", "stores", "training", "all", "dev"}
