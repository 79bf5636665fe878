"""`cluster watch add` and `remove`: a benchmark that the system's own timer repeats."""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated, Literal, cast, get_args

from cluster.cli import flags
from cluster.cli.commands.bench import bench_command
from cluster.cli.flags import argument, option
from cluster.cli.show import print_lines
from cluster.core.errors import SpecError
from cluster.core.model.spec import check_name
from cluster.core.units import parse_seconds
from cluster.runs import store
from cluster.runs.watch import store as watches
from cluster.runs.watch.store import BUSY, Watch

TimerKind = Literal["systemd", "cron"]
SYSTEMD_RUNS = Path("/run/systemd/system")  # sd_booted(3)
MINUTE, DAY = 60, 86_400
KEPT = re.compile(r"PATH|CLUSTER_(?!RUNS|LAUNCHES)\w+")  # variables that a timer does not have
SHORTEST = 60.0  # seconds: cron has no shorter interval
OURS = ("--name", "--runs", "--detach", "--plan", "--json", "--ab", "--lottery")


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
    print_lines(*_printed(watch, where, kind))
    print_lines(f"To measure now: cluster watch run {name} --runs {where}")


def remove(
    name: Annotated[str, argument("NAME", "Name of the cluster.")],
    root: flags.Runs = None,
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
    """Return the timer, and what installs it."""
    if kind == "cron":
        return ["Add this line by `crontab -e`:", "", _crontab_line(watch, where), ""]
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
    """Return the name of a watch's units, without their suffix."""
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
    """Return where systemd looks for the units of a user."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd/user"


def _units(watch: Watch, where: Path) -> dict[Path, str]:
    """Return the service and the timer of systemd: the text of each path.

    A run that was missed while the machine was off starts 5 minutes after boot.
    """
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


def _crontab_line(watch: Watch, where: Path) -> str:
    """Return the line of a crontab.

    Where cron has no such interval, it starts more often, and `watch run` skips what is not due.
    """
    words = shlex.join(_command_words(watch, where)).replace("%", r"\%")
    return f"{_cron_times(watch.every)} {words} # {_unit_name(watch.name)}"


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
