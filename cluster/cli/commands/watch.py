"""Show when results changed, or measure on a timer.

Example: cluster watch mpi_test
         cluster watch add mpi_test --every 6h --bench 'p2p --metrics bandwidth'
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast, get_args

from click.core import ParameterSource
from click.exceptions import Exit

from cluster.cli import flags
from cluster.cli.commands.bench import bench_command
from cluster.cli.flags import CommandGroup, argument, call, make_command, option
from cluster.cli.overview import FAILED, GATE_HIT
from cluster.cli.show import print_json, print_lines, show_rows
from cluster.core.errors import ClusterError, ShellError, SpecError
from cluster.core.model.spec import check_name
from cluster.core.units import format_point, format_value, parse_seconds
from cluster.orchestration.answers import watch as watched_series
from cluster.orchestration.launch.busy import why_busy
from cluster.remote.shells.local import LocalShell
from cluster.reports.table import Column, Columns
from cluster.runs import store
from cluster.runs.watch import store as watches
from cluster.runs.watch.store import BUSY, Outcome, Watch, WatchEvent

if TYPE_CHECKING:
    import click

    from cluster.runs.watch.series import WatchedChange, WatchedSeries


TimerKind = Literal["systemd", "cron"]
SYSTEMD_RUNS = Path("/run/systemd/system")  # sd_booted(3)
MINUTE, DAY = 60, 86_400
KEPT = re.compile(r"PATH|CLUSTER_(?!RUNS|LAUNCHES)\w+")  # variables that a timer does not have
SHORTEST = 60.0  # seconds: cron has no shorter interval
OURS = ("--runs", "--detach", "--plan", "--json", "--ab", "--lottery")


def add(
    name: Annotated[str, argument("NAME", "Name of the cluster.")],
    *,
    every: Annotated[str, option("--every SPAN", "90min, 6h or 1d.")],
    bench: Annotated[str, option("--bench WORDS", "What follows `cluster bench`.")],
    busy: Annotated[
        float, option("--busy", "Skip hosts whose processors are in use by more: 0 to 1.")
    ] = BUSY,
    prometheus: Annotated[str, option("--prometheus FILE", "Write a file for node_exporter.")] = "",
    on_change: Annotated[str, option("--on-change COMMAND", "Run this once for each alarm.")] = "",
    timer: Annotated[str, option("--timer systemd|cron", "Kind.  [default: what runs]")] = "",
    root: flags.Runs = None,
) -> None:
    """Repeat a benchmark by a timer of systemd or cron, which is printed for you to install.

    Example: cluster watch add mpi_test --every 6h --bench "p2p --hosts 2"
    """
    kind, seconds = _kind(timer), parse_seconds(every)
    if seconds < SHORTEST:
        raise SpecError(f"--every {every} is shorter than a minute.", remedy="Such as: --every 6h")
    if not 0 < busy <= 1:
        raise SpecError(
            f"--busy {busy:g} is no share of the processors.", remedy="Such as: --busy 0.25"
        )
    watch = Watch(
        name=check_name(name),
        every=seconds,
        bench=_words(bench),
        at=time.time(),
        busy=busy,
        prometheus=str(Path(prometheus).absolute()) if prometheus else "",
        on_change=on_change,
    )
    where = store.root(root)
    store.make_root(where)
    watches.add(where, watch)
    print_lines(*_printed(watch, where, kind))
    print_lines(f"To measure now: cluster watch run {name} --runs {where}")


def remove(
    name: Annotated[str, argument("NAME", "Name of the cluster.")], root: flags.Runs = None
) -> None:
    """Stop watching a cluster; its runs stay, and so does the timer that you installed.

    Example: cluster watch remove mpi_test
    """
    where = store.root(root)
    watches.remove(where, name)
    unit = _unit_name(name)
    print_lines(
        f"{name} is not watched any more. Its timer, if you installed one, fails until it is gone:",
        f"  systemd: systemctl --user disable --now {unit}.timer; rm {_unit_folder()}/{unit}.*",
        f"  cron: crontab -e, and delete the line that ends in # {unit}",
    )


def _kind(text: str) -> TimerKind:
    if text and text not in get_args(TimerKind):
        raise SpecError(f"--timer {text} is not known.", remedy="There are: systemd, cron")
    return cast("TimerKind", text) if text else "systemd" if SYSTEMD_RUNS.is_dir() else "cron"


def _words(text: str) -> tuple[str, ...]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise SpecError(f"--bench {text!r} cannot be split into words: {error}.") from error
    if not words:
        raise SpecError("--bench is empty.", remedy="Such as: --bench 'p2p --hosts 2'")
    for flag in OURS:
        if any(word == flag or word.startswith(f"{flag}=") for word in words):
            raise SpecError(
                f"{flag} cannot be repeated by a timer.", remedy="Leave it out of --bench."
            )
    context = bench_command(words[0]).make_context(words[0], words[1:])
    if context.get_parameter_source("name") is ParameterSource.COMMANDLINE:
        raise SpecError(
            "The timer's cluster has the name of the watch.", remedy="Leave NAME out of --bench."
        )
    return tuple(words)


def _printed(watch: Watch, where: Path, kind: TimerKind) -> list[str]:
    if kind == "cron":
        # Where cron has no such interval, it starts more often: `watch run` skips what is not due.
        words = shlex.join(_command_words(watch, where)).replace("%", r"\%")
        line = f"{_cron_times(watch.every)} {words} # {_unit_name(watch.name)}"
        return ["Add this line by `crontab -e`:", "", line, ""]
    unit = _unit_name(watch.name)
    lines = ["Write these two files:", ""]
    for path, text in _units(watch, where).items():
        lines += [f"# {path}", *text.splitlines(), ""]
    start = f"systemctl --user daemon-reload; systemctl --user enable --now {unit}.timer"
    return [
        *lines,
        f"Then type: {start}",
        "So that it also runs when you are logged out: loginctl enable-linger",
    ]


def _unit_name(name: str) -> str:
    return f"cluster-watch-{name}"


def _command_words(watch: Watch, where: Path) -> list[str]:
    """Return the command that a timer starts: `env`, with the variables that it needs."""
    variables = [f"{key}={value}" for key, value in os.environ.items() if KEPT.fullmatch(key)]
    command = str(Path(sys.executable).with_name("cluster"))
    return [
        *("/usr/bin/env", *sorted(variables), command),
        *("watch", "run", watch.name, "--runs", str(where)),
    ]


def _unit_folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd/user"


def _units(watch: Watch, where: Path) -> dict[Path, str]:
    """Return the text of each unit of systemd; a missed run starts 5 minutes after boot."""
    words = " ".join(_systemd_word(word) for word in _command_words(watch, where))
    service = (
        f"[Unit]\nDescription=Benchmark of the cluster {watch.name}\n\n"
        f"[Service]\nType=oneshot\nExecStart={words}\n"
        "# 3 is an alarm, and the run went well\nSuccessExitStatus=3\n"
    )
    timer = (
        f"[Unit]\nDescription=Benchmark of the cluster {watch.name}\n\n"
        f"[Timer]\nOnActiveSec=0\nOnBootSec=5min\nOnUnitActiveSec={watch.every:.0f}s\n\n"
        "[Install]\nWantedBy=timers.target\n"
    )
    unit = _unit_folder() / _unit_name(watch.name)
    return {Path(f"{unit}.service"): service, Path(f"{unit}.timer"): timer}


def _cron_times(every: float) -> str:
    """Return first five fields: the longest interval that cron has and that divides this one."""
    minutes = int(every // MINUTE)
    if minutes % (DAY // MINUTE) == 0 and minutes:
        return "0 0 * * *"
    if minutes % 60 == 0 and minutes:
        hours = minutes // 60
        return f"0 */{hours} * * *" if 24 % hours == 0 else "0 * * * *"
    return f"*/{minutes} * * * *" if minutes and 60 % minutes == 0 else "* * * * *"


def _systemd_word(word: str) -> str:
    """Quote a word of ExecStart: systemd.service(5) and systemd.syntax(7)."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if re.search(r"[\s'\";]", escaped) else escaped


SHOW, HELP = "show", ("--help", "-h")


def show(
    names: Annotated[
        list[str] | None, argument("NAME...]", "Clusters.  [default: all watched ones]")
    ] = None,
    root: flags.Runs = None,
    json: flags.Json = False,
) -> None:
    """Show when results changed, and what changed with them.

    Example: cluster watch show mpi_test
    """
    where = store.root(root)
    chosen = tuple(names or watches.names(where))
    watched = tuple(series for name in chosen for series in watched_series(name, runs=where))
    if json:
        print_json(watched)
    else:
        _print(where, chosen, watched)
    raise Exit(GATE_HIT if any(each.state == "alarm" for each in watched) else 0)


def _print(where: Path, names: Sequence[str], series: Sequence[WatchedSeries]) -> None:
    columns: Columns[WatchedSeries] = (
        Column("cluster", lambda each: each.cluster, shown=len(names) > 1),
        Column("metric", lambda each: each.metric),
        Column("point", lambda each: format_point(each.params)),
        Column("runs", lambda each: str(each.runs)),
        Column("last", lambda each: format_value(each.last, each.unit)),
        Column("baseline", lambda each: format_value(each.baseline, each.unit)),
        Column("state", _state),
        Column("changed", _changed),
    )
    empty = f"No series of {', '.join(names)} has a run that is done."
    if not names:
        empty = "Nothing is watched. Type: cluster watch add NAME --every 6h --bench 'p2p'"
    show_rows(series, columns, empty=empty)
    print_lines(*_lines(series))
    for name in names:
        print_lines(*_attempts(where, name))


def _changed(each: WatchedSeries) -> str:
    if not each.changes:
        return ""
    last = each.changes[-1]
    return f"{time.strftime('%F', time.gmtime(last.at))} {last.point.change:+.1%}"


def _state(each: WatchedSeries) -> str:
    return "too few" if each.state == "steady" and each.runs < _enough() else each.state


def _enough() -> int:
    """Return how many runs there must be before a change differs from noise."""
    from cluster.analysis.statistics.change_points import ALARMS, PROVED  # noqa: PLC0415 - slow: numpy

    return PROVED + min(ALARMS)


def _lines(series: Sequence[WatchedSeries]) -> Iterator[str]:
    for each in series:
        for change in each.changes:
            yield change_text(each, change)
            yield from (f"  changed with it: {text}" for text in factor_texts(change))
    needed = _enough()
    if series and max(each.runs for each in series) < needed:
        yield f"{needed} runs are needed before a change differs from noise."


def _attempts(where: Path, name: str) -> Iterator[str]:
    """Say what became of the newest attempt of a watch, if it did not measure."""
    attempts = [e for e in watches.events(where, name) if e.outcome != "told"]
    if attempts and attempts[-1].outcome != "measured":
        last = attempts[-1]
        when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(last.at))
        outcome = "a failure" if last.outcome == "failed" else last.outcome
        yield f"{name}: the newest attempt, {when} UTC, was {outcome}: {last.reason}"


PATIENCE = 60.0  # seconds that the command for alarms may take
ALARMED = 3  # runs that an alarm lasts: `change_points.SEGMENT`, which needs NumPy


def run(
    name: Annotated[str, argument("NAME", "Name of the cluster.")],
    now: Annotated[bool, option("--now", "Measure even if it is not due.")] = False,
    root: flags.Runs = None,
) -> None:
    """Measure what is watched, if it is due and nobody else uses the hosts; a timer calls it.

    Example: cluster watch run mpi_test
    """
    where = store.root(root)
    watch = watches.find(where, name)
    with watches.lock(where, name) as free:
        reason = "" if free else "another `cluster watch run` measures"
        if free and not now:
            reason = watches.why_not_due(watch, watches.events(where, name), time.time())
        reason = reason or why_busy(name, watch.busy)
        if reason:
            _note(where, name, "skipped", reason)
            print_lines(f"Skipped: {reason}.")
            return
        _measure(where, watch)
        raise Exit(_report(where, watch))


def _measure(where: Path, watch: Watch) -> None:
    before = watches.run_ids(where, watch.name)
    benchmark, *words = watch.bench
    words += [watch.name, "--runs", str(where)]
    try:
        status = call(bench_command(benchmark), benchmark, words)
    except (ClusterError, KeyboardInterrupt) as error:
        reason = getattr(error, "what", "") or str(error) or "it was interrupted"
        _note(where, watch.name, "failed", reason.partition("\n")[0])
        raise
    ids = tuple(sorted(watches.run_ids(where, watch.name) - before))
    result = tuple(id_ for id_ in ids if store.record(where / watch.name / id_).status == "done")
    if result:
        _note(where, watch.name, "measured", "", result)
        return
    _note(where, watch.name, "failed", f"the benchmark ended with status {status or 0}")
    raise Exit(status or FAILED)


def _report(where: Path, watch: Watch) -> int:
    """Write the file for Prometheus, tell the user's command of new alarms, and give the status."""
    series = watched_series(watch.name, runs=where)
    if watch.prometheus:
        LocalShell().write(prometheus_text(series), watch.prometheus)
    alarms = [each for each in series if each.state == "alarm"]
    # return the series whose alarm was announced: once, though it lasts for a few runs
    events = watches.events(where, watch.name)
    measured = [at for at, event in enumerate(events) if event.outcome == "measured"]
    since = measured[-ALARMED] if len(measured) >= ALARMED else 0
    known_alarms = {event.series for event in events[since:] if event.outcome == "told"}
    for each in alarms:
        series_name = f"{each.metric} {format_point(each.params)} {each.definition}"
        lines = [change_text(each, each.changes[-1]), *factor_texts(each.changes[-1])]
        print_lines(f"ALARM {watch.name}: {lines[0]}", *(f"  {line}" for line in lines[1:]))
        if watch.on_change and series_name not in known_alarms and _run_hook(watch, lines):
            _note(where, watch.name, "told", "", (each.changes[-1].run,), series_name)
    return GATE_HIT if alarms else 0


def _run_hook(watch: Watch, lines: Sequence[str]) -> bool:
    """Run the user's command; one that fails is tried again after the next run."""
    variables = (f"CLUSTER_WATCH={watch.name}", f"CLUSTER_CHANGE={chr(10).join(lines)}")
    try:
        result = LocalShell().run(
            ["env", *variables, "sh", "-c", watch.on_change], timeout=PATIENCE
        )
    except ShellError as error:
        sys.stderr.write(f"--on-change: {error.what}\n")
        return False
    sys.stderr.write(result.stdout + result.stderr)
    if result.status:
        sys.stderr.write(f"--on-change ended with status {result.status}; it is tried again.\n")
    return result.status == 0


def _note(
    where: Path,
    name: str,
    outcome: Outcome,
    reason: str,
    runs: tuple[str, ...] = (),
    series: str = "",
) -> None:
    event = WatchEvent(at=time.time(), outcome=outcome, reason=reason, runs=runs, series=series)
    watches.note(where, name, event)


class WatchGroup(CommandGroup):
    """`cluster watch NAME` means `cluster watch show NAME`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command that was left out before its arguments."""
        first = args[:1]
        own = first and (first[0] in self.commands or first[0] in HELP)
        return super().parse_args(ctx, args if own else [SHOW, *args])


command = WatchGroup(
    "watch", [make_command(f.__name__, f) for f in (add, run, remove, show)], help=__doc__
)


MOST_FACTORS = 5  # named with a change
# What is in the names of factors that most often explain a change.
FIRST = ("kernel", "driver", "nccl", "firmware", "version", "mpi")
STATES = {"steady": 0, "watch": 1, "alarm": 2}
UNITS = {"s": "_seconds", "B/s": "_bytes_per_second"}
ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def change_text(each: WatchedSeries, change: WatchedChange) -> str:
    """Describe a change in one line: the point, the change with its interval, its first run."""
    low, high = change.point.ci
    series = " ".join(filter(None, (each.metric, format_point(each.params))))
    return (
        f"{series}: {change.point.change:+.1%} (95% CI {low:+.1%} .. {high:+.1%}) from "
        f"{change.run} on"
    )


def factor_texts(change: WatchedChange) -> list[str]:
    """Describe the first few factors that changed with a series, those of the system first."""
    ordered = sorted(
        change.factors, key=lambda f: not any(word in f.name.lower() for word in FIRST)
    )
    texts = [f"{f.name}: {f.base} -> {f.other}" for f in ordered[:MOST_FACTORS]]
    more = len(ordered) - len(texts)
    return [*texts, *([f"{more} more"] if more else [])]


def prometheus_text(series: Sequence[WatchedSeries]) -> str:
    """Write the newest values for node_exporter, in the text format of Prometheus.

    https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
    """
    by_gauge: dict[tuple[str, str], list[str]] = {}
    for each in series:
        unit = UNITS.get(each.unit, "_ratio" if "host" in each.params else "")
        params = {name: str(value) for name, value in each.params.items() if name != "cluster"}
        own = {"cluster": each.cluster, "metric": each.metric, "definition": each.definition}
        pairs = (own | params).items()
        labels = ",".join(f'{key}="{value.translate(ESCAPES)}"' for key, value in pairs)
        for name, about, value in (
            (f"last{unit}", "Newest median of a series of runs.", each.last),
            (f"baseline{unit}", "Median of the runs since the last change.", each.baseline),
            ("state", "0 is steady, 1 is watch, 2 is alarm.", float(STATES[each.state])),
            ("runs", "Number of runs of the series.", float(each.runs)),
            ("sample_timestamp_seconds", "When the newest run was started.", each.at),
        ):
            lines = by_gauge.setdefault((f"cluster_watch_{name}", about), [])
            lines.append(f"cluster_watch_{name}{{{labels}}} {value!r}\n")
    return "".join(
        f"# HELP {name} {about}\n# TYPE {name} gauge\n{''.join(lines)}"
        for (name, about), lines in sorted(by_gauge.items())
    )
