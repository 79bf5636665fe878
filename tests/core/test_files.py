"""Files that are written whole, or not at all."""

import os
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from cluster.core.errors import SpecError
from cluster.core.state.files import write_file
from tests.conftest import COMMAND, PATIENCE
from tests.reports.test_page import saved
from tests.snapshots import Snapshot

FULL = """
mount -t tmpfs -o size=16k tmpfs small
printf older > small/page.html
"$@" -o small/page.html
echo $?
ls -A small
cat small/page.html
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_keeps_the_page_that_was_there(snapshot: Snapshot, home: Path) -> None:
    """A page is larger than this disk; nothing of it stays, and the old one does."""
    saved("some")
    (home / "small").mkdir()
    result = subprocess.run(
        ["unshare", "-m", "sh", "-c", FULL, "sh", COMMAND, "report", "some"],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )

    assert result.stdout.splitlines() == ["2", "page.html", "older"]
    # Matplotlib says it where that takes more than 5 s
    lines = result.stderr.splitlines(keepends=True)
    snapshot("".join(line for line in lines if "building the font cache" not in line))


def test_a_device_stays_a_device(snapshot: Snapshot) -> None:
    with snapshot.raises(SpecError):
        write_file("/dev/full", b"page")
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_a_pipe_gets_the_content(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_file(pipe, b"page")
    reader.join()

    assert read == [b"page"]
    assert pipe.is_fifo()


def test_a_link_and_the_mode_of_a_file_stay(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    place, link = folder / "page.html", folder / "newest.html"
    place.write_text("older")
    place.chmod(0o640)
    link.symlink_to(place)
    write_file(link, b"newer")

    assert link.is_symlink()
    assert place.read_text() == "newer"
    assert stat.S_IMODE(place.stat().st_mode) == 0o640
    assert sorted(path.name for path in folder.iterdir()) == ["newest.html", "page.html"]


@pytest.mark.parametrize("name", ["no/where", "folder", "a\0b"])
def test_a_name_that_cannot_be_written_is_named_with_the_reason(tmp_path: Path, name: str) -> None:
    (tmp_path / "pages" / "folder").mkdir(parents=True)
    with pytest.raises(SpecError, match="pages"):
        write_file(tmp_path / "pages" / name, b"page")
    assert [path.name for path in (tmp_path / "pages").iterdir()] == ["folder"]
