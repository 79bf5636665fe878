"""Kinds of names, in what programs write about them: none stays, and what names nobody does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cluster.logs.reader import read
from cluster.logs.redaction import redact
from cluster.runs.pseudonyms import replace, replacements
from tests.contracts.test_parsers import values
from tests.logs.samples import LOGS

HERE = Path(__file__).parent
# After each title, what must not be left besides the words that begin with qv; then the lines.
SECTIONS = re.split(r"^== ", (HERE / "planted_names.txt").read_text(), flags=re.MULTILINE)[1:]
PLANTED = {
    title.partition(": ")[0]: (text.rstrip("\n"), title.partition(": ")[2].split())
    for title, _, text in (section.partition("\n") for section in SECTIONS)
}
KEPT = (HERE / "kept_words.txt").read_text().splitlines()


def written(text: str) -> tuple[str, ...]:
    """Give a text alone, as a string and as lines of JSON, in JSON in JSON, and in colours."""
    one = json.dumps({"out": text, "lines": text.split("\n")})
    return text, one, json.dumps({"in": one}), re.sub(r"^|(?<= )", "\x1b[1;32m", text)


def shared(text: str) -> str:
    """Replace the names in a text that is the only one of its run."""
    text = b"".join(redact([text.encode()])).decode()
    return replace("raw/x.log", text, replacements([text], []))


@pytest.mark.parametrize("kind", PLANTED)
def test_no_planted_name_stays_in_any_dress(kind: str) -> None:
    text, more = PLANTED[kind]
    names = {*re.findall(r"(?i)qv[\w-]*\w", text), *more}
    assert len(names) > 1
    for dressed in written(text):
        seen = shared(dressed).lower()

        assert not [name for name in names if name.lower() in seen], seen


@pytest.mark.parametrize("kind", PLANTED)
def test_json_stays_json(kind: str) -> None:
    """An escape such as \\n before a name is no part of it."""
    _, one, two, _ = written(PLANTED[kind][0])

    assert set(json.loads(shared(one))) == {"out", "lines"}
    assert set(json.loads(json.loads(shared(two))["in"])) == {"out", "lines"}


def test_an_address_has_one_pseudonym_in_each_form_and_another_address_another() -> None:
    text = "10.0.0.1 10.0.0.2 0x0A000001 0x0A000002 10-0-0-1 10-0-0-2 525400abcde1 525400abcde2"
    seen, again = (line.split() for line in shared(f"{text}\n{text}").split("\n"))
    forms = (r"198\.18\.\d+\.\d+", "0xc612[0-9a-f]{4}", r"198-18-\d+-\d+", "02[0-9a-f]{10}")

    assert seen == again
    assert len(set(seen)) == len(text.split())
    assert not set(seen) & set(text.split())
    assert all(re.fullmatch(forms[at // 2], word) for at, word in enumerate(seen))


def test_the_end_of_a_uuid_is_no_address_of_its_own() -> None:
    """The list that is shown, and asked for, has each name once."""
    text = "/dev/shm/cluster-26a97c76 94ccc550-c44b-4206-8ab6-6680e10d55e0"  # noqa: S108 - a word

    assert [each.kind for each in replacements([text], [])] == ["id"]


@pytest.mark.parametrize("text", KEPT)
def test_what_names_nobody_stays(text: str) -> None:
    assert shared(text) == text


def test_an_account_that_each_system_has_names_nobody() -> None:
    seen = shared("USER=ubuntu\ngit@qvhost1 ubuntu@qvhost2\ngit clone on ubuntu 22.04")

    assert "qvhost" not in seen
    assert seen.endswith("git clone on ubuntu 22.04")


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.txt")), ids=lambda path: path.stem)
def test_a_shared_log_has_the_same_numbers(path: Path) -> None:
    data = path.read_bytes()
    before, after = (values(read([each])) for each in (data, shared(data.decode()).encode()))

    assert [m for _, m in after] == [m for _, m in before]
