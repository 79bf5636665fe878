"""Reads many mutated dumps in a process of its own, and prints what that did: `Fuzzed` as JSON.

python -m tests.logs.dumps.fuzz COUNT
"""

import pickle
import random
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from cluster.analysis.hang import diagnose
from cluster.core.errors import SpecError
from cluster.core.model.hang import Snapshot
from cluster.core.model.value import Value
from cluster.logs.dumps import read_dump
from cluster.reports.words.hang import answer_lines
from tests.logs.dumps import samples

DUMPS = Path(__file__).parent
RUNS = ("import", "exec", "compile", "pickle.", "os.", "subprocess.", "socket.", "open", "ctypes.")


class Fuzzed(Value, frozen=True, kw_only=True):
    """What reading them did."""

    read: int
    refused: int
    slowest: float  # seconds of the processor, for one
    grown: int  # bytes of memory, at most, above those before
    events: tuple[str, ...]  # of sys.audit: what ran code or opened something


def originals() -> list[tuple[str, bytes]]:
    """Return a dump of each format, and pickles that would run a command."""
    return [
        *((path.name, path.read_bytes()) for path in sorted(DUMPS.glob("absent-*"))),
        ("ras.json", samples.RAS),
        ("inspector.jsonl", samples.INSPECTOR),
        ("stacks.txt", samples.PY_SPY),
        ("stack_rank1.txt", samples.FAULT_HANDLER),
        ("ras.txt", samples.RAS_TEXT.encode()),
        ("host.json", msgspec.json.encode([Snapshot(source="processes", rank=1, pid=7)])),
        *(
            (f"dump_rank_{protocol}", pickle.dumps(samples.HOSTILE, protocol))
            for protocol in range(6)
        ),
    ]


def mutant(content: bytes, chance: random.Random) -> bytes:
    """Change, cut out or repeat some bytes."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 3, 30))):
        start = chance.randrange(len(data))
        match chance.randrange(3):
            case 0:
                data[start] = chance.randrange(256)
            case 1:
                del data[start : start + chance.randrange(1, 40)]
            case _:
                data[start:start] = data[start : start + chance.randrange(1, 40)]
        data = data or bytearray(b"x")
    return bytes(data)


def fuzz(count: int) -> Fuzzed:
    """Read so many; any error but a SpecError is raised."""
    chance = random.Random(45)
    dumps = originals()
    snapshots = [snapshot for name, text in dumps[:4] for snapshot in read_dump(name, text, 0.0)]
    for name, text in dumps:  # imports all that it needs
        with suppress(SpecError):
            list(answer_lines(diagnose([*snapshots, *read_dump(name, text, 0.0)]), ""))
    refusals, slowest, events = 0, 0.0, set[str]()
    armed: list[bool] = []

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if armed and event.startswith(RUNS):
            events.add(f"{event} {arguments}"[:200])

    sys.addaudithook(note)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    armed.append(True)
    for _ in range(count):
        name, content = chance.choice(dumps)
        data = mutant(content, chance)
        start = time.process_time()
        try:
            list(answer_lines(diagnose([*snapshots, *read_dump(name, data, 0.0)]), ""))
        except SpecError:
            refusals += 1
        slowest = max(slowest, time.process_time() - start)
    armed.clear()
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return Fuzzed(
        read=count - refusals,
        refused=refusals,
        slowest=slowest,
        grown=growth * 1024,
        events=tuple(sorted(events)),
    )


if __name__ == "__main__":
    print(msgspec.json.encode(fuzz(int(sys.argv[1]))).decode())  # noqa: T201
