"""Run a command on hosts, as a job or on ranks.

Example: cluster run mine --on 1: --detach -- python3 train.py
"""

import shlex
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from click.exceptions import Exit

from cluster.cli import flags
from cluster.cli.commands.logs import show_lines
from cluster.cli.commands.wait import wait_for
from cluster.cli.flags import argument, option
from cluster.cli.measurement import BenchOptions, Request, run_launches
from cluster.cli.show import print_json
from cluster.core.errors import ClusterError, SpecError
from cluster.core.model.hosts import Completed
from cluster.core.model.value import Value
from cluster.orchestration.bench.bench import TIMEOUT
from cluster.orchestration.bench.working_folder import LEFT_OUT, WorkingFolder, find_files
from cluster.orchestration.cluster import Cluster, attach
from cluster.orchestration.jobs.host_group import Command as Words
from cluster.orchestration.jobs.job import Job
from cluster.remote.parallel import results
from cluster.runs import store

NONE = "none"  # `--workdir none` copies nothing
ON_HOSTS = ("hosts", "job", "detach", "env", "cwd", "hang_after", "restarts")
OF_JOBS = ("hang_after", "restarts")
ON_RANKS = ("replace", "busy")

Command = Annotated[list[str], argument("COMMAND", "Command and its arguments, after --.")]


class Outcome(Value, frozen=True, kw_only=True):
    """The exit status and output of a command on one host, or the error."""

    host: str
    status: int | None = None
    stdout: str = ""
    stderr: str = ""
    error: str = ""


def command(  # noqa: PLR0913 - each is a flag
    name: flags.ClusterName,
    words: Command,
    *,
    hosts: Annotated[
        str | None, option("--on HOSTS", "0, 1:, 0,2, a name or group.  [default: all]")
    ] = None,
    job: Annotated[str, option("--job JOB", "As a job of this name, and follow it.")] = "",
    detach: Annotated[bool, option("--detach", "As a job, which goes on alone.")] = False,
    env: Annotated[list[str] | None, option("--env K=V", "A variable; repeatable.")] = None,
    cwd: Annotated[str, option("--cwd DIR", "A folder on the hosts.")] = "",
    timeout: Annotated[float | None, option("--timeout S", "Seconds it may take.")] = None,
    hang_after: Annotated[
        float | None,
        option("--hang-after S", "Seconds without a line after which a job that hangs is ended."),
    ] = None,
    restarts: Annotated[
        int, option("--restarts N", "Starts of a job after a host was lost; cluster wait acts.")
    ] = 0,
    mpi: Annotated[
        bool, option("--mpi", "As one MPI program, in a job, with a run folder.")
    ] = False,
    workdir: Annotated[
        str | None,
        option(
            "--workdir DIR",
            "With --mpi: run in a copy of it; none: copy nothing.  "
            "[default: . if COMMAND names a file in it]",
        ),
    ] = None,
    profile: flags.Profile = None,
    starter: flags.Starter = "",
    replace: Annotated[bool, option("--replace", "With --mpi: end a job that runs there.")] = False,
    busy: Annotated[bool, option("--busy", "With --mpi: although other jobs run there.")] = False,
    root: flags.Runs = None,
    json: flags.Json = False,
) -> None:
    if mpi or starter or profile is not None:
        flags.refuse_unused(ON_HOSTS, "with --mpi")
        options = BenchOptions(
            runs=root,
            timeout=timeout or TIMEOUT,
            json=json,
            profile=profile,
            workdir=_working_folder(words, workdir, root),
            starter=starter,
            replace=replace,
            busy=busy,
            launches=1,
        )
        _run_on_ranks(attach(name), words, options)
        return
    put = f"cluster put {name} FILE PATH copies files to all hosts."
    flags.refuse_unused(("workdir",), "without --mpi", put)
    flags.refuse_unused(ON_RANKS, "without --mpi")
    as_job = bool(job or detach)
    if not as_job:
        flags.refuse_unused(OF_JOBS, "without --job or --detach")
    cluster = attach(name)
    group = cluster.hosts if hosts is None else cluster.hosts[hosts]
    variables = _variables(env or ())
    line: Words = words[0] if len(words) == 1 and " " in words[0] else words
    if as_job:
        new_job = cluster.start(
            line,
            hosts=group,
            name=job,
            cwd=cwd,
            env=variables,
            timeout=timeout,
            hang_after=hang_after,
            restarts=restarts,
            runs=root,
        )
        _show_job(name, new_job, detach=detach, as_json=json)
        return
    printer = None if json else _printer()
    ends = group.try_run(line, cwd=cwd, env=variables, timeout=timeout, on_line=printer)
    _show_ends(ends, as_json=json)


def _run_on_ranks(cluster: Cluster, words: Sequence[str], options: BenchOptions) -> None:
    if options.workdir is not None:
        sys.stderr.write(f"The ranks run in a copy of {options.workdir}.\n")
    run_launches(cluster, Request("program", {"command": shlex.join(words)}, options))


def _variables(texts: Sequence[str]) -> dict[str, str]:
    if wrong := [text for text in texts if "=" not in text]:
        raise SpecError(f"--env {wrong[0]} has no value.", remedy=f"Write --env {wrong[0]}=VALUE")
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


def _show_job(name: str, job: Job, *, detach: bool, as_json: bool) -> None:
    """Show how a job that was started is looked at, or follow it to its end."""
    if as_json:
        print_json(job.record)
    elif detach:
        hosts = len(job.record.tasks)
        sys.stdout.write(f"{job.name} runs on {hosts} host(s): cluster logs {name} {job.name} -f\n")
    if detach:
        return
    try:
        if not as_json:
            show_lines(job, follow=True)
        wait_for(job)
    except KeyboardInterrupt:
        sys.stderr.write(f"{job.name} goes on. To end it: cluster kill {name} {job.name}\n")
        raise


def _printer() -> Callable[[str, str], None]:
    """Return what prints a line behind the name of its host, whole."""
    turn = threading.Lock()

    def show(host: str, line: str) -> None:
        with turn:
            sys.stdout.write(f"{host}: {line}\n")
            sys.stdout.flush()

    return show


def _show_ends(ends: Mapping[str, Completed | ClusterError], *, as_json: bool) -> None:
    """Show how a command ended on each host, and exit with the first status that is not 0."""
    outcomes = [
        Outcome(host=host, error=str(end))
        if isinstance(end, ClusterError)
        else Outcome(host=host, status=end.status, stdout=end.stdout, stderr=end.stderr)
        for host, end in ends.items()
    ]
    if as_json:
        print_json(outcomes)
    for outcome in [] if as_json else outcomes:
        for line in outcome.stderr.splitlines():
            sys.stderr.write(f"{outcome.host}: {line}\n")
        if outcome.status:
            sys.stderr.write(f"{outcome.host}: exit status {outcome.status}\n")
    results(ends)
    raise Exit(next((o.status for o in outcomes if o.status), 0))


def _working_folder(
    words: Sequence[str], folder_word: str | None, runs: str | None
) -> WorkingFolder | None:
    """Find the folder that is copied: the current one if a word is the path of a file in it."""
    paths = [Path(word) for word in words if _names_file(word)]
    if folder_word == NONE or (folder_word is None and not paths):
        return None
    folder = find_files("." if folder_word is None else folder_word, store.root(runs))
    left_out = [] if folder_word else [path for path in paths if path not in folder.files]
    if left_out:
        raise SpecError(
            f"{left_out[0]} is not copied to the hosts, so the ranks would not find it.",
            means=f"{LEFT_OUT} are left out.",
            remedy=f"Use its absolute path on the hosts; or copy nothing: --workdir {NONE}",
        )
    return folder


def _names_file(word: str) -> bool:
    path = Path(word)
    with suppress(OSError):  # too long to be a path, such as the text behind python3 -c
        return not path.is_absolute() and ".." not in path.parts and path.is_file()
    return False
