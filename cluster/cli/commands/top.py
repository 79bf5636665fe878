"""Show live what hosts do, against what a check proved that their links carry.

Example: cluster top mine
"""

import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from typing import Annotated

import msgspec
from click.exceptions import Exit
from rich.live import Live
from rich.text import Text

from cluster.cli import flags
from cluster.cli.console import console
from cluster.cli.flags import option
from cluster.cli.terminal import printable
from cluster.core.errors import SpecError
from cluster.core.model.hosts import SIMULATED, GpuUsage, HostUsage
from cluster.core.text.units import format_seconds, format_value, parse_seconds
from cluster.orchestration.cluster import attach
from cluster.orchestration.usage import watch_usage
from cluster.reports.formats.terminal import table_text
from cluster.reports.table import Column, Columns, make_table


def _figure(text: Callable[[HostUsage], str]) -> Callable[[HostUsage], str]:
    return lambda usage: "" if usage.reason else text(usage)


QUIET = 10.0  # seconds without a line of a job, from which on that is said
AROUND = 5  # lines of the screen that are no hosts: the table's head, a note, the cursor's
COLUMNS: Columns[HostUsage] = (
    Column("host", lambda usage: usage.host, words=True),
    Column("CPU", _figure(lambda usage: f"{usage.processor:.0%}")),
    Column("memory", _figure(lambda usage: f"{usage.memory:.0%}"), spare=1),
    Column("GPUs", lambda usage: _gpus(usage.gpus), words=True),
    Column("sends", _figure(lambda usage: _rate(usage.sent, usage.sent_share))),
    Column("receives", _figure(lambda usage: _rate(usage.received, usage.received_share))),
    Column("job", lambda usage: ", ".join(map(_job, usage.jobs.items())), words=True, spare=2),
    Column("errors", lambda usage: _trouble(usage.trouble, usage.reason)),
)


def command(
    name: flags.ClusterName,
    *,
    every: Annotated[str, option("--every SPAN", "How often: 1s, 10s.")] = "2s",
    count: Annotated[
        int, option("--count N", "How often in all; 0: until Ctrl-C, once if nobody looks.")
    ] = 0,
    json: flags.Json = False,
) -> None:
    seconds, cluster = parse_seconds(every), attach(name)
    if count < 0:
        raise SpecError(f"--count is {count}; it must not be negative.")
    if cluster.machines and cluster.machines[0].shell == SIMULATED:
        raise SpecError("Simulated hosts do nothing.", remedy="Look at a lab: --provider lab")
    screen, lock = console(quiet=False), threading.Lock()
    newest: dict[str, HostUsage] = {}
    is_live = screen.is_terminal and not json
    unproven = f"No check proved a rate: cluster check {name}"
    with Live(console=screen, auto_refresh=False) if is_live else nullcontext() as live:

        def take(usage: HostUsage) -> None:
            with lock:
                newest[usage.host] = usage
                if json:
                    sys.stdout.write(f"{msgspec.json.encode(usage).decode()}\n")
                    sys.stdout.flush()
                elif live is not None:
                    text = usage_text(newest.values(), unproven, *screen.size)
                    live.update(Text(text), refresh=True)

        errors = watch_usage(cluster, seconds, count or int(not is_live and not json), take)
    if not json and not is_live:
        sys.stdout.write(printable(usage_text(newest.values(), unproven)))
    for error in errors.values():
        sys.stderr.write(printable(f"{error}\n"))
    raise Exit(int(bool(errors) and all(usage.reason for usage in newest.values())))


def usage_text(
    usages: Collection[HostUsage], unproven: str, width: int | None = None, lines: int | None = None
) -> str:
    """Return a table of hosts; where they do not fit, those with errors and the idlest links."""
    most = max(1, lines - AROUND) if lines else len(usages)
    rows = sorted(usages, key=lambda usage: usage.host)
    if len(rows) > most:
        rows.sort(key=lambda usage: (not _amounts(usage.trouble), usage.sent + usage.received))
    notes = [f"{len(rows) - most} more hosts do not fit."] if len(rows) > most else []
    if all(usage.sent_share is None for usage in usages):
        notes = [unproven, *notes]
    columns = [c for c in COLUMNS if c.name != "GPUs" or any(usage.gpus for usage in usages)]
    return table_text(make_table("", rows[:most], columns, notes), width)


def _gpus(gpus: Sequence[GpuUsage]) -> str:
    """Return how busy GPUs are on average, the memory of the fullest, and the power of all."""
    busy, memory, power = (
        [value for gpu in gpus if (value := getattr(gpu, name)) is not None]
        for name in ("busy", "memory", "power")
    )
    means = [f"{sum(busy) / len(busy):.0%}"] if busy else []
    fullest = [f"{max(memory):.0%} full"] if memory else []
    watts = [f"{sum(power):.0f} W"] if power else []
    return " ".join((*means, *fullest, *watts))


def _rate(rate: float, share: float | None) -> str:
    proven = "" if share is None else f" {share:4.0%}"
    return f"{format_value(rate, 'B/s')}{proven}"


def _job(job: tuple[str, float]) -> str:
    name, quiet = job
    return f"{name} (quiet for {format_seconds(quiet)})" if quiet >= QUIET else name


def _trouble(trouble: Mapping[str, float], reason: str) -> str:
    amounts = _amounts(trouble)
    if not amounts:
        return "does not answer" if reason else ""
    name, amount = next(iter(amounts.items()))
    more = f", {len(amounts) - 1} more" if len(amounts) > 1 else ""
    return f"{name} {amount}{more}"


def _amounts(trouble: Mapping[str, float]) -> dict[str, str]:
    """Return what went up, and by how much, without shares that are shown as 0%."""
    amounts = {
        name: f"{value:.0%}" if name.startswith("cpu.") else f"+{value:.0f}"
        for name, value in trouble.items()
    }
    return {name: amount for name, amount in amounts.items() if amount != "0%"}
