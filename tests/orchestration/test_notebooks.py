"""The library in a notebook: three examples, run by a real kernel of Jupyter."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.conftest import PATIENCE, ROOT, answer, sessions

pytestmark = [pytest.mark.usefixtures("tools"), pytest.mark.quick(False)]

FOLDER = ROOT / "examples" / "notebooks"
ORDER = ("first_look.py", "compare_runs.py", "earlier_runs.py")


def cells() -> Iterator[tuple[str, str]]:
    """Yield the script and the text of each cell."""
    for name in ORDER:
        for text in (FOLDER / name).read_text().split("# %%")[1:]:
            title, _, code = text.partition("\n")
            if "[markdown]" not in title:
                yield name, code


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client and its event loop
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_notebooks_run_and_show_what_they_measured(home: Path) -> None:
    """One kernel runs all three: it takes seconds to start."""
    scripts, texts = zip(*cells(), strict=True)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(t) for t in texts])
    NotebookClient(notebook, timeout=PATIENCE, resources={"metadata": {"path": home}}).execute()
    outputs: dict[str, list[Any]] = {name: [] for name in ORDER}
    for script, cell in zip(scripts, notebook.cells, strict=True):
        outputs[script].append(cell.outputs)

    assert set(ORDER) == {path.name for path in FOLDER.glob("*.py")}
    assert sessions() == []
    assert answer("ls") == []
    measured, run, table, drawing = outputs["first_look.py"]
    assert ["Hosts: " in text for text in map(json.dumps, measured)] == [True, False]
    assert "The job has ended." in measured[1]["data"]["text/html"], "no progress"
    assert run[0]["data"]["text/plain"].startswith("<Run first_look/")
    assert len(run[0]["data"]["text/plain"].splitlines()) == 1
    assert "<b style=" in run[0]["data"]["text/html"]
    assert "64 KiB" in run[0]["data"]["text/html"]
    assert "bandwidth" in table[0]["data"]["text/html"]
    assert "<svg" in drawing[0]["data"]["image/svg+xml"]
    _, compared, ratios, frame = outputs["compare_runs.py"]
    assert "5 of each" in compared[0]["data"]["text/html"]
    assert "speed-up: " in ratios[0]["data"]["image/svg+xml"]
    assert "inconclusive" in frame[0]["data"]["text/plain"]
    listed, judged, summaries, page = outputs["earlier_runs.py"]
    assert "compare_runs" in listed[0]["data"]["text/html"]
    assert judged[0]["text"].startswith("latency ")
    assert "ci_low" in summaries[0]["data"]["text/plain"]
    assert "shape: (3, " in summaries[0]["data"]["text/plain"]
    assert page[0]["text"].startswith("report.html <Run compare_runs/")
    assert "shared memory" in json.dumps(listed)
    assert "<svg" in (home / "report.html").read_text()
