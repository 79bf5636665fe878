"""The user's OpenSSH settings, read by us and by `ssh -G`: the same host, port, user and way."""

import pwd
from pathlib import Path

import pytest

from cluster.core.model.hosts import Access
from cluster.remote.ssh import connection
from tests.conftest import run

# ssh asks the system for the home, not HOME; so the test's own is put in its place, for ssh alone.
SSH = 'mount --bind "$1" "$2" && shift 2 && exec ssh -G "$@"'
ASKED = ("hostname", "port", "user", "hostkeyalias", "proxyjump", "identityfile")
IN_ORDER = (
    "User everybody\n"
    "Include first ~/.ssh/conf.d/* {home}/elsewhere/third\n"
    "Host friend\n"
    "  Port 2201\n"
    "  Port 2202\n"
    "Host *\n"
    "  HostName %h.example.org\n"
    "  User nobody\n"
)
CASES: dict[str, dict[str, str]] = {
    "first value wins, whatever file it is in": {
        ".ssh/config": IN_ORDER,
        ".ssh/first": "Host friend\n  HostKeyAlias one\n",
        ".ssh/conf.d/a": "Host friend\n  HostKeyAlias two\n  Port 2200\n",
        "elsewhere/third": "Host other\n  Port 2203\n",
    },
    "a file is included within a section": {
        ".ssh/config": "Host friend\n  Include inner\n  Port 22\nHost other\n  Port 24\n",
        ".ssh/inner": "Port 23\nHost other\n  User inner\n",
    },
    "what follows an included file is in the section before it": {
        ".ssh/config": "Host other\nInclude inner\nPort 2300\nHost friend\nUser me\n",
        ".ssh/inner": "Host friend\n  User inner\n",
    },
    "files include files": {
        ".ssh/config": "Include a\nHost *\n  Port 2000\n",
        ".ssh/a": "Include b\nUser a\n",
        ".ssh/b": "Host friend\n  HostName 10.1.2.3\nInclude c\n",
        ".ssh/c": "Port 2100\n",
    },
    "files that are not there": {
        ".ssh/config": "Include nothing conf.d/* /nowhere/*\nHost friend\n  Port 2400\n"
    },
    "words as ssh allows them": {
        ".ssh/config": (
            "# a comment\n"
            "hOsT=friend\n"
            "  hostname = 10.0.0.7\n"
            '  User "me"\n'
            "  port=2500\n"
            'INCLUDE "with a space" other\n'
        ),
        ".ssh/with a space": "HostKeyAlias spaced\n",
        ".ssh/other": "IdentityFile /keys/other\n",
    },
    "patterns and exceptions": {
        ".ssh/config": "Include hosts\nHost * !friend\n  Port 2600\nHost f?iend o*\n  User both\n",
        ".ssh/hosts": "Host !other *\n  HostName not-other\n",
    },
    "the way through others": {
        ".ssh/config": "Include jumps\nHost jump\n  HostName 10.0.0.1\n",
        ".ssh/jumps": "Host friend\n  ProxyJump me@jump:2222\nHost other\n  ProxyJump none\n",
    },
    "sections for what matches": {
        ".ssh/config": (
            "Include matches\n"
            "Match host 10.0.0.9\n"
            "  Port 2700\n"
            "Match originalhost other\n"
            "  Port 2701\n"
            "Match all\n"
            "  User all\n"
        ),
        ".ssh/matches": "Host friend\n  HostName 10.0.0.9\n",
    },
}


@pytest.fixture(scope="module")
def ssh_home(openssh: None) -> str:
    """Return the home of root, whom ssh believes to be in a namespace of its own."""
    home = pwd.getpwuid(0).pw_dir
    if run("unshare", "-rm", "mount", "--bind", "/var", home, status=None).returncode:
        pytest.skip("nobody may make namespaces here, in which ssh would read other settings")
    return home


def by_ssh(home: Path, ssh_home: str, *words: str) -> dict[str, str]:
    lines = run("unshare", "-rm", "sh", "-c", SSH, "sh", str(home), ssh_home, *words).stdout
    values: dict[str, str] = {}
    for line in lines.splitlines():
        key, _, value = line.partition(" ")
        values.setdefault(key, value)
    return values


def by_us(host: str) -> dict[str, str]:
    """Return what we connect by, as far as the settings say it."""
    *_, target = connection.route(Access(host=host))
    settings = target.ssh_config
    values = {"hostname": target.host, "port": str(target.port)}
    values |= {"user": target.user} if "user" in settings else {}
    values |= {key: settings[key] for key in ("hostkeyalias", "proxyjump") if key in settings}
    if values.get("proxyjump") == "none":  # ssh does not print that there is no way through others
        del values["proxyjump"]
    for file in settings.get("identityfile", [])[:1]:
        values["identityfile"] = file
    return values


@pytest.mark.parametrize("host", ["friend", "other"])
@pytest.mark.parametrize("name", CASES)
def test_a_name_means_the_same_host_as_for_ssh(
    home: Path, ssh_home: str, name: str, host: str
) -> None:
    folder = home.parent
    for path, text in CASES[name].items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text.replace("{home}/elsewhere", str(folder / "elsewhere")))
    expected, by_default = by_ssh(folder, ssh_home, host), by_ssh(folder, ssh_home, "-Fnone", host)

    values = by_default | by_us(host)
    assert {key: values.get(key) for key in ASKED} == {key: expected.get(key) for key in ASKED}


def test_a_difference_would_be_seen(home: Path, ssh_home: str) -> None:
    (home.parent / ".ssh").mkdir()
    (home.parent / ".ssh" / "config").write_text("Host friend\n  Port 2345\n  User me\n")

    assert by_ssh(home.parent, ssh_home, "friend")["port"] == "2345"
    assert by_us("friend")["user"] == by_ssh(home.parent, ssh_home, "friend")["user"] == "me"
