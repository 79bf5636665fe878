"""Collection of a job's results: download its files, add values to the run, close the run."""

import fcntl
import os
import re
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from cluster.agent.protocol import ADVICE, BY_SIGNAL, NOTICE, REASON, TIMED_OUT, Wrote
from cluster.analysis.limits.hardware import of_measured
from cluster.analysis.statistics.launches import find_slowdown
from cluster.core import decoders, plugins
from cluster.core.errors import HostErrors, JobError, ParseError, ShellError, SpecError
from cluster.core.model.results.measurements import Definition, Measurement, Output, Progress
from cluster.core.model.results.records import NOTES_FILE, Status
from cluster.core.model.value import Value
from cluster.core.state import files
from cluster.measure.benchmark import Benchmark, measurements
from cluster.remote.sessions.jobs import MpiJob
from cluster.reports.words.launches import slowdown_words
from cluster.reports.words.outcomes import outcome_words
from cluster.runs import store
from cluster.runs.run import RAW, Run

# What Open MPI 5 says behind a rank's own words when that rank ends all others; \0 ends it.
ABORTED = re.compile(
    r"-{60,}\n(?:MPI_ABORT was invoked|prterun has exited due to[^-]*\"abort\").*?\n-{60,}\n\0?",
    re.DOTALL,
)
FINAL: tuple[Status, ...] = ("done", "failed", "interrupted")


class JobResult(Value, frozen=True, kw_only=True):
    """How a job ended, as it is written into the record of its run."""

    status: Status
    reason: str = ""
    exit_status: int | None = None


def job_result(status: int) -> JobResult:
    """Translate the exit status of a job: `done` for 0, else `failed` with the reason."""
    if status == 0:
        return JobResult(status="done", exit_status=0)
    if status == TIMED_OUT:
        reason = outcome_words("timed_out")
    elif name := _signal(status):
        reason = outcome_words("signal", name)
    else:
        reason = outcome_words("exit_status", status)
    return JobResult(status="failed", reason=reason, exit_status=status)


def _signal(status: int) -> str:
    """Name the signal that an exit status means; empty if it means none."""
    number = status - BY_SIGNAL
    if number not in signal.valid_signals():
        return ""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def collect(
    job: MpiJob, result: JobResult, phases: dict[str, float], *, stop: bool = False, cause: str = ""
) -> Run:
    """Download a job's files and close its run; the first of several processes does it.

    The seconds of `fetch` are added to `phases` (SpecError: the run's folder was removed).
    """
    folder = Path(job.record.run)
    if not folder.is_dir():
        if stop:
            job.stop()
        job.clean()
        raise SpecError(
            f"The folder of the run was removed: {folder}",
            remedy=f"What the job wrote is still in {job.record.folder}",
        )
    with _alone(folder):
        if store.record(folder).status not in FINAL:
            start = time.monotonic()
            if stop:
                try:
                    job.stop()
                except ShellError as error:  # the other hosts' files are still downloaded
                    result = _failed_with(result, error.what)
            result = _download(job, folder, result)
            if cause:
                reason = f"{result.reason.rstrip('.')}; {cause}."
                result = msgspec.structs.replace(result, reason=reason)
            _keep_measured(folder)
            phases["fetch"] = time.monotonic() - start
            close_run(folder, result, phases)
    return store.read(folder)


def _failed_with(result: JobResult, cause: str) -> JobResult:
    reason = f"{result.reason} {cause}".strip()
    return JobResult(status="failed", reason=reason, exit_status=result.exit_status)


def _download(job: MpiJob, folder: Path, result: JobResult) -> JobResult:
    is_explained = result.status == "interrupted"  # who interrupted it knows why
    try:
        if is_explained and not job.exists():
            return result
        job.fetch(folder / RAW)
    except (ShellError, HostErrors) as error:
        result = _failed_with(result, _first_line(error))
    try:
        # add values that were not streamed: a program printed them, or no process was watching
        ranks = sorted((folder / RAW).glob("measurements.*.jsonl"))
        output = Output(
            stdout=raw_text(folder, "stdout"), ranks=tuple(raw_text(folder, p.name) for p in ranks)
        )
        values = plugins.load(Benchmark, job.record.benchmark).parse(output)
        keys = {m.key for m in store.read(folder).measurements}
        store.append(folder, [m for m in values if m.key not in keys])
    except ParseError as error:
        result = _failed_with(result, error.what)
    reason = raw_text(folder, REASON).partition(ADVICE)[0]
    if reason and not is_explained:
        # if a rank was killed, this cause comes first
        was_killed = result.exit_status is not None and _signal(result.exit_status)
        result = msgspec.structs.replace(
            result, reason=f"{result.reason} {reason}" if was_killed else reason
        )
    if result.exit_status == TIMED_OUT:
        slower = find_slowdown(store.read(folder).measurements)
        words = slowdown_words(slower) if slower else ""
        result = msgspec.structs.replace(result, reason=f"{result.reason} {words}".strip())
    return result


def _first_line(error: Exception) -> str:
    if isinstance(error, HostErrors):
        return " ".join(_first_line(inner) for inner in error.exceptions)
    return error.what if isinstance(error, ShellError) else str(error)


def close_run(folder: Path, result: JobResult, phases: dict[str, float]) -> None:
    """Write the end of a job, and the seconds of its phases, into the record of its run."""
    record = store.record(folder)
    final_record = msgspec.structs.replace(
        record,
        phases={**record.phases, **phases},
        notes=(*record.notes, *raw_text(folder, NOTES_FILE).splitlines()),
        **msgspec.structs.asdict(result),
    )
    store.write(folder, final_record)


def raise_unless_done(run: Run) -> Run:
    """Return a run that is done; for any other, raise a JobError with its stdout and stderr."""
    if run.status == "done":
        return run
    verb = "failed" if run.status == "failed" else "was interrupted"
    raise JobError(
        f"The job {run.record.spec.name} {verb}: {run.record.reason}",
        stdout=raw_text(run.folder, "stdout"),
        stderr=ABORTED.sub("", raw_text(run.folder, "stderr")),
        means=raw_text(run.folder, REASON).partition(ADVICE)[2],
        remedy=f"All it wrote is in {run.folder}",
    )


def _keep_measured(folder: Path) -> None:
    """Keep the definitions that were used, with their rates, and the GPUs that were examined."""
    run = store.read(folder)
    by_id = run.record.definitions
    used = {m.definition for m in run.measurements}
    metrics = {by_id[definition_id].metric for definition_id in used & set(by_id)}

    def stays(definition: Definition) -> bool:
        key_ = definition.rate_of or definition.id
        return key_ in used or key_ not in by_id or by_id[key_].metric not in metrics

    definitions = {key: definition for key, definition in by_id.items() if stays(definition)}
    hardware = run.record.hardware or of_measured(run.measurements)
    if definitions != by_id or hardware != run.record.hardware:
        record = msgspec.structs.replace(run.record, definitions=definitions, hardware=hardware)
        store.write(folder, record)


def raw_text(folder: Path, name: str) -> str:
    """Return the text of a file that a job wrote; empty if there is none."""
    return files.text_of(folder / RAW / name)


class Listener:
    """Callbacks of a benchmark; a subclass overrides those that it needs."""

    def preparing(self, host: str, step: str) -> None:
        """Receive the step of the installation that a host begins."""

    def started(self, cluster: Any, folder: Path) -> None:  # noqa: ANN401 - a Cluster, which knows this class
        """Receive the `Cluster` whose job runs now, and the folder of its run."""

    def output(self, line: str) -> None:
        """Receive a line that the ranks printed."""

    def measured(self, measurements: Sequence[Measurement]) -> None:
        """Receive values as they arrive."""

    def notice(self, line: str) -> None:
        """Receive a notice of cluster about the job, such as that a host is lost."""

    def progress(self, progress: Progress) -> None:
        """Receive the progress of the job."""

    def ended(self) -> None:
        """Called when the job has ended, whether it failed or not."""


class JobOutput:
    """Sorts what a job writes: values go to the run's folder, lines and progress to a listener.

    Without a folder, values are left for `collect`.
    """

    def __init__(self, listener: Listener, folder: Path | None) -> None:
        self._listener = listener
        self._folder = folder

    def __call__(self, event: Wrote) -> None:
        if event.file.startswith("measurements."):
            if self._folder is not None:
                values = tuple(measurements(event.text))
                store.append(self._folder, values)
                self._listener.measured(values)
            return
        take = {"stdout": self._listener.output, "stderr": self._complaint}
        for line in event.text.splitlines():
            take.get(event.file, self._progress)(line)

    def _complaint(self, line: str) -> None:
        if line.startswith(NOTICE):
            self._listener.notice(line)

    def _progress(self, line: str) -> None:
        with suppress(msgspec.DecodeError):  # any program may write a file of this name
            self._listener.progress(decoders.decode(line, Progress))


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock a run, so that one process at a time closes it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Ignore Ctrl-C and SIGTERM, which would lose the values."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # Signals are handled only in the main thread.
    is_main_thread = threading.current_thread() is threading.main_thread()
    handlers = {n: h for n, h in before.items() if is_main_thread and callable(h)}
    for number in handlers:
        signal.signal(number, lambda *_: None)  # child processes would inherit SIG_IGN
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
