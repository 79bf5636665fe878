"""A check within hosts: copies between their GPUs, NUMA nodes or cores give a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec

from cluster.analysis.topology.gpu_paths import OLD, UNKNOWN
from cluster.core.model.fleet import DeviceKind, Fleet, FleetVerdict, PairTest
from cluster.core.model.logs import NUMA, Topology
from cluster.fleet.devices import diagnose_devices
from cluster.logs.pair_hosts import host_order
from cluster.orchestration.check.fleet_check import of_cut_off_run
from cluster.runs import verdict_files
from cluster.runs.raw_files import topologies
from cluster.runs.run import RAW

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cluster.core.model.measurements import Measurement
    from cluster.runs.run import Run

NAMES: dict[DeviceKind, str] = {"gpus": "GPU", "numa": NUMA, "cores": "core"}
SINGLE = {
    "gpus": "the hosts have no two GPUs that the ranks see",
    "numa": "the hosts have one NUMA node each, or its rank may use the cores of one only",
    "cores": "the hosts have one core each, or their ranks may use one only",
}


class WithinRunParams(msgspec.Struct, frozen=True, kw_only=True):
    """Those parameters of `within` that a verdict needs."""

    devices: str = "auto"


def judge_within(run: Run) -> FleetVerdict:
    """Judge the devices of the hosts of a run, and write the verdict into its folder.

    Args:
        run: of the benchmark `within`; it may have been interrupted.

    Returns:
        The verdict. Devices of all hosts are compared with one another, each pair with others of
        its class, so hosts are of one kind.

    """
    found = list(run.measurements)
    kinds = {str(m.params.get("devices", "")) for m in found}
    asked = msgspec.json.decode(run.record.params, type=WithinRunParams).devices
    if len(kinds) != 1:
        verdict = _not_compared(kinds, asked, run.record.notes)
    else:
        kind = cast("DeviceKind", kinds.pop())
        verdict = _judged(found, kind, topologies(run.folder / RAW))
    verdict = msgspec.structs.replace(
        verdict, run=str(run.folder), assumptions=tuple(_assumptions(found))
    )
    verdict = of_cut_off_run(verdict, run)
    verdict_files.write_verdict(run.folder, verdict)
    return verdict


def _not_compared(kinds: set[str], asked: str, notes: Sequence[str]) -> FleetVerdict:
    """Say that there is nothing to compare, or too much at once."""
    if kinds:
        several = " and ".join(sorted(kinds))
        why = f"hosts differ: some compared {several}; say which, such as --within numa"
    else:
        why = SINGLE.get(asked, SINGLE["cores"])
    return FleetVerdict(
        verdict="UNDECIDED",
        rounds=0,
        answer=f"UNDECIDED: there is no pair to compare: {why}.",
        missing=tuple(notes),
    )


def _assumptions(found: Sequence[Measurement]) -> Iterator[str]:
    if found:
        yield "a pair can do what its fastest copy did"
    if len({one.host for one in found}) > 1:
        yield "all hosts are of one kind: pairs are compared with those of other hosts, too"


def _judged(
    found: Sequence[Measurement], kind: DeviceKind, paths: dict[str, Topology]
) -> FleetVerdict:
    several = len({one.host for one in found}) > 1
    ends = [_ends(one, kind, several=several) for one in found]
    names = tuple(host_order(name for pair in ends for name in pair))
    tests = [
        PairTest(
            round=0,
            source=names.index(reader),
            target=names.index(writer),
            value=one.bytes / min(one.values) if one.values else None,
            reason="" if one.values else "it was not measured",
            alone=True,
            path=_path(one, kind, paths.get(one.host)),
        )
        for one, (reader, writer) in zip(found, ends, strict=True)
    ]
    fleet = Fleet(names=names, groups=(0,) * len(names), foreign=True)
    return diagnose_devices(fleet, tests, kind)


def _ends(one: Measurement, kind: DeviceKind, *, several: bool) -> tuple[str, str]:
    host = f"{one.host}/" if several else ""
    reader, writer = (f"{host}{NAMES[kind]}{one.params[end]}" for end in ("reader", "writer"))
    return reader, writer


def _path(one: Measurement, kind: DeviceKind, topology: Topology | None) -> str:
    """Return the class of a pair; that of two GPUs is in the output of `nvidia-smi topo -m`."""
    if kind != "gpus":
        return str(one.params.get("path", ""))
    if topology is None:
        return ""
    path = topology.path(f"GPU{one.params['reader']}", f"GPU{one.params['writer']}")
    return "" if path == UNKNOWN else OLD.get(path, path)
