"""The contents of other tools' logs as tables: MPI profiles, topologies, NCCL's transports."""

from collections.abc import Iterator

from cluster.analysis.topology.topology import GpuPair, GpuTopology, Nearest
from cluster.analysis.topology.transports import NcclExperiment, Transports
from cluster.analysis.verdict.profiles import Bin, JobProfile, Total
from cluster.core.model.logs import TaskTimes
from cluster.core.text.units import format_bytes, format_value
from cluster.reports.table import Column, Columns, Table, make_table, value_text
from cluster.reports.tables import bar
from cluster.reports.words.profiles import check_words, profile_words
from cluster.reports.words.topology import (
    carried_words,
    experiment_name,
    finding_words,
    misfit_words,
    note_words,
)

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
    columns: Columns[tuple[str, str]] = (
        Column("finding", lambda words: words[0], words=True),
        Column("arithmetic", lambda words: words[1], words=True),
    )
    notes = (
        *(f"Its sums do not agree: {check_words(check)}" for check in wrong),
        f"{len(job.checks) - len(wrong)} of {len(job.checks)} sums were checked and agree",
        *((f"the files of {missing} rank(s) are not here",) if missing > 0 else ()),
    )
    title = f"{of_job}: {len(job.ranks)} of {job.size or '?'} rank(s) wrote a profile"
    return make_table(title, map(profile_words, job.findings), columns, notes)


def _routines(job: JobProfile) -> Table:
    columns: Columns[Total] = (
        Column("routine", lambda total: total.name, words=True),
        Column("calls", lambda total: str(total.calls)),
        Column("bytes a call", lambda t: format_bytes(_ratio(t.bytes, t.calls)), spare=3),
        Column("bytes", lambda total: format_bytes(total.bytes)),
        Column("time", lambda total: f"{total.time:.3f} s"),
        Column("of MPI", lambda total: f"{total.share:.1%}"),
        Column("view", lambda total: bar(total.share), words=True, spare=1),
        Column("most", lambda total: f"{total.most:.3f} s (rank {total.most_rank})", spare=2),
    )
    return make_table("Routines, of all ranks whose files are here", job.routines, columns)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _sizes(job: JobProfile) -> Table:
    calls = {total.name: total.calls for total in job.routines}
    times = {total.name: total.time for total in job.routines}

    def share(row: Bin) -> float:
        return _ratio(row.time, times.get(row.routine, 0.0))

    def of_calls(row: Bin) -> str:
        total = calls.get(row.routine, 0)
        return f"{row.calls / total:.1%}" if total else "-"

    columns: Columns[Bin] = (
        Column("routine", lambda row: row.routine, words=True),
        Column("size", lambda row: format_bytes(row.size)),
        Column("calls", lambda row: str(row.calls)),
        Column("of calls", of_calls, spare=2),
        Column("bytes", lambda row: format_bytes(row.bytes)),
        Column("time", lambda row: f"{row.time:.3f} s"),
        Column("of time", lambda row: f"{share(row):.1%}"),
        Column("view", lambda row: bar(share(row)), words=True, spare=1),
        Column("a call", lambda b: value_text(_ratio(b.time, b.calls) or None, "s", "-"), spare=3),
    )
    return make_table("Messages by size", job.bins, columns)


def _ranks(job: JobProfile) -> Table:
    """Show each rank, or if there are many, those with the most and the least time in MPI."""
    tasks = sorted(job.tasks, key=lambda task: -task.communication)
    hidden = len(tasks) - MOST_RANKS
    if hidden > 0:
        tasks = [*tasks[: MOST_RANKS // 2], *tasks[-MOST_RANKS // 2 :]]
    columns: Columns[TaskTimes] = (
        Column("rank", lambda task: str(task.rank)),
        Column("host", lambda task: task.host or "-", words=True),
        Column("in MPI", lambda task: f"{task.communication:.2f} s"),
        Column("elapsed", lambda task: f"{task.elapsed:.2f} s"),
        Column("share", lambda task: f"{_ratio(task.communication, task.elapsed):.1%}"),
        Column("view", lambda t: bar(_ratio(t.communication, t.elapsed)), words=True, spare=1),
        Column("memory", lambda t: format_bytes(t.memory) if t.memory else "-", spare=2),
    )
    notes = (f"{hidden} ranks between these are not shown",) if hidden > 0 else ()
    return make_table("Ranks, by their time in MPI", tasks, columns, notes)


def topology_tables(topology: GpuTopology, transports: Transports) -> Iterator[Table]:
    """Show how GPUs are connected, and which transports NCCL chose; no empty table."""
    of_nearest: Columns[Nearest] = (
        Column("GPU", lambda near: f"GPU{near.gpu}", words=True),
        Column("path", lambda near: near.path, words=True),
        Column("NICs", lambda near: ", ".join(near.nics), words=True),
    )
    of_experiments: Columns[NcclExperiment] = (
        Column("line", lambda experiment: str(experiment.line)),
        Column("between", experiment_name, words=True),
        Column("by", carried_words, words=True),
        Column("throughput", lambda e: "-" if e.rate is None else f"{e.rate:.0f} {e.unit}"),
    )
    near = make_table("Nearest NICs", topology.nearest, of_nearest)
    choices = make_table("What NCCL chose", transports.experiments, of_experiments)
    tables = (_best(topology), _pairs(topology, transports), near, choices)
    yield from (table for table in tables if table.rows)
    findings = [*map(finding_words, topology.findings), *map(finding_words, transports.findings)]
    if findings:
        yield make_table("What follows", findings, (Column("finding", str, words=True),))


def _best(topology: GpuTopology) -> Table:
    ends = (("best for two ranks", topology.best), ("worst for two ranks", topology.worst))
    if len(topology.best) == len(topology.pairs):
        ends = (("all pairs are alike", topology.best), ("", ()))
    together = [
        ("connected by " + group.path, "  ".join(",".join(map(str, item)) for item in group.sets))
        for group in topology.groups
    ]
    rows = [(label, f"{_names(pairs)}: {_paths(pairs)}") for label, pairs in ends if pairs]
    columns: Columns[tuple[str, str]] = (
        Column("what", lambda row: row[0], words=True),
        Column("GPUs", lambda row: row[1], words=True),
    )
    misfits = (
        f"{'-'.join(f'GPU{gpu}' for gpu in item.gpus)} does not fit {item.path}: "
        f"{misfit_words(item)}"
        for item in topology.misfits
    )
    notes = (*misfits, *map(note_words, topology.notes))
    return make_table("Which GPUs belong together", [*rows, *together], columns, notes)


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


def _pairs(topology: GpuTopology, transports: Transports) -> Table:
    ways: dict[tuple[int, int], dict[str, None]] = {}  # transports, each once
    for carrier in (
        carrier for experiment in transports.experiments for carrier in experiment.carriers
    ):
        if carrier.same_host:
            pair = min(carrier.gpus), max(carrier.gpus)
            ways.setdefault(pair, {}).update(dict.fromkeys(carrier.via))
    wrong = {misfit.gpus for misfit in topology.misfits}
    pairs = [p for p in topology.pairs if p.copies.rate is not None or p.gpus in ways or p.access]

    def fits(pair: GpuPair) -> str:
        return "NO" if pair.gpus in wrong else "yes" if pair.copies.rate is not None else "-"

    columns: Columns[GpuPair] = (
        Column("pair", lambda pair: pair.name, words=True),
        Column("path", lambda pair: pair.path, words=True),
        Column("peers", lambda pair: pair.access or "-", words=True),
        Column("rate", _rate),
        Column("without P2P", lambda p: value_text(p.copies.rate_without, "B/s", "-"), spare=3),
        Column("latency", lambda pair: value_text(pair.copies.latency, "s", "-"), spare=2),
        Column("NCCL", lambda pair: "; ".join(ways.get(pair.gpus, ())) or "-", words=True, spare=1),
        Column("fits", fits, words=True),
    )
    return make_table("Pairs", pairs, columns)
