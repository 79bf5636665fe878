"""The files in `raw/` that verdicts need: rank processes, paths between GPUs, NCCL's logs."""

from collections.abc import Iterator
from pathlib import Path

from cluster.core import decoders
from cluster.core.errors import ParseError
from cluster.core.model.hosts import PROCESS_FILE, RankProcess
from cluster.core.model.logs import NcclLog, Topology

LOGS = "nccl.*.log"  # of every rank that used NCCL: `cluster.measure.nccl_group` names them
SHARED_LOG = "nccl.json"  # what they say, in a shared run
TOPOLOGY, ENDING, SHARED = "topology.", ".txt", ".json"


def rank_processes(raw: Path) -> tuple[RankProcess, ...]:
    """Read what each rank wrote about its process, in their order; a killed one may lack it."""
    paths = raw.glob(PROCESS_FILE.format(rank="*"))
    processes = (decoders.decode_file(path, RankProcess) for path in paths)
    return tuple(sorted(filter(None, processes), key=lambda process: process.rank))


def nccl_log(raw: Path) -> NcclLog | None:
    """Read what NCCL's logs of all ranks say; none if there are none."""
    if log := decoders.decode_file(raw / SHARED_LOG, NcclLog):
        return log
    paths = sorted(raw.glob(LOGS))
    return next(
        (detail for detail in _details(paths, "nccl_log") if isinstance(detail, NcclLog)), None
    )


def topologies(raw: Path) -> dict[str, Topology]:
    """Read how the GPUs of each host are connected, as far as it is known."""
    by_host: dict[str, Topology] = {}
    for path in sorted(raw.glob(f"{TOPOLOGY}*")):
        host = path.name.removeprefix(TOPOLOGY).removesuffix(path.suffix)
        if path.suffix == SHARED and (shared := decoders.decode_file(path, Topology)):
            by_host[host] = shared
        elif path.suffix == ENDING:
            for detail in _details([path], "topology"):
                if isinstance(detail, Topology):
                    by_host[host] = detail
    return by_host


def _details(paths: list[Path], format_: str) -> Iterator[object]:
    """Read what files say besides measurements, as if they were one; nothing if none says any."""
    from cluster.logs import reader  # noqa: PLC0415 - rarely needed

    try:
        reading = reader.read((path.read_bytes() for path in paths), format_)
    except (OSError, ParseError):
        return
    for result in reading.results:
        yield result.detail
