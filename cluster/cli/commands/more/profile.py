"""Show the ranks' time in MPI, from mpitrace or --profile.

Example: cluster more profile mpi_profile.*
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cluster.analysis.verdict.profiles import JobProfile, Source
from cluster.cli import flags
from cluster.cli.commands._log_files import print_left_out, readings
from cluster.cli.flags import argument
from cluster.cli.show import show_tables
from cluster.core.errors import SpecError
from cluster.core.model.logs import Profile
from cluster.core.model.value import Value
from cluster.core.state.files import is_there
from cluster.runs import store
from cluster.runs.import_.logs import STDIN
from cluster.runs.run import PROFILES, RAW

FORMAT = "mpitrace"
_TIME = re.compile(r"\.\d{10}$")  # MMDDhhmmss, in mpi_profile.JOB[.TIME].RANK


class ProfileAnswer(Value, frozen=True, kw_only=True):
    """What `cluster more profile --json` prints."""

    jobs: tuple[JobProfile, ...]
    words: tuple[tuple[tuple[str, str], ...], ...]  # of the findings of each job
    unread: tuple[str, ...]


def command(
    names: Annotated[
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
    files = [file for name in names or [flags.LATEST] for file in _files(name, root)]
    sources = []
    for file, reading in readings(files, unread, format_=FORMAT):
        for result in reading.results:
            if isinstance(result.detail, Profile):
                name = Path(file).name.removesuffix(f".{result.detail.rank}")
                job = _TIME.sub("", name.removeprefix(PROFILES.removesuffix("*")))
                sources.append(Source(job=job, profile=result.detail))
    jobs = job_profiles(sources)
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
    paths = folder.glob(PROFILES)
    if not folder.is_dir() or store.is_run(folder):
        folder = store.find(store.root(root), name) / RAW
        paths = folder.rglob(PROFILES)  # ranks may have run in a folder of their own
    files = sorted(map(str, paths))
    if not files:
        raise SpecError(
            f"There are no profiles in {folder}.",
            means=f"Files of MPI profiles are called {PROFILES}",
            remedy="Record some: cluster bench p2p --profile, or cluster run NAME --profile -- "
            "PROGRAM",
        )
    return files
