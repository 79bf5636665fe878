"""Why a job failed, by the first of the lines that say so."""

from collections.abc import Callable
from typing import get_args

from cluster.analysis.verdict.evidence import Confidence, Evidence, FailureKind, JobFailure
from cluster.analysis.verdict.rules.network import shared_subnet
from cluster.core.model.logs import CAUSE, Symptom, Symptoms, first_cause, is_decisive

ALWAYS: tuple[FailureKind, ...] = ("shm", "memlock")  # worth a look even if the job went on
EFFECTS: tuple[FailureKind, ...] = ("unreachable", "died", "timeout")  # what other failures lead to
LOCKED = 1 << 20  # kB: with less, RDMA runs out of memory that it may lock


def _rule(kind: FailureKind) -> Callable[[Evidence], JobFailure | None]:
    """Return the rule that looks for a kind of failure."""

    def rule(evidence: Evidence) -> JobFailure | None:
        signs = [
            sign
            for result in evidence.results
            if isinstance(result.detail, Symptoms)
            for sign in result.detail.found
            if sign.kind == kind and not _is_enough(sign)
        ]
        if not signs or not (evidence.has_failed or kind in ALWAYS):
            return None
        cause = first_cause(evidence.results)
        is_cause = cause is not None and cause.line == signs[0].line
        sure: Confidence = "certain" if evidence.has_failed and is_cause else "likely"
        is_explained = kind in EFFECTS and (not is_cause or shared_subnet(evidence) is not None)
        sure = "possible" if is_explained else sure
        return JobFailure(kind=kind, text=signs[0].text, line=signs[0].line, confidence=sure)

    rule.__name__ = kind
    return rule


def _is_enough(sign: Symptom) -> bool:
    """Tell whether a limit of lockable memory is high enough."""
    return sign.value == "unlimited" or (sign.value.isdigit() and int(sign.value) >= LOCKED)


def first_line(evidence: Evidence) -> JobFailure | None:
    """The first line that says that a job failed, where it is of no known kind."""
    is_explained = any(rule(evidence) for rule in KNOWN)
    cause = first_cause(evidence.results) if evidence.has_failed and not is_explained else None
    if cause is None or not (cause.line or is_decisive(cause.text)):
        return None
    return JobFailure(kind=CAUSE, text=cause.text, line=cause.line, confidence="likely")


KNOWN = tuple(_rule(kind) for kind in get_args(FailureKind) if kind != CAUSE)
RULES = (*KNOWN, first_line)
