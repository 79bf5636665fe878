"""docs/ as a site: it builds without a warning, loads nothing from elsewhere, and is complete."""

import ast
import re
import sys
from pathlib import Path

import pytest

from cluster.cli.overview import FAILED, GATE_HIT, INTERRUPTED, REFUSED, TERMINATED, UNDECIDED
from tests.conftest import ROOT, run
from tests.test_house import trees

# Set by cluster for its own processes on the hosts; nobody else sets them.
INTERNAL = {
    f"CLUSTER_{name}"
    for name in (
        *("ADDRESSES", "FOLDER", "HOST_FOLDER", "HOSTS", "NAMES"),
        *("PATH", "RANKS", "REACH", "SSH_CONFIG", "TASK"),
        *("NAME", "JOB", "NODE_RANK", "NUM_NODES", "NODE_IPS", "HEAD_IP", "GROUP"),  # of a task
        *("RESTART", "IPS_", "IPS_WORKER"),
        *("WATCH", "CHANGE"),  # of the command of a watch
        "COMMAND",  # of a command on hosts
        *("GATE_KEY", "GATE_NODE"),  # of the pods of a gate
    )
}
LOADED = re.compile(
    r'<(?:script|img|iframe)[^>]* src="(https?:[^"]*)|<link[^>]* href="(https?:[^"]*)'
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build it, as CI must: 6 s of one core, of which half are imports."""
    folder = tmp_path_factory.mktemp("site")
    result = run(str(ROOT / "scripts" / "docs"), "-d", str(folder))
    assert "WARNING" not in result.stderr  # --strict has failed already; this names the line
    return folder


def test_every_page_is_there_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = {str(page.relative_to(site)): page.read_text() for page in site.rglob("*.html")}
    sources = {
        str(page.relative_to(ROOT / "docs").with_suffix(".html"))
        for page in (ROOT / "docs").rglob("*.md")
    }

    assert set(pages) > sources | {"index.html", "contributing.html", "reference/python.html"}
    assert {name: urls for name, text in pages.items() if (urls := LOADED.findall(text))} == {}


def test_the_reference_is_made_from_the_code(site: Path) -> None:
    """A word of each page that stands in the code only."""
    expected = {
        "commands": "--until-precise",
        "python": "cluster.launch",
        "metrics": "round trip",
        "providers": "threads_per_core",
        "log-formats": "nvbandwidth",
        "known-problems": "docker0",
        "hardware": "p4d.24xlarge",
        "json": "RunAnswer",
    }

    for name, word in expected.items():
        assert word in (site / "reference" / f"{name}.html").read_text(), name
    assert '"confidence"' in (site / "reference/schemas/judge.schema.json").read_text()


def test_every_json_answer_has_its_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    line = (
        "import command_pages, value_pages\n"
        "with_json = {path.split()[1] for path, context in command_pages.commands()\n"
        "             if any('--json' in param.opts for param in context.command.params)}\n"
        "print(sorted(with_json ^ {name.split()[0] for name in value_pages.ANSWERS}))"
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "scripts" / "site"))

    assert run(sys.executable, "-c", line).stdout == "[]\n"


def test_every_environment_variable_of_ours_is_described() -> None:
    """Each string of the code, and each word of its scripts, that is the name of one."""
    page = (ROOT / "docs" / "reference" / "environment-variables.md").read_text()
    texts = "\n".join(
        node.value
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    scripts = "".join(path.read_text() for path in (ROOT / "cluster").rglob("*.sh"))
    names = set(re.findall(r"\bCLUSTER_[A-Z_]+", texts + scripts)) - INTERNAL

    assert names == set(re.findall(r"^\| `(CLUSTER_[A-Z_]+)`", page, re.MULTILINE))


def test_every_exit_status_is_described() -> None:
    page = (ROOT / "docs" / "reference" / "exit-statuses.md").read_text()
    statuses = {int(status) for status in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}

    assert statuses == {0, FAILED, REFUSED, GATE_HIT, UNDECIDED, INTERRUPTED, TERMINATED}


def test_the_messages_of_the_troubleshooting_page_are_ours() -> None:
    page = (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text()
    quotes = [
        text
        for row in re.findall(r"^\| (.+?) \| ", page, re.MULTILINE)
        if "`" in row
        for text in re.findall(r"`([^`]{9,})`", row)
        if not text.startswith("cluster ")
    ]
    sources = "\n".join(path.read_text() for path in (ROOT / "cluster").rglob("*.py"))

    assert len(quotes) > 15
    assert [text for text in quotes if text not in sources] == []


def test_pictures_are_small_and_load_nothing() -> None:
    """scripts/pictures makes them; the README and a page of their own show them."""
    pictures = sorted((ROOT / "docs" / "pictures").iterdir())
    pages = (ROOT / "docs" / "pictures.md").read_text() + (ROOT / "README.md").read_text()

    assert {"terminal-80.svg", "terminal-120.svg", "report-dark.png", "report-light.png"} == {
        picture.name for picture in pictures
    }
    for picture in pictures:
        assert f"pictures/{picture.name})" in pages
        assert picture.stat().st_size < 1e6
    for picture in (path for path in pictures if path.suffix == ".svg"):
        text = picture.read_text()
        assert "LOW" in text
        assert "url(http" not in text
        assert "@import" not in text
