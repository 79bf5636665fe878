"""What OpenSSH's files say: the same as ssh-keygen finds in them."""

from pathlib import Path

import pytest

from cluster.remote.ssh import openssh_files
from tests.conftest import run

KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"


def host_line(names: str, marker: str = "") -> str:
    return f"{marker} {names} ssh-ed25519 {KEY} a comment\n".lstrip()


@pytest.mark.usefixtures("openssh")
@pytest.mark.parametrize(
    ("names", "name", "expected"),
    [
        ("host", "host", True),
        ("host", "HOST", True),
        ("Host", "host", True),
        ("host", "hosts", False),
        ("other,host", "host", True),
        ("*.example.org", "a.example.org", True),
        ("*.example.org", "example.org", False),
        ("h?st", "host", True),
        ("*,!host", "host", False),
        ("!other,host", "host", True),
        ("[host]:2222", "[host]:2222", True),
        ("[host]:2222", "host", False),
        ("[h]ost", "host", False),
        ("h.st", "host", False),
        ("|1|no|base64", "host", False),
        ("|1|only", "host", False),
    ],
)
def test_names_and_patterns(tmp_path: Path, names: str, name: str, *, expected: bool) -> None:
    text = "# a comment\n\nnot a key\n" + host_line(names)
    (tmp_path / "known_hosts").write_text(text)
    output = run(
        *("ssh-keygen", "-F", name, "-f", str(tmp_path / "known_hosts")), status=None
    ).stdout

    assert bool(openssh_files.matching(text, name)) == expected
    assert (KEY in output) == expected


@pytest.mark.usefixtures("openssh")
def test_hashed_names_are_found(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(host_line("host") + host_line("[host]:2222"))
    run("ssh-keygen", "-q", "-H", "-f", str(path))

    for name in ("host", "[host]:2222"):
        assert [line.key for line in openssh_files.matching(path.read_text(), name)] == [KEY]
    assert openssh_files.matching(path.read_text(), "other") == []


def test_markers_are_told() -> None:
    text = host_line("host") + host_line("host", "@revoked")

    assert [line.marker for line in openssh_files.matching(text, "host")] == [
        "",
        openssh_files.REVOKED,
    ]


def test_the_name_of_an_entry() -> None:
    assert openssh_files.entry("host", 22) == "host"
    assert openssh_files.entry("host", 2222) == "[host]:2222"


def test_what_follows_an_included_file_is_in_the_section_it_was_in(home: Path) -> None:
    folder = home.parent / ".ssh"
    (folder / "more").mkdir(parents=True)
    (folder / "more" / "b").write_text("Host b\nPort 2\n")
    (folder / "more" / "a").write_text("Port 1\n")
    (folder / "config").write_text(
        "Include nothing\nUser u\nHost x\ninclude=more/* ~/.ssh/more/a\nPort 3\n"
    )

    assert [line for line in openssh_files.settings(folder / "config").splitlines() if line] == [
        *("Host *", "Host *", "User u", "Host x"),
        *("Host x", "Port 1", "Host x", "Match originalhost x originalhost b", "Port 2"),
        *("Host x", "Port 1", "Host x", "Port 3"),
    ]


def test_settings_that_are_not_there_or_include_themselves(home: Path) -> None:
    path = home / "config"
    assert openssh_files.settings(path) == ""
    path.write_text(f"Include {path}\nPort 1\n")

    assert openssh_files.settings(path).count("Port 1") == openssh_files.DEEPEST + 1
