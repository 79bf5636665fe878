"""Plain values of the model, for tests that care for a few of their fields only."""

import msgspec

from cluster.core.model.hosts import Facts
from cluster.core.model.results.measurements import Definition, Measurement, Summary
from cluster.core.model.results.records import Record
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Scalar


def plain_definition(**changes: object) -> Definition:
    """Define a time that one rank measures; `changes` replace fields of it."""
    time = Definition(
        benchmark="test",
        metric="m",
        unit="s",
        better="lower",
        what="w",
        clock="c",
        synchronisation="y",
        warm_up="u",
        aggregation="one rank",
    )
    return msgspec.structs.replace(time, **changes)


def plain_summary(median: float, source: Definition | None = None, **changes: object) -> Summary:
    """Summarize 20 values that are all the median, of a definition or of none."""
    definition = source or plain_definition()
    summary = Summary(
        metric=definition.metric,
        definition=source.id if source else "",
        unit=definition.unit,
        better=definition.better,
        params={},
        n=20,
        median=median,
        ci=None,
        p5=median,
        p95=median,
        p99=median,
        converged=True,
    )
    return msgspec.structs.replace(summary, **changes)


def plain_series(
    definition: Definition, value: float, point: dict[str, Scalar], size: int = 0
) -> Measurement:
    """Measure the same value 20 times on rank 0; what moves bytes took seconds."""
    return Measurement(
        metric=definition.metric,
        definition=definition.id,
        unit="s" if size else definition.unit,
        params=point,
        rank=0,
        host="h",
        values=(value,) * 20,
        bytes=size,
    )


def plain_record(name: str = "mine", **changes: object) -> Record:
    """Describe a run that is done, of a cluster of a name; `changes` replace fields of it."""
    record = Record(id="r", benchmark="test", status="done", at=0.0, spec=ClusterSpec(name=name))
    return msgspec.structs.replace(record, **changes)


def plain_facts(host: str = "a", **changes: object) -> Facts:
    """Describe a host with 8 cores, no limits, and nothing installed."""
    bare = Facts(
        host=host,
        home="/root",
        user="root",
        system="Debian",
        kernel="Linux",
        cpu="x",
        cores=8,
        usable_cores=8,
        cgroup_cpus=None,
        cgroup_memory=None,
        memory=1,
        clock="tsc",
        python="3",
        mpi=None,
        tmux=None,
        libraries={},
        variables={},
    )
    return msgspec.structs.replace(bare, **changes)
