"""What tests read out of the profiles that a run left."""

from pathlib import Path

from cluster.analysis.verdict.profiles import JobProfile, Source, job_profiles
from cluster.core.model.logs import Profile
from cluster.logs.reader import read


def profiles(folder: Path) -> dict[int, Profile]:
    found = [r.detail for p in folder.glob("mpi_profile.*") for r in read([p.read_bytes()]).results]
    return {detail.rank: detail for detail in found if isinstance(detail, Profile)}


def job(found: dict[int, Profile]) -> JobProfile:
    (made,) = job_profiles([Source(job="x", profile=profile) for profile in found.values()])
    return made


def sums(profile: Profile) -> dict[str, tuple[int, int]]:
    return {r.name: (r.calls, round(r.calls * r.bytes)) for r in profile.routines}
