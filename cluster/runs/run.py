"""One run: its record, values, summaries, verdict, plots and report, and what is in `raw/`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import quote

import msgspec

from cluster.core import decoders
from cluster.core.errors import ParseError, SpecError
from cluster.core.model.hosts import PROCESS_FILE, Layout, Link, Machine, RankProcess
from cluster.core.model.logs import NcclLog, Parsed, Topology
from cluster.core.model.network.fleet import FleetVerdict
from cluster.core.model.results.measurements import Measurement, Planned, Summary
from cluster.core.model.results.records import Record, Status
from cluster.core.model.value import Value
from cluster.core.state.files import write_file
from cluster.reports.words.notes import note_words
from cluster.runs import frames
from cluster.runs.frames import Rows

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from cluster.analysis.limits.link import Route
    from cluster.analysis.models.step_limits import TrainingVerdict
    from cluster.analysis.verdict.evidence import Evidence, Sign
    from cluster.analysis.verdict.judgement import Judgement
    from cluster.core.model.results.limits import Figure, Hardware
    from cluster.reports.page import ReportRun
    from cluster.reports.plots import Picture
    from cluster.reports.words.verdict import Answer


RAW = "raw"
PAIRS = "pairs"  # the benchmark that measures pairs of hosts
WITHIN = "within"  # the benchmark that measures pairs of devices of each host
RECORD = "run.json"
MEASUREMENTS = "measurements.jsonl"
PROFILES = "mpi_profile.*"  # files in `raw` of ranks that counted their calls of MPI


class _Transport(msgspec.Struct, frozen=True):
    """The parameter of a benchmark that says what carries its messages."""

    transport: Any = "mpi"


class Run(Value, frozen=True, kw_only=True):
    """One run: its record and all its raw values.

    Args:
        folder: Folder of the run.
        record: Its spec, hosts, definitions and events.
        measurements: Measurements in the order in which they were taken.
        warnings: One sentence for each part that could not be read.
        results: Results of imported logs, without their measurements.
        fleet: Verdict of `cluster check` on the hosts, if the run is a check.
    """

    folder: Path
    record: Record
    measurements: tuple[Measurement, ...]
    warnings: tuple[str, ...] = ()
    results: tuple[Parsed, ...] = ()
    fleet: FleetVerdict | None = None

    def __repr__(self) -> str:
        values = sum(len(m.values) for m in self.measurements)
        spec = self.record.spec
        return (
            f"<Run {self.name}: {self.record.benchmark} on {spec.hosts} x {spec.provider}, "
            f"{self.status}, {len(self.measurements)} series, {values} values>"
        )

    def _repr_html_(self) -> str:
        from cluster.reports.html_page import run_html  # noqa: PLC0415 - it imports matplotlib

        notes = [*map(note_words, self.record.notes)]
        return run_html(self.name, self.judge(), self.summary(), notes)

    @property
    def name(self) -> str:
        """`CLUSTER/ID`, which `load` takes."""
        return "/".join(self.folder.parts[-2:])

    @property
    def status(self) -> Status:
        """How the run ended, such as `done`, or that it has not ended."""
        return self.record.status

    def summary(self) -> tuple[Summary, ...]:
        """Summarize the raw values, by metric, point and series."""
        from cluster.analysis.limits.devices import with_hardware_bound  # noqa: PLC0415
        from cluster.analysis.limits.hardware import of_point  # noqa: PLC0415 - only for summaries
        from cluster.analysis.limits.link import with_rates  # noqa: PLC0415
        from cluster.analysis.statistics.summarize import summarize  # noqa: PLC0415 - it imports NumPy

        definitions = self.record.definitions
        values: Iterable[Measurement] = self.measurements
        if self.record.benchmark == PAIRS:
            from cluster.fleet.pair_measurements import without_places  # noqa: PLC0415

            values = without_places(values)
        summaries = summarize(
            with_rates(tuple(values), definitions.values()),
            definitions.values(),
            route(self.record, self.measurements, self.folder / RAW),
        )
        hardware = self.record.hardware
        return tuple(
            with_hardware_bound(s, definitions[s.definition], of_point(hardware, s.params))
            for s in summaries
        )

    def judge(self, hardware: str | Hardware | None = None) -> Answer:
        """Judge the values against the bounds of the hardware, as `cluster judge` does.

        Args:
            hardware: a name or settings, such as `p4d.24xlarge` or `nic=100gbit`; by default,
                what the run recorded of its hosts.

        Returns:
            The verdict of the run, in one word and in one line, and a verdict per series.

        Raises:
            SpecError: there is no such hardware.
        """
        from cluster.analysis.limits.hardware import find  # noqa: PLC0415 - only for summaries
        from cluster.reports.words.verdict import answer  # noqa: PLC0415

        board = find(hardware) if isinstance(hardware, str) else hardware
        return answer(judge_launches([self], board).judgement)

    def findings(self, summaries: tuple[Summary, ...]) -> tuple[Sign, ...]:
        """Find what may be wrong; empty for a check of a fleet, whose verdict says it."""
        from cluster.analysis.verdict.rules import diagnose  # noqa: PLC0415 - only for summaries

        return () if self.fleet else diagnose(self.evidence(summaries))

    def training(self) -> TrainingVerdict | None:
        """Return what limits the training; None of other runs, and of one that ended early."""
        from cluster.analysis.models import step_limits  # noqa: PLC0415 - only for summaries

        if self.record.benchmark != step_limits.TRAINING:
            return None
        steps = step_limits.from_measurements(self.measurements, bytes(self.record.params))
        return step_limits.judge(steps) if steps else None

    def to_dict(self, kind: Rows = "values") -> dict[str, list[Any]]:
        """Return a table as columns: `pandas.DataFrame(run.to_dict())` and the like.

        Args:
            kind: `values` for all raw values, one row each; `summaries` for medians and intervals.

        Returns:
            Columns by name, all of the same length, with one column per parameter. Each row names
            the unit of its value. Values of a rate metric are rates, even if times were recorded.
        """
        _check_kind(kind, ("values", "summaries"))
        if kind == "summaries":
            return frames.summary_columns(self.name, self.record, self.summary())
        return frames.value_columns(self.name, self.record, self.measurements)

    def to_pandas(self, kind: Rows = "values") -> pd.DataFrame:
        """Return the columns of `to_dict` as a frame of pandas (SpecError: it is not installed)."""
        return frames.pandas_frame(self.to_dict(kind))

    def to_polars(self, kind: Rows = "values") -> pl.DataFrame:
        """Return the columns of `to_dict` as a frame of polars (SpecError: it is not installed)."""
        return frames.polars_frame(self.to_dict(kind))

    def plot(
        self,
        metric: str | None = None,
        *,
        kind: Literal["sweep", "distribution"] = "sweep",
        path: str | Path | None = None,
    ) -> Picture:
        """Draw the run; a notebook shows the picture.

        Args:
            metric: Metric to draw; by default, the first one.
            kind: A `sweep` over message sizes, or the `distribution` of the raw values.
            path: File to write as well: .svg, .png or .pdf.

        Raises:
            SpecError: the run has no such metric, or matplotlib is not installed.
        """
        from cluster.reports import pictures  # noqa: PLC0415 - it imports matplotlib

        _check_kind(kind, ("sweep", "distribution"))
        form = pictures.file_format(str(path)) if path else "svg"
        if kind == "sweep":
            picture = pictures.sweep_picture([self.as_reported(Path.cwd())], metric, form)
        else:
            picture = pictures.distribution_picture(
                [(self.name, self.measurements, self.summary())], metric, form
            )
        if path:
            write_file(path, picture.image)
        return picture

    def report(self, path: str | Path = "report.html") -> Path:
        """Write the page that `cluster report` writes: one HTML file, for any browser.

        Args:
            path: Path of the page; the result is the absolute one.
        """
        from cluster.reports.html_page import render_page  # noqa: PLC0415 - it imports matplotlib
        from cluster.reports.page import report_page  # noqa: PLC0415
        from cluster.reports.plots import why_no_plots  # noqa: PLC0415

        place = Path(path).absolute()
        page = report_page([self.as_reported(place.parent)], no_plots=why_no_plots())
        write_file(place, render_page(page).encode())
        return place

    def as_reported(self, page: Path) -> ReportRun:
        """Return the run as a report in the folder `page` shows it, with links to its files."""
        from cluster.fleet.pair_measurements import pair_tests  # noqa: PLC0415 - only for reports
        from cluster.reports.html_page import PageLink  # noqa: PLC0415 - only for pages
        from cluster.reports.logbook import missing_series  # noqa: PLC0415
        from cluster.reports.page import ReportRun  # noqa: PLC0415 - it imports NumPy
        from cluster.reports.words.verdict import answer  # noqa: PLC0415

        links = []
        for name in (RECORD, MEASUREMENTS, RAW):
            if (self.folder / name).exists():
                target = quote(os.path.relpath(self.folder / name, page))
                links.append(PageLink(text=name, target=f"{target}/" if name == RAW else target))
        result = judge_launches([self])
        return ReportRun(
            name=self.name,
            record=self.record,
            summaries=result.summaries,
            findings=result.signs,
            judgement=answer(result.judgement),
            fleet=self.fleet,
            pairs=pair_tests(self.measurements) if self.fleet else (),
            warnings=(*self.warnings, *missing_series(self.record, self.missing)),
            links=tuple(links),
        )

    def evidence(self, summaries: tuple[Summary, ...]) -> Evidence:
        """Return the evidence for the rules of the diagnosis."""
        from cluster.analysis.verdict.evidence import Evidence  # noqa: PLC0415 - only for summaries

        record = self.record
        of_hosts = {k: v for facts in record.environment for k, v in facts.variables.items()}
        return Evidence(
            summaries=summaries,
            definitions=record.definitions,
            hardware=record.hardware,
            results=self.results,
            hosts=record.environment,
            ranks_per_host=record.spec.ranks_per_host if record.environment else 0,
            processes=rank_processes(self.folder / RAW),
            variables={**of_hosts, **record.variables},
            instance=record.spec.instance or (record.hardware.name if record.hardware else ""),
            has_failed=record.status == "failed",
            transport=decoders.decode(record.params, _Transport).transport,
            own_nccl=nccl_log(self.folder / RAW),
        )

    @property
    def missing(self) -> tuple[Planned, ...]:
        """The planned series that have no value."""
        points = [(m.metric, m.params.items()) for m in self.measurements if m.values]
        return tuple(
            cell
            for cell in self.record.planned
            if not any(
                metric == cell.metric and cell.params.items() <= point for metric, point in points
            )
        )


class Judged(NamedTuple):
    """What was measured, what may be wrong with it, and the judgement of both."""

    summaries: tuple[Summary, ...]
    signs: tuple[Sign, ...]
    judgement: Judgement


def judge_launches(runs: Sequence[Run], hardware: Hardware | None = None) -> Judged:
    """Judge one run, or the medians over the launches of one command, the oldest first."""
    from cluster.analysis.statistics.summarize import pool_launches  # noqa: PLC0415 - it imports NumPy
    from cluster.analysis.verdict import judgement  # noqa: PLC0415 - only for summaries
    from cluster.analysis.verdict.evidence import OtherLoad  # noqa: PLC0415

    launches, newest = [run.summary() for run in runs], runs[-1]
    medians = pool_launches(launches)
    signs = newest.findings(medians)
    loads = (sign for run in runs[:-1] for sign in run.findings(()) if isinstance(sign, OtherLoad))
    doubts = (*signs, *loads)
    if len(launches) == 1 or newest.fleet is not None:
        answer = judgement.judge(
            medians, newest.record, doubts, hardware, fleet=newest.fleet, training=newest.training()
        )
    else:
        answer = judgement.judge_launches(launches, newest.record, doubts, hardware)
    return Judged(medians, signs, answer)


def _check_kind(kind: str, choices: tuple[str, ...]) -> None:
    if kind not in choices:
        raise SpecError(
            f"kind={kind!r} is not known.", remedy=f"There are: {', '.join(map(repr, choices))}"
        )


VISIBLE = "CUDA_VISIBLE_DEVICES"  # selects GPUs, and renumbers them


class PairParams(msgspec.Struct, frozen=True, kw_only=True):
    """The parameter of a benchmark that selects two ranks."""

    # the rank that sends and the one that receives, if only two ranks exchange messages
    pair: tuple[int, int] | None = None


def route(record: Record, measurements: Iterable[Measurement], raw: Path) -> Route:
    """Return the links between a run's hosts, or the memory and GPUs of its one host."""
    from cluster.analysis.limits.link import Route, copy_rates  # noqa: PLC0415 - only for summaries

    try:
        pair = decoders.decode(record.params, PairParams).pair
    except msgspec.ValidationError:  # a benchmark whose parameter of this name is something else
        pair = None
    machines = record.machines
    layout = Layout(
        addresses=tuple(machine.address for machine in machines),
        ranks_per_host=record.spec.ranks_per_host,
    )
    hosts = {place for rank, place in enumerate(layout.places) if pair is None or rank in pair}
    if len(hosts) == 1:
        return Route(copies=copy_rates(measurements), gpus=_between_gpus(record, raw))
    links = {m.address: m.link or _known_link(record, m) for m in machines if m.address in hosts}
    return Route(
        links=tuple(links.values()),
        sender=pair[0] if pair else None,
        ranks=layout.size if pair is None else len(pair),
    )


def _between_gpus(record: Record, raw: Path) -> Figure | None:
    """Find the link between a host's first two GPUs; None if a variable renumbers them."""
    hosts = [facts for facts in record.environment if len(facts.gpus) > 1]
    if not hosts or VISIBLE in {**hosts[0].variables, **record.variables}:
        return None
    from cluster.analysis.limits import hardware  # noqa: PLC0415 - only for summaries of GPUs
    from cluster.core.model.results.limits import slot_bandwidth  # noqa: PLC0415

    facts = hosts[0]
    topology = topologies(raw).get(facts.host)
    path = topology.path("GPU0", "GPU1") if topology else ""
    rates = {
        slot: bandwidth.rate if (bandwidth := slot_bandwidth(slot)) else 0.0
        for slot in facts.gpu_slots[:2]
    }
    slower = min(rates, key=rates.__getitem__, default="")
    return hardware.between(facts.gpus[0], path, slower)


def _known_link(record: Record, machine: Machine) -> Link | None:
    """Return the speed that a host's kernel reports for its interface to the other hosts."""
    from cluster.analysis.limits.link import interface_link  # noqa: PLC0415 - only for summaries

    for facts in record.environment:
        for interface in facts.interfaces:
            if interface.address == machine.address:
                return interface_link(interface)
    return None


LOGS = "nccl.*.log"  # of every rank that used NCCL: `cluster.measure.groups` names them
SHARED_LOG = "nccl.json"  # what they say, in a shared run
TOPOLOGY, ENDING, SHARED = "topology.", ".txt", ".json"


def rank_processes(raw: Path) -> tuple[RankProcess, ...]:
    """Read what each rank wrote about its process, in their order; a killed one may lack it."""
    paths = raw.glob(PROCESS_FILE.format(rank="*"))
    processes = (decoders.decode_file(path, RankProcess) for path in paths)
    return tuple(sorted(filter(None, processes), key=lambda process: process.rank))


def nccl_log(raw: Path) -> NcclLog | None:
    """Read what NCCL's logs of all ranks say; none if there are none."""
    if log := decoders.decode_file(raw / SHARED_LOG, NcclLog):
        return log
    details = _details(sorted(raw.glob(LOGS)), "nccl_log")
    return next((detail for detail in details if isinstance(detail, NcclLog)), None)


def topologies(raw: Path) -> dict[str, Topology]:
    """Read how the GPUs of each host are connected, as far as it is known."""
    by_host: dict[str, Topology] = {}
    for path in sorted(raw.glob(f"{TOPOLOGY}*")):
        host = path.name.removeprefix(TOPOLOGY).removesuffix(path.suffix)
        if path.suffix == SHARED and (topology := decoders.decode_file(path, Topology)):
            by_host[host] = topology
        elif path.suffix == ENDING:
            for detail in _details([path], "topology"):
                if isinstance(detail, Topology):
                    by_host[host] = detail
    return by_host


def _details(paths: list[Path], format_: str) -> Iterator[object]:
    """Read what files say besides measurements, as if they were one; nothing if none says any."""
    if not paths:
        return
    from cluster.logs import reader  # noqa: PLC0415 - rarely needed

    try:
        reading = reader.read((path.read_bytes() for path in paths), format_)
    except (OSError, ParseError):
        return
    for result in reading.results:
        yield result.detail
