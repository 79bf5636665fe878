"""The wheel works away from the checkout, in an environment that has nothing else."""

import json
import os
import shutil
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT, run

UV = shutil.which("uv", path=f"{os.environ['PATH']}:{ROOT}/.venv/uv/bin")
"""It links what `scripts/setup` has downloaded, where pip would take minutes to do so again."""
CACHE = os.environ.get("UV_CACHE_DIR", f"{Path.home()}/.cache/uv")  # a test has a home of its own


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=ROOT)
    [path] = folder.glob("*.whl")
    return path


def test_it_holds_what_users_need_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    assert "cluster/benchmarks/iperf.py" in names
    assert {f"cluster/benchmarks/p2p/{name}.py" for name in ("__init__", "__main__")} <= set(names)
    assert "cluster/py.typed" in names
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"cluster"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_published_results_take_200_kb_of_it_at_most(wheel: Path) -> None:
    files = zipfile.ZipFile(wheel).infolist()
    corpus = [
        file for file in files if file.filename.startswith("cluster/analysis/limits/published/")
    ]

    assert {"collectives.toml", "messages.toml", "devices.toml"} <= {
        file.filename.rpartition("/")[2] for file in corpus
    }
    assert sum(file.file_size for file in corpus) <= 200_000


@pytest.mark.network
@pytest.mark.usefixtures("tools")
def test_it_measures_in_an_empty_environment(
    wheel: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no Python, MPI or setting of the checkout in sight."""
    place = home / "empty"
    venv.create(place, with_pip=not UV)
    monkeypatch.setenv("UV_CACHE_DIR", CACHE)
    python, constraints = str(place / "bin" / "python"), str(ROOT / "requirements.lock")
    pip = (UV, "pip", "install", "--python", python) if UV else (python, "-m", "pip", "install")
    run(*pip, "-q", "-c", constraints, str(wheel), timeout=500)
    folder = os.path.dirname(sys.executable)  # noqa: PTH120 - compared with words of PATH
    path = [word for word in os.environ["PATH"].split(":") if word != folder]
    monkeypatch.setenv("PATH", ":".join(path))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)

    words = ("bench", "p2p", "--provider=local", "--metrics=latency", "--sizes=8", "--iters=10")
    document = json.loads(run(str(place / "bin" / "cluster"), *words, "--json").stdout)
    assert document["status"] == "done"
    assert document["summaries"][0]["n"] >= 10
    record = json.loads((home.parent / "runs" / "p2p").glob("*/run.json").__next__().read_text())
    assert record["machines"][0]["bin"] == str(place / "bin")
