"""`cluster check --gate`: whether a job may start on the hosts, as an exit status and one line."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn

from click.exceptions import Exit

from cluster.cli.flags import option, refuse_unused, typed_values
from cluster.cli.progress.jobs import JobProgress
from cluster.cli.repeat import BenchOptions
from cluster.cli.show import print_json, print_lines
from cluster.core.errors import SpecError
from cluster.core.model.fleet import Drift
from cluster.core.model.gate import STATUS
from cluster.core.model.value import Value
from cluster.core.units import parse_rate, parse_seconds
from cluster.orchestration.cluster import Cluster
from cluster.orchestration.launch.gate import WITHIN, compare_hosts, prove
from cluster.reports.words.fleet import drift_words, unread_words

UNUSED = ("rounds", "alone", "confirm", "milliseconds", "timeout", "keep")  # with --gate


class GateOptions(Value, frozen=True, kw_only=True):
    """Whether a check is a gate, as it was typed."""

    gate: Annotated[
        bool,
        option("--gate", "May a job start? Exit 0: proven, 1: bad, 75: undecided in the time."),
    ] = False
    within: Annotated[
        str | None, option("--within TIME", f"How long --gate may take.  [default: {WITHIN:g}s]")
    ] = None
    drift: Annotated[
        bool,
        option("--drift", "Compare the settings of hosts, in seconds. Exit 75: one is not read."),
    ] = False
    busy: Annotated[bool, option("--busy", "Leave out hosts on which a job runs.")] = False


def refuse_unfit(typed: GateOptions, values: Mapping[str, object], *, limit: str) -> None:
    """Refuse flags of a gate without one, and with what a gate does not do (SpecError)."""
    alone = "" if values["--from"] else limit
    flags = (("--within", typed.within), ("--busy", typed.busy), ("--limit", alone))
    own = [flag for flag, value in flags if value]
    if not typed.gate:
        if own:
            raise SpecError(
                f"{own[0]} belongs to --gate.",
                remedy="Type: cluster check NAME --gate. For the devices of each host: --devices",
            )
        return
    unfit = [flag for flag, value in {**values, "--drift": typed.drift}.items() if value]
    if unfit:
        raise SpecError(
            f"{unfit[0]} does not go with --gate, which chooses its tests by the time.",
            remedy="Leave one of them out.",
        )
    refuse_unused(UNUSED, "with --gate, which chooses its tests by the time")


def show_drift(cluster: Cluster, options: BenchOptions) -> None:
    """Show the settings in which hosts differ, the most unusual first (Exit: some are not read)."""
    differences = compare_hosts(cluster)
    names = [machine.name for machine in cluster.machines]
    silent = tuple(host for host, name in enumerate(names) if name in cluster.remote.absent)
    total, read = len(names), len(names) - len(silent)
    values = ("no",) * len(silent)
    unread = Drift(
        setting="answers", usual="yes", count=read, of=total, hosts=silent, values=values
    )
    if options.json:
        print_json([unread, *differences] if silent else differences)
    else:
        print_lines(*([unread_words(unread, names)] if silent else []))
        print_lines(*map(drift_words, differences))
        if total == 1:
            print_lines(f"{cluster.name} has one host, and nothing to compare it with.")
        elif not differences and read > 1:
            print_lines(f"The {read} hosts of {cluster.name} do not differ.")
    if silent:
        raise Exit(STATUS["UNDECIDED"])


def pass_gate(
    cluster: Cluster,
    typed: GateOptions,
    params: Mapping[str, Any],
    limit: str | None,
    options: BenchOptions,
) -> NoReturn:
    """Prove the hosts in the time, say what came of it, and end with its exit status."""
    began = time.monotonic() - process_age()
    within = parse_seconds(typed.within) if typed.within else WITHIN
    params = {**params, "limit": parse_rate(limit) if limit else 0.0}
    listener = JobProgress(stderr=True)
    gate = prove(
        cluster, within, busy=typed.busy, runs=options.runs, listener=listener, params=params,
        began=began, typed=typed_values(("metric", "grouping", "limit", "busy")),
    )  # fmt: skip
    if options.json:
        print_json(gate)
    else:
        sys.stdout.write(f"{gate.answer}\n")
    sys.stdout.flush()
    os._exit(STATUS[gate.verdict])  # threads may still wait for hosts that do not answer


def process_age() -> float:
    """Return the seconds since this process began, which its user waits for, too: proc(5)."""
    ticks = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    began = int(ticks) / os.sysconf("SC_CLK_TCK")
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began)
