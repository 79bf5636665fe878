"""What `cluster hang NAME` collected on a host, as the agent wrote it."""

from cluster.core import decoders
from cluster.core.model.hang import Snapshot
from cluster.logs.dumps import DumpReader


class HostDump(DumpReader):
    """Our own: states, stacks and calls of the processes of a host."""

    marks = (b'"source":"',)

    def read(self, name: str, content: bytes, mtime: float) -> tuple[Snapshot, ...]:
        return decoders.decode(content, tuple[Snapshot, ...])
