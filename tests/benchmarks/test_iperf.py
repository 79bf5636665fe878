"""The benchmark iperf: what it takes from iperf3's words, and that it leaves no iperf3 behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

import cluster
from cluster.agent.facts import host_facts
from cluster.benchmarks import iperf
from cluster.benchmarks.iperf import (
    FORWARD,
    REVERSE,
    Iperf,
    IperfClient,
    IperfParams,
    IperfServer,
    IperfTest,
    read_result,
)
from cluster.core.errors import ClusterError, JobError, ParseError
from cluster.core.model.hosts import Layout
from cluster.core.text.options import convert
from tests.background import Background
from tests.conftest import command, path_of, runs_folder, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpi4py.MPI import Comm

    from cluster.core.model.results.measurements import Definition
    from cluster.measure.rank import Rank
    from tests.snapshots import Snapshot

# The end of a real document (iperf 3.0.11, github.com/thiezn/iperf3-python, tests/results.json).
DOCUMENT = {
    "start": {"version": "iperf 3.0.11"},
    "intervals": [],
    "end": {
        "streams": [],
        "sum_sent": {"start": 0, "end": 13.0001, "seconds": 13.0001, "bytes": 1520994808},
        "sum_received": {"start": 0, "end": 13.0001, "seconds": 13.0001, "bytes": 1518193248},
    },
}


@pytest.fixture
def iperf3(tools: None) -> None:
    if shutil.which("iperf3") is None:
        pytest.skip("iperf3 is missing: apt-get install iperf3")


def iperf_processes() -> list[int]:
    """List the iperf3 processes of this test: those that run in a folder of its own."""
    state = Path(os.environ["CLUSTER_STATE"])
    pids = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = (path / "cwd").readlink().is_relative_to(state)
            if is_ours and (path / "comm").read_text() == "iperf3\n":
                pids.append(int(path.name))
        except OSError:
            continue
    return pids


@pytest.mark.parametrize("definition", [FORWARD, REVERSE])
def test_every_metric_has_a_whole_definition(definition: Definition) -> None:
    assert definition.benchmark == "iperf"
    assert (definition.unit, definition.better, definition.flow) == ("B/s", "higher", "one way")
    for words in (definition.what, definition.clock, definition.synchronisation):
        assert len(words) > 20
    assert "receiver" in definition.what


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": "sideways"}, "iperf has no metric 'sideways'.\nThere are: forward, reverse"),
        ({"metrics": []}, "There are no metrics"),
        ({"streams": []}, "There are no streams"),
        ({"streams": "1,0"}, "streams is 0; it must be between 1 and 128."),
        ({"streams": 129}, "streams is 129"),
        ({"iterations": 0}, "iterations is 0; it must be at least 1."),
        ({"seconds": 0}, "seconds is 0"),
        ({"seconds": 86_401}, "it must be between 1 and 86400"),
        ({"omit": -1}, "omit is -1"),
        ({"omit": 601}, "it must be between 0 and 600"),
        ({"pair": (0, 2)}, 'pair="0,2" does not name two of the 2'),
        ({"pair": (1, 1)}, 'pair="1,1" does not name two of the 2'),
    ],
)
def test_what_cannot_be_measured_is_refused(options: dict[str, object], message: str) -> None:
    """Before it starts: iperf3 would take 0 seconds for "for ever"."""
    with pytest.raises(cluster.SpecError) as error:
        Iperf().check(convert(options, IperfParams, "parameter"), 2)
    assert message in str(error.value)


@pytest.mark.parametrize(("value", "streams"), [(2, (2,)), ("1,8", (1, 8)), ([4], (4,))])
def test_streams_are_one_number_or_several(value: object, streams: tuple[int, ...]) -> None:
    params = convert({"streams": value}, IperfParams, "parameter")

    Iperf().check(params, 2)
    assert params.streams == streams


def test_the_receivers_figure_is_taken_not_the_senders() -> None:
    assert read_result(json.dumps(DOCUMENT)) == pytest.approx(1518193248 / 13.0001, rel=1e-12)


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ({}, "nothing arrived"),
        ({"sum_received": {"bytes": 0, "seconds": 2.0}}, "nothing arrived"),
        ({"sum_received": {"bytes": 8, "seconds": 0}}, "nothing arrived"),
    ],
)
def test_nothing_is_not_a_value(end: dict[str, object], message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        read_result(json.dumps({**DOCUMENT, "end": end}))


@pytest.mark.parametrize("status", [0, 1])
def test_the_error_of_iperf3_is_told(snapshot: Snapshot, status: int) -> None:
    """Version 3.12 ends with status 0 when it could not connect."""
    text = json.dumps({**DOCUMENT, "end": {}, "error": "unable to connect to server: refused"})

    with snapshot.raises(ClusterError):
        read_result(text, status)


def test_a_whole_document_of_a_client_that_failed_is_no_value(snapshot: Snapshot) -> None:
    with snapshot.raises(ClusterError):
        read_result(json.dumps(DOCUMENT), 143)


@pytest.mark.parametrize("text", ["", "iperf3: unrecognized option\nusage", '{"end": {"sum_rec'])
def test_what_is_not_json_is_said_with_its_first_line(text: str) -> None:
    with pytest.raises(ParseError) as error:
        read_result(text, 1)
    assert "status 1" in error.value.what
    assert error.value.line == text.partition("\n")[0]


@pytest.mark.parametrize(
    ("version", "streams", "noted"),
    [
        ("iperf 3.12 (cJSON 1.7.15)", "1,8", True),
        ("iperf 3.9 (cJSON 1.7.13)", "2", True),
        ("iperf 3.12 (cJSON 1.7.15)", "1", False),
        ("iperf 3.16 (cJSON 1.7.15)", "8", False),
        ("iperf 4.0", "8", False),
        ("/usr/bin/iperf3", "8", False),
    ],
)
def test_streams_that_share_a_thread_are_noted(version: str, streams: str, *, noted: bool) -> None:
    facts = msgspec.structs.replace(host_facts(), host="h1", programs={"iperf3": version})
    params = convert({"streams": streams}, IperfParams, "parameter")
    notes = Iperf().notes(params, (facts,))

    assert len(notes) == int(noted)
    assert all(f"{version} on h1 " in note for note in notes)


@pytest.mark.usefixtures("iperf3")
def test_both_directions_and_every_word_of_iperf3_is_kept() -> None:
    with cluster.launch("both", hosts=2) as c:
        run = c.bench("iperf", streams=2, seconds=1, omit=0, iterations=2)

    assert [(s.metric, s.params, s.n, s.unit) for s in run.summary()] == [
        ("forward", {"streams": 2}, 2, "B/s"),
        ("reverse", {"streams": 2}, 2, "B/s"),
    ]
    assert {m.rank for m in run.measurements} == {0}
    files = sorted(path.name for path in (run.folder / "raw").glob("iperf3.*"))
    assert files == [
        f"iperf3.{metric}.2.{number}.json" for metric in ("forward", "reverse") for number in (1, 2)
    ]
    for m in run.measurements:
        for number, value in enumerate(m.values, 1):
            document = json.loads(
                (run.folder / "raw" / f"iperf3.{m.metric}.2.{number}.json").read_text()
            )
            test = document["start"]["test_start"]
            assert (test["num_streams"], test["duration"], test["omit"]) == (2, 1, 0)
            assert test["reverse"] == int(m.metric == "reverse")
            total = document["end"]["sum_received"]
            assert value == total["bytes"] / total["seconds"]
            assert value == pytest.approx(total["bits_per_second"] / 8, rel=0.01)
    assert run.record.environment[0].programs["iperf3"].startswith("iperf 3.")
    assert iperf_processes() == []


@pytest.mark.usefixtures("iperf3")
def test_any_two_ranks_may_be_the_pair_and_their_lines_are_for_people() -> None:
    words = ("--pair=2,1", "--metrics=forward", "--seconds=1", "--omit=0", "--iterations=1")
    output = command("bench", "iperf", "--hosts=3", *words, "--no-keep").stdout

    assert re.search(r"^Process 2 forward, 1 stream\(s\): [\d.]+ [GM]B/s$", output, re.MULTILINE)
    [m] = [
        json.loads(line)
        for path in runs_folder().glob("iperf/*/measurements.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert (m["rank"], m["unit"], len(m["values"])) == (2, "B/s", 1)


@pytest.mark.usefixtures("iperf3")
def test_the_address_of_the_server_is_the_one_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of 127.0.0.0/8 is this host; the second address is the server's."""
    monkeypatch.setattr(Layout, "places", ("127.0.0.2", "127.0.0.3"))
    with cluster.launch("said", hosts=2) as c:
        run = c.bench("iperf", metrics="forward", seconds=1, omit=0, iterations=1)

    document = json.loads((run.folder / "raw" / "iperf3.forward.1.1.json").read_text())
    assert document["start"]["connecting_to"]["host"] == "127.0.0.3"
    assert [s["remote_host"] for s in document["start"]["connected"]] == ["127.0.0.3"]


@pytest.mark.usefixtures("iperf3")
def test_a_server_that_cannot_be_fails_the_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Layout, "places", ("203.0.113.2", "203.0.113.1"))
    with (
        cluster.launch("nowhere", hosts=2) as c,
        pytest.raises(JobError, match=r"203\.0\.113\.1"),
    ):
        c.bench("iperf")

    assert iperf_processes() == []


@pytest.mark.usefixtures("tools")
def test_a_missing_iperf3_is_refused_before_anything_starts(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = ("bash", "tmux", "sh", "cat", "cut", "grep", "sleep", "sort", "tr")
    monkeypatch.setenv("PATH", path_of(home / "bin", *tools))
    result = command("bench", "iperf", status=2)

    assert "sudo apt-get install iperf3" in result.stderr
    assert not list(runs_folder().glob("*/*"))


@pytest.fixture
def measuring(iperf3: None) -> Iterator[Background]:
    """A run that has a value, and a client and a server that run."""
    words = ("--metrics=forward", "--seconds=2", "--omit=0", "--iterations=100")
    with Background("bench", "iperf", *words, "measuring") as background:
        background.wait_for("Process 0 forward")
        until(lambda: len(iperf_processes()) == 2, "a client and a server run")
        yield background


def read_measurements() -> list[dict[str, Any]]:
    [path] = runs_folder().glob("measuring/*/measurements.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_ctrl_c_leaves_no_iperf3_and_keeps_the_values(measuring: Background) -> None:
    os.killpg(measuring.process.pid, signal.SIGINT)
    status, _ = measuring.end()

    assert status == 130
    assert iperf_processes() == []
    [m] = read_measurements()
    assert m["values"]
    assert not m["complete"]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_killed_takes_its_iperf3_along(measuring: Background, rank: int) -> None:
    """SIGKILL is named, not the iperf3 that lost its partner; the other rank ends with the job."""
    victim = until(lambda: rank_process(rank), "the rank is found")
    os.kill(victim, signal.SIGKILL)
    status, stderr = measuring.end()

    assert status == 1
    assert "SIGKILL" in stderr
    until(lambda: not iperf_processes(), "no iperf3 is left")


def rank_process(number: int) -> int:
    """Find a rank of this test by its environment, which its iperf3 does not have."""
    state = Path(os.environ["CLUSTER_STATE"])
    for path in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = (path / "cwd").readlink().is_relative_to(state)
            variables = (path / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if is_ours and b"OMPI_COMM_WORLD_RANK=%d" % number in variables:
            return int(path.name)
    return 0


class Ports:
    """A rank that was sent the ports of the other one."""

    def __init__(self, *ports: int) -> None:
        self.ports = ports

    def receive(self, comm: None, source: int) -> tuple[int, ...]:
        assert (comm, source) == (None, 1)
        return self.ports


@pytest.mark.parametrize(
    ("answer", "waits"),
    [(b".", 0), (b"", 1), (None, 1)],
    ids=["it lives", "it is killed while it is asked", "it was killed"],
)
def test_a_failure_is_reported_at_once_only_if_the_other_rank_lives(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch, answer: bytes | None, waits: int
) -> None:
    """mpirun names the signal that killed it, if it is given the time to notice."""
    waited: list[float] = []
    monkeypatch.setattr(iperf, "run_program", lambda *_, **__: None)
    monkeypatch.setattr("time.sleep", waited.append)

    def other_rank(listener: socket.socket) -> None:
        with listener.accept()[0] as connection:
            connection.sendall(answer or b"")

    with socket.create_server(("127.0.0.1", 0)) as other:
        thread = threading.Thread(target=other_rank, args=(other,))
        rank = cast("Rank", Ports(5201, other.getsockname()[1]))
        if answer is None:
            other.close()
        else:
            thread.start()
        client = IperfClient(rank, cast("Comm", None), "127.0.0.1", IperfParams())
        with snapshot.raises(ClusterError):
            client.once(IperfTest(definition=FORWARD, streams=1, number=1))
        if answer is not None:
            thread.join()

    assert len(waited) == waits


def test_a_file_says_what_it_holds() -> None:
    assert IperfTest(definition=REVERSE, streams=8, number=3).file == "iperf3.reverse.8.3.json"


def test_a_server_whose_client_cannot_connect_at_the_end_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A firewall may let iperf3 through, and not that; the client goes on as well."""

    class Sent:
        def send(self, ports: tuple[int, int], dest: int) -> None:
            assert (ports[0], dest) == (1, 0)

    monkeypatch.setattr(iperf, "run_server", lambda *_: contextlib.nullcontext(1))
    monkeypatch.setattr(iperf, "SLACK", 0.0)
    monkeypatch.setattr(iperf, "END_WITHIN", 0.01)
    params = IperfParams(seconds=1)
    server = IperfServer(cast("Rank", None), cast("Comm", Sent()), "127.0.0.1", params)

    assert server.once(IperfTest(definition=FORWARD, streams=1, number=1)) == []
