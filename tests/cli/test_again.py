"""`cluster compare --again`: a shared run measured again elsewhere, and what cannot be chosen."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, command

RUN = "p2p --run-local --metrics memory_copy --sizes 8 --iterations 5 --env LC_TIME=C"


@pytest.fixture
def shared(tools: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small run of this machine as a shared file, without the run itself."""
    command("bench", *RUN.split(), "first")
    path = tmp_path / "first.share.json"
    command("more", "share", "first", "-o", str(path), "-y")
    monkeypatch.setenv("CLUSTER_RUNS", str(tmp_path / "elsewhere"))
    yield path
    for name in ("first", "again"):
        command("down", name, "-y", status=None)


@pytest.mark.usefixtures("home")
def test_a_shared_run_is_measured_again_and_compared(shared: Path, tmp_path: Path) -> None:
    """Two launches of `mpirun`, as both sides of a comparison are measured: 10 s."""
    output = command("compare", str(shared), "again", "--again", "--provider", "local").stdout
    (path,) = (tmp_path / "elsewhere").glob("again/*-p2p/run.json")
    record = json.loads(path.read_text())

    assert record["params"]["sizes"] == [8]
    assert record["params"]["iterations"] == 5
    assert record["variables"] == {"LC_TIME": "C"}
    listed, measured = output.index("a repetition cannot choose"), output.index("Run folder")
    assert listed < output.index("  kernel: ") < measured
    assert listed < output.index("  processor: ") < measured
    assert measured < output.index("shared/first", measured)


@pytest.mark.parametrize(
    ("change", "error"),
    [(('"version":1,', '"version":99,'), "is of version 99"), (("p2p", "p2q"), "was changed")],
)
def test_a_shared_run_that_cannot_be_trusted_is_not_measured(
    change: tuple[str, str], error: str, tmp_path: Path
) -> None:
    path, folder = tmp_path / "old.share.json", ROOT / "tests" / "plain_run"
    command("more", "share", str(folder), "-o", str(path), "-y")
    path.write_text(path.read_text().replace(*change))

    assert error in command("compare", str(path), "--again", "--provider", "local", status=2).stderr
    assert error.rsplit(maxsplit=1)[-1] in command("judge", str(path), status=2).stderr
