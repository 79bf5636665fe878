"""What tests read out of the profiles that a run left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.analysis.verdict.profiles import job_profiles
from cluster.analysis.verdict.profiles.values import JobProfile, Source
from cluster.core.model.logs import Profile
from cluster.logs.reader import read

if TYPE_CHECKING:
    from pathlib import Path


def profiles(folder: Path) -> dict[int, Profile]:
    found = [r.detail for p in folder.glob("mpi_profile.*") for r in read([p.read_bytes()]).results]
    return {detail.rank: detail for detail in found if isinstance(detail, Profile)}


def job(found: dict[int, Profile]) -> JobProfile:
    (made,) = job_profiles([Source(job="x", profile=profile) for profile in found.values()])
    return made


def sums(profile: Profile) -> dict[str, tuple[int, int]]:
    return {r.name: (r.calls, round(r.calls * r.bytes)) for r in profile.routines}
