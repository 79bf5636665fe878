"""Files and ports between this machine and hosts, and among hosts."""

import errno
import os
import shutil
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import cluster
from cluster.agent.scratch import sha256
from cluster.core.errors import ClusterError, ShellError, SpecError, Unreachable
from cluster.orchestration.cluster import Cluster
from cluster.providers.lab.network import alter, alter_pair
from cluster.remote.files import host_files, spread
from tests.conftest import until
from tests.lab.conftest import must, shell_of

ODD = ("a 'b' \"c\"", "new\nline", "back\\nslash\\", "-rf", " ", "*")
SERVER = "setsid python3 -m http.server --bind {bind} {port} > /dev/null 2>&1 < /dev/null &"


@pytest.fixture
def place(lab: Cluster) -> Iterator[str]:
    lab.run(["mkdir", "/synced"])
    yield "/synced"
    lab.run(["rm", "-r", "/synced"])


def digest(lab: Cluster, path: str) -> set[str]:
    """Return the SHA-256 of a file on all hosts."""
    return {result.stdout.split()[0] for result in lab.run(["sha256sum", path]).values()}


def test_only_what_differs_is_sent_to_each_host(lab: Cluster, home: Path, place: str) -> None:
    source = home / "code"
    for name in ODD:
        (source / name).mkdir(parents=True)
        (source / name / name).write_text(name)

    first = lab.sync(source, f"{place}/a 'b'")
    again = lab.sync(source, f"{place}/a 'b'")
    (source / "-rf" / "-rf").write_text("-RF")  # as long, and perhaps within the same second
    must(lab, 1, f"rm -r {place}/*/new*")
    second = lab.sync(source, f"{place}/a 'b'")

    assert (first.files, first.sent) == (6, 6)
    assert first.sent_bytes == 2 * sum(len(name) for name in ODD)
    assert (again.sent, again.sent_bytes) == (0, 0)
    assert (second.sent, second.sent_bytes) == (2, 2 * 3 + 8)
    for host in (0, 1):
        assert must(lab, host, f"cat {place}/*/-rf/-rf {place}/*/new*/new*") == "-RFnew\nline"


def test_hosts_pass_large_content_on(
    lab: Cluster, home: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that has everything serves the others, and nothing crosses the line from here."""
    monkeypatch.setattr(spread, "WORTH", 1000)
    source = home / "code"
    for name in ODD:
        (source / name).mkdir(parents=True)
        (source / name / name).write_text(name * 1000)
    (source / "run").write_text("#!/bin/sh\n")
    (source / "run").chmod(0o751)
    size = 10 + 1000 * sum(len(name) for name in ODD)

    first = lab.sync(source, f"{place}/code")
    must(lab, 0, f"rm -r {place}/code/*")
    healed = lab.sync(source, f"{place}/code")
    lab.put(source, f"{place}/put")
    lab.put(source / "-rf" / "-rf", f"{place}/file")

    assert (first.sent_bytes, first.passed_on) == (size, size)
    assert (healed.sent_bytes, healed.passed_on) == (0, size)
    for folder in ("code", "put"):
        listed = must(lab, 0, f"cd {place}/{folder} && find . -type f -printf '%m %s %p\\n' | sort")
        assert (
            must(lab, 1, f"cd {place}/{folder} && find . -type f -printf '%m %s %p\\n' | sort")
            == listed
        )
        assert "751 10 ./run" in listed
        assert digest(lab, f"{place}/{folder}/-rf/-rf") == {sha256(source / "-rf" / "-rf")}
    assert digest(lab, f"{place}/file") == {sha256(source / "-rf" / "-rf")}
    assert must(lab, 1, "ls -A $(echo .cluster-*) | grep part || :") == ""


def test_hosts_that_do_not_see_one_another_get_their_files_from_here(
    lab: Cluster,
    home: Path,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(spread, "WORTH", 1000)
    (home / "code").mkdir()
    (home / "code" / "data").write_text("x" * 2000)
    first, second = lab.machines
    alter_pair(first, second, "cut")
    try:
        report = lab.sync(home / "code", f"{place}/code")
        lab.put(home / "code" / "data", f"{place}/file")
    finally:
        alter_pair(first, second, "heal")

    assert (report.sent_bytes, report.passed_on) == (4000, 0)
    assert digest(lab, f"{place}/code/data") == {sha256(home / "code" / "data")}
    assert digest(lab, f"{place}/file") == {sha256(home / "code" / "data")}
    assert caplog.messages[0].startswith("1.mpi.shared ")


def test_of_a_large_file_only_blocks_that_differ_are_sent(
    lab: Cluster, home: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By rsync; where that fails or is missing, the file is sent whole."""
    (home / "code").mkdir()
    file = home / "code" / "an 'odd' name"
    file.write_bytes(bytes(range(256)) * 20_000)
    host, target = lab.hosts[0], f"{place}/a 'b'"
    lab.sync(home / "code", target, hosts=host)

    def change() -> None:
        with file.open("r+b") as opened:
            opened.seek(2_000_000)
            opened.write(b"changed")

    change()
    parts = lab.sync(home / "code", target, hosts=host)
    if shutil.which("rsync"):
        assert 0 < parts.sent_bytes < 100_000
    else:  # the machine has none: the file was sent whole
        assert parts.sent_bytes == file.stat().st_size
    assert sha256(file) in must(lab, 0, f"sha256sum {place}/*/*")
    monkeypatch.setattr(host_files, "rsync_reaches", lambda _: False)
    file.write_bytes(file.read_bytes()[::-1])
    assert lab.sync(home / "code", target, hosts=host).sent_bytes == file.stat().st_size
    assert sha256(file) in must(lab, 0, f"sha256sum {place}/*/*")


def test_a_full_disk_is_said_and_nothing_is_there_half(
    lab: Cluster, home: Path, place: str
) -> None:
    """The other host gets all of it."""
    (home / "code").mkdir()
    (home / "code" / "large").write_bytes(b"x" * 3_000_000)
    must(lab, 0, f"mkdir {place}/small && mount -t tmpfs -o size=1m none {place}/small")
    try:
        with pytest.raises(ShellError, match=r"3\.000 MB .* 0\.mpi\.shared, .* 1\.049 MB") as error:
            lab.sync(home / "code", f"{place}/small/code")
        names = must(lab, 0, f"ls -A {place}/small")
    finally:
        must(lab, 0, f"umount {place}/small")

    assert 'cluster.attach("shared").run("df -h")' in str(error.value)
    assert names == ""
    assert must(lab, 1, f"stat -c %s {place}/small/code/large") == "3000000\n"


def serve(lab: Cluster, host: int, bind: str, port: int) -> str:
    """Start a server of /etc; give its process."""
    process = must(lab, host, f"cd /etc && {SERVER.format(bind=bind, port=port)} echo $!")
    until(
        lambda: f":{port} " in must(lab, host, "ss -ltn"), f"a server at port {port} of host {host}"
    )
    return process


def read(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/hostname", timeout=30) as answer:
        return str(answer.read().decode())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_port_of_a_host_is_here_until_it_is_closed(lab: Cluster) -> None:
    """Also of a program that listens at the host's own address only."""
    second = lab.hosts[1]
    servers = [serve(lab, 0, "127.0.0.1", 8123), serve(lab, 1, second.ip, 8124)]
    try:
        with lab.forward(8123, free_port()) as first, lab.forward(8124, host=second) as other:
            addresses = (first.address, other.address)
            names = [read(address) for address in (*addresses, *addresses)]
        for address in addresses:
            with pytest.raises(OSError, match="refused"):
                read(address)
    finally:
        for host, process in enumerate(servers):
            must(lab, host, f"kill {process}")

    assert other.address == "127.0.0.1:8124"
    assert names == [must(lab, host, "cat /etc/hostname") for host in (0, 1, 0, 1)]


def test_the_port_of_a_job_is_here(lab: Cluster) -> None:
    job = lab.start(
        "exec python3 -m http.server --bind 127.0.0.1 8126",
        hosts=lab.hosts[1],
        name="web",
        cwd="/etc",
    )
    try:
        job.wait_for_port(8126)
        with job.forward(8126, free_port()) as forward:
            assert read(forward.address) == must(lab, 1, "cat /etc/hostname")
    finally:
        job.stop()
    with pytest.raises(ShellError, match=r"8126 .* 1\.mpi\.shared"):
        job.forward(8126)


def test_ports_that_cannot_be_forwarded_are_refused(lab: Cluster) -> None:
    with pytest.raises(ShellError, match=r"8125 .* 0\.mpi\.shared"):
        lab.forward(8125)
    with pytest.raises(SpecError, match="99999"):
        lab.forward(8125, 99999)
    port = lab.machines[0].access
    assert port is not None
    with socket.create_server(("127.0.0.1", 0)) as server:
        used = server.getsockname()[1]
        with pytest.raises(SpecError, match=rf"{used} .*{os.strerror(errno.EADDRINUSE)}"):
            lab.forward(port.port or 22, used)


def test_a_host_that_is_lost_ends_its_forward(own_labs: None) -> None:
    c = cluster.launch("lost", provider="lab", hosts=1)
    with c.forward(22, free_port()) as forward:
        alter(c.machines[0], "cut")
        with pytest.raises(Unreachable, match=r"22 of 0\.mpi\.lost"):
            forward.wait()
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", forward.local))


def test_a_host_that_does_not_answer_fails_alone(own_labs: None, home: Path) -> None:
    """The others have the files."""
    (home / "code").mkdir()
    (home / "code" / "main").write_text("text")
    half = cluster.launch("half", provider="lab", hosts=2)
    alter(half.machines[1], "kill")

    with pytest.raises(ClusterError, match=r"1\.mpi\.half|198\.18"):
        half.sync("code", "/code")
    assert must(half, 0, "cat /code/main") == "text"
    assert shell_of(half, 0).exists("/code/main")
