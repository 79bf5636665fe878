"""What the agent reads of a rank that runs, on a process of this machine."""

import os
import shutil
import signal
import socketserver
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.agent.hang import HEAD, LATEST, SLOT, SLOTS, report
from cluster.core.model.hang import HostReport
from cluster.logs.dumps import read_dump
from tests.conftest import Install, until
from tests.logs.dumps.samples import RAS, RAS_TEXT

LINE = b"""{"header":{"id":"0xa","rank":3,"n_ranks":4},"metadata":\
{"inspector_output_format_version":"v4.0","dump_timestamp_us":1790000000000000,"hostname":"n0",\
"pid":5},"coll_perf":{"coll":"AllReduce","coll_sn":41}}
"""
RANK = """
import mmap, os, sys, time
from pathlib import Path
calls, inspector = Path(sys.argv[1]), open(sys.argv[2], "rb")
head = bytearray(calls.read_bytes())
head[:4] = os.getpid().to_bytes(4, sys.byteorder)
calls.write_bytes(head)
with calls.open("r+b") as file:
    mapped = mmap.mmap(file.fileno(), 0)
os.chdir("job")
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def looked_at(tmp_path: Path) -> Iterator[HostReport]:
    """A rank below a shell, that has changed its folder since it began to call MPI."""
    (tmp_path / "job").mkdir()
    head = HEAD.pack(0, 3, 4, 0)
    slots = (
        SLOT.pack(0, 0, 0, 0, 0, b"", 0),
        SLOT.pack(1, 812, 1_790_000_000 * 10**9, 4, 1, b"MPI_Allreduce", 7 * 10**9),
        SLOT.pack(5, 9, 1_790_000_000 * 10**9, 2, 0, b"MPI_Bcast", 0),
        SLOT.pack(6, 2, 1_790_000_000 * 10**9, 4, 0, b"MPI_Bcast", 0),
    )
    empty = bytes((SLOTS - len(slots)) * SLOT.size)
    members = struct.pack("=10i", 0, 1, 2, 3, 3, 1, 3, 2, 1, 0)
    (tmp_path / "mpi_calls.3").write_bytes(head + b"".join(slots) + empty + members)
    (tmp_path / "n0-pid5.log").write_bytes(LINE * (LATEST // len(LINE) + 9))
    words = [
        *("sh", "-c", '"$@"; true', "sh"),
        sys.executable,
        "-c",
        RANK,
        str(tmp_path / "mpi_calls.3"),
        str(tmp_path / "n0-pid5.log"),
    ]
    records = {"TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "dump_"), "XDG_CACHE_HOME": str(tmp_path)}
    (tmp_path / "dump_3").write_bytes(b"of a job before")
    os.utime(tmp_path / "dump_3", (1_700_000_000, 1_700_000_000))
    env = os.environ | records | {"PMI_RANK": "3", "PMI_SIZE": "4", "NCCL_INSPECTOR_ENABLE": "1"}
    with subprocess.Popen(
        words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            until(lambda: "nanosleep" in report(tmp_path).snapshots[0].wchan, "it sleeps")
            (tmp_path / "torch").mkdir()
            (tmp_path / "torch" / "comm_lib_trace_rank_3").write_bytes(b"of this job")
            yield report(tmp_path)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_sources_of_a_rank_that_has_changed_its_folder(looked_at: HostReport) -> None:
    state, calls = looked_at.snapshots
    (dump,) = [file for file in looked_at.files if file.name.startswith("inspector")]
    (read,) = read_dump(dump.name, dump.content, dump.at)

    assert (calls.source, calls.rank, calls.operations[0].number) == ("mpi_calls", 3, 812)
    assert calls.pause == 7
    members = {group.group: group.ranks for group in calls.groups}
    groups = {f"{5:016x}": (3, 1), f"{6:016x}": (3, 2, 1, 0)}
    assert members == {"MPI_COMM_WORLD": (0, 1, 2, 3), **groups}
    assert state.groups[0].ranks == (0, 1, 2, 3)
    assert state.addresses
    (record,) = [file for file in looked_at.files if file.name.startswith("trace_rank_3")]
    assert record.content == b"of this job"
    assert len(dump.content) <= LATEST
    assert (read.rank, read.operations[-1].number) == (3, 41)
    assert state.wchan in state.kernel or os.geteuid() != 0


class Ras(socketserver.StreamRequestHandler):
    """NCCL's RAS of one version: it answers each line, refuses what it does not know, and ends."""

    def handle(self) -> None:
        server = self.server
        assert isinstance(server, RasServer)
        for line in self.rfile:
            words = line.decode().strip().lower()
            if words == "verbose status":
                self.wfile.write(server.answers[server.form])
                return
            if words == "set format json" and "json" in server.answers:
                server.form = "json"
            if words in ("client protocol 2", "timeout 3") or server.form == "json":
                self.wfile.write(b"OK\n")
            else:
                self.wfile.write(f"ERROR: Unknown command {words}\n".encode())


class RasServer(socketserver.TCPServer):
    answers: dict[str, bytes]
    form = "text"


@pytest.mark.parametrize(
    ("answers", "ranks"),
    [({"text": RAS_TEXT.encode()}, 8), ({"text": b"", "json": RAS}, 2)],  # 2.24, and 2.28
)
def test_nccl_is_asked_for_its_communicators(
    tmp_path: Path, answers: dict[str, bytes], ranks: int
) -> None:
    with RasServer(("127.0.0.1", 0), Ras) as server:
        server.answers = answers
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_address[1]}"
        env = {**os.environ, "PMI_RANK": "0", "NCCL_RAS_ADDR": address}
        with subprocess.Popen(["sleep", "600"], cwd=tmp_path, env=env) as process:
            try:
                (file,) = until(lambda: report(tmp_path).files, "it is asked")
            finally:
                process.kill()
        server.shutdown()
    dumps = read_dump(file.name, file.content, file.at)

    assert [dump.rank for dump in dumps] == [*range(ranks)]
    assert dumps[0].counts[0].entered > 0


@contextmanager
def sleep_begun(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a rank 5 that sleeps; it is loaded before, and seen only once it has its variables."""
    env = {**os.environ, "PMI_RANK": "5"}
    with subprocess.Popen(["sleep", "600"], cwd=folder, env=env) as process:
        try:
            until(
                lambda: any("nanosleep" in s.wchan for s in report(folder).snapshots), "it sleeps"
            )
            yield process
        finally:
            process.kill()


def test_a_native_stack_is_read_on_request_and_the_process_goes_on(tmp_path: Path) -> None:
    if shutil.which("eu-stack") is None:
        pytest.skip("no eu-stack: apt-get install elfutils")
    with sleep_begun(tmp_path) as process:
        (file,) = report(tmp_path, native=True).files
        state = report(tmp_path).snapshots[0].state
    (snapshot,) = read_dump(file.name, file.content, file.at)

    assert state == "sleeping"
    assert (snapshot.rank, snapshot.pid) == (5, process.pid)
    assert "nanosleep" in snapshot.native[0].function
    assert ".so" in snapshot.native[0].file
    assert snapshot.native[-1].file.endswith("/sleep")


def test_a_process_that_may_not_be_looked_at_has_no_native_stack(
    tmp_path: Path, install: Install
) -> None:
    install("eu-stack", "#!/bin/sh\nexit 2\n")
    install("eu-addr2line", f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    with sleep_begun(tmp_path):
        files = report(tmp_path, native=True).files

    assert files == ()
    assert not (tmp_path / "asked").exists()  # without addresses, it would read our input
