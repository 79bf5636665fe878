"""Run folders and files that were damaged by chance: each command answers, or says what is wrong.

Seeded; a fifth of the mutations here, and all of them with CLUSTER_LONG=1.
"""

import contextlib
import io
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cluster.cli.command_line import app
from cluster.core.errors import ClusterError
from cluster.runs import share, shared_file
from cluster.runs.store import read
from tests.conftest import ROOT

COMMANDS = (
    "show bad",
    "show bad --json",
    "judge bad",
    "report bad -o page.html",
    "compare bad good",
    "plot --fit bad",
    "runs",
    "more share bad -o shared.json",
    "import bad --name copy",
    "judge bad --hardware wrong.toml",
)
MUTATIONS = 1000 if os.environ.get("CLUSTER_LONG") else 200
WRONG: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**70, 1e308, "", "x", "\0", "\ud800", "../../x", "é" * 300),
    *([], {}, [[]], [None], {"a": 1}, {"": {}}, "999.1.2.3", "127.0.0.1/99", "1e999"),
    *("--token ghp_0123456789abcdefghij0123456789abcdef", "password: hunter2secret"),
)


def leaves(value: Any) -> list[tuple[Any, Any]]:
    """Return each place in a document: what holds it, and its key."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    places = [(value, key) for key, _ in items]
    for _, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(item, dict | list):
            places += leaves(item)
    return places


def wrong_value(text: bytes, chance: random.Random) -> bytes:
    """Put another value, of any type, into one place of a document."""
    lines = text.splitlines() if text.count(b"\n{") else [text]
    index = chance.randrange(len(lines))
    document = json.loads(lines[index])
    holder, key = chance.choice(leaves(document))
    if chance.random() < 0.2:
        del holder[key]
    else:
        holder[key] = chance.choice(WRONG)
    lines[index] = json.dumps(document).encode("utf-8", "surrogatepass")
    return b"\n".join(lines) + b"\n"


def wrong_bytes(text: bytes, chance: random.Random) -> bytes:
    """Change, cut or double some bytes."""
    cut, length = chance.randrange(len(text)), chance.randrange(1, 40)
    noise = bytes(chance.randrange(256) for _ in range(length))
    return chance.choice((text[:cut], text[:cut] + noise + text[cut + length :], text + text[cut:]))


def too_deep(text: bytes, chance: random.Random) -> bytes:
    cut = chance.randrange(len(text))
    count = chance.choice((100, 5000, 100_000))
    return text[:cut] + chance.choice((b"[", b'{"a":')) * count + text[cut:]


KINDS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(wrong_value, wrong_value, wrong_value),
    *(wrong_bytes, too_deep),
)


@pytest.fixture
def whole(home: Path) -> Path:
    """A run with every file that a run can have, and one to compare it with."""
    runs = home.parent / "runs"
    good = runs / "good" / "20261121T144700Z-p2p"
    shutil.copytree(ROOT / "tests" / "plain_run", good)
    folder = home.parent / "kept"
    shutil.copytree(good, folder)
    (folder / "raw").mkdir()
    process = {"rank": 0, "host": "vm", "boot": "b", "processors": [0], "connections": []}
    (folder / "raw" / "process.0.json").write_text(json.dumps(process))
    verdict = {"verdict": "HEALTHY", "rounds": 1, "answer": "HEALTHY: 2 hosts"}
    (folder / "verdict.json").write_text(json.dumps(verdict))
    result = {"format": "osu", "title": "x", "first": 1, "operation": "all_reduce"}
    notes = {"notes": [{"kind": "waived"}]}
    (folder / "results.jsonl").write_text(json.dumps(result | notes) + "\n")
    (folder / "wrong.toml").write_text('[wrong]\nnic = "100gbit"\n')
    return folder


def damage(folder: Path, chance: random.Random) -> str:
    """Damage one file of a run."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    weights = [6 if path.name == "run.json" else 2 for path in files]
    [path] = chance.choices(files, weights)
    kind = wrong_bytes if path.suffix == ".toml" else chance.choice(KINDS)
    path.write_bytes(kind(path.read_bytes(), chance))
    return f"{kind.__name__} {path.name}"


def said_by(words: str) -> str:
    """Run a command in this process; give what is wrong with how it ended."""
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            app(words.split(), standalone_mode=False)
    except SystemExit:
        pass
    except ClusterError as error:
        if not error.what or "\n\n" in error.what or len(error.what) > 2000:
            return f"no sentence: {error.what[:200]!r}"
    except Exception as error:  # noqa: BLE001 - it would be a traceback
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize("words", COMMANDS)
def test_a_damaged_run_is_no_traceback(words: str, whole: Path) -> None:
    chance = random.Random(words)
    bad = whole.parent / "runs" / "bad" / "20261121T144701Z-p2p"
    wrong = []
    for number in range(MUTATIONS // len(COMMANDS)):
        shutil.rmtree(bad, ignore_errors=True)
        shutil.rmtree(bad.parent.parent / "copy", ignore_errors=True)
        shutil.copytree(whole, bad)
        how = damage(bad, chance)
        shutil.copy(bad / "wrong.toml", "wrong.toml")
        line = words.replace("import bad", f"import {bad}")
        if message := said_by(line):
            wrong.append(f"{number}: {how}: {message[:300]}")

    assert wrong == []


def test_a_damaged_shared_file_is_no_traceback(whole: Path) -> None:
    """Also one whose checksum was computed again, so that its parts are read."""
    chance = random.Random(3)
    shared_run = share.prepare(whole).run
    wrong = []
    for _ in range(MUTATIONS // 10):
        index = chance.randrange(len(shared_run.parts))
        kind = chance.choice(KINDS)
        text = kind(shared_run.parts[index].text.encode(), chance).decode("utf-8", "replace")
        parts = [*shared_run.parts]
        parts[index] = replace(parts[index], text=text)
        forged = shared_file.seal(replace(shared_run, parts=tuple(parts)))
        Path("bad.json").write_bytes(shared_file.encode(forged))
        commands = ("judge bad.json", "import bad.json --name copy", "show bad.json")
        messages = {words: said_by(words) for words in commands}
        wrong += [f"{kind.__name__} {k}: {v[:300]}" for k, v in messages.items() if v]

    assert wrong == []


def test_texts_among_the_notes_of_an_older_folder_are_left_to_its_record(whole: Path) -> None:
    assert [note.kind for note in read(whole).results[0].notes] == ["waived"]
