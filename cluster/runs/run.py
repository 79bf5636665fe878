"""One run: its record, values, summaries, verdict, plots and report."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import msgspec

from cluster.core import decoders
from cluster.core.errors import SpecError
from cluster.core.files import write_file
from cluster.core.model.fleet import FleetVerdict
from cluster.core.model.hosts import Layout, Link, Machine
from cluster.core.model.logs import Parsed
from cluster.core.model.measurements import Measurement, Planned, Summary
from cluster.core.model.records import Record, Status
from cluster.core.model.value import Value
from cluster.reports.words.notes import note_words
from cluster.runs.raw_files import nccl_log, rank_processes, topologies

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from cluster.analysis.limits.link import Route
    from cluster.analysis.models.step_limits import TrainingVerdict
    from cluster.analysis.verdict.evidence import Evidence, Sign
    from cluster.analysis.verdict.judgement import Judgement
    from cluster.core.model.limits import Figure, Hardware
    from cluster.reports.html_page import PageLink
    from cluster.reports.page import ReportRun
    from cluster.reports.plots import Picture
    from cluster.reports.words.verdict import Answer
    from cluster.runs.frames import Rows


RAW = "raw"
PAIRS = "pairs"  # the benchmark that measures pairs of hosts
WITHIN = "within"  # the benchmark that measures pairs of devices of each host
RECORD = "run.json"
MEASUREMENTS = "measurements.jsonl"


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
        """The status of the run."""
        return self.record.status

    def summary(self) -> tuple[Summary, ...]:
        """Summarize the raw values, by metric, point and series."""
        from cluster.analysis.limits.devices import with_hardware_bound  # noqa: PLC0415
        from cluster.analysis.limits.hardware import of_point  # noqa: PLC0415 - only for summaries
        from cluster.analysis.limits.rates import with_rates  # noqa: PLC0415
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
            hardware: of the hosts: a name or settings, such as `p4d.24xlarge` or `nic=100gbit`; by
                default, what the run recorded.

        Returns:
            The verdict of the run, in one word and in one line, and a verdict per series.

        Raises:
            SpecError: there is no such hardware.
        """
        from cluster.analysis.limits.hardware import find  # noqa: PLC0415 - only for summaries
        from cluster.reports.words.verdict import answer  # noqa: PLC0415

        board = find(hardware) if isinstance(hardware, str) else hardware
        summaries = self.summary()
        return answer(self.judgement(summaries, self.findings(summaries), board))

    def findings(self, summaries: tuple[Summary, ...]) -> tuple[Sign, ...]:
        """Find what may be wrong; nothing of a check of a fleet, whose verdict says it."""
        from cluster.analysis.verdict.diagnose import diagnose  # noqa: PLC0415 - only for summaries

        return () if self.fleet else diagnose(self.evidence(summaries))

    def judgement(
        self,
        summaries: Sequence[Summary],
        findings: Sequence[Sign],
        hardware: Hardware | None = None,
    ) -> Judgement:
        """Judge summaries of this run, as values."""
        from cluster.analysis.verdict.judgement import judge  # noqa: PLC0415 - only for summaries

        return judge(
            summaries, self.record, findings, hardware, fleet=self.fleet, training=self.training()
        )

    def training(self) -> TrainingVerdict | None:
        """Return what limits the training; none if the run is of something else, or ended early."""
        from cluster.analysis.models import step_limits  # noqa: PLC0415 - only for summaries

        if self.record.benchmark != step_limits.TRAINING:
            return None
        trained = step_limits.from_measurements(self.measurements, bytes(self.record.params))
        return step_limits.judge(trained) if trained else None

    def to_dict(self, kind: Rows = "values") -> dict[str, list[Any]]:
        """Return a table as columns: `pandas.DataFrame(run.to_dict())` and the like.

        Args:
            kind: `values` for all raw values, one row each; `summaries` for medians and intervals.

        Returns:
            Columns by name, all of the same length, with one column per parameter. Each row names
            the unit of its value. Values of a rate metric are rates, even if times were recorded.
        """
        from cluster.runs import frames  # noqa: PLC0415 - only for tables

        _check_kind(kind, ("values", "summaries"))
        if kind == "summaries":
            return frames.summary_columns(self.name, self.record, self.summary())
        return frames.value_columns(self.name, self.record, self.measurements)

    def to_pandas(self, kind: Rows = "values") -> pd.DataFrame:
        """Return the columns of `to_dict` as a frame of pandas (SpecError: it is not installed)."""
        from cluster.runs.frames import pandas_frame  # noqa: PLC0415 - pandas is optional

        return pandas_frame(self.to_dict(kind))

    def to_polars(self, kind: Rows = "values") -> pl.DataFrame:
        """Return the columns of `to_dict` as a frame of polars (SpecError: it is not installed)."""
        from cluster.runs.frames import polars_frame  # noqa: PLC0415 - polars is optional

        return polars_frame(self.to_dict(kind))

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

        Returns:
            The picture.

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
            path: Path of the page.

        Returns:
            Its absolute path.
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
        from cluster.reports.logbook import missing_series  # noqa: PLC0415
        from cluster.reports.page import ReportRun  # noqa: PLC0415 - it imports NumPy
        from cluster.reports.words.verdict import answer  # noqa: PLC0415

        summaries = self.summary()
        signs = self.findings(summaries)
        return ReportRun(
            name=self.name,
            record=self.record,
            summaries=summaries,
            findings=signs,
            judgement=answer(self.judgement(summaries, signs)),
            fleet=self.fleet,
            pairs=pair_tests(self.measurements) if self.fleet else (),
            warnings=(*self.warnings, *missing_series(self.record, self.missing)),
            links=tuple(self._links(page)),
        )

    def _links(self, page: Path) -> Iterator[PageLink]:
        from cluster.reports.html_page import PageLink  # noqa: PLC0415 - only for pages

        for name in (RECORD, MEASUREMENTS, RAW):
            if (self.folder / name).exists():
                target = quote(os.path.relpath(self.folder / name, page))
                yield PageLink(text=name, target=f"{target}/" if name == RAW else target)

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
            failed=record.status == "failed",
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
    from cluster.core.pcie import slot_bandwidth  # noqa: PLC0415

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
    from cluster.analysis.limits.speeds import link  # noqa: PLC0415 - only for summaries

    for facts in record.environment:
        for interface in facts.interfaces:
            if interface.address == machine.address:
                return link(interface)
    return None
