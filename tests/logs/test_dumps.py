"""Dumps of jobs that hang come from strangers: nothing in them is run, and no bytes crash."""

import json
import os
import pickle
import sys
import time
import tracemalloc
from pathlib import Path

import msgspec
import pytest

from cluster.core.errors import SpecError
from cluster.logs.dumps import read_dump
from cluster.logs.dumps.flight_recorder import plain_value
from tests.conftest import ROOT, answer, command, run, tries
from tests.logs.dumps.fuzz import Fuzzed
from tests.logs.dumps.samples import (
    FAULT_HANDLER,
    HOSTILE,
    INSPECTOR,
    PY_SPY,
    RAS,
    RAS_OLD,
    RAS_TEXT,
)

DUMPS = ROOT / "tests" / "logs" / "dumps"


def test_both_forms_of_a_flight_recorder_say_the_same() -> None:
    names = ("absent-2.rank1.json", "absent-2_rank_1.pickle")
    forms = [read_dump(name, (DUMPS / name).read_bytes(), 0.0)[0] for name in names]
    for form in forms:
        rows = [(op.number, op.name, op.done, op.sizes) for op in form.operations]
        assert rows == [(1, "all_reduce", True, ((4,),)), (2, "all_reduce", False, ((4,),))]


def test_messages_and_ends_in_a_flight_recorder() -> None:
    """A message has its number and the other rank; what is completed or retired has ended."""
    rows = [
        {"profiling_name": "nccl:send 3->12", "is_p2p": True, "p2p_seq_id": 7, "record_id": 90},
        {"profiling_name": "nccl:recv 3<-2", "is_p2p": True, "p2p_seq_id": 8, "retired": True},
        {"profiling_name": "gloo:all_reduce", "collective_seq_id": 5, "state": "completed"},
        {"profiling_name": "nccl:coalesced", "is_p2p": True, "p2p_seq_id": 9},
    ]
    entries = [{"process_group": ["0", "default_pg"], "record_id": 91} | row for row in rows]
    dump = {"version": "2.10", "pg_config": {}, "entries": entries}

    (rank,) = read_dump("dump_3", json.dumps(dump).encode(), 0.0)

    operations = [(op.name, op.number, op.peer, op.done) for op in rank.operations]
    assert operations == [
        ("send 3->12", 7, 12, False),
        ("recv 3<-2", 8, 2, True),
        ("all_reduce", 5, -1, True),
    ]
    assert rank.partial  # the oldest record is not the first


def test_a_hostile_pickle_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for protocol in range(6):
        content = pickle.dumps(HOSTILE, protocol)
        with pytest.raises(SpecError, match="would run code"):
            read_dump("dump_rank_0", content, 0.0)
    assert not (tmp_path / "pickle-was-run").exists()


def test_plain_pickles_are_read_as_pickle_reads_them() -> None:
    value = {"a": [1, -2, 3.5, True, None, "é"], "n": {"k": 1 << 70}, "t": [1, [2, [3]]]}
    for protocol in range(6):
        assert plain_value(pickle.dumps(value, protocol)) == value


def test_a_pickle_that_unfolds_without_end_is_refused() -> None:
    wide: list[object] = []
    for _ in range(40):
        wide = [wide, wide]  # 2**40 values in 200 bytes
    loop: list[object] = []
    loop.append(loop)
    for value in (wide, loop):
        start = time.process_time()
        with pytest.raises(ValueError, match="too large"):
            plain_value(pickle.dumps(value))
        assert time.process_time() - start < 20


def test_a_pickle_that_asks_for_a_memory_of_many_values_is_refused() -> None:
    place = (1 << 20).to_bytes(4, "little")
    for content in (b"\x80\x02]r" + place + b".", b"(lp1048576\n.", b"(lp-1\n."):
        with pytest.raises(ValueError, match="malformed pickle"):
            plain_value(content)
    assert plain_value(b"\x80\x02]q\x00.") == []


def test_other_sources_are_read() -> None:
    ras = read_dump("ras.json", RAS, 0.0)
    assert [(s.rank, s.host, s.state) for s in ras] == [(0, "n0", ""), (1, "n1", "dead")]
    (rank,) = read_dump("inspector.jsonl", INSPECTOR, 0.0)
    assert (rank.rank, rank.operations[-1].number) == (3, 41)
    (process,) = read_dump("stacks.txt", PY_SPY, 0.0)
    assert (process.pid, process.stack[0].function, len(process.threads)) == (
        4711,
        "_recv_bytes",
        1,
    )


@pytest.mark.parametrize(("text", "kind"), [(RAS_TEXT, "AllReduce"), (RAS_OLD, "collective")])
def test_ras_as_text(text: str, kind: str) -> None:
    ranks = {snapshot.rank: snapshot for snapshot in read_dump("ras.txt", text.encode(), 0.0)}

    counts = {rank: snapshot.counts[0].entered for rank, snapshot in ranks.items()}
    assert counts == {rank: 811 if rank == 5 else 812 for rank in range(8)}
    assert (ranks[5].host, ranks[5].pid, ranks[5].counts[0].name) == ("10.0.0.7", 4242, kind)


def test_stacks_of_faulthandler() -> None:
    (rank,) = read_dump("stack_rank1.txt", FAULT_HANDLER, 0.0)

    assert [(frame.file, frame.line) for frame in rank.stack] == [("/job/train.py", 12)]
    assert [thread[0].function for thread in rank.threads] == ["read"]


@pytest.mark.quick(False)  # seconds
def test_small_dumps_of_large_values_are_refused() -> None:
    doubled = b"\x80\x02X\x09\x00\x00\x00pg_config" + b"q\x00" + b"h\x00h\x00\x86q\x00" * 60 + b"."
    itself = b"\x80\x02]q\x00X\x09\x00\x00\x00pg_configah\x00a."
    deep = b"\x80\x02X\x09\x00\x00\x00pg_config" + b"\x85" * 1_000_000 + b"."
    long = b"\x80\x02X\x09\x00\x00\x00pg_config\x8e" + b"\xff" * 7 + b"\x7f."
    nested = b'{"pg_config":' + b"[" * 1_000_000
    sections = "Communicator ranks have different X operation counts\n1 rank has launched up\n"
    table = (
        "Communicators...\n    0   1   1   1   131071   131071   RUNNING   OK\n#0-0 (0f) MISMATCH\n"
    )
    for content in (doubled, itself, deep, long, nested, (table + sections * 10_000).encode()):
        tracemalloc.start()
        try:
            with pytest.raises(SpecError):
                read_dump("dump_rank_0", content, 0)
            assert tracemalloc.get_traced_memory()[1] < 200e6
        finally:
            tracemalloc.stop()


def test_mutated_dumps_are_read_or_refused(tmp_path: Path) -> None:
    """2,000 of them, of every format, hostile pickles too: no other error, and nothing is run."""
    count = tries(2000)
    words = (sys.executable, "-m", "tests.logs.dumps.fuzz", str(count))
    output = run(*words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}).stdout
    report = msgspec.json.decode(output, type=Fuzzed)

    assert report.events == ()
    assert report.read + report.refused == count
    assert min(report.read, report.refused) > count // 20
    assert report.grown < 100e6
    assert report.slowest < 5


@pytest.mark.usefixtures("home")
def test_the_command_answers_and_says_what_it_did_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    folder.mkdir()
    for path in DUMPS.glob("order-2.rank*.json"):
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "notes.txt").write_text("nothing")
    result = command("hang", "--from", str(folder), status=1)
    assert "notes.txt" in result.stderr
    output = answer("hang", "--from", str(folder), status=1)
    assert output["answer"]["verdict"] == "hung"
    assert output["answer"]["cause"]["kind"] == "order_differs"
    assert [straggler["rank"] for straggler in output["answer"]["cause"]["stragglers"]] == [2]
    assert len(output["unread"]) == 1
    assert json.dumps(output)
    message = command("hang", "--from", str(folder / "notes.txt"), status=2).stderr
    assert "1 file" in message
    assert "none" in command("hang", "--from", str(folder / "none"), status=2).stderr
    assert "--from" in command("hang", "--from", "--native", str(folder), status=2).stderr


@pytest.mark.parametrize(
    ("file", "frames"),
    [
        (
            "gdb.txt",
            [
                ("clock_nanosleep", "/lib/x86_64-linux-gnu/libc.so.6", 0),
                ("exchange", "solver/halo.c", 70),
                ("main", "solver/main.c", 12),
            ],
        ),
        ("eu_stack.txt", [("clock_nanosleep@GLIBC_2.2.5", "", 0), ("?", "", 0), ("main", "", 0)]),
    ],
)
def test_a_native_stack_is_the_main_thread_s(file: str, frames: list[tuple[str, str, int]]) -> None:
    (snapshot,) = read_dump("anything.txt", (DUMPS / file).read_bytes(), 1.0)

    assert (snapshot.source, snapshot.pid) == ("native_stacks", 18581)
    assert [(level.function, level.file, level.line) for level in snapshot.native] == frames
    (ranked,) = read_dump("native_rank7.txt", b"#0  0x7f in poll () from /lib/libc.so.6", 1.0)
    assert ranked.rank == 7
