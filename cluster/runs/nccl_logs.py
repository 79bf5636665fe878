"""The logs of NCCL that the ranks of a run wrote, and what they prove."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.analysis.compare import Launch
from cluster.core.errors import ParseError
from cluster.runs.run import RAW

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cluster.analysis.nccl_toggles import ToggleProof
    from cluster.core.model.logs import NcclLog, Topology
    from cluster.runs.run import Run

LOGS = "nccl.*.log"  # of every rank that used NCCL: `cluster.measure.nccl_group` names them
TOPOLOGY, ENDING = "topology.", ".txt"


def launch_of(run: Run) -> Launch:
    """Return a run as a comparison sees it.

    Returns:
        Its record and its summaries, and what its logs of NCCL prove.

    """
    return Launch(record=run.record, summaries=run.summary(), toggle=proof_of(run))


def proof_of(run: Run) -> ToggleProof | None:
    """Look for the proof that NCCL obeyed the variables of a run.

    Returns:
        The proof, or why there is none; None if the variables do not switch peer-to-peer.

    """
    from cluster.analysis.nccl_toggles import TOGGLES, toggle_proof  # noqa: PLC0415 - rarely needed

    if not any(name in run.record.variables for name in TOGGLES):
        return None
    raw = run.folder / RAW
    return toggle_proof(run.record.variables, _log(raw), dict(_topologies(raw)))


def _log(raw: Path) -> NcclLog | None:
    from cluster.core.model.logs import NcclLog  # noqa: PLC0415 - rarely needed

    paths = sorted(raw.glob(LOGS))
    return next((one for one in _details(paths, "nccl_log") if isinstance(one, NcclLog)), None)


def _topologies(raw: Path) -> Iterator[tuple[str, Topology]]:
    from cluster.core.model.logs import Topology  # noqa: PLC0415 - rarely needed

    for path in sorted(raw.glob(f"{TOPOLOGY}*{ENDING}")):
        host = path.name.removeprefix(TOPOLOGY).removesuffix(ENDING)
        for one in _details([path], "topology"):
            if isinstance(one, Topology):
                yield host, one


def _details(paths: list[Path], format_: str) -> Iterator[object]:
    """Read what files say besides measurements, as if they were one; nothing if none says any."""
    from cluster.logs import reader  # noqa: PLC0415 - rarely needed

    try:
        found = reader.read((path.read_bytes() for path in paths), format_)
    except ParseError:
        return
    for result in found.results:
        yield result.detail
