"""How jobs, runs and clusters ended, and what `sync` did, in words."""

from collections.abc import Collection
from typing import Literal

from cluster.core.model.sync import SyncFigures
from cluster.core.units import format_bytes

MOST_NAMED = 5  # files

Outcome = Literal[
    "timed_out", "signal", "exit_status", "interrupted", "cut_short", "simulation_stopped",
    "down", "is_down", "stays_up", "paused", "rebuilt", "launched_again", "no_clusters",
    "machines_ended", "no_python", "lost_a_host", "host_lost", "started_again", "not_started",
    "ended_by", "older_output", "job_ended", "launch_ended",
]  # fmt: skip

OUTCOMES: dict[Outcome, str] = {
    "timed_out": "It did not end within --timeout, and all ranks were stopped.",
    "signal": "It was ended by {}, and all ranks were stopped.",
    "exit_status": "It ended with exit status {}, and all ranks were stopped.",
    "interrupted": "Ctrl-C was pressed.",
    "cut_short": "The batch job ended before its ranks: at its time limit, or somebody deleted it.",
    "simulation_stopped": "The simulation was stopped before its end.",
    "down": "The cluster was taken down.",
    "is_down": "{} is down.",
    "stays_up": "{0} stays up, with the jobs that were started. To end them: cluster down {0}",
    "paused": "The cluster was paused.",
    "rebuilt": "{} rebuilt the cluster.",
    "launched_again": "Its launch was not finished, and was begun again.",
    "no_clusters": "There are no clusters; nothing was taken down.",
    "machines_ended": "{} of {} machines of {} have ended; {}.",
    "no_python": "{} was launched with {}, which is gone.",
    "lost_a_host": "It lost a host, and is started again.",
    "host_lost": "Its host was lost.",
    "started_again": "It is started again.",
    "not_started": "It could not be started on all hosts.",
    "ended_by": "Ended by {}.",
    "older_output": "{} bytes of older output are not kept.",
    "job_ended": "The job has ended.",
    "launch_ended": "This launch has ended.",
}


def outcome_words(outcome: Outcome, *values: object) -> str:
    return OUTCOMES[outcome].format(*values)


def sync_words(report: SyncFigures) -> str:
    where = f"{report.there} on {len(report.hosts)} host(s)"
    lines = [f"{where} is up to date: {report.files:,} files, nothing was sent."]
    if report.sent:
        lines = [
            f"{where}: {report.sent:,} of {report.files:,} files sent, "
            f"{format_bytes(report.sent_bytes)} from here"
            + f", {format_bytes(report.passed_on)} from host to host" * bool(report.passed_on)
            + "."
        ]
    for action, names in (
        ("Removed there", report.removed),
        ("Left out (.gitignore, caches, Python environments, runs)", report.left_out),
        ("These links lead out of the folder, and were sent as links", report.outward),
    ):
        lines += [f"{action}: {_listed(names)}."] if names else []
    if report.changed:
        lines.append(
            f"Changed while they were sent: {_listed(report.changed)}.\n"
            "Their copies may be of two states. Sync again when nothing writes them."
        )
    return "\n".join(lines)


def _listed(names: Collection[str]) -> str:
    listed = ", ".join(name if name.isprintable() else repr(name) for name in [*names][:MOST_NAMED])
    return listed + f" and {len(names) - MOST_NAMED:,} more" * (len(names) > MOST_NAMED)
