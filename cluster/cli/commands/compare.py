"""Compare runs: what differs, and a verdict per data point.

With --by, a cluster means all of its runs, otherwise its newest. One run is compared with the
latest, and the latest with the one before it of its benchmark. With --again, a run is
measured once more, and the two are compared; it takes the flags of machines of `cluster bench`.

Example: cluster compare --by condition p2p
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
from click.exceptions import Exit

from cluster.analysis.statistics import compare
from cluster.cli import flags
from cluster.cli.flags import argument, option
from cluster.cli.gates import GateFlags, check_decidable, comparison_cases, report_cases
from cluster.cli.measurement import BenchOptions, Request, measure
from cluster.cli.show import check_format, print_lines, relative_path, show_tables
from cluster.core import decoders, plugins
from cluster.core.errors import ClusterError, SpecError
from cluster.core.model.results.records import Record
from cluster.measure.benchmark import Benchmark
from cluster.reports.tables import comparison_tables
from cluster.reports.words.comparison import with_words
from cluster.runs import store
from cluster.runs.comparison import launch_of, side

TWO = "Type: cluster compare RUN_A RUN_B, or cluster compare --by FACTOR RUN..."
AGAIN = "again"  # the name of a cluster on which a run is repeated, unless one is given


def command(
    names: Annotated[
        list[str] | None,
        argument(
            "RUN",
            "Two; each may be several launches: A1,A2,A3; one: with the latest. With --again one, "
            "and a name for the new cluster.",
        ),
    ] = None,
    factor: Annotated[
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
    names = names or [flags.LATEST]
    if again:
        run, name, *rest = *names, *([AGAIN] if len(names) == 1 else [])
        if rest:
            raise SpecError(
                f"{len(names)} words were given with --again; it takes a run, and a new name.",
                remedy=f"Type: cluster compare {run} {AGAIN} --again",
            )
        comparisons = [measure_again(run, name, machines, options)]
    else:
        remedy = "Leave it out, or measure a run once more: cluster compare RUN --again"
        flags.refuse_unused([p.name for p in MACHINES.parameters], "without --again", remedy)
        base, *sides = _groups(store.root(options.runs), names, factor)
        comparisons = [compare.compare(base, other, threshold / 100) for other in sides]
    tables = [table for comparison in comparisons for table in comparison_tables(comparison)]
    show_tables(tables, "json" if options.json else report, list(map(with_words, comparisons)))
    check_decidable(gates, comparisons)
    status = report_cases(
        gates, [case for comparison in comparisons for case in comparison_cases(comparison)]
    )
    raise Exit(status)


def _groups(root: Path, names: list[str], factor: str | None) -> Sequence[compare.Side]:
    if factor is not None:
        folders = dict.fromkeys(f for name in names for f in store.all_of(root, name))
        return compare.group_by([launch_of(store.read(f)) for f in folders], factor)
    if len(names) == 1:
        names = _with_latest(root, names[0])
    if len(names) != 2:  # noqa: PLR2004
        raise SpecError(f"{len(names)} run(s) were named; two are compared.", remedy=TWO)
    sides = [
        [f for word in words.split(",") if word for f in store.find_launches(root, word)]
        for words in names
    ]
    if overlap := [folder for folder in sides[0] if folder in sides[1]]:
        raise SpecError(
            f"A run cannot be compared with itself: {relative_path(overlap[0])} is on both sides.",
            remedy="Name two different runs; they are listed by: cluster runs",
        )
    return [side(list(map(store.read, folders))) for folders in sides]


def _with_latest(root: Path, name: str) -> list[str]:
    """Return a run and the latest; that itself has the one before it of its benchmark beside it."""
    latest = store.find(root, flags.LATEST)
    if store.find(root, name.split(",", maxsplit=1)[0]) != latest:
        return [name, flags.LATEST]
    newest = store.record(latest)
    for folder in reversed(store.folders(root)):
        with suppress(ClusterError):  # a damaged run is compared with nothing
            earlier = store.record(folder)
            is_other = not newest.launch_of or earlier.launch_of != newest.launch_of
            if folder != latest and is_other and earlier.benchmark == newest.benchmark:
                return [_name(folder), flags.LATEST]
    raise SpecError(
        f"{_name(latest)} is the only run of {newest.benchmark} here; two are compared.", remedy=TWO
    )


def _name(folder: Path) -> str:
    return "/".join(folder.parts[-2:])


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
    root = store.root(options.runs)
    folders = store.find_launches(root, run)
    record = store.record(folders[0])
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
    spec = flags.spec(
        **{
            **machines,
            "name": name,
            "provider": machines["provider"] or flags.DEFAULT_PROVIDER,
            "hosts": machines["hosts"] or record.spec.hosts,
            "ranks_per_host": machines["ranks_per_host"] or record.spec.ranks_per_host,
        }
    )
    before = store.run_ids(root, name)
    new_options = msgspec.structs.replace(
        options,
        json=False,
        launches=len(folders),
        env=[f"{key}={value}" for key, value in record.variables.items()],
        describe=f"again: {record.id}",
    )
    with redirect_stdout(
        sys.stderr if options.json else sys.stdout
    ):  # JSON is the comparison alone
        _print_conditions(record, len(folders))
        params = decoders.decode(record.params, dict[str, object])
        own_params = {key: value for key, value in params.items() if value is not None}
        measure(spec, Request(record.benchmark, own_params, new_options))
    ids = sorted(store.run_ids(root, name) - before)
    base, other = (
        msgspec.structs.replace(side(list(map(store.read, launches))), name=_name(launches[0]))
        for launches in (folders, [root / name / id_ for id_ in ids])
    )
    return compare.compare(base, other, compare.THRESHOLD)


def _print_conditions(record: Record, launches: int) -> None:
    spec = record.spec
    print_lines(
        f"Again {record.id}: {record.benchmark} on {spec.hosts} x {spec.ranks_per_host} "
        f"ranks, {launches} launch(es), with the same parameters"
        f"{' and ' + ', '.join(record.variables) if record.variables else ''}.",
        "What it ran on, and a repetition cannot choose:",
        f"  provider: {spec.provider}, {spec.instance or 'its own machines'}",
    )
    if record.order:
        print_lines("  its ranks were placed along a placement of its cluster (--order near)")
    for field, words in FIXED.items():
        facts = (getattr(host, field) for host in record.environment)
        if values := sorted({str(fact) for fact in facts if fact}):
            print_lines(f"  {words}: {', '.join(values)}")
    if gpus := sorted({gpu for host in record.environment for gpu in host.gpus}):
        print_lines(f"  GPUs: {', '.join(gpus)}")
