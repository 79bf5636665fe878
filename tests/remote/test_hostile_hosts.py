"""A measured host whose sshd, tar and python belong to somebody else: what it can do to us."""

import errno
import io
import json
import os
import random
import re
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from cluster.cli.terminal import printable
from cluster.core.errors import ShellError
from cluster.remote import transfer
from cluster.remote.parallel import try_each
from cluster.remote.remote_shell import MOST_OUTPUT
from cluster.remote.shells.ssh import SshShell
from cluster.remote.transfer import ChunkWriter, StreamReader
from tests.conftest import LONG, command, run, write_program
from tests.contracts.sshd import Sshd, servers, sshd

__all__ = ["servers", "sshd"]
TYPES = (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)


@pytest.fixture
def answers(servers: Callable[..., Sshd], tmp_path: Path) -> Iterator[Callable[[str], SshShell]]:
    """A real sshd that answers every command by a script of the attacker's."""
    shells: list[SshShell] = []

    def answer(script: str) -> SshShell:
        evil = write_program(tmp_path / "evil", f"#!/bin/sh\n{script}\n")
        shells.append(SshShell(servers(f"ForceCommand {evil}").machine()))
        return shells[-1]

    yield answer
    for shell in shells:
        shell.close()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> bytes:
    header = tarfile.TarInfo(name)
    header.type, header.linkname, header.mode = kind, link, mode
    header.size = 4 if kind == tarfile.REGTYPE else 0
    return header.tobuf(tarfile.GNU_FORMAT) + (b"evil".ljust(512, b"\0") if header.size else b"")


def sends(tmp_path: Path, *members: bytes) -> str:
    payload = tmp_path / "payload"
    payload.write_bytes(b"folder\n" + b"".join(members) + bytes(1024))
    return f"cat {payload}"


@pytest.mark.parametrize(
    "members",
    [
        (member("../outside"),),
        (member("a/../../outside"),),
        (member("./../outside"),),
        (member("link", tarfile.SYMTYPE, ".."), member("link/outside")),
        (member("link", tarfile.SYMTYPE, "/etc/passwd"),),
        (member("link", tarfile.LNKTYPE, "../secret"),),
        (member("link", tarfile.LNKTYPE, "/etc/hostname"),),
        *((member("device", kind),) for kind in TYPES),
    ],
)
def test_nothing_is_written_or_read_outside_and_no_device_is_made(
    answers: Callable[[str], SshShell], tmp_path: Path, members: tuple[bytes, ...]
) -> None:
    home = tmp_path / "desk" / "home"
    home.mkdir(parents=True)
    (tmp_path / "desk" / "secret").write_text("ours")
    shell = answers(sends(tmp_path, *members))

    with pytest.raises(ShellError, match="/there"):
        shell.fetch("/there", home)

    assert sorted(path.name for path in (tmp_path / "desk").iterdir()) == ["home", "secret"]
    assert [*home.rglob("*")] == []


def test_an_absolute_name_is_refused(answers: Callable[[str], SshShell], tmp_path: Path) -> None:
    shell = answers(sends(tmp_path, member(f"{tmp_path}/outside")))
    with pytest.raises(ShellError, match="outside"):
        shell.fetch("/there", tmp_path / "home")

    assert not (tmp_path / "outside").exists()


def test_a_link_that_is_here_is_replaced_and_not_followed(
    answers: Callable[[str], SshShell], tmp_path: Path
) -> None:
    home, target = tmp_path / "home", tmp_path / "ours"
    home.mkdir()
    target.write_text("ours")
    (home / "link").symlink_to(target)
    answers(sends(tmp_path, member("link"))).fetch("/there", home)

    assert target.read_text() == "ours"
    assert (home / "link").read_text() == "evil"


@pytest.mark.parametrize("mode", ["4755", "2755", "6777", "1777"])
def test_set_id_bits_do_not_arrive(
    answers: Callable[[str], SshShell], tmp_path: Path, mode: str
) -> None:
    answers(f"echo {mode}; echo evil").fetch("/there/file", tmp_path / "one")
    folder = sends(
        tmp_path,
        member("file", mode=int(mode, 8)),
        member("in", tarfile.DIRTYPE, mode=int(mode, 8)),
    )
    answers(folder).fetch("/there", tmp_path / "two")

    for path in ("one/file", "two/file", "two/in"):
        assert (tmp_path / path).stat().st_mode & 0o7000 == 0


@pytest.mark.parametrize("first", ["nothing", "99", "-1", "\\377\\376", "7x"])
def test_a_mode_that_is_none(
    answers: Callable[[str], SshShell], tmp_path: Path, first: str
) -> None:
    shell = answers(f"printf -- '{first}\\nevil'")
    with pytest.raises(ShellError, match="/there/file"):
        shell.fetch("/there/file", tmp_path / "home")


def count_bytes(folder: Path) -> int:
    files = [path for path in folder.rglob("*") if path.suffix == ".part" or path.name == "file"]
    return sum(path.stat().st_size for path in files if path.is_file())


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let 8 MB be free here beside the reserve."""
    monkeypatch.setattr(transfer, "room", lambda _: 8_000_000 - count_bytes(tmp_path))
    monkeypatch.setattr("cluster.remote.shells.ssh.ENDS_WITHIN", 0.5)


@pytest.mark.usefixtures("small_disk")
@pytest.mark.parametrize("kind", ["file", "folder", "tera", "many", "sparse"])
def test_sizes_and_counts_are_bounded(
    answers: Callable[[str], SshShell], tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endless stream, a file that is announced as a terabyte, a million files, and holes."""
    monkeypatch.setattr(transfer, "MOST_FILES", 500)
    tera = tarfile.TarInfo("tera")
    tera.size = 1 << 40
    large = tarfile.TarInfo("large")
    large.size = 1_000_000
    sparse = tarfile.TarInfo("sparse")
    sparse.type, sparse.size = tarfile.GNUTYPE_SPARSE, 512
    payload = tmp_path / "part"
    script = {
        "file": "echo 644; exec cat /dev/zero",
        "folder": f"echo folder; while cat {payload}; do :; done",
        "tera": f"echo folder; cat {payload} /dev/zero",
        "many": f"echo folder; while cat {payload}; do :; done",
        "sparse": f"echo folder; cat {payload} /dev/zero",
    }[kind]
    payload.write_bytes(
        {
            "file": b"",
            "folder": large.tobuf(tarfile.GNU_FORMAT) + bytes(1_000_448),
            "tera": tera.tobuf(tarfile.GNU_FORMAT),
            "many": member("small"),
            "sparse": sparse.tobuf(tarfile.GNU_FORMAT),
        }[kind]
    )
    why = {"many": "more than 500 files", "sparse": "holes|header"}.get(kind, "would stay free")

    with pytest.raises(ShellError, match=why):
        answers(script).fetch("/there/x", tmp_path / "home")

    size = sum(p.stat().st_size for p in (tmp_path / "home").rglob("*") if p.is_file())
    assert size <= 8_000_000


def folder_of(*members: bytes) -> bytes:
    return b"folder\n" + b"".join(members) + bytes(1024)


def pax(name: str, **headers: str) -> bytes:
    header = tarfile.TarInfo(name)
    header.pax_headers = headers
    return header.tobuf(tarfile.PAX_FORMAT)


@pytest.mark.parametrize(
    ("archive", "why"),
    [
        ((member("/".join("d" * 600)),), "more than 500 files and folders"),
        (tuple(member(f"{n}/{n}/{n}/x") for n in range(200)), "more than 500 files and folders"),
        ((pax("x", path="a\0b"),), "null byte"),
        (
            (pax("x", **{"GNU.sparse.map": "not,numbers", "GNU.sparse.size": "9"}),),
            "invalid literal",
        ),
        ((pax("x", **{"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}),), "not be copied"),
    ],
)
def test_a_bad_archive_is_one_error_that_names_the_host(
    answers: Callable[[str], SshShell],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    archive: tuple[bytes, ...],
    why: str,
) -> None:
    """Also folders that only a name implies count: each takes an inode."""
    monkeypatch.setattr(transfer, "MOST_FILES", 500)
    home = tmp_path / "desk" / "home"
    payload = tmp_path / "payload"
    payload.write_bytes(folder_of(*archive))
    shell = answers(f"cat {payload}")
    with pytest.raises(ShellError, match=why) as error:
        shell.fetch("/there", home)

    assert f"/there of {shell.host} " in str(error.value)
    assert len([*(tmp_path / "desk").rglob("*")]) <= 502


def test_the_reserve_of_the_disk_is_one_for_all_hosts(
    answers: Callable[[str], SshShell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sends less than there is room for, all together more."""
    home = tmp_path / "home"
    monkeypatch.setattr(transfer, "room", lambda _: 8_000_000 - count_bytes(home))
    shells = {str(n): answers("echo 644; head -c 3000000 /dev/zero") for n in range(4)}
    results = try_each(shells, lambda name, shell: shell.fetch("/there/file", home / name))

    errors = [error for error in results.values() if isinstance(error, ShellError)]
    assert 1 <= len(errors) <= 3
    assert count_bytes(home) <= 8_000_000


@pytest.mark.parametrize(
    "script",
    ["echo folder; while printf x; do sleep 0.05; done", "echo folder; exec sleep 60", "sleep 60"],
    ids=["slowly", "nothing more", "nothing"],
)
def test_a_host_that_never_ends_is_given_up(
    answers: Callable[[str], SshShell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setattr("cluster.remote.remote_shell.PATIENCE", 1.0)
    shell = answers(script)
    with pytest.raises(ShellError, match="/there") as error:
        shell.fetch("/there", tmp_path / "home")

    assert shell.host in str(error.value)


def test_an_error_of_our_own_disk_names_the_host(
    answers: Callable[[str], SshShell], tmp_path: Path
) -> None:
    (tmp_path / "home").write_text("a file where a folder should be")
    shell = answers("echo 644; echo x")
    with pytest.raises(ShellError, match=os.strerror(errno.EEXIST)) as error:
        shell.fetch("/there/file", tmp_path / "home")

    assert shell.host in str(error.value)


def test_endless_output_of_a_command_is_given_up(
    answers: Callable[[str], SshShell], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the answer to facts."""
    monkeypatch.setattr("cluster.remote.remote_shell.MOST_OUTPUT", 4 << 20)
    shell = answers("exec cat /dev/zero")
    with pytest.raises(ShellError, match="4 MiB"):
        shell.run(["python3", "-m", "cluster.agent", "facts"])

    assert MOST_OUTPUT == 256 << 20


def test_a_line_of_50_megabytes_comes_in_parts(answers: Callable[[str], SshShell]) -> None:
    parts: list[int] = []
    shell = answers("head -c 50000000 /dev/zero; head -c 30000000 /dev/zero >&2")
    result = shell.run(["any"], on_line=lambda line: parts.append(len(line)))

    assert sum(parts) == 50_000_000
    assert max(parts) < 10_000_000
    assert len(result.stderr) <= 16 << 20


ESCAPES = "\x1b]0;owned\x07\x1b[2J\x1b[6n\x9b31m\u202eevil\r"


def test_escapes_are_seen_as_text() -> None:
    text = printable(f"a{ESCAPES}b\tc\r\nd \u00fc")

    assert text == ("a\\x1b]0;owned\\x07\\x1b[2J\\x1b[6n\\x9b31m\\u202eevil\\rb\tc\r\nd \u00fc")


def controls(text: str) -> list[str]:
    """Return what a terminal would obey, but for the colours that are ours."""
    rest = re.sub("\x1b\\[[0-9;]*m", "", text)
    return re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", rest)


@pytest.mark.usefixtures("tools", "faulty")
def test_no_command_lets_a_terminal_obey_a_host() -> None:
    """What it prints, complains, notes and fails with is seen, in every command that shows it."""
    words = ("--provider=local", "evil")
    results = {"bench": command("bench", "faulty", *words, "--how=escape", status=1)}
    results["run"] = command("run", "evil", "--", "printf", "%s\\n", ESCAPES)
    for verb in ("logs", "fetch", "wait"):
        results[verb] = command(verb, "evil", status=None)
    results["show"] = command("show", "latest")
    results["json"] = command("show", "latest", "--json")
    results["runs"] = command("runs")
    results["down"] = command("down", "evil")

    for verb, result in results.items():
        assert controls(result.stdout + result.stderr) == [], verb
    for verb in ("bench", "run", "logs", "show"):
        assert "\\x1b]0;owned" in results[verb].stdout + results[verb].stderr, verb
    assert f"note {ESCAPES[:-1]}" in " ".join(json.loads(results["json"].stdout)["notes"])


def test_a_changed_key_is_told_with_both_fingerprints_and_nothing_is_sent(sshd: Sshd) -> None:
    sshd.know("other")
    with pytest.raises(ShellError) as error:
        SshShell(sshd.machine()).run(["true"])

    for key in ("host", "other"):
        fingerprint = run("ssh-keygen", "-lf", str(sshd.folder / f"{key}.pub")).stdout.split()[1]
        assert fingerprint in str(error.value)
    assert sshd.logins() == 0


def test_no_agent_is_forwarded_even_if_the_settings_say_so(
    sshd: Sshd, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home.parent / ".ssh").mkdir(exist_ok=True)
    (home.parent / ".ssh" / "config").write_text("Host *\nForwardAgent yes\nSendEnv *\n")
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)  # sshd would set its own
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up")
    shell = SshShell(sshd.machine())
    variables = shell.run(["env"]).stdout
    shell.close()

    assert "SSH_AUTH_SOCK" not in variables
    assert "AWS_SECRET_ACCESS_KEY" not in variables


def mutate(content: bytes, chance: random.Random) -> bytes:
    """Change bytes, mostly of headers, cut the end, or put something in between."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        position = chance.randrange(min(len(data), chance.choice((512, 2048, len(data)))))
        match chance.randrange(5):
            case 0:
                del data[position + 1 :]
            case 1:
                data[position:position] = chance.randbytes(chance.randrange(600))
            case _:
                data[position] = chance.randrange(256)
    return bytes(data)


def test_a_damaged_archive_is_an_archive_or_one_error(tmp_path: Path) -> None:
    """Whatever arrives: nothing else is raised, and nothing is written outside."""
    source = tmp_path / "source"
    (source / "folder").mkdir(parents=True)
    (source / "file").write_bytes(b"x" * 3000)
    (source / "folder" / "file").write_bytes(bytes(range(256)) * 9)
    archive = io.BytesIO()
    writer = ChunkWriter(archive.write, 700)
    transfer.pack(source, writer)
    writer.flush()
    chance, count = random.Random(41), 0
    for number in range(2000 if LONG else 400):
        stream = io.BytesIO(mutate(archive.getvalue(), chance))
        reader = StreamReader(partial(stream.read, 700))
        try:
            transfer.unpack(reader, tmp_path / "in" / str(number))
        except tarfile.TarError:
            count += 1

    assert count > 100
    assert {path.name for path in tmp_path.iterdir()} <= {"source", "in", "work"}
    assert not any(path.is_symlink() for path in (tmp_path / "in").rglob("*"))
