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


def plain_summary(median: float, of: Definition | None = None, **changes: object) -> Summary:
    """Summarize 20 values that are all the median, of a definition or of none."""
    known = of or plain_definition()
    same = Summary(
        metric=known.metric,
        definition=of.id if of else "",
        unit=known.unit,
        better=known.better,
        params={},
        n=20,
        median=median,
        ci=None,
        p5=median,
        p95=median,
        p99=median,
        converged=True,
    )
    return msgspec.structs.replace(same, **changes)


def plain_series(
    own: Definition, value: float, point: dict[str, Scalar], moved: int = 0
) -> Measurement:
    """Measure the same value 20 times on rank 0; what moves bytes took seconds."""
    return Measurement(
        metric=own.metric,
        definition=own.id,
        unit="s" if moved else own.unit,
        params=point,
        rank=0,
        host="h",
        values=(value,) * 20,
        bytes=moved,
    )


def plain_record(name: str = "mine", **changes: object) -> Record:
    """Describe a run that is done, of a cluster of a name; `changes` replace fields of it."""
    done = Record(id="r", benchmark="test", status="done", at=0.0, spec=ClusterSpec(name=name))
    return msgspec.structs.replace(done, **changes)


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
