"""Stacks of a Python process: from faulthandler, or from `py-spy dump`.

faulthandler: Python/traceback.c of CPython, the innermost frame first. py-spy: src/dump.rs of
benfred/py-spy, the same order; its lines of local variables are left out.
"""

import re

from cluster.core.model.hang import Frame, Snapshot
from cluster.logs.dumps import DumpReader, rank_in

MOST_FRAMES = 200  # of a thread
MOST_THREADS = 500
_HEAD = re.compile(r"(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):")
_FRAME = re.compile(r'  File "([^"]*)", line (\d{1,9}) in (.*)')
_PROCESS = re.compile(r"Process (\d{1,9}): ")
_THREAD = re.compile(r"Thread (?:0x[0-9A-Fa-f]+|\d+) \(([^)]*)\)(?:: \"(.*)\")?")
_LEVEL = re.compile(r"    (?! )(.+?) \(([^()]*?)(?::(\d{1,9}))?\)$")


class PythonStacks(DumpReader):
    """faulthandler or py-spy: where each thread is."""

    marks = (b"(most recent call first)", b"Thread ")

    def read(self, name: str, content: bytes, mtime: float) -> tuple[Snapshot, ...]:
        pid = 0
        threads: list[list[Frame]] = []
        kinds: list[str] = []
        for line in content.decode(errors="replace").splitlines():
            match = _THREAD.match(line)
            if process := _PROCESS.match(line):
                if pid:
                    raise ValueError("It has the stacks of several processes; cut it in parts.")
                pid = int(process[1])
            elif match or _HEAD.match(line):
                threads.append([])
                kinds.append((match[2] or "") if match else "")
                if len(threads) > MOST_THREADS:
                    break
            elif (frame := _frame(line)) and threads and len(threads[-1]) < MOST_FRAMES:
                threads[-1].append(frame)
        # py-spy names the main thread; faulthandler writes it last
        index = kinds.index("MainThread") if "MainThread" in kinds else len(threads) - 1
        return _snapshot(rank_in(name), pid, mtime, threads, index) if any(threads) else ()


def _snapshot(
    rank: int, pid: int, mtime: float, threads: list[list[Frame]], index: int
) -> tuple[Snapshot, ...]:
    main = tuple(threads.pop(index))
    if rank < 0 and not pid:
        raise ValueError("The name of its file must hold its rank, as in stack_rank5.txt.")
    return (
        Snapshot(
            source="python_stacks",
            rank=rank,
            pid=pid,
            at=mtime,
            stack=main,
            threads=tuple(map(tuple, threads)),
        ),
    )


def _frame(line: str) -> Frame | None:
    if match := _FRAME.match(line):
        return Frame(function=match[3][:200], file=match[1][:500], line=int(match[2]))
    if match := _LEVEL.match(line):
        name = match[1].rpartition(".")[2]  # 0.4 writes the class before it
        return Frame(function=name[:200], file=match[2][:500], line=int(match[3] or 0))
    return None
