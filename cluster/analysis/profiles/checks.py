"""Consistency checks: sums in a profile that must agree."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from cluster.analysis.profiles.values import MILLI, SumCheck
from cluster.core.model.logs import is_file_routine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cluster.core.model.logs import Profile, Routine

CENTI = 0.01  # seconds to which the table of all ranks rounds
TENTH = 0.1  # bytes to which an average rounds


def sum_checks(profile: Profile) -> Iterator[SumCheck]:
    """Check the sums of a profile, as far as it has them."""
    whose = f"rank {profile.rank}"
    bins: dict[str, list[Routine]] = defaultdict(list)
    for row in profile.distributions:
        bins[row.name].append(row)
    for routine in profile.routines:
        if routine.name in bins:
            yield from _bin_checks(whose, routine, bins[routine.name])
    if not profile.complete:
        yield SumCheck(what=f"{whose}: its totals", agrees=False, how="they are missing")
        return
    files = [routine for routine in profile.routines if is_file_routine(routine.name)]
    others = [routine for routine in profile.routines if not is_file_routine(routine.name)]
    yield _sum_check(f"{whose}: times of its routines", others, profile.communication)
    if files:
        yield _sum_check(f"{whose}: times of its operations on files", files, profile.files)
    inside = profile.communication + profile.files
    yield SumCheck(
        what=f"{whose}: time in MPI within the elapsed time",
        agrees=inside <= profile.elapsed + MILLI,
        how=f"{inside:.3f} s of {profile.elapsed:.3f} s",
    )
    yield from _task_checks(whose, profile)


def _task_checks(whose: str, profile: Profile) -> Iterator[SumCheck]:
    for task in profile.tasks:
        if task.rank == profile.rank:
            yield SumCheck(
                what=f"{whose}: its line in the table of all ranks",
                agrees=abs(task.communication - profile.communication) <= CENTI,
                how=f"{task.communication:.2f} s, and {profile.communication:.3f} s in its total",
            )
    if profile.tasks:
        yield SumCheck(
            what=f"{whose}: lines in the table of all ranks",
            agrees=len(profile.tasks) == profile.size,
            how=f"{len(profile.tasks)}, for {profile.size} ranks",
        )


def _sum_check(what: str, rows: Sequence[Routine], told: float) -> SumCheck:
    total = sum(row.time for row in rows)
    return SumCheck(
        what=what,
        agrees=abs(total - told) <= MILLI * (len(rows) + 1),
        how=f"{total:.3f} s, and {told:.3f} s in its total",
    )


def _bin_checks(whose: str, routine: Routine, rows: Sequence[Routine]) -> Iterator[SumCheck]:
    calls = sum(row.calls for row in rows)
    yield SumCheck(
        what=f"{whose}: {routine.name}, calls by size",
        agrees=calls == routine.calls,
        how=f"{calls}, and {routine.calls} in its row",
    )
    mean = sum(row.calls * row.bytes for row in rows) / calls if calls else 0.0
    yield SumCheck(
        what=f"{whose}: {routine.name}, bytes by size",
        agrees=abs(mean - routine.bytes) <= TENTH,
        how=f"{mean:.1f} B a call, and {routine.bytes:.1f} B in its row",
    )
    time = sum(row.time for row in rows)
    yield SumCheck(
        what=f"{whose}: {routine.name}, time by size",
        agrees=abs(time - routine.time) <= MILLI * (len(rows) + 1),
        how=f"{time:.3f} s, and {routine.time:.3f} s in its row",
    )
