"""`cluster more topology`: of logs, and live on the hosts of a cluster."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.conftest import COMMAND, PATIENCE, Install, answer, command
from tests.logs.samples import LOGS
from tests.snapshots import Snapshot

DGX = LOGS / "topology.dgx1v.txt"


def test_a_matrix_is_shown_plain_without_a_terminal(snapshot: Snapshot) -> None:
    output = command("more", "topology", str(DGX)).stdout

    snapshot(output)


def on_a_terminal(*words: str, **variables: str) -> str:
    """Run a command on a terminal, and give what it shows there."""
    screen, terminal = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", **variables}
    with subprocess.Popen([COMMAND, *words], stdout=terminal, env=env) as process:
        os.close(terminal)
        output = bytearray()
        while True:
            try:
                part = os.read(screen, 4096)
            except OSError:  # nobody writes to it any more
                break
            if not part:
                break
            output += part
        os.close(screen)
        process.wait(PATIENCE)
    return output.decode()


def test_classes_have_colours_on_a_terminal() -> None:
    output = on_a_terminal("more", "topology", str(DGX))

    assert "\x1b[1;32mNV2" in output
    assert "\x1b[31mSYS" in output
    assert "\x1b" not in on_a_terminal("more", "topology", str(DGX), NO_COLOR="1")


def test_json_holds_all_of_it() -> None:
    (host,) = answer("more", "topology", str(DGX), str(LOGS / "nccl_log.two_nodes.txt"))

    assert len(host["joined"]["pairs"]) == 28
    assert host["joined"]["best"][0]["path"] == "NV2"
    assert host["joined"]["nearest"][0]["nics"] == ["mlx5_0"]
    assert host["transports"]["experiments"][0]["carriers"]


def test_pasted_with_single_spaces_and_a_log_without_a_topology(snapshot: Snapshot) -> None:
    text = " ".join(DGX.read_text().replace("\n", " \n ").split(" "))
    result = command("more", "topology", "-", text=text)

    snapshot(result.stdout)
    refused = command("more", "topology", str(LOGS / "osu.latency.txt"), status=1).stderr
    snapshot(refused)
    refused = command("more", "topology", status=2).stderr
    snapshot(refused)


def test_a_log_that_says_nothing_is_left_out_and_named(snapshot: Snapshot, home: Path) -> None:
    (home / "empty").write_text("")
    result = command("more", "topology", "empty", str(DGX))

    snapshot(result.stdout)
    snapshot(result.stderr)
    snapshot(command("more", "topology", "empty", status=1).stderr)
    snapshot(command("more", "topology", "nowhere", status=2).stderr)


@pytest.fixture
def two(tools: None) -> str:
    del tools
    command("up", "two", "--hosts", "2")
    return "two"


def test_hosts_without_gpus_say_so(snapshot: Snapshot, two: str) -> None:
    refused = command("more", "topology", "--live", two, status=1).stderr

    snapshot(refused)
    command("down", two)


def test_hosts_are_asked(snapshot: Snapshot, two: str, install: Install) -> None:
    """No GPU is here, so a program of that name prints what one printed elsewhere."""
    stand_in = install("nvidia-smi", f'#!/bin/sh\n[ "$*" = "topo -m" ] && cat {DGX}\n')
    hosts = answer("more", "topology", "--live", two)

    assert [host["host"] for host in hosts] == ["0.mpi.two"]  # both are this machine
    assert hosts[0]["joined"]["best"][0]["gpus"] == [0, 3]
    assert command("more", "topology", "--live", two).stdout.startswith("0.mpi.two\n")
    stand_in.write_text("#!/bin/sh\necho 'Failed to initialize NVML' >&2\nexit 9\n")
    refused = command("more", "topology", "--live", two, status=1).stderr
    snapshot(refused)
    command("down", two)
