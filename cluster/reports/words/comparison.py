"""Why a comparison has no verdict, what its reader must know, and its headline, in words."""

from msgspec.structs import replace

from cluster.analysis.statistics.compare import (
    ENOUGH_LAUNCHES,
    VERDICTS,
    CellReason,
    Comparison,
    ComparisonNote,
)
from cluster.analysis.topology.nccl_toggles import PairProof, ProofFault, ToggleProof

REASONS = {  # why a cell has no verdict
    "not_measured": "not measured in {r.side}{failures}",
    "definitions": "not the same metric: its definitions are {ids}",
    "no_positive_median": "a median is not above 0, or its time too short for the clock",
    "too_few_launches": "{r.count} against {r.other_count} launch(es); a verdict needs {enough} of "
    "each",
    "no_interval": "too few launches for an interval",
    "includes_one": "the interval includes 1 and reaches beyond {r.threshold:.1%}",
    "small": "a difference, but perhaps less than {r.threshold:.1%}",
    "chance": "of {r.count} data points, one may differ as much by chance",
    "value_missing": "a launch has no value for it",
    "same_transports": "both conditions used the same transports between all pairs of GPUs",
}
FAULTS = {  # why it is not proven that a variable took effect
    "no_log": "there is no log of NCCL",
    "level_unknown": "NCCL knows no level {level!r}, and ignores it",
    "read_elsewhere": "NCCL read {read} elsewhere: in nccl.conf, or on the host",
    "not_read": "NCCL's log does not say that it read the variable (NCCL_DEBUG=INFO would)",
    "read_other": "NCCL's log says {read}",
    "no_pairs": "no two GPUs of one host exchanged data: peer-to-peer stays within a host",
    "not_used": "it allows peer-to-peer, and no pair of GPUs used it",
}


def with_words(comparison: Comparison) -> Comparison:
    """Complete a comparison with its reasons, notes and headline in words."""
    return replace(
        comparison,
        cells=tuple(
            replace(cell, why=reason_words(cell.reason)) if cell.reason else cell
            for cell in comparison.cells
        ),
        notes=tuple(replace(note, words=note_words(note)) for note in comparison.notes),
        headline=headline(comparison),
    )


def reason_words(reason: CellReason) -> str:
    if reason.kind == "unproven":
        fault = proof_fault_words(reason.proof.fault) if reason.proof and reason.proof.fault else ""
        return f"{reason.proof.setting} is not proven: {fault}" if reason.proof else ""
    failures = f": {' '.join(reason.names)}" if reason.names else ""
    return REASONS[reason.kind].format(
        r=reason, failures=failures, ids=" and ".join(reason.names), enough=ENOUGH_LAUNCHES
    )


def note_words(note: ComparisonNote) -> str:
    match note.kind:
        case "proof" if note.proof is not None:
            return _proof_words(note, note.proof)
        case "simulated":
            return f"{note.side} is simulated: its values are those of a model."
        case "two_launches":
            return (
                "Intervals are those of two launches, and say nothing of the next one: the same "
                "command may give another median. For a verdict: cluster bench ... --ab KEY=A,B"
            )
        case "in_sequence":
            return (
                f"No launch of {note.side} was between those of {note.other}: whatever changed in "
                "the meantime may be the reason. In turn: cluster bench ... --ab KEY=A,B"
            )
        case _:
            reason = f": {note.reason}" if note.reason else ""
            return f"{note.id} ({note.side}) is {note.status}{reason}"


def _proof_words(note: ComparisonNote, proof: ToggleProof) -> str:
    routes = ", ".join(f"{pair.name} ({pair.path}) via {pair.via}" for pair in proof.pairs)
    launches = f"{note.count} of {note.total} launch(es) of {note.side}"
    outcome = "took effect, by NCCL's log"
    if proof.fault:
        outcome = f"unproven: {proof_fault_words(proof.fault)}"
    return f"{proof.setting} in {launches}: {outcome}" + (f": {routes}." if routes else ".")


def proof_fault_words(fault: ProofFault) -> str:
    read = ", ".join(f"{name}={value}" for name, value in fault.read)
    if fault.kind == "pair":
        return pair_words(fault.pair) if fault.pair else ""
    return FAULTS[fault.kind].format(level=fault.level, read=read)


def pair_words(pair: PairProof) -> str:
    fault = pair.fault
    if fault is None:
        return f"{pair.name} obeys"
    uses = f"uses {fault.via}"
    match fault.kind:
        case "direct":
            return f"{pair.name} {uses} all the same"
        case "beyond":
            return f"{pair.name} {uses} over {pair.path}, beyond {fault.limit}"
        case "indirect":
            return f"{pair.name} is connected by {pair.path} and {uses} all the same"
        case "path_unknown":
            unknown = "how it is connected is not known (nvidia-smi topo -m)"
            return f"{pair.name} {uses}, and {unknown}"


def headline(comparison: Comparison) -> str:
    """Return the verdict, if all data points have the same; else how many have each."""
    subject = f"{comparison.other} against {comparison.base}"
    if not comparison.cells:
        return f"{subject}: nothing was measured"
    if not comparison.is_possible:
        return f"{subject}: NOT COMPARABLE, they have no data point in common"
    common = [cell for cell in comparison.cells if cell.is_common]
    counts = {v: sum(cell.verdict == v for cell in common) for v in VERDICTS}
    [*verdicts] = (verdict for verdict, count in counts.items() if count)
    alone = len(comparison.cells) - len(common)
    rest = f"; {alone} data point(s) in only one of them" if alone else ""
    if len(verdicts) > 1:
        return f"{subject}: " + ", ".join(f"{counts[v]} {v}" for v in verdicts) + rest
    if len(common) > 1:
        return f"{subject}: {verdicts[0]} in all {len(common)} data points{rest}"
    return f"{subject}: {verdicts[0]}{rest}"
