"""The logs of NCCL that the ranks of a run wrote, and what they prove."""

from cluster.analysis.statistics.compare import Launch
from cluster.analysis.topology.nccl_toggles import ToggleProof
from cluster.runs.raw_files import nccl_log, topologies
from cluster.runs.run import RAW, Run


def launch_of(run: Run) -> Launch:
    """Return a run as a comparison sees it, with what its logs of NCCL prove."""
    return Launch(record=run.record, summaries=run.summary(), toggle=proof_of(run))


def proof_of(run: Run) -> ToggleProof | None:
    """Return the proof that NCCL obeyed a run's toggles, or why there is none; None without."""
    from cluster.analysis.topology.nccl_toggles import TOGGLES, toggle_proof  # noqa: PLC0415 - rarely needed

    if not any(name in run.record.variables for name in TOGGLES):
        return None
    raw = run.folder / RAW
    return toggle_proof(run.record.variables, nccl_log(raw), topologies(raw))
