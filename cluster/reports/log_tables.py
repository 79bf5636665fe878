"""The contents of other tools' logs as tables: MPI profiles, topologies, NCCL's transports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.units import format_bytes, format_value
from cluster.reports.table import Table
from cluster.reports.tables import bar
from cluster.reports.words.profiles import check_words, profile_words
from cluster.reports.words.topology import (
    carried_words,
    experiment_name,
    finding_words,
    misfit_words,
    note_words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.analysis.topology.topology import GpuPair, GpuTopology
    from cluster.analysis.topology.transports import Carrier, Transports
    from cluster.analysis.verdict.profiles.values import Bin, JobProfile

MOST_RANKS = 32  # shown in a table
MOST_PAIRS = 12  # named in one cell


def profile_tables(job: JobProfile) -> tuple[Table, ...]:
    """Show the MPI profile of a job: findings, then routines, sizes and ranks, if not empty."""
    tables = (_routines(job), _sizes(job), _ranks(job))
    return (_meaning(job), *(table for table in tables if table.rows))


def _meaning(job: JobProfile) -> Table:
    of_job = ", ".join(filter(None, [f"job {job.job}", job.context]))
    wrong = [check for check in job.checks if not check.agrees]
    missing = job.size - len(job.ranks)
    return Table(
        title=f"{of_job}: {len(job.ranks)} of {job.size or '?'} rank(s) wrote a profile",
        columns=("finding", "arithmetic"),
        rows=tuple(map(profile_words, job.findings)),
        notes=(
            *(f"Its sums do not agree: {check_words(check)}" for check in wrong),
            f"{len(job.checks) - len(wrong)} of {len(job.checks)} sums were checked and agree",
            *((f"the files of {missing} rank(s) are not here",) if missing > 0 else ()),
        ),
        left_aligned=("finding", "arithmetic"),
    )


def _routines(job: JobProfile) -> Table:
    return Table(
        title="Routines, of all ranks whose files are here",
        columns=("routine", "calls", "bytes a call", "bytes", "time", "of MPI", "view", "most"),
        rows=tuple(
            (
                total.name,
                str(total.calls),
                format_bytes(total.bytes / total.calls if total.calls else 0.0),
                format_bytes(total.bytes),
                f"{total.time:.3f} s",
                f"{total.share:.1%}",
                bar(total.share),
                f"{total.most:.3f} s (rank {total.most_rank})",
            )
            for total in job.routines
        ),
        left_aligned=("routine", "view"),
        spare=(("view",), ("most",), ("bytes a call",)),
    )


def _sizes(job: JobProfile) -> Table:
    calls = {total.name: total.calls for total in job.routines}
    times = {total.name: total.time for total in job.routines}
    return Table(
        title="Messages by size",
        columns=(
            "routine",
            "size",
            "calls",
            "of calls",
            "bytes",
            "time",
            "of time",
            "view",
            "a call",
        ),
        rows=tuple(
            _size(row, calls.get(row.routine, 0), times.get(row.routine, 0.0)) for row in job.bins
        ),
        left_aligned=("routine", "view"),
        spare=(("view",), ("of calls",), ("a call",)),
    )


def _size(row: Bin, calls: int, time: float) -> tuple[str, ...]:
    share = row.time / time if time else 0.0
    return (
        row.routine,
        format_bytes(row.size),
        str(row.calls),
        f"{row.calls / calls:.1%}" if calls else "-",
        format_bytes(row.bytes),
        f"{row.time:.3f} s",
        f"{share:.1%}",
        bar(share),
        format_value(row.time / row.calls, "s") if row.calls and row.time else "-",
    )


def _ranks(job: JobProfile) -> Table:
    """Show each rank, or if there are many, those with the most and the least time in MPI."""
    tasks = sorted(job.tasks, key=lambda task: -task.communication)
    hidden = len(tasks) - MOST_RANKS
    if hidden > 0:
        tasks = [*tasks[: MOST_RANKS // 2], *tasks[-MOST_RANKS // 2 :]]
    shares = [task.communication / task.elapsed if task.elapsed else 0.0 for task in tasks]
    return Table(
        title="Ranks, by their time in MPI",
        columns=("rank", "host", "in MPI", "elapsed", "share", "view", "memory"),
        rows=tuple(
            (
                str(task.rank),
                task.host or "-",
                f"{task.communication:.2f} s",
                f"{task.elapsed:.2f} s",
                f"{share:.1%}",
                bar(share),
                format_bytes(task.memory) if task.memory else "-",
            )
            for task, share in zip(tasks, shares, strict=True)
        ),
        notes=(f"{hidden} ranks between these are not shown",) if hidden > 0 else (),
        left_aligned=("host", "view"),
        spare=(("view",), ("memory",)),
    )


def topology_tables(topology: GpuTopology, carried: Transports) -> Iterator[Table]:
    """Show how GPUs are connected, and which transports NCCL chose; no empty table."""
    tables = (_best(topology), _pairs(topology, carried), _near(topology), _carried(carried))
    yield from (table for table in tables if table.rows)
    findings = [*map(finding_words, topology.findings), *map(finding_words, carried.findings)]
    rows = tuple((finding,) for finding in findings)
    if rows:
        yield Table(
            title="What follows", columns=("finding",), rows=rows, left_aligned=("finding",)
        )


def _best(topology: GpuTopology) -> Table:
    ends = (("best for two ranks", topology.best), ("worst for two ranks", topology.worst))
    if len(topology.best) == len(topology.pairs):
        ends = (("all pairs are alike", topology.best), ("", ()))
    together = [
        ("connected by " + group.path, "  ".join(",".join(map(str, item)) for item in group.sets))
        for group in topology.groups
    ]
    rows = [(label, f"{_names(pairs)}: {_paths(pairs)}") for label, pairs in ends if pairs]
    return Table(
        title="Which GPUs belong together",
        columns=("what", "GPUs"),
        rows=(*rows, *together),
        notes=(
            *(
                f"{_name(item.gpus)} does not fit {item.path}: {misfit_words(item)}"
                for item in topology.misfits
            ),
            *map(note_words, topology.notes),
        ),
        left_aligned=("what", "GPUs"),
    )


def _names(pairs: tuple[GpuPair, ...]) -> str:
    more = len(pairs) - MOST_PAIRS
    names = [pair.name for pair in pairs[:MOST_PAIRS]]
    return ", ".join([*names, *([f"and {more} more"] if more > 0 else [])])


def _paths(pairs: tuple[GpuPair, ...]) -> str:
    rates = [_rate(pair) for pair in pairs[:1] if pair.copies.rate is not None]
    return ", ".join([*dict.fromkeys(pair.path for pair in pairs), *rates])


def _rate(pair: GpuPair) -> str:
    copies = pair.copies
    if copies.rate is None:
        return "-"
    return format_value(copies.rate, "B/s") + (" both ways" if copies.ways > 1 else "")


def _name(gpus: tuple[int, int]) -> str:
    return "-".join(f"GPU{gpu}" for gpu in gpus)


def _pairs(topology: GpuTopology, carried: Transports) -> Table:
    by: dict[tuple[int, int], list[Carrier]] = {}
    for experiment in carried.experiments:
        for carrier in experiment.carriers:
            if carrier.same_host:
                by.setdefault((min(carrier.gpus), max(carrier.gpus)), []).append(carrier)
    wrong = {misfit.gpus for misfit in topology.misfits}
    pairs = [p for p in topology.pairs if p.copies.rate is not None or p.gpus in by or p.access]
    return Table(
        title="Pairs",
        columns=("pair", "path", "peers", "rate", "without P2P", "latency", "NCCL", "fits"),
        rows=tuple(
            (
                pair.name,
                pair.path,
                pair.access or "-",
                _rate(pair),
                _value(pair.copies.rate_without, "B/s"),
                _value(pair.copies.latency, "s"),
                "; ".join(dict.fromkeys(v for c in by.get(pair.gpus, ()) for v in c.via)) or "-",
                "NO" if pair.gpus in wrong else "yes" if pair.copies.rate is not None else "-",
            )
            for pair in pairs
        ),
        left_aligned=("pair", "path", "peers", "NCCL", "fits"),
        spare=(("NCCL",), ("latency",), ("without P2P",)),
    )


def _value(value: float | None, unit: str) -> str:
    return "-" if value is None else format_value(value, unit)


def _near(topology: GpuTopology) -> Table:
    return Table(
        title="Nearest NICs",
        columns=("GPU", "path", "NICs"),
        rows=tuple(
            (f"GPU{near.gpu}", near.path, ", ".join(near.nics)) for near in topology.nearest
        ),
        left_aligned=("GPU", "path", "NICs"),
    )


def _carried(carried: Transports) -> Table:
    return Table(
        title="What NCCL chose",
        columns=("line", "between", "by", "throughput"),
        rows=tuple(
            (
                str(experiment.line),
                experiment_name(experiment),
                carried_words(experiment),
                "-" if experiment.rate is None else f"{experiment.rate:.0f} {experiment.unit}",
            )
            for experiment in carried.experiments
        ),
        left_aligned=("between", "by"),
    )
