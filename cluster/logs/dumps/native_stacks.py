"""Native stacks of a process: of gdb (`thread apply all bt`), of eu-stack, or of `cluster hang`.

A level is `#2  0x00007f70aa4de545 in poll () from /lib/libc.so.6`: print_frame in gdb/stack.c. What
elfutils' src/stack.c prints has a name only.
"""

import re

from cluster.core.model.hang import Frame, Snapshot
from cluster.logs.dumps import DumpReader, rank_in

MOST_FRAMES = 200  # of the main thread
_THREAD = re.compile(
    r"Thread (\d{1,9}) \((?:Thread 0x[0-9a-f]+ )?\(?LWP (\d{1,9})\)|TID (\d{1,9}):"
)
_LEVEL = re.compile(r"#\d+ +(?:0x[0-9a-f]+(?: in)?)? *([^\s(][^(]*)?")
_FILE = re.compile(r" (?:from|at) ([^\s:]+)(?::(\d{1,9}))?$")


class NativeStacks(DumpReader):
    """gdb or eu-stack: where the main thread is."""

    marks = (b"#0 ",)

    def read(self, name: str, content: bytes, mtime: float) -> tuple[Snapshot, ...]:
        stacks: dict[int, list[Frame]] = {0: []}
        thread, mains = 0, []
        for line in content.decode(errors="replace").splitlines():
            if match := _THREAD.match(line):
                thread = int(match[2] or match[3])
                stacks[thread] = []
                mains += [thread] if match[1] in ("1", None) else []
            elif (match := _LEVEL.match(line)) and len(stacks[thread]) < MOST_FRAMES:
                place = _FILE.search(line)
                file, number = (place[1][:500], int(place[2] or 0)) if place else ("", 0)
                function = (match[1] or "?").strip()[:200]
                stacks[thread].append(Frame(function=function, file=file, line=number))
        pid = mains[0] if mains else 0  # gdb's thread 1, and eu-stack's first
        rank, frames = rank_in(name), tuple(stacks[pid])
        if not frames:
            return ()
        if rank < 0 and not pid:
            raise ValueError("The name of its file must hold its rank, as in native_rank5.txt.")
        return (Snapshot(source="native_stacks", rank=rank, pid=pid, at=mtime, native=frames),)
