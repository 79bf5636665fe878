"""`check`, `judge`, `import_`, `proximity` and `watch`, which answer as the commands do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.orchestration.cluster import Cluster, attach
from cluster.runs import store
from cluster.runs.catalog import load
from cluster.runs.import_.logs import NAME, import_logs, read_logs
from cluster.runs.run import PAIRS, Run

if TYPE_CHECKING:
    from cluster.core.model.network.fleet import FleetVerdict
    from cluster.core.model.network.placement import Placement
    from cluster.core.model.results.limits import Hardware
    from cluster.reports.words.verdict import Answer
    from cluster.runs.watch import WatchedSeries


def import_(
    *files: str | Path, name: str = NAME, format_: str = "", runs: str | Path | None = None
) -> Run:
    """Keep logs of other tools as a run.

    Example: `cluster.import_("nccl.log").summary()`

    Args:
        name: the cluster's name in the run.
        format_: the format of the logs; recognised by default.
        runs: the folder of all runs, if it is not the usual one.

    Raises:
        SpecError: a file cannot be read.
        ParseError: no parser understands a file.
    """
    texts = [str(file) for file in files]
    return store.read(import_logs(texts, store.root(runs), name=name, format_=format_).folder)


def judge(
    named: str | Path, hardware: str | Hardware | None = None, *, runs: str | Path | None = None
) -> Answer:
    """Judge a run, or a log, which is not kept.

    Example: `print(cluster.judge("nccl.log", "p4d.24xlarge"))`

    Args:
        named: the file, or the run: its folder, id, cluster, or `latest`.
        hardware: the hardware of the hosts, as `Run.judge` takes it.

    Raises:
        SpecError: there is no such file or run.
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
        params: parameters of the benchmark `pairs`.

    Raises:
        ClusterError: the pairs could not be tested.
    """
    from cluster.orchestration.fleet_check import judge_check  # noqa: PLC0415 - slow: numpy

    return judge_check(_pairs(cluster, runs, params))


def proximity(
    hosts: Cluster | str, *, runs: str | Path | None = None, milliseconds: int = 100
) -> Placement:
    """Find which hosts of a cluster are near one another, by the latencies of all pairs.

    Example: `cluster.proximity("big").groups`

    Args:
        hosts: the cluster, or its name.
        milliseconds: duration of each test.

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
        name: name of the cluster.
        runs: the folder of all runs, if it is not the usual one.

    Raises:
        SpecError: the cluster has no runs, and is not watched.
    """
    from cluster.runs import watch as watches  # noqa: PLC0415 - slow: numpy

    root = store.root(runs)
    if name in watches.names(root) and not store.run_ids(root, name):
        return ()
    folders = watches.in_order(store.all_of(root, name), watches.events(root, name))
    return tuple(watches.series((store.read(folder) for folder in folders), name))


def _pairs(
    cluster_or_name: Cluster | str, runs: str | Path | None, params: Mapping[str, Any]
) -> Run:
    cluster = attach(cluster_or_name) if isinstance(cluster_or_name, str) else cluster_or_name
    return cluster.bench(PAIRS, runs=runs, **params)
