"""Show the ranks' time in MPI, from mpitrace or --profile.

Example: cluster more profile mpi_profile.*
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from cluster.analysis.verdict.profiles.values import JobProfile, Source
from cluster.cli import flags
from cluster.cli.commands._log_files import print_left_out, readings
from cluster.cli.flags import argument
from cluster.cli.show import show_tables
from cluster.core.errors import SpecError
from cluster.core.files import is_there
from cluster.core.model.logs import Profile, Reading
from cluster.core.model.value import Value
from cluster.orchestration.bench.mpi_profile import FILES
from cluster.runs import run, store
from cluster.runs.import_.logs import STDIN

FORMAT = "mpitrace"
_TIME = re.compile(r"\.\d{10}$")  # MMDDhhmmss


class ProfileAnswer(Value, frozen=True, kw_only=True):
    """What `cluster more profile --json` prints."""

    jobs: tuple[JobProfile, ...]
    words: tuple[tuple[tuple[str, str], ...], ...]  # of the findings of each job
    unread: tuple[str, ...]


def command(
    named: Annotated[
        list[str] | None,
        argument("FILE|DIR|RUN...", "Profiles, a folder of them, or a run.  [default: latest]"),
    ] = None,
    report: flags.Format = "terminal",
    root: flags.Runs = None,
    json: flags.Json = False,
) -> None:
    from cluster.analysis.verdict.profiles import job_profiles  # noqa: PLC0415
    from cluster.reports.log_tables import profile_tables  # noqa: PLC0415
    from cluster.reports.words.profiles import profile_words  # noqa: PLC0415

    unread: list[str] = []
    files = [file for name in named or [flags.LATEST] for file in _files(name, root)]
    logs = readings(files, unread, format_=FORMAT)
    jobs = job_profiles(source for file, reading in logs for source in _profiles(file, reading))
    report = "json" if json else report
    words = tuple(tuple(map(profile_words, job.findings)) for job in jobs)
    answer = ProfileAnswer(jobs=jobs, words=words, unread=tuple(unread))
    if report != "json":
        print_left_out(unread)
    show_tables([table for job in jobs for table in profile_tables(job)], report, answer)


def _files(name: str, root: str | None) -> Sequence[str]:
    if name == STDIN or is_there(name):
        return [name]
    folder = Path(name)
    paths = folder.glob(FILES)
    if not folder.is_dir() or store.is_run(folder):
        folder = store.find(store.root(root), name) / run.RAW
        paths = folder.rglob(FILES)  # ranks may have run in a folder of their own
    files = sorted(map(str, paths))
    if not files:
        raise SpecError(
            f"There are no profiles in {folder}.",
            means=f"Files of MPI profiles are called {FILES}",
            remedy="Record some: cluster bench p2p --profile, or cluster run NAME --profile -- "
            "PROGRAM",
        )
    return files


def _profiles(file: str, reading: Reading) -> Iterator[Source]:
    for result in reading.results:
        if isinstance(result.detail, Profile):
            job = _job(Path(file).name, result.detail.rank)
            yield Source(job=job, profile=result.detail)


def _job(name: str, rank: int) -> str:
    """Read the job in a file's name: mpi_profile.JOB[.TIME].RANK."""
    return _TIME.sub("", name.removesuffix(f".{rank}").removeprefix(FILES.removesuffix("*")))
