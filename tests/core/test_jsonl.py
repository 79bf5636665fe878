"""Append-only files, whose last line a crash may have cut off."""

from pathlib import Path

import pytest

from cluster.core.state import files


@pytest.mark.parametrize("chunk", [1, 2, 7, 1 << 16])
@pytest.mark.parametrize(
    ("before", "lines"),
    [
        (b"", b""),
        (b"whole\n", b"whole\n"),
        (b"whole\ncut", b"whole\n"),
        (b"cut from the beginning", b""),
        (b"a\n" + b"x" * 100, b"a\n"),
        (b"\n", b"\n"),
    ],
)
def test_a_cut_off_line_makes_room(
    tmp_path: Path, before: bytes, lines: bytes, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "CHUNK", chunk)
    path = tmp_path / "file"
    path.write_bytes(before)
    files.append(path, b"new\n", sync=True)

    assert path.read_bytes() == lines + b"new\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    [(b"", []), (b"a\nb\n", [b"a", b"b"]), (b"a\nb", [b"a"]), (b"a", []), (b"\n\n", [b"", b""])],
)
def test_whole_lines(text: bytes, lines: list[bytes]) -> None:
    assert files.complete_lines(text) == lines
