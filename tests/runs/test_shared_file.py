"""A shared run that was damaged or forged: each part and each kind of byte is held to its sum."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import msgspec
import pytest
from msgspec.structs import replace

from cluster.cli import signatures
from cluster.core.errors import SpecError
from cluster.runs import share, shared_file
from cluster.runs.shared_file import SharedRun, part_of
from tests.conftest import COMMAND, ROOT, command, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BITS = (0x01, 0x20, 0x80)  # the lowest, the case of a letter, and one that is no ASCII


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "runs" / "old" / "20261121T144700Z-p2p"
    shutil.copytree(ROOT / "tests" / "plain_run", made)
    (made / "raw").mkdir()
    (made / "raw" / "a.log").write_text("a size of 8 µs\n")
    return made


@pytest.fixture
def made(folder: Path) -> SharedRun:
    return share.prepare(folder)[0]


def test_any_flipped_bit_of_any_byte_is_found(made: SharedRun) -> None:
    """Every byte, so every part, sum, name, number and bracket: 20,000 files in 2 s."""
    content = shared_file.encode(made)
    unseen = []
    for at in range(len(content)):
        for bit in BITS:
            changed = bytearray(content)
            changed[at] ^= bit
            try:
                shared_file.decode(bytes(changed), "a")
            except SpecError:
                continue
            unseen.append((at, bit))

    assert unseen == []


def without_first(run_: SharedRun) -> SharedRun:
    return replace(run_, parts=run_.parts[1:])


def with_another(run_: SharedRun) -> SharedRun:
    return replace(run_, parts=(*run_.parts, part_of("raw/b.log", "more")))


def swapped(run_: SharedRun) -> SharedRun:
    first, second, *rest = run_.parts
    return replace(run_, parts=(second, first, *rest))


def exchanged(run_: SharedRun) -> SharedRun:
    """Each of two parts has the content of the other, with the right sum."""
    first, second, *rest = run_.parts
    names = (replace(first, name=second.name), replace(second, name=first.name))
    return replace(run_, parts=(*names, *rest))


def renamed(run_: SharedRun) -> SharedRun:
    return replace(run_, parts=(replace(run_.parts[0], name="raw/c.log"), *run_.parts[1:]))


def rewritten(run_: SharedRun) -> SharedRun:
    """A changed part whose own sum was computed again."""
    first = run_.parts[0]
    return replace(run_, parts=(part_of(first.name, f"{first.text} "), *run_.parts[1:]))


def measured(run_: SharedRun) -> SharedRun:
    return replace(run_, simulated=not run_.simulated)


FORGERIES = (without_first, with_another, swapped, exchanged, renamed, rewritten, measured)


@pytest.mark.parametrize("forge", FORGERIES)
def test_a_part_more_or_less_or_elsewhere_is_found(
    forge: Callable[[SharedRun], SharedRun], made: SharedRun
) -> None:
    with pytest.raises(SpecError, match="changed since it was written"):
        shared_file.decode(shared_file.encode(forge(made)), "a")


@pytest.mark.usefixtures("openssh")
def test_who_computes_all_sums_again_still_lacks_the_signature(
    folder: Path, tmp_path: Path
) -> None:
    key, path = tmp_path / "key", tmp_path / "run.share.json"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "me", "-f", str(key))
    command("share", str(folder), "-o", str(path), "-y", "--sign", str(key))
    signed = msgspec.json.decode(path.read_bytes(), type=SharedRun)

    assert signatures.is_whole(signed)
    for forge in (without_first, rewritten, measured):
        forged = forge(signed)
        summed = replace(forged, sha256=shared_file.digest(forged.listing))
        path.write_bytes(shared_file.encode(summed))
        assert not signatures.is_whole(shared_file.decode(path.read_bytes(), "a"))
    assert "CHANGED: the signature" in command("verify", str(path), status=1).stdout


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "was cut off"),
        (b'{"format":"cluster-share"', "was cut off"),
        (b'{"format":"other","version":1}', "its format is 'other'"),
        (b'{"format":"cluster-share","version":"1"}', "no shared run"),
        (b'{"format":"cluster-share","version":1,"a":' + b"[" * 100_000, "no shared run"),
        (b'{"format":"cluster-share\xff","version":1}', "no shared run"),
    ],
)
def test_what_is_no_shared_run_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        shared_file.decode(content, "a")


@pytest.mark.parametrize(
    "name", ["../../evil", "/evil", "raw/../../evil", "a\0b", ".", "run.json/a"]
)
def test_a_part_that_cannot_be_a_file_of_the_run_is_refused(
    name: str, made: SharedRun, tmp_path: Path
) -> None:
    forged = replace(made, parts=(*made.parts, part_of(name, "x")))
    path = tmp_path / "evil.json"
    path.write_bytes(shared_file.encode(replace(forged, sha256=shared_file.digest(forged.listing))))

    with pytest.raises(SpecError, match=re.escape(repr(name))):
        shared_file.unpack(path)


def test_others_judge_compare_and_report_it_without_the_original(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs, shared from one place; then only the files are left, at another."""
    there = tmp_path / "there"
    there.mkdir()
    newer = folder.with_name("20261122T144700Z-p2p")
    shutil.copytree(folder, newer)
    record = newer / "run.json"
    record.write_text(record.read_text().replace(folder.name, newer.name))
    for name, each in (("a", folder), ("b", newer)):
        command("share", str(each), "-o", str(there / f"{name}.json"), "-y")
    shutil.rmtree(tmp_path / "runs")
    monkeypatch.chdir(there)

    judged = command("judge", "a.json").stdout
    assert "latency (8 B): " in judged
    assert "all values: cluster show a.json\n" in judged
    assert "cluster-share-" not in judged  # a folder that is gone by now
    assert "inconclusive in all 2 data points" in command("compare", "a.json", "b.json").stdout
    command("report", "a.json")
    assert "1.162" in (there / "report.html").read_text()
    shown = command("show", "a.json").stdout
    assert "latency" in shown
    assert "Shared run: a.json" in shown  # not a folder that is gone


def test_a_full_disk_leaves_the_file_that_was_there(folder: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: the kernel refuses to write, too."""
    path = tmp_path / "run.share.json"
    path.write_text("older")
    limited = f"trap '' XFSZ; ulimit -f 1; exec {COMMAND} share {folder} -o {path} -y"
    said = run("sh", "-c", limited, status=2).stderr

    assert f"{path} cannot be written: " in said
    assert path.read_text() == "older"
    assert not list(tmp_path.glob(".*.part"))
