"""Disks without room for bytes or for names, on either side of a copy."""

import errno
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.core.errors import ShellError
from cluster.remote import transfer
from cluster.remote.parallel import try_each
from cluster.remote.shells.ssh import SshShell
from tests.contracts.sshd import Sshd, servers, sshd

__all__ = ["servers", "sshd"]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB and 40 names."""
    disk = tmp_path / "small"
    disk.mkdir()
    options = ("-t", "tmpfs", "-o", "size=2m,nr_inodes=40", "tmpfs")
    subprocess.run(["mount", *options, str(disk)], check=True)
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.fixture(params=["bytes", "names"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder that does not fit: too many bytes, or too many names."""
    folder = tmp_path / "source"
    folder.mkdir()
    for n in range(60 if request.param == "names" else 3):
        (folder / str(n)).write_bytes(bytes(1 if request.param == "names" else 1_000_000))
    return folder


def test_a_full_disk_of_the_host(sshd: Sshd, small: Path, source: Path) -> None:
    shell = SshShell(sshd.machine())
    results = try_each({"tight": shell}, lambda _, host: host.put(source, f"{small}/there"))
    shell.close()

    assert re.search("written: .*(No space left|Wrote only)", str(results["tight"]), re.DOTALL)


def test_a_full_disk_here(
    sshd: Sshd, small: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "room", lambda _: 1 << 40)
    shell = SshShell(sshd.machine())
    with pytest.raises(ShellError, match=os.strerror(errno.ENOSPC)) as error:
        shell.fetch(str(source), small / "here")
    shell.close()

    assert shell.host in str(error.value)
