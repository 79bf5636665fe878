"""What `sync` did, in words."""

from collections.abc import Collection

from cluster.core.model.sync import SyncFigures
from cluster.core.units import format_bytes

MOST_NAMED = 5


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
