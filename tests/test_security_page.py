"""The page on security promises only what a test holds."""

import re

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "explanation" / "security.md"


def test_every_promise_names_a_test_that_is_there() -> None:
    names = set(re.findall(r"`(test_\w+)`", PAGE.read_text()))
    files = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    tests = {
        name for text in files for name in re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)
    }

    assert len(names) > 15
    assert names - tests == set()


def test_every_item_of_the_page_names_its_test() -> None:
    """A promise is an item of a list; one without a test is a hope."""
    items = re.split(r"^- ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    bare = [item.partition("\n")[0] for item in items if "`test_" not in item.split("\n\n")[0]]

    assert len(items) > 20
    assert bare == []
