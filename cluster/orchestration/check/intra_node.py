"""A check within hosts: copies between their GPUs, NUMA nodes or cores give a verdict."""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from cluster.analysis.topology.gpu_paths import OLD, UNKNOWN
from cluster.core import decoders
from cluster.core.model.fleet import DeviceKind, Fleet, FleetVerdict, PairTest, Reason
from cluster.core.model.logs import Topology
from cluster.core.model.measurements import Measurement
from cluster.fleet.devices import diagnose_devices
from cluster.logs.hosts import host_order
from cluster.orchestration.check.fleet_check import written
from cluster.reports.words.devices import KINDS, nothing_compared
from cluster.reports.words.fleet import with_words
from cluster.reports.words.notes import note_words
from cluster.runs.raw_files import topologies
from cluster.runs.run import RAW, Run


class WithinRunParams(msgspec.Struct, frozen=True, kw_only=True):
    """Those parameters of `within` that a verdict needs."""

    devices: str = "auto"


def judge_within(run: Run) -> FleetVerdict:
    """Judge a run of `within`, which may have been interrupted; write the verdict into its folder.

    Devices of all hosts are compared with one another, each pair with others of its class, so hosts
    are of one kind.
    """
    measurements = list(run.measurements)
    kinds = {str(m.params.get("devices", "")) for m in measurements}
    kinds_asked = decoders.decode(run.record.params, WithinRunParams).devices
    if len(kinds) != 1:
        verdict = _not_compared(kinds, kinds_asked, [*map(note_words, run.record.notes)])
    else:
        verdict = _judged(measurements, kinds.pop(), topologies(run.folder / RAW))
    assumptions = tuple(_assumptions(measurements))
    return written(replace(verdict, run=str(run.folder), assumptions=assumptions), run)


def _not_compared(kinds: set[str], kinds_asked: str, notes: Sequence[str]) -> FleetVerdict:
    """Return that there is nothing to compare, or too much at once."""
    reason = Reason(code="several_kinds" if kinds else "no_pairs")
    verdict = FleetVerdict(verdict="UNDECIDED", rounds=0, reason=reason, missing=tuple(notes))
    return replace(verdict, answer=nothing_compared(sorted(kinds), kinds_asked))


def _assumptions(measurements: Sequence[Measurement]) -> Iterator[str]:
    if measurements:
        yield "a pair can do what its fastest copy did"
    if len({measurement.host for measurement in measurements}) > 1:
        yield "all hosts are of one kind: pairs are compared with those of other hosts, too"


def _judged(
    measurements: Sequence[Measurement], kind: DeviceKind, paths: dict[str, Topology]
) -> FleetVerdict:
    several = len({measurement.host for measurement in measurements}) > 1
    ends = [_ends(measurement, kind, several=several) for measurement in measurements]
    names = tuple(host_order(name for pair in ends for name in pair))
    tests = [
        PairTest(
            round=0,
            source=names.index(reader),
            target=names.index(writer),
            value=measurement.bytes / min(measurement.values) if measurement.values else None,
            reason="" if measurement.values else "it was not measured",
            alone=True,
            path=_path(measurement, kind, paths.get(measurement.host)),
        )
        for measurement, (reader, writer) in zip(measurements, ends, strict=True)
    ]
    fleet = Fleet(
        names=names,
        groups=(0,) * len(names),
        directed=kind != "gpus",  # both directions of a pair of GPUs pass the same links
        foreign=True,
        devices=kind,
    )
    return with_words(diagnose_devices(fleet, tests), fleet, tests)


def _ends(measurement: Measurement, kind: DeviceKind, *, several: bool) -> tuple[str, str]:
    host = f"{measurement.host}/" if several else ""
    reader, writer = (
        f"{host}{KINDS[kind].mark}{measurement.params[end]}" for end in ("reader", "writer")
    )
    return reader, writer


def _path(measurement: Measurement, kind: DeviceKind, topology: Topology | None) -> str:
    """Return the class of a pair; that of two GPUs is in the output of `nvidia-smi topo -m`."""
    if kind != "gpus":
        return str(measurement.params.get("path", ""))
    if topology is None:
        return ""
    path = topology.path(f"GPU{measurement.params['reader']}", f"GPU{measurement.params['writer']}")
    return "" if path == UNKNOWN else OLD.get(path, path)
