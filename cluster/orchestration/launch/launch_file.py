"""`cluster launch FILE.toml`: a cluster, its set-up, files and jobs, in one file."""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from cluster.core.errors import ClusterError, SpecError, collect_errors, on_failure, raise_all
from cluster.core.model.jobs import FileJob, LaunchStep
from cluster.core.model.resources import Plan
from cluster.core.model.spec import ClusterSpec, SpecOptions
from cluster.core.model.value import StateCallback, Value, ignore
from cluster.core.text.options import convert
from cluster.core.text.units import parse_seconds
from cluster.orchestration.cluster import Cluster
from cluster.orchestration.jobs.host_group import check_task, read_script, select
from cluster.orchestration.jobs.job import Job
from cluster.orchestration.jobs.registry import check_name
from cluster.orchestration.launch.launch import (
    Proof,
    launch_spec,
    make_spec,
    prove_launch,
    read_proof,
)
from cluster.reports.words.outcomes import outcome_words

MOST_PORT = 65535


class FileKeys(SpecOptions, frozen=True, kw_only=True):
    """The keys of a launch file: those of `launch`, and what follows it."""

    name: str
    # seconds, or such as `60s`, in which all hosts are proven before a job starts on them; where
    # the provider does not know it, with what their links carry: `60s,100gbit`
    prove: str | float | None = None
    setup: str = ""  # lines of shell, or the name of a file beside this one
    # folders here, and on every host the folders that they are sent to
    files: dict[str, str] = {}  # noqa: RUF012
    jobs: dict[str, FileJob] = {}  # noqa: RUF012 - msgspec copies an empty default
    # what is downloaded once the jobs are done, PATH or HOSTS:PATH, and folders here
    fetch: dict[str, str] = {}  # noqa: RUF012
    down: Literal["", "when done"] = ""  # take it down then, also if a job failed


class LaunchFile(Value, frozen=True, kw_only=True):
    """The checked content of a launch file; relative paths begin at its folder."""

    spec: ClusterSpec
    proof: Proof | None = None  # how its hosts are proven
    setup: str = ""  # the text of the script
    files: dict[str, str] = {}  # noqa: RUF012
    jobs: dict[str, FileJob] = {}  # noqa: RUF012 - msgspec copies an empty default
    fetch: dict[str, str] = {}  # noqa: RUF012
    down: bool = False  # once the jobs are done

    @property
    def waits(self) -> tuple[str, ...]:
        """The jobs to wait for: no other one waits for their ports; none if nothing follows."""
        servers = {job.after.partition(":")[0] for job in self.jobs.values() if ":" in job.after}
        return tuple(n for n in self.jobs if n not in servers) if self.fetch or self.down else ()

    def hosts_of(self, hosts: str) -> tuple[str, ...]:
        """Return the names of the hosts of a selection; all if it is empty (SpecError)."""
        names = tuple(self.spec.machine_name(number) for number in range(self.spec.hosts))
        return select(names, hosts) if hosts else names

    def steps(self) -> tuple[LaunchStep, ...]:
        """Return what follows the launch."""
        lines, within = len(self.setup.splitlines()), self.proof.within if self.proof else 0.0
        return (
            *([LaunchStep(kind="prove", seconds=within)] if self.proof else []),
            *([LaunchStep(kind="set_up", count=lines)] if self.setup else []),
            *(LaunchStep(kind="send", source=a, target=b) for a, b in self.files.items()),
            *(
                LaunchStep(kind="job", names=(name,), job=job, count=len(self.hosts_of(job.on)))
                for name, job in self.jobs.items()
            ),
            *([LaunchStep(kind="wait", names=self.waits)] if self.waits else []),
            *(LaunchStep(kind="fetch", source=a, target=b) for a, b in self.fetch.items()),
            *([LaunchStep(kind="down")] if self.down else []),
        )


def read_launch_file(path: str | Path) -> LaunchFile:
    """Read a launch file; SpecError: it cannot be read, or a key or a value is wrong."""
    path = Path(path)
    try:
        keys = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SpecError(f"{path} cannot be read: {reason}.") from error
    except tomllib.TOMLDecodeError as error:
        raise SpecError(
            f"{path} is not TOML: {error}.", remedy="Text is in quotes: https://toml.io"
        ) from error
    return _parse_keys(keys, path)


def _parse_keys(keys: dict[str, object], path: Path) -> LaunchFile:
    if "name" not in keys:
        raise SpecError(f"{path} has no name.", remedy='Name the cluster: name = "mine"')
    names = ("groups", "options", "files", "jobs", "fetch")
    groups, options, files, jobs, fetch = (_table(keys, key, path) for key in names)
    file_jobs = {
        name: convert(_job(name, job), FileJob, "key", f"the job {name!r}")
        for name, job in jobs.items()
    }
    keys = {
        **keys,
        "groups": {},
        "options": {key: _text(value) for key, value in options.items()},
        "jobs": {},
        **{
            key: parse_seconds(span)
            for key in ("ttl", "idle")
            if isinstance(span := keys.get(key), str | int | float)
        },
    }
    values = convert(keys, FileKeys, "key", path.name)
    fields = {key: value for key, value in keys.items() if key in SpecOptions.__struct_fields__}
    script = path.parent / values.setup
    is_file = "\n" not in values.setup and (script.is_file() or values.setup.endswith(".sh"))
    launch = LaunchFile(
        spec=make_spec(values.name, {**fields, "groups": groups or None}),
        proof=read_proof(values.prove),
        setup=read_script(script if is_file else values.setup) if values.setup else "",
        files={str(path.parent / source): str(target) for source, target in files.items()},
        jobs=file_jobs,
        fetch={source: str(path.parent / str(folder)) for source, folder in fetch.items()},
        down=bool(values.down),
    )
    _check_folders_and_jobs(launch, path)
    return launch


def _check_folders_and_jobs(launch: LaunchFile, path: Path) -> None:
    for source in launch.files:
        if not Path(source).is_dir():
            raise SpecError(f"{path.name}: {source} is not a folder on this machine.")
    for source in launch.fetch:
        launch.hosts_of(source.rpartition(":")[0])
    for number, (name, job) in enumerate(launch.jobs.items()):
        try:
            check_name(name)
            check_task(job.task, job.restarts)
        except SpecError as error:
            error.what = f"The job {name!r}: {error.what}"
            raise
        launch.hosts_of(job.on)
        before, colon, port = job.after.partition(":")
        if job.after and (
            before not in [*launch.jobs][:number]
            or (colon and not (port.isascii() and port.isdecimal() and 0 < int(port) <= MOST_PORT))
        ):
            raise SpecError(
                f"The job {name!r} is to start after {job.after!r}, which is no job above it.",
                remedy='Such as: after = "ps:2222" (it listens), after = "prepare" (it ended)',
            )


def _table(keys: Mapping[str, object], key: str, path: Path) -> dict[str, object]:
    table = keys.get(key, {})
    if not isinstance(table, dict):
        raise SpecError(f"{path.name}: {key} is {table!r}; it must be a table: [{key}]")
    return table


def _job(name: str, job: object) -> dict[str, object]:
    if isinstance(job, str):
        return {"command": job}
    if not isinstance(job, dict) or "command" not in job:
        raise SpecError(
            f"The job {name!r} has no command.",
            remedy=f'Write: [jobs.{name}], and below it: command = "python3 train.py"',
        )
    env = job.get("env")
    texts = {k: _text(v) for k, v in env.items()} if isinstance(env, dict) else env
    return {**job, **({} if env is None else {"env": texts})}


def _text(value: object) -> object:
    """Return a number or a truth value as the text that an option or a variable has."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def launch_file(
    path: str | Path | LaunchFile,
    on_state: StateCallback = ignore,
    *,
    confirm: Callable[[Plan], None] | None = None,
    replace: bool = False,
    keep: bool = False,
    on_step: Callable[[str], None] = lambda _: None,
) -> tuple[Cluster, tuple[Job, ...]]:
    """Launch what a file asks for: the cluster, its set-up, its files, its jobs.

    What is there already is used as it is, so the same file can be launched again: hosts that were
    proven are not proven again, as jobs may run on them.

    `confirm` is called with the plan before anything is created, and `on_step` with what is done
    next. `replace` rebuilds a cluster that cannot be used as it is. SpecError: the file is wrong,
    or a job runs that has another command. ClusterError: a step failed; a new cluster is taken
    down, unless `keep`.
    """
    plan = path if isinstance(path, LaunchFile) else read_launch_file(path)
    cluster = launch_spec(plan.spec, on_state, confirm=confirm, replace=replace, proof=plan.proof)
    if plan.proof and (cluster.launch_phases or not cluster.state.is_proven):
        on_step(prove_launch(cluster, plan.proof, on_state, keep=keep).answer)
    is_new = bool(cluster.launch_phases) and not keep
    undo = cluster.down if is_new else cluster.close
    with on_failure(undo):
        if plan.setup:
            results = cluster.setup(plan.setup)
            on_step(outcome_words("set_up", len(results), len(cluster.hosts)))
        for source, target in plan.files.items():
            on_step(str(cluster.sync(source, target)))
    try:
        with _staying_up(cluster, on_step):
            jobs = tuple(_start_jobs(cluster, plan, on_step))
    except ClusterError:
        undo()
        raise
    if plan.fetch or plan.down:
        _end(cluster, plan, on_step)
    return cluster, jobs


def _end(cluster: Cluster, plan: LaunchFile, on_step: Callable[[str], None]) -> None:
    """Wait for the jobs, download what they left, and take the cluster down (ClusterError).

    A failure does not keep the rest from being done; Ctrl-C leaves the cluster up.
    """
    errors: list[ClusterError] = []
    for name in plan.waits:
        on_step(outcome_words("waits", name, cluster.name, name))
        with collect_errors(errors), _staying_up(cluster, on_step):
            cluster.jobs[name].wait()
    for source, target in plan.fetch.items():
        hosts, _, path = source.rpartition(":")
        with collect_errors(errors):
            (cluster.hosts[hosts] if hosts else cluster.hosts).get(path, target)
    if plan.down:
        cluster.down()
        on_step(outcome_words("is_down", cluster.name))
    raise_all(errors, "steps failed")


@contextmanager
def _staying_up(cluster: Cluster, on_step: Callable[[str], None]) -> Iterator[None]:
    """Say after Ctrl-C that it leaves the cluster up."""
    try:
        yield
    except KeyboardInterrupt:
        on_step(outcome_words("stays_up", cluster.name))
        raise


def _start_jobs(
    cluster: Cluster, plan: LaunchFile, on_step: Callable[[str], None]
) -> Iterator[Job]:
    for name, job in plan.jobs.items():
        before, _, port = job.after.partition(":")
        if port:
            on_step(outcome_words("waits_for_port", port, before, cluster.name, before))
            cluster.jobs[before].wait_for_port(int(port))
        elif before:
            on_step(outcome_words("waits", before, cluster.name, before))
            cluster.jobs[before].wait()
        yield cluster.start(
            job.command,
            hosts=job.on or None,
            name=name,
            cwd=job.cwd,
            env=job.env,
            timeout=job.timeout,
            hang_after=job.hang_after,
            grace=job.grace,
            restarts=job.restarts,
        )
