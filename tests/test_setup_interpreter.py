"""`scripts/setup` makes .venv with the interpreter that was asked for, and only when it must."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT, run, write_program

INTERPRETER = """#!/bin/sh
case "$*" in
  *base_prefix*) echo NAME ;;
  "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python && echo NAME >> made ;;
esac
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with nothing to install, beside interpreters that only say who they are."""
    place = tmp_path / "project"
    for name in ("pyproject.toml", "requirements.lock", "cluster/core/version.py"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).touch()
    (place / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "setup", place / "scripts")
    for name in ("one", "two"):
        write_program(place / name, INTERPRETER.replace("NAME", name))
    return place


@pytest.mark.usefixtures("tools")
def test_another_interpreter_makes_another_environment(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def set_up(python: str) -> list[str]:
        monkeypatch.setenv("PYTHON", python)
        run(str(project / "scripts" / "setup"), cwd=project)
        return (project / "made").read_text().split()

    assert set_up(str(project / "one")) == ["one"]
    assert set_up(str(project / "one")) == ["one"]
    assert set_up(str(project / "two")) == ["one", "two"]
    assert set_up("") == ["one", "two"], "nothing is asked for: what is there stays"
    assert set_up(str(project / "one")) == ["one", "two", "one"]


@pytest.mark.usefixtures("tools")
def test_an_environment_that_does_not_work_is_made_anew(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the system's Python was upgraded, and the packages are those of the old one."""
    monkeypatch.setenv("PYTHON", str(project / "one"))
    run(str(project / "scripts" / "setup"), cwd=project)
    (project / ".venv" / "bin" / "python").write_text("#!/bin/sh\nexit 1\n")
    run(str(project / "scripts" / "setup"), cwd=project)

    assert (project / "made").read_text().split() == ["one", "one"]
