"""Logs of people who wish harm: their words are shown as words, their numbers read or refused."""

import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cluster.core.errors import ParseError
from cluster.logs.reader import read
from tests.conftest import command, tries
from tests.logs.mutations import LOGS, mutants, survives

HTML = "<img/src=x/onerror=alert(1)>"
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil"
COUNT = int(os.environ.get("CLUSTER_MUTATIONS", tries(1000)))  # 200,000 take four minutes
SEED = 14


class Elements(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture
def log(home: Path) -> Path:
    """A log of nccl-tests whose name, hosts and warnings are HTML and escapes."""
    text = next(path for path in LOGS if path.name == "nccl_tests.new.txt").read_text()
    path = home / f"{HTML.replace('/', ' ')}{ESCAPES}.txt"
    hostile = f"node-a{HTML}{ESCAPES}"
    path.write_text(
        text.replace("node-a", hostile)
        + f"{hostile}:1:2 [0] NCCL WARN {HTML}{ESCAPES}\n"
        + f"[{hostile}:1234] Read -1, expected 131072, errno = 1\n{HTML}{ESCAPES}\n"
    )
    return path


@pytest.mark.parametrize("made_by", ["report", "html"])
def test_a_page_shows_names_conditions_and_log_lines_as_text(
    log: Path, home: Path, made_by: str
) -> None:
    words = (f"--condition={HTML}", f"--describe={HTML}", "--expect=220GB/s")
    command("import", str(log), *words, status=None)  # its warning is a failure
    if made_by == "report":
        command("report", "latest", "-o", "page.html")
    else:
        (home / "page.html").write_text(command("show", "latest", "--format=html").stdout)
    page = Elements((home / "page.html").read_text())

    assert "img" not in page.tags
    assert page.handlers == []
    assert page.tags.count("script") == 2
    assert HTML in page.words


def test_an_import_shows_no_escape_sequences(log: Path) -> None:
    results = [command("import", str(log), status=None)]
    results += [command(verb, "latest", status=None) for verb in ("show", "judge")]
    results += [command("import", str(log), "--log-format=osu", status=None)]

    for r in results:
        assert re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", r.stdout + r.stderr) == []
    assert "\\u202eevil" in results[0].stdout


def test_numbers_that_were_changed_are_read_or_refused() -> None:
    """A seeded sample; CLUSTER_MUTATIONS=200000 tries that many."""
    count = 0
    for name, text in mutants(COUNT, SEED):
        try:
            count += survives(text)
        except Exception as error:
            error.add_note(f"{name}:\n{text}")
            raise

    assert 0.2 * COUNT < count < COUNT


def test_a_log_that_was_not_changed_is_read() -> None:
    with pytest.raises(ParseError):
        read([b"nothing of any benchmark\n"])
    for path in LOGS:
        assert survives(path.read_text(errors="replace")), path.name
