"""Which rank keeps the others waiting, and why: `rules` look at a `situation` of all sources."""

import importlib
import pkgutil
from collections.abc import Callable, Sequence

import msgspec

from cluster.analysis.hang import rules
from cluster.analysis.hang.situation import Situation, join_snapshots
from cluster.core.model.hang import Cause, HangAnswer, Snapshot, Verdict

Rule = Callable[[Situation], Cause | None]
SOURCES = ("flight_recorder", "nccl_ras", "mpi_calls", "processes", "python_stacks")


def find_rules() -> tuple[tuple[int, str, Rule], ...]:
    """Return the rules of all files, each with its number and its name."""
    names = [module.name for module in pkgutil.iter_modules(rules.__path__)]
    modules = [importlib.import_module(f"{rules.__name__}.{name}") for name in names]
    entries = [(n, find.__name__, find) for m in modules for n, find in m.RULES.items()]
    return tuple(sorted(entries, key=lambda rule: rule[:2]))


RULES = find_rules()


def diagnose(snapshots: Sequence[Snapshot]) -> HangAnswer:
    """Return which rank the others wait for, and why."""
    situation = join_snapshots(snapshots)
    pairs = ((kind, find(situation)) for _, kind, find in RULES)
    causes = tuple(msgspec.structs.replace(c, kind=kind) for kind, c in pairs if c is not None)
    sources = tuple(sorted({snapshot.source for snapshot in snapshots}))
    if not situation.complete:
        causes = tuple(map(_less_sure, causes))
    elif "processes" not in sources:
        causes = tuple(c if c.hard else _less_sure(c) for c in causes)
    return HangAnswer(
        verdict=_verdict(situation, causes),
        cause=causes[0] if causes else None,
        others=causes[1:],
        waited=situation.wait,
        rate=situation.rate,
        ranks=tuple(view.rank for view in situation.views),
        sources=sources,
        missing=tuple(source for source in SOURCES if source not in sources),
    )


def _less_sure(cause: Cause) -> Cause:
    """Lower what is certain only if all ranks, and their processes, are known."""
    if cause.confidence != "certain":
        return cause
    return msgspec.structs.replace(cause, confidence="likely")


def _verdict(situation: Situation, causes: Sequence[Cause]) -> Verdict:
    if not situation.views:
        return "unknown"
    if situation.progress:
        return "slow"
    if any(cause.hard for cause in causes):
        return "hung"
    if not situation.stalls:
        return "moving" if situation.moving and not situation.unread else "unknown"
    return "hung" if situation.long else "undecided"
