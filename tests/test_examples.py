"""The examples run as they are."""

from pathlib import Path

import pytest

from tests.conftest import ROOT, answer, run_script, sessions

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_and_leaves_nothing(path: Path) -> None:
    if "import torch" in path.read_text():
        pytest.importorskip("torch")
    result = run_script(str(path))

    assert result.stdout
    assert sessions() == []
    assert answer("ls") == []


def test_each_of_them_is_short() -> None:
    assert len(EXAMPLES) >= 2
    assert max(len(path.read_text().splitlines()) for path in EXAMPLES) <= 40
