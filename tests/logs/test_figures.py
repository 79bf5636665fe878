"""Everything that is read of each sample, and of each dialect: `SNAPSHOTS=write` writes it anew.

A sample is a file beside this one. A dialect is a few lines of `parsers/dialects`, as somebody has
published them: under the sentence that says what is read of them, and where they are from.

Samples are shortened from stas00/ml-engineering, DeepSpeed's tutorial on its communication logger,
and issues of ROCm/rocm_bandwidth_test (129), ROCm/rocm_smi_lib (108), linux-rdma/perftest (234,
65), openucx/ucx (10532, 10649), ofiwg/libfabric (5568, 10394), Mellanox/sockperf (106), grpc/grpc
(7988) and InfraBuilder/k8s-bench-suite (6); those of ds_bench, perftest, qperf and netperf also
from notes and mails in which people show what their network does. The rows of PARAM are printed by
the formats of its comms.py, as no log of it was at hand; those of training loops are from
epfLLM/Megatron-LLM 11, nanoGPT 178, litgpt 1607, maxtext 2232, and others.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from cluster.core.errors import ParseError
from cluster.core.model.logs import Parsed, Reading
from cluster.logs.reader import read
from tests import snapshots
from tests.logs.samples import LOGS
from tests.snapshots import Snapshot

SAMPLES = {path.stem: path for path in sorted(LOGS.glob("*.txt"))}
DIALECTS = snapshots.read(Path(__file__).with_name("parsers") / "dialects")


def lines(reading: Reading) -> Iterator[str]:
    for result in reading.results:
        yield f"{result.format} from line {result.first}"
        yield from settings(result)
        for d in result.definitions:
            words = (d.unit, d.better, d.flow, d.medium, d.aggregation)
            yield f"  {d.metric} is {', '.join(filter(None, words))}"
        for m in result.measurements:
            point = "".join(f" {name}={value}" for name, value in m.params.items())
            rank = f" of rank {m.rank} on {m.host!r}" if m.rank or m.host else ""
            size = f", {m.bytes} B each" if m.bytes else ""
            values = " ".join(f"{value:.12g}" for value in m.values)
            yield f"  {m.metric}{point}{rank} = {values} {m.unit}{size}"
    if reading.unread:
        texts = " | ".join(unread.text for unread in reading.examples)
        yield f"{reading.unread} of {reading.lines} lines unread: {texts}"


def settings(result: Parsed) -> Iterator[str]:
    """Yield what a result holds besides its values, where it is not the default."""
    for field in msgspec.structs.fields(Parsed):
        value = getattr(result, field.name)
        if field.name in ("format", "first", "definitions", "measurements"):
            continue
        if field.name == "notes":
            value = [str(note) for note in value]
        if field.name == "detail" and value is not None:
            for part, detail in msgspec.to_builtins(value).items():
                if detail not in ((), [], {}, "", 0):
                    yield f"  {part}: {msgspec.json.encode(detail).decode()}"
        elif value not in (field.default, [], ()):
            yield f"  {field.name}: {msgspec.json.encode(value).decode()}"


@pytest.mark.parametrize("name", SAMPLES)
def test_sample(name: str, snapshot: Snapshot) -> None:
    snapshot(lines(read([SAMPLES[name].read_bytes()])))


@pytest.mark.parametrize("name", DIALECTS)
def test_dialect(name: str, snapshot: Snapshot) -> None:
    try:
        snapshot(lines(read([DIALECTS[name].encode()])))
    except ParseError as error:
        snapshot(str(error))
