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
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from click.core import ParameterSource
from click.exceptions import Exit

from cluster.cli import flags
from cluster.cli.commands.bench import bench_command
from cluster.cli.flags import CommandGroup, argument, call, make_command, option
from cluster.cli.overview import FAILED, GATE_HIT
from cluster.cli.show import print_json, print_lines, show_rows
from cluster.core.errors import ClusterError, ShellError, SpecError
from cluster.core.model.spec import check_name
from cluster.core.text.units import format_point, format_value, parse_seconds
from cluster.orchestration.answers import watch as watched_series
from cluster.orchestration.usage import why_busy
from cluster.remote.shells.local import LocalShell
from cluster.reports.table import Column, Columns
from cluster.runs import store
from cluster.runs import watch as watches
from cluster.runs.watch import BUSY, Outcome, Watch, WatchEvent

if TYPE_CHECKING:
    import click

    from cluster.runs.watch import WatchedChange, WatchedSeries

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
    if timer and timer not in get_args(TimerKind):
        raise SpecError(f"--timer {timer} is not known.", remedy="There are: systemd, cron")
    kind = timer or ("systemd" if SYSTEMD_RUNS.is_dir() else "cron")
    seconds = parse_seconds(every)
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
    folder = store.root(root)
    store.make_root(folder)
    watches.add(folder, watch)
    print_lines(*_schedule_lines(watch, folder, kind))
    print_lines(f"To measure now: cluster watch run {name} --runs {folder}")


def remove(
    name: Annotated[str, argument("NAME", "Name of the cluster.")], root: flags.Runs = None
) -> None:
    """Stop watching a cluster; its runs stay, and so does the timer that you installed.

    Example: cluster watch remove mpi_test
    """
    folder = store.root(root)
    watches.remove(folder, name)
    unit = f"cluster-watch-{name}"
    print_lines(
        f"{name} is not watched any more. Its timer, if you installed one, fails until it is gone:",
        f"  systemd: systemctl --user disable --now {unit}.timer; rm {_unit_folder()}/{unit}.*",
        f"  cron: crontab -e, and delete the line that ends in # {unit}",
    )


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


def _schedule_lines(watch: Watch, root: Path, kind: str) -> list[str]:
    variables = sorted(f"{key}={value}" for key, value in os.environ.items() if KEPT.fullmatch(key))
    cluster = str(Path(sys.executable).with_name("cluster"))
    command = ["/usr/bin/env", *variables, cluster, "watch", "run", watch.name]
    command += ["--runs", str(root)]
    unit = f"cluster-watch-{watch.name}"
    if kind == "cron":
        # Where cron has no such interval, it starts more often: `watch run` skips what is not due.
        words = shlex.join(command).replace("%", r"\%")
        line = f"{_cron_times(watch.every)} {words} # {unit}"
        return ["Add this line by `crontab -e`:", "", line, ""]
    service = (
        f"[Unit]\nDescription=Benchmark of the cluster {watch.name}\n\n"
        f"[Service]\nType=oneshot\nExecStart={' '.join(map(_systemd_word, command))}\n"
        "# 3 is an alarm, and the run went well\nSuccessExitStatus=3\n"
    )
    timer = (  # a missed run starts 5 minutes after boot
        f"[Unit]\nDescription=Benchmark of the cluster {watch.name}\n\n"
        f"[Timer]\nOnActiveSec=0\nOnBootSec=5min\nOnUnitActiveSec={watch.every:.0f}s\n\n"
        "[Install]\nWantedBy=timers.target\n"
    )
    lines = ["Write these two files:", ""]
    for ending, text in (("service", service), ("timer", timer)):
        lines += [f"# {_unit_folder() / unit}.{ending}", *text.splitlines(), ""]
    start = f"systemctl --user daemon-reload; systemctl --user enable --now {unit}.timer"
    return [
        *lines,
        f"Then type: {start}",
        "So that it also runs when you are logged out: loginctl enable-linger",
    ]


def _unit_folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd/user"


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
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{text}"' if re.search(r"[\s'\";]", text) else text


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
    folder = store.root(root)
    selection = tuple(names or watches.names(folder))
    all_series = tuple(series for name in selection for series in watched_series(name, runs=folder))
    if json:
        print_json(all_series)
    else:
        _print(folder, selection, all_series)
    raise Exit(GATE_HIT if any(s.state == "alarm" for s in all_series) else 0)


def _print(root: Path, names: Sequence[str], series: Sequence[WatchedSeries]) -> None:
    columns: Columns[WatchedSeries] = (
        Column("cluster", lambda s: s.cluster, show=len(names) > 1),
        Column("metric", lambda s: s.metric),
        Column("point", lambda s: format_point(s.params)),
        Column("runs", lambda s: str(s.runs)),
        Column("last", lambda s: format_value(s.last, s.unit)),
        Column("baseline", lambda s: format_value(s.baseline, s.unit)),
        Column("state", _state),
        Column("changed", _last_change),
    )
    empty = f"No series of {', '.join(names)} has a run that is done."
    if not names:
        empty = "Nothing is watched. Type: cluster watch add NAME --every 6h --bench 'p2p'"
    show_rows(series, columns, empty=empty)
    for s in series:
        for change in s.changes:
            factors = (f"  changed with it: {text}" for text in factor_texts(change))
            print_lines(change_text(s, change), *factors)
    count = _enough()
    if series and max(s.runs for s in series) < count:
        print_lines(f"{count} runs are needed before a change differs from noise.")
    for name in names:  # and what became of the newest attempt, if it did not measure
        attempts = [e for e in watches.events(root, name) if e.outcome != "told"]
        if attempts and attempts[-1].outcome != "measured":
            last = attempts[-1]
            stamp = time.strftime("%Y-%m-%d %H:%M", time.gmtime(last.at))
            outcome = "a failure" if last.outcome == "failed" else last.outcome
            print_lines(f"{name}: the newest attempt, {stamp} UTC, was {outcome}: {last.reason}")


def _last_change(series: WatchedSeries) -> str:
    if not series.changes:
        return ""
    last = series.changes[-1]
    return f"{time.strftime('%F', time.gmtime(last.at))} {last.point.change:+.1%}"


def _state(series: WatchedSeries) -> str:
    return "too few" if series.state == "steady" and series.runs < _enough() else series.state


def _enough() -> int:
    """Return how many runs there must be before a change differs from noise."""
    from cluster.analysis.statistics.change_points import ALARMS, PROVED  # noqa: PLC0415 - slow: numpy

    return PROVED + min(ALARMS)


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
    folder = store.root(root)
    watch = watches.find(folder, name)
    with watches.lock(folder, name) as free:
        reason = "" if free else "another `cluster watch run` measures"
        if free and not now:
            reason = watches.why_not_due(watch, watches.events(folder, name), time.time())
        reason = reason or why_busy(name, watch.busy)
        if reason:
            _note(folder, name, "skipped", reason)
            print_lines(f"Skipped: {reason}.")
            return
        _measure(folder, watch)
        raise Exit(_report(folder, watch))


def _measure(root: Path, watch: Watch) -> None:
    before = store.run_ids(root, watch.name)
    benchmark, *words = watch.bench
    words += [watch.name, "--runs", str(root)]
    try:
        status = call(bench_command(benchmark), benchmark, words)
    except (ClusterError, KeyboardInterrupt) as error:
        reason = getattr(error, "what", "") or str(error) or "it was interrupted"
        _note(root, watch.name, "failed", reason.partition("\n")[0])
        raise
    ids = tuple(sorted(store.run_ids(root, watch.name) - before))
    result = tuple(id_ for id_ in ids if store.record(root / watch.name / id_).status == "done")
    if result:
        _note(root, watch.name, "measured", "", result)
        return
    _note(root, watch.name, "failed", f"the benchmark ended with status {status or 0}")
    raise Exit(status or FAILED)


def _report(root: Path, watch: Watch) -> int:
    """Write the file for Prometheus, tell the user's command of new alarms, and give the status."""
    series = watched_series(watch.name, runs=root)
    if watch.prometheus:
        LocalShell().write(prometheus_text(series), watch.prometheus)
    alarms = [alarm for alarm in series if alarm.state == "alarm"]
    # return the series whose alarm was announced: once, though it lasts for a few runs
    events = watches.events(root, watch.name)
    indices = [index for index, event in enumerate(events) if event.outcome == "measured"]
    start = indices[-ALARMED] if len(indices) >= ALARMED else 0
    known_alarms = {event.series for event in events[start:] if event.outcome == "told"}
    for alarm in alarms:
        series_name = f"{alarm.metric} {format_point(alarm.params)} {alarm.definition}"
        lines = [change_text(alarm, alarm.changes[-1]), *factor_texts(alarm.changes[-1])]
        print_lines(f"ALARM {watch.name}: {lines[0]}", *(f"  {line}" for line in lines[1:]))
        if watch.on_change and series_name not in known_alarms and _run_hook(watch, lines):
            _note(root, watch.name, "told", "", (alarm.changes[-1].run,), series_name)
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
    root: Path, name: str, outcome: Outcome, text: str, runs: tuple[str, ...] = (), series: str = ""
) -> None:
    event = WatchEvent(at=time.time(), outcome=outcome, reason=text, runs=runs, series=series)
    watches.note(root, name, event)


class WatchGroup(CommandGroup):
    """`cluster watch NAME` means `cluster watch show NAME`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command that was left out before its arguments."""
        first = args[:1]
        is_command = first and (first[0] in self.commands or first[0] in HELP)
        return super().parse_args(ctx, args if is_command else [SHOW, *args])


command = WatchGroup(
    "watch", [make_command(f.__name__, f) for f in (add, run, remove, show)], help=__doc__
)


MOST_FACTORS = 5  # named with a change
# What is in the names of factors that most often explain a change.
FIRST = ("kernel", "driver", "nccl", "firmware", "version", "mpi")
STATES = {"steady": 0, "watch": 1, "alarm": 2}
UNITS = {"s": "_seconds", "B/s": "_bytes_per_second"}
ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def change_text(series: WatchedSeries, change: WatchedChange) -> str:
    """Describe a change in one line: the point, the change with its interval, its first run."""
    low, high = change.point.ci
    name = " ".join(filter(None, (series.metric, format_point(series.params))))
    return (
        f"{name}: {change.point.change:+.1%} (95% CI {low:+.1%} .. {high:+.1%}) from "
        f"{change.run} on"
    )


def factor_texts(change: WatchedChange) -> list[str]:
    """Describe the first few factors that changed with a series, those of the system first."""
    factors = sorted(
        change.factors, key=lambda f: not any(word in f.name.lower() for word in FIRST)
    )
    texts = [f"{f.name}: {f.base} -> {f.other}" for f in factors[:MOST_FACTORS]]
    more = len(factors) - len(texts)
    return [*texts, *([f"{more} more"] if more else [])]


def prometheus_text(series: Sequence[WatchedSeries]) -> str:
    """Write the newest values for node_exporter, in the text format of Prometheus.

    https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
    """
    by_gauge: dict[tuple[str, str], list[str]] = {}
    for s in series:
        unit = UNITS.get(s.unit, "_ratio" if "host" in s.params else "")
        params = {name: str(value) for name, value in s.params.items() if name != "cluster"}
        base = {"cluster": s.cluster, "metric": s.metric, "definition": s.definition}
        pairs = (base | params).items()
        labels = ",".join(f'{key}="{value.translate(ESCAPES)}"' for key, value in pairs)
        for name, meaning, value in (
            (f"last{unit}", "Newest median of a series of runs.", s.last),
            (f"baseline{unit}", "Median of the runs since the last change.", s.baseline),
            ("state", "0 is steady, 1 is watch, 2 is alarm.", float(STATES[s.state])),
            ("runs", "Number of runs of the series.", float(s.runs)),
            ("sample_timestamp_seconds", "When the newest run was started.", s.at),
        ):
            lines = by_gauge.setdefault((f"cluster_watch_{name}", meaning), [])
            lines.append(f"cluster_watch_{name}{{{labels}}} {value!r}\n")
    return "".join(
        f"# HELP {name} {meaning}\n# TYPE {name} gauge\n{''.join(lines)}"
        for (name, meaning), lines in sorted(by_gauge.items())
    )
