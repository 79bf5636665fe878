"""Find which hosts are near one another, by latency.

Example: cluster placement big
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cluster.cli import flags
from cluster.cli.commands._pair_logs import (
    Milliseconds,
    Names,
    PairLogFlags,
    SurveyOptions,
    only_name,
    run_of,
)
from cluster.cli.flags import group
from cluster.cli.measurement import launched
from cluster.cli.repeat import BenchOptions
from cluster.cli.show import print_json, print_lines, relative_path, screen_width
from cluster.core import journal
from cluster.orchestration.cluster import Cluster, attach
from cluster.reports.fleet import group_table, layer_table
from cluster.reports.formats.terminal import table_text
from cluster.runs import store
from cluster.runs.import_.logs import NAME as IMPORTED
from cluster.runs.run import PAIRS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.core.model.placement import Placement
    from cluster.runs.run import Run

NAME = "placement"  # of a cluster that is launched for it
PARAMS = {"metric": "latency", "rounds": 0, "alone": 0}


def command(
    names: Names = None,
    *,
    milliseconds: Milliseconds = 100,
    logs: Annotated[PairLogFlags, group(PairLogFlags, "from_ pairs_pattern series")],
    machines: flags.Machines,
    options: SurveyOptions,
) -> None:
    if logs.from_:
        _show(run_of(names, store.root(options.runs), logs, "latency"), as_json=options.json)
        return
    name, provider = only_name(names), machines["provider"]
    params = {**PARAMS, "milliseconds": milliseconds}
    if name is not None and (provider is None or name in journal.names()):
        _measure(attach(name), params, options)
        return
    spec = flags.spec(
        **{**machines, "name": name or NAME, "provider": provider or flags.DEFAULT_PROVIDER}
    )
    with launched(spec, PAIRS, params, options) as cluster:
        _measure(cluster, params, options)


def _measure(cluster: Cluster, params: dict[str, Any], options: BenchOptions) -> None:
    from cluster.cli.progress.heat_map import CheckProgress  # noqa: PLC0415 - slow: numpy

    with CheckProgress(len(cluster.machines), params["metric"], stderr=options.json) as live:
        run = cluster.bench(
            PAIRS, runs=options.runs, timeout=options.timeout, listener=live, **params
        )
    _show(run, as_json=options.json)


def _show(run: Run, *, as_json: bool) -> None:
    """Find the groups, and show them."""
    from cluster.orchestration.proximity import judge_placement  # noqa: PLC0415 - slow: numpy

    placement = judge_placement(run)
    if as_json:
        print_json(placement)
        return
    if placement.groups:
        sys.stdout.write(table_text(group_table(placement), screen_width()))
    if placement.topology.layers:
        sys.stdout.write(table_text(layer_table(placement), screen_width()))
    print_lines(*_lines(placement, run.record.spec.name))


def _lines(placement: Placement, name: str) -> Iterator[str]:
    yield from placement.disagreements
    for layer in placement.layers[1:]:
        yield f"These groups form {len(set(layer))} larger ones."
    simulated = " (simulated: nothing was measured)" if placement.simulated else ""
    yield f"Run folder: {relative_path(Path(placement.run))}{simulated}"
    if placement.untested:
        pairs = placement.pairs + placement.untested
        yield f"{placement.untested} of {pairs} pairs have no latency."
    yield placement.answer
    if placement.groups and name != IMPORTED:
        yield f"Next: cluster check {name} --groups placement"
