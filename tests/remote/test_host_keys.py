"""New host keys: which sshd is told to read them."""

from __future__ import annotations

import subprocess

import pytest

from cluster.remote.host_keys import LISTENS


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups", True),
        ("sshd: /usr/sbin/sshd -D -f /home/a@b/config [listener] 1 of 10-100 startups", True),
        ("/usr/sbin/sshd -D", True),
        ("/usr/sbin/sshd -D -f /etc/ssh/other", True),
        ("sshd: ubuntu [priv]", False),  # of a connection, by ssh.socket of Debian 12
        ("sshd: root@notty", False),
        ("/usr/sbin/sshd -i", False),
        ("sshd-session: debian [priv]", False),  # OpenSSH 9.8
    ],
)
def test_only_an_sshd_that_listens_is_signalled(words: str, expected: bool) -> None:  # noqa: FBT001
    """One for a single connection would end it; the next one reads the new key anyway."""
    script = f'{LISTENS}\nlistens "$1"'
    done = subprocess.run(["sh", "-euc", script, "sh", words], check=False)

    assert (done.returncode == 0) == expected
