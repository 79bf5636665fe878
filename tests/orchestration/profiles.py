"""What tests read out of the profiles that a run left."""

from pathlib import Path

from cluster.analysis.verdict.profiles import JobProfile, Source, job_profiles
from cluster.core.model.logs import Profile
from cluster.logs.reader import read


def profiles(folder: Path) -> dict[int, Profile]:
    items = [r.detail for p in folder.glob("mpi_profile.*") for r in read([p.read_bytes()]).results]
    return {detail.rank: detail for detail in items if isinstance(detail, Profile)}


def job(by_rank: dict[int, Profile]) -> JobProfile:
    (result,) = job_profiles([Source(job="x", profile=profile) for profile in by_rank.values()])
    return result


def sums(profile: Profile) -> dict[str, tuple[int, int]]:
    return {r.name: (r.calls, round(r.calls * r.bytes)) for r in profile.routines}
