"""The record of a run that is about to begin."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

from cluster.core.model.records import Record, Status
from cluster.core.options import encode
from cluster.core.version import __version__, revision

if TYPE_CHECKING:
    from cluster.core.model.hosts import Machine
    from cluster.core.model.spec import ClusterSpec
    from cluster.measure.benchmark import Benchmark


def make_record(
    spec: ClusterSpec,
    machines: tuple[Machine, ...],
    benchmark: Benchmark[Any],
    params: object,
    *,
    run: str,
    status: Status,
    at: float,
) -> Record:
    """Make the record of a run before it begins.

    Args:
        at: when it begins, in seconds since the epoch.

    Returns:
        The record, with this process's command line and the version of cluster.

    """
    return Record(
        id=run,
        benchmark=benchmark.name,
        status=status,
        at=at,
        spec=spec,
        machines=machines,
        params=msgspec.Raw(msgspec.json.encode(params, enc_hook=encode)),
        argv=tuple(sys.argv),
        definitions={definition.id: definition for definition in benchmark.recorded(params)},
        software=__version__,
        revision=revision(),
    )
