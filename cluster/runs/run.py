"""One run: its record, its values, its summaries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cluster.core.errors import ParseError
from cluster.core.model.hosts import PROCESS_FILE, Layout, Link, Machine, RankProcess
from cluster.core.model.logs import Parsed
from cluster.core.model.measurements import Measurement, Planned, Summary
from cluster.core.model.records import Record, Status
from cluster.core.model.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cluster.analysis.evidence import Evidence
    from cluster.analysis.link_bounds import Route
    from cluster.core.model.hardware import Figure


VISIBLE = "CUDA_VISIBLE_DEVICES"  # chooses GPUs, and numbers them anew
RAW = "raw"
PAIRS = "pairs"  # the benchmark whose measurements are each of one pair of hosts


class Run(Value, frozen=True, kw_only=True):
    """One run: its record and all its raw values.

    Args:
        folder: of the run.
        record: what happened.
        measurements: in the order they came.
        warnings: what could not be read.
        results: what imported logs say beside their measurements.

    """

    folder: Path
    record: Record
    measurements: tuple[Measurement, ...]
    warnings: tuple[str, ...] = ()
    results: tuple[Parsed, ...] = ()

    @property
    def status(self) -> Status:
        """How far it came."""
        return self.record.status

    def summary(self) -> tuple[Summary, ...]:
        """Say what the values say.

        Returns:
            One summary per metric, point and series.

        """
        from cluster.analysis.hardware import of_point  # noqa: PLC0415 - only for summaries
        from cluster.analysis.hardware_bounds import with_hardware_bound  # noqa: PLC0415 - only for summaries
        from cluster.analysis.rates import with_rates  # noqa: PLC0415
        from cluster.analysis.summarize import summarize  # noqa: PLC0415 - it imports NumPy

        known = self.record.definitions
        taken: Iterable[Measurement] = self.measurements
        if self.record.benchmark == PAIRS:
            from cluster.analysis.fleet.pair_measurements import without_places  # noqa: PLC0415

            taken = without_places(taken)
        found = summarize(
            with_rates(tuple(taken), known.values()),
            known.values(),
            _route(self.record, self.measurements, self.folder),
        )
        hardware = self.record.hardware
        return tuple(
            with_hardware_bound(s, known[s.definition], of_point(hardware, s.params)) for s in found
        )

    def evidence(self, summaries: tuple[Summary, ...]) -> Evidence:
        """Give what the rules of a diagnosis look at.

        Args:
            summaries: of this run.

        Returns:
            All that is known of it.

        """
        from cluster.analysis.evidence import Evidence  # noqa: PLC0415 - only for summaries

        record = self.record
        of_hosts = {k: v for facts in record.environment for k, v in facts.variables.items()}
        return Evidence(
            summaries=summaries,
            definitions=record.definitions,
            hardware=record.hardware,
            results=self.results,
            hosts=record.environment,
            ranks_per_host=record.spec.ranks_per_host if record.environment else 0,
            processes=_processes(self.folder),
            variables={**of_hosts, **record.variables},
            instance=record.spec.instance or (record.hardware.name if record.hardware else ""),
            failed=record.status == "failed",
        )

    @property
    def missing(self) -> tuple[Planned, ...]:
        """Every planned series of which there is no value."""
        taken = [(m.metric, m.params.items()) for m in self.measurements if m.values]
        return tuple(
            cell
            for cell in self.record.planned
            if not any(
                metric == cell.metric and cell.params.items() <= point for metric, point in taken
            )
        )


class PairParams(msgspec.Struct, frozen=True, kw_only=True):
    """What the parameters of any benchmark may say of who takes part.

    Args:
        pair: the rank that sends and the one that receives, if only two of them exchange anything.

    """

    pair: tuple[int, int] | None = None


def _processes(folder: Path) -> tuple[RankProcess, ...]:
    """Read what each rank's process had of its host; a rank that was stopped has left nothing."""
    found = []
    for path in (folder / RAW).glob(PROCESS_FILE.format(rank="*")):
        try:
            found.append(msgspec.json.decode(path.read_bytes(), type=RankProcess))
        except (OSError, msgspec.DecodeError):
            continue
    return tuple(sorted(found, key=lambda process: process.rank))


def _route(record: Record, measurements: Iterable[Measurement], folder: Path) -> Route:
    """Find what the bytes of a run passed: memory, if the ranks that took part had one host."""
    from cluster.analysis.link_bounds import Route, copy_rate  # noqa: PLC0415 - only for summaries

    pair = _pair_params(record).pair
    machines = record.machines
    layout = Layout(
        addresses=tuple(machine.address for machine in machines),
        ranks_per_host=record.spec.ranks_per_host,
    )
    hosts = {place for rank, place in enumerate(layout.places) if pair is None or rank in pair}
    if len(hosts) == 1:
        return Route(memory=copy_rate(measurements), gpus=_between_gpus(record, folder))
    links = {m.address: m.link or _known_link(record, m) for m in machines if m.address in hosts}
    return Route(
        links=tuple(links.values()),
        sender=pair[0] if pair else None,
        ranks=layout.size if pair is None else len(pair),
    )


def _between_gpus(record: Record, folder: Path) -> Figure | None:
    """Find what joins the first two GPUs of a host, which its first two ranks take.

    Nothing is known where somebody chose among the GPUs, which then have other numbers.
    """
    hosts = [facts for facts in record.environment if len(facts.gpus) > 1]
    if not hosts or VISIBLE in {**hosts[0].variables, **record.variables}:
        return None
    from cluster.analysis import hardware  # noqa: PLC0415 - only for summaries of GPUs
    from cluster.core.model.logs import Topology  # noqa: PLC0415
    from cluster.logs.reader import read as read_log  # noqa: PLC0415

    facts = hosts[0]
    try:
        text = (folder / RAW / f"topology.{facts.host}.txt").read_bytes()
        details = [result.detail for result in read_log([text], "topology").results]
    except (OSError, ParseError):
        return None
    path = next((d.path("GPU0", "GPU1") for d in details if isinstance(d, Topology)), "")
    slower = min(facts.gpu_slots[:2], key=_slot_rate, default="")
    return hardware.between(facts.gpus[0], path, slower)


def _slot_rate(slot: str) -> float:
    from cluster.core.pcie import slot_bandwidth  # noqa: PLC0415 - only for summaries of GPUs

    found = slot_bandwidth(slot)
    return found.rate if found else 0.0


def _known_link(record: Record, machine: Machine) -> Link | None:
    """Find what the kernel of a host knows of the interface by which the others reach it."""
    from cluster.analysis.link_speeds import link  # noqa: PLC0415 - only for summaries

    for facts in record.environment:
        for interface in facts.interfaces:
            if interface.address == machine.address:
                return link(interface)
    return None


def _pair_params(record: Record) -> PairParams:
    try:
        return msgspec.json.decode(record.params, type=PairParams)
    except msgspec.ValidationError:  # a benchmark that means something else by these words
        return PairParams()
