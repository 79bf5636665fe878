"""Which hosts are near one another, by latency: `cluster check --near`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.cli.show import print_json, print_lines, relative_path, screen_width
from cluster.reports.fleet import group_table, layer_table
from cluster.reports.formats.terminal import table_text
from cluster.runs.import_.logs import NAME as IMPORTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.core.model.placement import Placement
    from cluster.runs.run import Run


def show_near(run: Run, *, as_json: bool) -> None:
    """Find which hosts of a run of latencies are near one another, and show the groups."""
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
