"""Shell scripts beside the modules that send them: what they hold is a program of the shell."""

import subprocess
from pathlib import Path

import pytest

from cluster.core.state.files import load_script
from tests.conftest import ROOT

SCRIPTS = [path for path in (ROOT / "cluster").rglob("*.sh") if path.parent.name != "templates"]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_one_of_the_shell(path: Path) -> None:
    shell = "bash" if "bash" in path.read_text().partition("\n")[0] else "sh"
    result = subprocess.run([shell, "-n", path], capture_output=True, text=True, check=False)

    assert result.stderr == ""


def test_values_come_before_the_first_command(tmp_path: Path) -> None:
    (tmp_path / "say.sh").write_text("# What it says\n# of a word\necho $WORD # aloud\n")

    text = load_script(str(tmp_path / "here.py"), "say.sh", WORD="it's 7")
    assert text == "WORD='it'\"'\"'s 7'\necho $WORD # aloud\n"
