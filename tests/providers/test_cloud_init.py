"""What hosts do as they come up, done by this machine's own shell."""

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from cluster.core.model.spec import ClusterSpec
from cluster.core.state.ssh_keys import load_or_create
from cluster.providers.aws import request
from tests.conftest import write_program

# Without a network, `apt-get update` warns and exits with 0, and `install` finds no package.
APT_GET = """#!/bin/sh
echo "$*" >> "$CALLS"
case $* in *install*) [ "$(grep -c install "$CALLS")" -ge "$NETWORK_AFTER" ] ;; esac
"""


def install(tmp_path: Path, network_after: int) -> tuple[int, list[str]]:
    """Run the command that installs; give its status and how apt-get was called."""
    for name, script in (("apt-get", APT_GET), ("sleep", "#!/bin/sh\n")):
        write_program(tmp_path / name, script)
    key = load_or_create(tmp_path / "key")
    text = request.user_data(ClusterSpec(name="c5"), key, 60.0, ("python3.11",)).partition("\n")[2]
    [command] = msgspec.json.decode(text)["bootcmd"]
    assert command[:4] == ["cloud-init-per", "once", "cluster-packages", "sh"]
    calls = tmp_path / "calls"
    env = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "CALLS": str(calls),
        "NETWORK_AFTER": str(network_after),
    }
    status = subprocess.run(command[3:], env=env, check=False).returncode
    return status, calls.read_text().splitlines()


def test_packages_are_tried_again_until_there_is_a_network(tmp_path: Path) -> None:
    status, calls = install(tmp_path, network_after=3)

    assert status == 0
    assert calls == ["-q update", "-q -y -o DPkg::Lock::Timeout=300 install python3.11"] * 3


def test_packages_are_given_up_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request, "INSTALL_WITHIN", 0)
    status, calls = install(tmp_path, network_after=1000)

    assert status == 1
    assert len(calls) >= 2
