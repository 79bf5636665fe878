"""Measure again what a run measured, elsewhere, and compare: `cluster compare --again`."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import msgspec

from cluster.analysis.statistics.compare import THRESHOLD, Comparison, Side, compare
from cluster.cli import flags
from cluster.cli.measurement import measure
from cluster.cli.repeat import BenchOptions
from cluster.cli.show import print_lines
from cluster.core import decoders, plugins
from cluster.core.errors import SpecError
from cluster.measure.benchmark import Benchmark
from cluster.runs import store
from cluster.runs.nccl_logs import launch_of
from cluster.runs.watch import store as watches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from cluster.core.model.hosts import Facts
    from cluster.core.model.records import Record

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
) -> Comparison:
    """Measure what a run measured on new or other hosts, and compare the two."""
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
        measure(spec, record.benchmark, _params(record), measured)
    ids = sorted(watches.run_ids(where, name) - before)
    return _compared(folders, [where / name / id_ for id_ in ids])


def _check(record: Record, name: str) -> None:
    """Refuse what cannot be measured again."""
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


def _params(record: Record) -> dict[str, object]:
    params = decoders.decode(record.params, dict[str, object])
    return {key: value for key, value in params.items() if value is not None}


def _announced(record: Record, launches: int) -> Iterator[str]:
    """Say what is repeated, and what cannot be."""
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


def _compared(old: Sequence[Path], new: Sequence[Path]) -> Comparison:
    base, other = (
        Side(
            name="/".join(side[0].parts[-2:]),
            launches=tuple(launch_of(store.read(folder)) for folder in side),
        )
        for side in (old, new)
    )
    return compare(base, other, THRESHOLD)
