"""`check`, `judge`, `import_`, `proximity` and `watch` of the library, as the commands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.orchestration.check.verdict import judge_check
from cluster.orchestration.cluster import Cluster, attach
from cluster.runs import store
from cluster.runs.catalog import load
from cluster.runs.import_.logs import NAME, import_logs, read_logs
from cluster.runs.run import PAIRS, Run
from cluster.runs.watch import store as watches

if TYPE_CHECKING:
    from cluster.core.model.fleet import FleetVerdict
    from cluster.core.model.limits import Hardware
    from cluster.core.model.placement import Placement
    from cluster.reports.words.verdict import Answer
    from cluster.runs.watch.series import WatchedSeries


def import_(
    *files: str | Path, name: str = NAME, format_: str = "", runs: str | Path | None = None
) -> Run:
    """Keep logs of other tools as a run.

    Example: `cluster.import_("nccl.log").summary()`

    Args:
        name: of the run's cluster.
        format_: of the logs; found out by default.
        runs: the folder of all runs, if it is another than usual.

    Raises:
        SpecError: a file cannot be read.
        ParseError: no parser understands it.
    """
    texts = [str(file) for file in files]
    return store.read(import_logs(texts, store.root(runs), name=name, format_=format_).folder)


def judge(
    named: str | Path, hardware: str | Hardware | None = None, *, runs: str | Path | None = None
) -> Answer:
    """Judge a log, which is not kept, or a run.

    Example: `print(cluster.judge("nccl.log", "p4d.24xlarge"))`

    Args:
        named: the file, or the run: its folder, id, cluster, or `latest`.
        hardware: of the hosts, as `Run.judge` takes it.

    Raises:
        SpecError: there is neither.
        ParseError: no parser understands the log.
    """
    if Path(named).is_file():
        with read_logs([str(named)]) as logs:
            return logs.run.judge(hardware)
    return load(named, runs=runs).judge(hardware)


def check(
    cluster: Cluster | str, *, runs: str | Path | None = None, **params: object
) -> FleetVerdict:
    """Find the bad host, link or group of a cluster, by rounds of pairs.

    Example: `cluster.check("big", rounds=10, confirm=True).findings`

    Args:
        cluster: the cluster, or its name.
        params: of the benchmark `pairs`.

    Raises:
        ClusterError: the pairs could not be tested.
    """
    return judge_check(_pairs(cluster, runs, params))


def proximity(
    hosts: Cluster | str, *, runs: str | Path | None = None, milliseconds: int = 100
) -> Placement:
    """Find which hosts of a cluster are near one another, by the latencies of all pairs.

    Example: `cluster.proximity("big").groups`

    Args:
        hosts: the cluster, or its name.
        milliseconds: of each test.

    Raises:
        ClusterError: the latencies could not be measured.
    """
    from cluster.orchestration.proximity import judge_placement  # noqa: PLC0415 - slow: numpy

    params: dict[str, Any] = {
        "metric": "latency",
        "rounds": 0,
        "alone": 0,
        "milliseconds": milliseconds,
    }
    return judge_placement(_pairs(hosts, runs, params))


def watch(name: str, *, runs: str | Path | None = None) -> tuple[WatchedSeries, ...]:
    """Find when the results of a cluster's runs changed, and what changed with them.

    Example: `[each.metric for each in cluster.watch("mpi_test") if each.state == "alarm"]`

    Args:
        name: of the cluster.
        runs: the folder of all runs, if it is another than usual.

    Raises:
        SpecError: it has no runs, and is not watched.
    """
    from cluster.runs.watch.series import series  # noqa: PLC0415 - slow: numpy

    where = store.root(runs)
    if name in watches.names(where) and not watches.run_ids(where, name):
        return ()
    folders = watches.in_order(store.all_of(where, name), watches.events(where, name))
    return tuple(series((store.read(folder) for folder in folders), name))


def _pairs(
    cluster_or_name: Cluster | str, runs: str | Path | None, params: Mapping[str, Any]
) -> Run:
    cluster = attach(cluster_or_name) if isinstance(cluster_or_name, str) else cluster_or_name
    return cluster.bench(PAIRS, runs=runs, **params)
