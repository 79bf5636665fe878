"""A shared run that was damaged or forged: each part and each kind of byte is held to its sum."""

import random
import re
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from cluster.core.errors import SpecError
from cluster.runs import share, shared_file
from cluster.runs.shared_file import SharedPart, SharedRun
from tests.conftest import COMMAND, ROOT, command, run, tries
from tests.snapshots import Snapshot

BITS = (0x01, 0x20, 0x80)  # the lowest, the case of a letter, and one that is no ASCII


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "runs" / "old" / "20261121T144700Z-p2p"
    shutil.copytree(ROOT / "tests" / "plain_run", path)
    (path / "raw").mkdir()
    (path / "raw" / "a.log").write_text("a size of 8 µs\n")
    return path


@pytest.fixture
def copy(folder: Path) -> SharedRun:
    return share.prepare(folder, with_logs=True).run


def test_any_flipped_bit_of_any_byte_is_found(copy: SharedRun) -> None:
    """Every byte, so every part, sum, name, number and bracket: 20,000 files in 2 s."""
    content = shared_file.encode(copy)
    unseen = []
    for index in range(len(content)):
        for bit in BITS:
            data = bytearray(content)
            data[index] ^= bit
            try:
                shared_file.decode(bytes(data), "a")
            except SpecError:
                continue
            unseen.append((index, bit))

    assert unseen == []


def rearrange(run_: SharedRun, chance: random.Random) -> SharedRun:
    """Move, merge, split, rename, double or drop parts of a shared run, as a forger would."""
    parts = list(run_.parts)
    n, other = chance.sample(range(len(parts)), 2)
    old, new = parts[n], parts[other]
    cut = chance.randrange(len(old.text))
    break_ = chance.choice(("\n", "  ", '","text":"', "\0", '"},{"name":"'))
    match chance.randrange(8):
        case 0:
            parts[n], parts[other] = new, old
        case 1:
            parts[n], parts[other] = replace(old, name=new.name), replace(new, name=old.name)
        case 2:
            parts[n] = replace(old, name=f"{old.name}{break_}{new.name}")
        case 3:
            parts[n : n + 1] = [replace(old, text=old.text[:cut]), replace(new, text="more")]
        case 4:
            parts[n] = replace(old, text=f"{old.text}{break_}{new.name}{break_}{new.text}")
            del parts[other]
        case 5:
            del parts[n]
        case 6:
            parts.insert(n, chance.choice((old, new)))
        case _:
            return replace(run_, simulated=not run_.simulated)
    return replace(run_, parts=tuple(parts))


def test_of_a_thousand_rearrangements_none_is_whole(copy: SharedRun) -> None:
    chance = random.Random(11)
    refused = 0
    for _ in range(tries(1000)):
        forged = copy
        for _ in range(chance.randint(1, 3)):
            forged = rearrange(forged, chance)
        if forged != copy:
            refused += 1
            with pytest.raises(SpecError, match="changed since it was written"):
                shared_file.decode(shared_file.encode(forged), "a")

    assert refused > 0.9 * tries(1000)


@pytest.mark.parametrize("name", ["raw/a\nb", "raw/a\x1b[1m", "run.json", "raw/\u202eb"])
def test_a_name_with_control_characters_or_twice_is_refused(
    name: str, copy: SharedRun, snapshot: Snapshot
) -> None:
    """Also if somebody computed the checksum again."""
    forged = shared_file.seal(replace(copy, parts=(*copy.parts, SharedPart(name=name, text="x"))))
    with snapshot.raises(SpecError):
        shared_file.decode(shared_file.encode(forged), "a")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "was cut off"),
        (b'{"format":"cluster-share"', "was cut off"),
        (b'{"format":"other","version":1}', "its format is 'other'"),
        (b'{"format":"cluster-share","version":"1"}', "no shared run"),
        (b'{"format":"cluster-share","version":1,"a":' + b"[" * 100_000, "no shared run"),
        (b'{"format":"cluster-share\xff","version":1}', "no shared run"),
    ],
)
def test_what_is_no_shared_run_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        shared_file.decode(content, "a")


@pytest.mark.parametrize(
    "name", ["../../evil", "/evil", "raw/../../evil", "a\0b", ".", "run.json/a"]
)
def test_a_part_that_cannot_be_a_file_of_the_run_is_refused(
    name: str, copy: SharedRun, tmp_path: Path
) -> None:
    forged = replace(copy, parts=(*copy.parts, SharedPart(name=name, text="x")))
    path = tmp_path / "evil.json"
    path.write_bytes(shared_file.encode(shared_file.seal(forged)))

    with pytest.raises(SpecError, match=re.escape(repr(name))):
        shared_file.unpack(path)


def test_others_judge_compare_and_report_it_without_the_original(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot
) -> None:
    """Two runs, shared from one place; then only the files are left, at another."""
    target = tmp_path / "there"
    target.mkdir()
    newer = folder.with_name("20261122T144700Z-p2p")
    shutil.copytree(folder, newer)
    record = newer / "run.json"
    record.write_text(record.read_text().replace(folder.name, newer.name))
    for name, path in (("a", folder), ("b", newer)):
        command("more", "share", str(path), "-o", str(target / f"{name}.json"))
    shutil.rmtree(tmp_path / "runs")
    monkeypatch.chdir(target)

    answer = command("judge", "a.json").stdout
    snapshot(answer)
    assert "cluster-share-" not in answer  # a folder that is gone by now
    snapshot(command("compare", "a.json", "b.json").stdout)
    command("report", "a.json")
    assert "1.162" in (target / "report.html").read_text()
    output = command("show", "a.json").stdout
    snapshot(output)


def test_a_full_disk_leaves_the_file_that_was_there(
    snapshot: Snapshot, folder: Path, tmp_path: Path
) -> None:
    """A limit on the size of files stands for the disk: the kernel refuses to write, too."""
    path = tmp_path / "run.share.json"
    path.write_text("older")
    script = f"trap '' XFSZ; ulimit -f 1; exec {COMMAND} more share {folder} -o {path}"
    message = run("sh", "-c", script, status=2).stderr

    snapshot(message)
    assert path.read_text() == "older"
    assert not list(tmp_path.glob(".*.part"))
