"""The verdict of any check: of pairs of hosts, or of the devices within them."""

import msgspec

from cluster.core.model.fleet import FleetVerdict
from cluster.runs.run import PAIRS, WITHIN, Run


def judge_check(run: Run) -> FleetVerdict:
    """Judge what a check has measured so far; write the verdict into its folder (SpecError)."""
    from cluster.orchestration.check.fleet_check import judge_fleet  # noqa: PLC0415 - slow: numpy
    from cluster.orchestration.check.intra_node import judge_within  # noqa: PLC0415 - slow: numpy

    return (judge_within if run.record.benchmark == WITHIN else judge_fleet)(run)


def with_verdict(run: Run) -> Run:
    """Return a run with its verdict, if it is a check; one written while it ran says less."""
    if run.record.benchmark not in (PAIRS, WITHIN):
        return run
    return msgspec.structs.replace(run, fleet=judge_check(run))
