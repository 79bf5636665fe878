"""Files that would take all memory, or never end: every command refuses them with one sentence."""

import gzip
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.core.errors import ParseError, SpecError
from cluster.core.state.files import LARGEST, MIB
from cluster.logs import reader
from cluster.runs.import_ import logs as import_logs
from tests.conftest import COMMAND, command
from tests.logs.samples import LOGS
from tests.snapshots import Snapshot

MEMORY = 1200 * MIB  # address space; an empty `cluster` has 400, and most of 64 MiB is held thrice
SOURCE = " --source https://example.org/log"
READERS = (
    "import {}",
    "judge {}",
    "check --from {}",
    "more topology {}",
    "more profile {}",
    f"more corpus add {{}}{SOURCE}",
    "more scaling {}",
    "more verify {}",
    "judge latest --hardware {}.toml",
)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def one_letter(path: Path) -> None:
    with path.open("wb") as file:
        for _ in range(2 * LARGEST // MIB):
            file.write(MIB * b"x")


def packed_zeros(path: Path) -> None:
    with path.open("wb") as file, gzip.open(file, "wb", compresslevel=9) as out:
        for _ in range(2 * LARGEST // MIB):
            out.write(bytes(MIB))


def rows(path: Path) -> None:
    text = (LOGS / "nccl_tests.new.txt").read_bytes()
    with path.open("wb") as file:
        for _ in range(2 * reader.LARGEST_ROWS // len(text)):
            file.write(text)


def within_memory(line: str) -> subprocess.CompletedProcess[str]:
    """Run a command that may not take more than `MEMORY`."""
    words = [sys.executable, COMMAND, *line.split()]
    argv = ["sh", "-c", f'ulimit -v {MEMORY // 1024}; exec "$@"', "sh", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)


def assert_refused(result: subprocess.CompletedProcess[str], word: str) -> None:
    assert result.returncode == 2, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    assert "MemoryError" not in result.stderr
    assert word in result.stderr


@pytest.mark.parametrize(
    ("make", "line"),
    [
        *(
            (sparse, line)
            for line in ("import {}", "judge {}", "check --from {}", "more corpus add {}")
        ),
        *(
            (sparse, line)
            for line in ("more verify {}", "more scaling {}", "judge latest --hardware {}.toml")
        ),
        *((make, "import {}") for make in (one_letter, packed_zeros)),
    ],
)
def test_a_file_without_an_end(make: Callable[[Path], None], line: str, home: Path) -> None:
    log = home / "n1_n2.log"
    make(log)
    (home / f"{log.name}.toml").symlink_to(log)

    assert_refused(within_memory(f"{line.format(log)}{SOURCE if 'corpus' in line else ''}"), "MiB")


def test_a_small_file_that_unpacks_to_many_lines(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_logs, "UNPACKED", 3 * MIB)
    log = home / "packed.gz"
    log.write_bytes(4 * gzip.compress(MIB * b"\n"))  # files one after another are one

    with pytest.raises(SpecError, match="3 MiB"):
        list(import_logs.log_chunks(str(log), None))

    monkeypatch.setattr(import_logs, "UNPACKED", 4 * MIB)
    assert b"".join(import_logs.log_chunks(str(log), None)) == 4 * MIB * b"\n"


def test_rows_of_which_all_would_be_kept(
    snapshot: Snapshot, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "LARGEST_ROWS", MIB)
    log = home / "long.log"
    rows(log)

    with (
        log.open("rb") as file,
        snapshot.raises(ParseError),
    ):
        reader.read(iter(lambda: file.read(MIB), b""))


@pytest.fixture
def no_files(home: Path) -> dict[str, Path]:
    """A pipe, a socket and a device, with the endings that some commands look at."""
    files: dict[str, Path] = {}
    for ending in ("", ".toml"):
        os.mkfifo(home / f"pipe{ending}")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(f"socket{ending}")
        (home / f"device{ending}").symlink_to("/dev/zero")
    files |= {"pipe": home / "pipe", "socket": home / "socket", "device": home / "device"}
    return files


@pytest.mark.parametrize("line", READERS)
def test_what_is_no_file(line: str, no_files: dict[str, Path]) -> None:
    """A pipe would be waited for, a device read without an end."""
    for kind, path in no_files.items():
        assert_refused(command(*line.format(path).split(), status=None), f"is a {kind}")
