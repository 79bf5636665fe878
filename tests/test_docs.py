"""What the pages promise is run as it stands."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import COMMAND, ROOT, command, run, run_script, sessions
from tests.forked import put_command

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "tests/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
# Their examples are run by tests of their own.
APART = ("CONTRIBUTING.md", "architecture.md")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")
# The pages of the site; scripts/docs makes those that no file holds, or fails (tests/test_site.py).
NAVIGATION = re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
# They set everything up and run these tests; CI and the shows run them.
NOT_HERE = ("scripts/",)


def blocks(page: Path, kind: str) -> list[str]:
    return [text for language, text in BLOCK.findall(page.read_text()) if language == kind]


def having(kind: str) -> list[Path]:
    """Return the pages that have blocks of a kind, for this test to run."""
    return [page for page in PAGES if page.name not in APART and blocks(page, kind)]


@pytest.fixture
def plugins_of_the_page(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = home / "that" / "folder"
    for text in blocks(ROOT / "CONTRIBUTING.md", "python"):
        path = folder / text.partition("\n")[0].removeprefix("# ")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    return folder


@pytest.mark.usefixtures("tools")
def test_the_smallest_plugins_run_together(
    plugins_of_the_page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A benchmark on a provider through a starter, shown by a report: five files, nothing else."""
    assert sorted(path.parent.name for path in plugins_of_the_page.rglob("*.py")) == [
        *("benchmarks", "parsers", "providers", "reports", "starters")
    ]
    [script] = blocks(ROOT / "CONTRIBUTING.md", "console")
    monkeypatch.setenv("CLUSTER_PLUGINS", str(plugins_of_the_page))
    result = run("bash", "-ec", script.replace("$ ", ""))

    assert re.search(r"barrier_time +50 ", result.stdout)
    assert re.fullmatch(r"barrier_time [0-9.e-]+ s", result.stdout.splitlines()[-1])
    command("down", "barrier")
    assert sessions() == []


def test_the_smallest_plugins_are_well_written(plugins_of_the_page: Path) -> None:
    """They pass the same type checker as ours, with the cache of `scripts/check`."""
    words = ("-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-pretty")
    files = map(str, plugins_of_the_page.rglob("*.py"))
    result = run(sys.executable, *words, *files, cwd=ROOT, status=None)
    assert result.returncode == 0, result.stdout


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("page", having("console"), ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the page, each with the result it promises: exit status 0."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    shell = put_command(COMMAND, tmp_path)
    text = "".join(blocks(page, "console"))
    commands = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]
    lines = [words for words in commands if not words.startswith(NOT_HERE)]

    assert lines
    for words in lines:
        run("bash", "-ec", words, cwd=ROOT, **shell)
    command("down", "--all", "-y")


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("page", having("python"), ids=lambda page: page.stem)
def test_the_python_of_a_page_runs(page: Path) -> None:
    shutil.copytree(ROOT / "tests" / "plain_run", Path("runs", "old", "20261121T144700Z-p2p"))
    for text in blocks(page, "python"):
        Path("block.py").write_text(text)
        assert run_script("block.py").stdout
    assert sessions() == []


def test_the_readme_is_short_and_leads_to_every_page() -> None:
    """A page that no other page names is not found."""
    targets = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in LINK.findall(page.read_text())
    }

    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
    assert {page for page in PAGES if "adr" not in page.parts} - targets == {ROOT / "README.md"}


def test_every_question_of_the_readme_has_a_command_that_exists() -> None:
    text = (ROOT / "README.md").read_text()
    names = set(re.findall(r"`cluster ([a-z]+)", "\n".join(path.read_text() for path in PAGES)))
    lines = re.findall(r"^  ([a-z]+(?:, [a-z]+)*)  ", command("--help").stdout, re.MULTILINE)
    commands = {name for line in lines for name in line.split(", ")}

    assert len(re.findall(r"^\| .*\? \| `", text, re.MULTILINE)) >= 8
    assert names - commands == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_link_is_broken(page: Path) -> None:
    targets = {(ROOT / "docs" / name).resolve() for name in NAVIGATION}
    for target in LINK.findall(page.read_text()):
        path = (page.parent / target).resolve()
        assert path.exists() or path in targets, target


def test_every_decision_has_its_parts() -> None:
    """An ADR is short, and says what was decided, why, and what it costs."""
    pages = sorted((ROOT / "docs" / "adr").glob("*.md"))

    assert len(pages) >= 5
    for page in pages:
        text = page.read_text()
        assert len(text.splitlines()) <= 40, page.name
        for part in ("## Decision", "## Why", "## Costs"):
            assert part in text, f"{page.name} lacks {part}"
