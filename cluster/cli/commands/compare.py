"""Compare runs: what differs, and a verdict per data point.

With --by, a cluster means all of its runs, otherwise its newest. One run is compared with the
latest, and the latest with the one before it of its benchmark. With --again, a run is
measured once more, and the two are compared; it takes the flags of machines of `cluster bench`.

Example: cluster compare --by condition p2p
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
from click.exceptions import Exit

from cluster.analysis.statistics import compare
from cluster.cli import flags
from cluster.cli.flags import argument, option
from cluster.cli.gates import GateFlags, check_decidable, report_cases
from cluster.cli.measurement import measure
from cluster.cli.repeat import BenchOptions
from cluster.cli.show import check_format, print_lines, relative_path, show_tables
from cluster.core import decoders, plugins
from cluster.core.errors import ClusterError, SpecError
from cluster.core.model.hosts import Facts
from cluster.core.model.records import Record
from cluster.measure.benchmark import Benchmark
from cluster.reports.ci import comparison_cases
from cluster.reports.tables import comparison_tables
from cluster.reports.words.comparison import with_words
from cluster.runs import store
from cluster.runs.comparison import launch_of
from cluster.runs.watch import store as watches

AGAIN = "again"  # the name of a cluster on which a run is repeated, unless one is given


def command(
    named: Annotated[
        list[str] | None,
        argument(
            "RUN",
            "Two; each may be several launches: A1,A2,A3; one: with the latest. With --again one, "
            "and a name for the new cluster.",
        ),
    ] = None,
    by: Annotated[
        str | None, option("--by FACTOR", "Group the named runs by it: placement, condition ...")
    ] = None,
    threshold: flags.Threshold = compare.THRESHOLD * 100,
    report: flags.Format = "terminal",
    again: Annotated[
        bool, option("--again", "Measure RUN, which may be a shared file, again: on other hosts.")
    ] = False,
    *,
    gates: GateFlags,
    machines: Annotated[dict[str, Any], MACHINES],
    options: Annotated[BenchOptions, flags.group(BenchOptions, "runs keep timeout yes json")],
) -> None:
    check_format(report)
    named = named or [flags.LATEST]
    if again:
        run, name, *rest = *named, *([AGAIN] if len(named) == 1 else [])
        if rest:
            raise SpecError(
                f"{len(named)} words were given with --again; it takes a run, and a new name.",
                remedy=f"Type: cluster compare {run} {AGAIN} --again",
            )
        comparisons = [measure_again(run, name, machines, options)]
    else:
        remedy = "Leave it out, or measure a run once more: cluster compare RUN --again"
        flags.refuse_unused([p.name for p in MACHINES.parameters], "without --again", remedy)
        groups = _groups(store.root(options.runs), named, by)
        comparisons = [compare.compare(groups[0], other, threshold / 100) for other in groups[1:]]
    show_comparisons(comparisons, report=report, as_json=options.json)
    check_decidable(gates, comparisons)
    status = report_cases(
        gates, [case for comparison in comparisons for case in comparison_cases(comparison)]
    )
    raise Exit(status)


def _groups(where: Path, named: Sequence[str], by: str | None) -> Sequence[compare.Side]:
    if by is None:
        return _two(where, named)
    folders = dict.fromkeys(f for name in named for f in store.all_of(where, name))
    return compare.group_by(list(map(_launch, folders)), by)


def _two(where: Path, named: Sequence[str]) -> list[compare.Side]:
    if len(named) == 1:
        named = _with_latest(where, named[0])
    if len(named) != 2:  # noqa: PLR2004
        raise SpecError(
            f"{len(named)} run(s) were named; two are compared.",
            remedy="Type: cluster compare RUN_A RUN_B, or cluster compare --by FACTOR RUN...",
        )
    folders = [
        [folder for word in words.split(",") if word for folder in store.find_launches(where, word)]
        for words in named
    ]
    twice = [folder for folder in folders[0] if folder in folders[1]]
    if twice:
        raise SpecError(
            f"A run cannot be compared with itself: {relative_path(twice[0])} is on both sides.",
            remedy="Name two different runs; they are listed by: cluster runs",
        )
    return [_side(launch) for launch in folders]


def _with_latest(where: Path, name: str) -> list[str]:
    """Return a run and the latest; that itself has the one before it of its benchmark beside it."""
    latest = store.find(where, flags.LATEST)
    if store.find(where, name.split(",", maxsplit=1)[0]) != latest:
        return [name, flags.LATEST]
    own = store.record(latest)
    for folder in reversed(store.folders(where)):
        with suppress(ClusterError):  # a damaged run is compared with nothing
            earlier = store.record(folder)
            is_other = not own.launch_of or earlier.launch_of != own.launch_of
            if folder != latest and is_other and earlier.benchmark == own.benchmark:
                return [_name(folder), flags.LATEST]
    raise SpecError(
        f"{_name(latest)} is the only run of {own.benchmark} here; two are compared.",
        remedy="Type: cluster compare RUN_A RUN_B, or cluster compare --by FACTOR RUN...",
    )


def _side(folders: Sequence[Path]) -> compare.Side:
    several = f" and {len(folders) - 1} more" if len(folders) > 1 else ""
    return compare.Side(name=_name(folders[0]) + several, launches=tuple(map(_launch, folders)))


def _name(folder: Path) -> str:
    return "/".join(folder.parts[-2:])


def _launch(folder: Path) -> compare.Launch:
    return launch_of(store.read(folder))


def show_comparisons(
    comparisons: Sequence[compare.Comparison], *, report: str = "terminal", as_json: bool
) -> None:
    tables = [table for comparison in comparisons for table in comparison_tables(comparison)]
    show_tables(tables, "json" if as_json else report, list(map(with_words, comparisons)))


# Facts of the hosts that a repetition cannot choose, and how they are called.
FIXED = {"cpu": "processor", "cores": "cores", "kernel": "kernel", "gpu_driver": "GPU driver"}


MACHINES = flags.hidden(
    flags.SPEC["provider"],
    flags.with_default("hosts", None),
    flags.with_default("ranks_per_host", None),
    *flags.MACHINES,
)


def measure_again(
    run: str, name: str, machines: dict[str, Any], options: BenchOptions
) -> compare.Comparison:
    where = store.root(options.runs)
    folders = store.find_launches(where, run)
    record = store.record(folders[0])
    _check(record, name)
    spec = flags.spec(
        **{
            **machines,
            "name": name,
            "provider": machines["provider"] or flags.DEFAULT_PROVIDER,
            "hosts": machines["hosts"] or record.spec.hosts,
            "ranks_per_host": machines["ranks_per_host"] or record.spec.ranks_per_host,
        }
    )
    before = watches.run_ids(where, name)
    measured = msgspec.structs.replace(
        options,
        json=False,
        launches=len(folders),
        env=[f"{key}={value}" for key, value in record.variables.items()],
        describe=f"again: {record.id}",
    )
    with redirect_stdout(
        sys.stderr if options.json else sys.stdout
    ):  # JSON is the comparison alone
        print_lines(*_announced(record, len(folders)))
        params = decoders.decode(record.params, dict[str, object])
        own_params = {key: value for key, value in params.items() if value is not None}
        measure(spec, record.benchmark, own_params, measured)
    ids = sorted(watches.run_ids(where, name) - before)
    base, other = (
        compare.Side(name=_name(side[0]), launches=tuple(map(_launch, side)))
        for side in (folders, [where / name / id_ for id_ in ids])
    )
    return compare.compare(base, other, compare.THRESHOLD)


def _check(record: Record, name: str) -> None:
    if record.benchmark not in plugins.names(Benchmark):
        raise SpecError(
            f"{record.id} is of {record.benchmark!r}, which is no benchmark of this installation.",
            means="An imported log has no parameters with which it could be measured again.",
            remedy="Import your own log of the same program, and compare: cluster compare A B",
        )
    if record.spec.name == name:
        raise SpecError(
            f"{record.id} is of a cluster that has the name {name}, too.",
            remedy="Choose another name for the new one: cluster compare RUN NAME --again",
        )


def _announced(record: Record, launches: int) -> Iterator[str]:
    spec = record.spec
    yield (
        f"Again {record.id}: {record.benchmark} on {spec.hosts} x {spec.ranks_per_host} ranks, "
        f"{launches} launch(es), with the same parameters"
        f"{' and ' + ', '.join(record.variables) if record.variables else ''}."
    )
    yield "What it ran on, and a repetition cannot choose:"
    yield f"  provider: {spec.provider}, {spec.instance or 'its own machines'}"
    if record.order:
        yield "  its ranks were placed along a placement of its cluster (--order near)"
    yield from (f"  {line}" for line in _fixed(record.environment))


def _fixed(hosts: Sequence[Facts]) -> Iterator[str]:
    for field, words in FIXED.items():
        values = sorted({str(getattr(host, field)) for host in hosts if getattr(host, field)})
        if values:
            yield f"{words}: {', '.join(values)}"
    gpus = sorted({gpu for host in hosts for gpu in host.gpus})
    if gpus:
        yield f"GPUs: {', '.join(gpus)}"
