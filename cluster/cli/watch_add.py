"""`cluster watch add` and `remove`: a benchmark that the system's own timer repeats."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from cluster.cli import flags, timers
from cluster.cli.bench_commands import bench_command
from cluster.cli.show import print_lines
from cluster.cli.timers import TimerKind
from cluster.core.errors import SpecError
from cluster.core.model.spec import check_name
from cluster.core.units import parse_seconds
from cluster.runs import store, watches
from cluster.runs.watches import BUSY, Watch

SHORTEST = 60.0  # seconds: cron has no shorter interval
OURS = ("--name", "--runs", "--detach", "--plan", "--json", "--ab", "--lottery")


def add(  # noqa: PLR0913 - each is a flag
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the cluster.")],
    *,
    every: Annotated[str, typer.Option("--every", metavar="SPAN", help="90min, 6h or 1d.")],
    bench: Annotated[
        str, typer.Option("--bench", metavar="WORDS", help="What follows `cluster bench`.")
    ],
    busy: Annotated[
        float,
        typer.Option("--busy", help="Skip hosts whose processors are in use by more: 0 to 1."),
    ] = BUSY,
    prometheus: Annotated[
        str, typer.Option("--prometheus", metavar="FILE", help="Write a file for node_exporter.")
    ] = "",
    on_change: Annotated[
        str,
        typer.Option("--on-change", metavar="COMMAND", help="Run this once for each alarm."),
    ] = "",
    timer: Annotated[
        str, typer.Option("--timer", metavar="systemd|cron", help="Kind.  [default: what runs]")
    ] = "",
    install: Annotated[
        bool, typer.Option("--install", help="Write the timer, and start it.")
    ] = False,
    root: flags.Runs = None,
) -> None:
    """Repeat a benchmark by a timer of systemd or cron, which is printed.

    Example: cluster watch add mpi_test --every 6h --bench "p2p --hosts 2" --install
    """
    kind = _kind(timer)
    watch = Watch(
        name=check_name(name),
        every=_interval(every),
        bench=_words(bench),
        at=time.time(),
        busy=_share(busy),
        prometheus=str(Path(prometheus).absolute()) if prometheus else "",
        on_change=on_change,
    )
    where = store.root(root)
    store.make_root(where)
    watches.add(where, watch)
    if install:
        timers.install(watch, where, kind)
        print_lines(f"Installed: {timers.unit_name(watch.name)} ({kind})", *_after_logout(kind))
    else:
        print_lines(*_printed(watch, where, kind))
    print_lines(f"To measure now: cluster watch run {name} --runs {where}")


def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the cluster.")],
    root: flags.Runs = None,
) -> None:
    """Stop watching a cluster, and remove its timer; its runs stay.

    Example: cluster watch remove mpi_test
    """
    where = store.root(root)
    gone = timers.uninstall(watches.find(where, name), where)
    watches.remove(where, name)
    print_lines(*(f"Removed: {each}" for each in gone), f"{name} is not watched any more.")


def _kind(text: str) -> TimerKind:
    if text and text not in get_args(TimerKind):
        raise SpecError(f"--timer {text} is not known.", remedy="There are: systemd, cron")
    return cast("TimerKind", text) if text else timers.usual_kind()


def _interval(text: str) -> float:
    seconds = parse_seconds(text)
    if seconds < SHORTEST:
        raise SpecError(f"--every {text} is shorter than a minute.", remedy="Such as: --every 6h")
    return seconds


def _share(value: float) -> float:
    if not 0 < value <= 1:
        raise SpecError(
            f"--busy {value:g} is no share of the processors.", remedy="Such as: --busy 0.25"
        )
    return value


def _words(text: str) -> tuple[str, ...]:
    """Split the words of a benchmark, and refuse what it would refuse."""
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
    bench_command(words[0]).make_context(words[0], words[1:])
    return tuple(words)


def _printed(watch: Watch, where: Path, kind: TimerKind) -> list[str]:
    if kind == "cron":
        line = timers.crontab_line(watch, where)
        return ["Add this line by `crontab -e`, or use --install:", "", line, ""]
    lines = ["Write these two files, or use --install:", ""]
    for file in timers.units(watch, where):
        lines += [f"# {file.path}", *file.text.splitlines(), ""]
    start = f"systemctl --user enable --now {timers.unit_name(watch.name)}.timer"
    return [*lines, f"Then type: systemctl --user daemon-reload; {start}", *_after_logout(kind)]


def _after_logout(kind: TimerKind) -> list[str]:
    if kind == "cron":
        return []
    return ["So that it also runs when you are logged out: loginctl enable-linger"]
