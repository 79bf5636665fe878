"""Who answers is who should: host keys that are unknown, changed, revoked or of another type."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.core.errors import Unreachable
from cluster.core.model.hosts import Machine
from cluster.remote.shells.ssh import SshShell
from tests.conftest import run
from tests.contracts.sshd import Sshd


def refusal(machine: Machine) -> Unreachable:
    """Return why a host is not trusted."""
    with pytest.raises(Unreachable) as error:
        SshShell(machine).run(["true"])
    assert error.value.state == "host key"
    return error.value


def test_an_unknown_host_key_is_refused_with_its_fingerprint(sshd: Sshd) -> None:
    """Nothing is sent, nothing is accepted, and ssh-keygen would print the same."""
    (sshd.folder / "known_hosts").write_text("")
    error = refusal(sshd.machine())

    fingerprint = run("ssh-keygen", "-lf", str(sshd.folder / "host.pub")).stdout.split()[1]
    assert fingerprint in error.what
    assert "--option trust=first-use" in error.remedy
    assert (sshd.folder / "known_hosts").read_text() == ""
    assert sshd.logins() == 0


def test_a_changed_host_key_is_refused(sshd: Sshd) -> None:
    """The command that is named forgets the old key, and does nothing else."""
    sshd.know("other")
    error = refusal(sshd.machine())

    assert error.file == str(sshd.folder / "known_hosts")
    run("sh", "-c", error.remedy.partition("reinstalled: ")[2])
    refusal(sshd.machine())


def test_a_revoked_host_key_is_refused(sshd: Sshd) -> None:
    hosts = sshd.folder / "known_hosts"
    hosts.write_text(hosts.read_text() + f"@revoked * {(sshd.folder / 'host.pub').read_text()}")
    with pytest.raises(Unreachable, match="revoked"):
        SshShell(sshd.machine()).run(["true"])


def test_one_of_two_known_keys_is_enough(sshd: Sshd) -> None:
    """As while a host's key is being replaced."""
    keys = [(sshd.folder / f"{name}.pub").read_text() for name in ("host", "other")]
    text = "".join(f"[127.0.0.1]:{sshd.port} {key}" for key in keys)
    (sshd.folder / "known_hosts").write_text(text)
    shell = SshShell(sshd.machine())

    assert shell.run(["true"]).status == 0
    shell.close()


def test_the_users_own_known_hosts_are_honoured(sshd: Sshd, dot_ssh: Path) -> None:
    """When the provider knows no keys of its own; names may be hashed, as Debian does."""
    machine = sshd.machine(known_hosts="")
    refusal(machine)
    hosts = dot_ssh / "known_hosts"
    hosts.write_text((sshd.folder / "known_hosts").read_text())
    run("ssh-keygen", "-q", "-H", "-f", str(hosts))
    assert "127.0.0.1" not in hosts.read_text()

    shell = SshShell(machine)
    assert shell.run(["true"]).status == 0
    shell.close()


def test_a_host_key_of_another_type_than_we_would_ask_for(servers: Callable[..., Sshd]) -> None:
    """A host has several; the one that is known is asked for."""
    server = servers()
    run("ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", str(server.folder / "rsa"))
    server.stop()
    with (server.folder / "config").open("a") as config:
        config.write(f"HostKey {server.folder / 'rsa'}\n")
    server.start()
    server.know("rsa")
    shell = SshShell(server.machine())

    assert shell.run(["true"]).status == 0
    shell.close()
