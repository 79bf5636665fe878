"""The system's own timers: units of systemd for a user, and a line of a crontab."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cluster.core.errors import ClusterError
from cluster.core.model.value import Value
from cluster.remote.shells.local import LocalShell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.core.model.hosts import Completed
    from cluster.runs.watches import Watch

TimerKind = Literal["systemd", "cron"]
SYSTEMD_RUNS = Path("/run/systemd/system")  # sd_booted(3)
MINUTE, HOUR, DAY = 60, 3600, 86_400
KEPT = re.compile(r"PATH|CLUSTER_(?!RUNS|LAUNCHES)\w+")  # variables that a timer does not have
NOT_FOUND = 127  # the exit status of a shell if there is no such program
# What Debian's cron, cronie and busybox say where there is none, or one may not have any.
NO_CRONTAB = re.compile(r"no crontab|not allowed|can't open '\w[\w.-]*': No such file")


class TimerFile(Value, frozen=True, kw_only=True):
    """A file that makes a timer."""

    path: str
    text: str


def usual_kind() -> TimerKind:
    """Choose systemd where it runs, else cron."""
    return "systemd" if SYSTEMD_RUNS.is_dir() else "cron"


def unit_name(name: str) -> str:
    """Return the name of a watch's units, without their suffix."""
    return f"cluster-watch-{name}"


def command_words(watch: Watch, where: Path) -> list[str]:
    """Return the command that a timer starts, with the variables that it needs.

    Returns:
        The words; the first is `env`.

    """
    variables = [f"{key}={value}" for key, value in os.environ.items() if KEPT.fullmatch(key)]
    command = str(Path(sys.executable).with_name("cluster"))
    return [
        *("/usr/bin/env", *sorted(variables), command),
        *("watch", "run", watch.name, "--runs", str(where)),
    ]


def units(watch: Watch, where: Path) -> tuple[TimerFile, TimerFile]:
    """Return the service and the timer of systemd.

    Returns:
        The two files. A run that was missed while the machine was off starts 5 minutes after boot.

    """
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd/user"
    words = " ".join(_systemd_word(word) for word in command_words(watch, where))
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
    stem = str(folder / unit_name(watch.name))
    return (
        TimerFile(path=f"{stem}.service", text=service),
        TimerFile(path=f"{stem}.timer", text=timer),
    )


def crontab_line(watch: Watch, where: Path) -> str:
    """Return the line of a crontab.

    Returns:
        The line. Where cron has no such interval, it starts more often, and `watch run` skips what
        is not due.

    """
    words = shlex.join(command_words(watch, where)).replace("%", r"\%")
    return f"{_cron_times(watch.every)} {words} # {unit_name(watch.name)}"


def install(watch: Watch, where: Path, kind: TimerKind) -> None:
    """Write the timer of a watch, and start it; an older one of the same name is replaced.

    Raises:
        ClusterError: a file cannot be written, or systemd or cron refuses it.

    """
    if kind == "cron":
        _write_crontab([*_crontab_without(watch.name), crontab_line(watch, where)])
        return
    for file in units(watch, where):
        LocalShell().write(file.text, file.path)
    _must(["systemctl", "--user", "daemon-reload"])
    _must(["systemctl", "--user", "enable", "--now", f"{unit_name(watch.name)}.timer"])


def uninstall(watch: Watch, where: Path) -> tuple[str, ...]:
    """Remove the timers of a watch, if there are any.

    Raises:
        ClusterError: systemd or cron refuses it.

    """
    removed = []
    files = [Path(file.path) for file in units(watch, where) if Path(file.path).exists()]
    if files:
        _must(["systemctl", "--user", "disable", "--now", f"{unit_name(watch.name)}.timer"])
        for path in files:
            path.unlink()
            removed.append(str(path))
        _must(["systemctl", "--user", "daemon-reload"])
    there = _crontab()
    left = _crontab_without(watch.name)
    if left != there:
        _write_crontab(left)
        removed.append("a line of the crontab")
    return tuple(removed)


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


def _crontab() -> list[str]:
    """Return the lines that are there; whoever takes an error for none would write none back."""
    done = LocalShell().run(["crontab", "-l"])
    if done.status not in (0, NOT_FOUND) and not NO_CRONTAB.search(done.stderr):
        raise ClusterError(
            f"`crontab -l` ended with status {done.status}: {done.stderr.strip()[-200:]}",
            means="What is in your crontab is not known, so nothing was written into it.",
        )
    return done.stdout.splitlines() if done.status == 0 else []


def _crontab_without(name: str) -> list[str]:
    return [line for line in _crontab() if not line.endswith(f"# {unit_name(name)}")]


def _write_crontab(lines: Sequence[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    _must(["sh", "-c", 'printf %s "$0" | crontab -', text])


def _must(words: list[str]) -> Completed:
    done = LocalShell().run(words)
    if done.status:
        raise ClusterError(
            f"`{shlex.join(words[:3])}` ended with status {done.status}: "
            f"{done.stderr.strip()[-200:]}",
            means="The watch is written, and no timer starts it yet.",
            remedy="Leave --install out, and install the printed timer yourself.",
        )
    return done
