"""A report of runs: results first, then pictures, tables, the environment and the files."""

import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from cluster.analysis.limits.link import with_given_bound
from cluster.analysis.models.efficiency import training_scaling
from cluster.analysis.models.fit import fit, fits, params_but_size, sweeps
from cluster.analysis.statistics.compare import Comparison, Launch, Side, compare, group_by
from cluster.analysis.statistics.factors import factors
from cluster.analysis.statistics.summarize import pool_launches
from cluster.analysis.verdict.evidence import Sign
from cluster.analysis.verdict.judgement import judge_launches
from cluster.core.model.network.fleet import FleetVerdict, PairTest
from cluster.core.model.results.limits import Limit
from cluster.core.model.results.measurements import Definition, Summary
from cluster.core.model.results.records import Record
from cluster.core.model.value import Value
from cluster.core.text.units import format_point, format_value
from cluster.reports import plots
from cluster.reports.html_page import Page, PageLink, PageSection
from cluster.reports.logbook import best_per_metric
from cluster.reports.plots import Curve
from cluster.reports.table import Column, Columns, Table, ends_text, make_table, summaries_table
from cluster.reports.tables import comparison_tables, findings_table, fits_table, scaling_table
from cluster.reports.words.comparison import headline
from cluster.reports.words.findings import FindingAnswer, finding_words
from cluster.reports.words.limits import doubt_notes
from cluster.reports.words.notes import note_words
from cluster.reports.words.verdict import Answer, answer

BAD = ("impossible", "low")  # verdicts on top of any page, the worst first; failures are warnings
FEW = 4  # up to this number of runs, all results are unfolded, with their answers on top
MANY = 10  # from this number of runs, there is a table to filter and sort
READ_POINTS = (
    "To read a point's values, touch it or point at it; with a keyboard, press Tab to reach a "
    "line, then the arrow keys to move along it."
)
MOST_FITS = 3  # conditions with fitted lines: more lines would hide the points


class ReportRun(Value, frozen=True, kw_only=True):
    name: str
    record: Record
    summaries: tuple[Summary, ...]
    warnings: tuple[str, ...] = ()
    links: tuple[PageLink, ...] = ()
    findings: tuple[Sign, ...] = ()
    judgement: Answer | None = None
    fleet: FleetVerdict | None = None
    pairs: tuple[PairTest, ...] = ()


def report_page(
    runs: Sequence[ReportRun], comparisons: Sequence[Comparison] = (), *, no_plots: str = ""
) -> Page:
    single = len(runs) == 1
    no_plots = no_plots and f"No plots: {no_plots}"
    title = runs[0].name if single else f"{len(runs)} runs"
    return Page(
        title=f"cluster report: {title}",
        answers=answers(runs),
        verdicts=tuple(headline(single) for single in comparisons) or tuple(_verdicts(runs)),
        warnings=tuple(warning for run in runs for warning in _wrong(run)),
        index=_index(runs) if len(runs) >= MANY else None,
        sections=(
            *(_comparison(number, pair, no_plots) for number, pair in enumerate(comparisons)),
            *(_fleet(run, run.fleet, no_plots) for run in runs if run.fleet),
            *_steps(runs, no_plots),
            *_efficiency(runs, no_plots),
            *_sweeps(runs, no_plots),
            *(_results(run, is_folded=len(runs) > FEW) for run in runs),
            _environment(runs),
        ),
    )


def answers(runs: Sequence[ReportRun]) -> tuple[Answer, ...]:
    """Judge the runs, launches of one command together; of more than four, those that are bad."""
    groups: dict[str, list[ReportRun]] = {}
    for run in runs:
        groups.setdefault(run.record.launch_of or run.name, []).append(run)
    by_name = {
        group[0].name: group[0].judgement
        if len(group) == 1
        else answer(
            judge_launches([run.summaries for run in group], group[-1].record, group[-1].findings)
        )
        for group in groups.values()
    }
    judgements = [
        msgspec.structs.replace(judgement, about=name if len(groups) > 1 else "")
        for name, judgement in by_name.items()
        if judgement is not None and (len(groups) <= FEW or judgement.word in BAD)
    ]
    return tuple(sorted(judgements, key=lambda a: BAD.index(a.word) if a.word in BAD else len(BAD)))


def _index(runs: Sequence[ReportRun]) -> Table:
    columns: Columns[ReportRun] = (
        Column("run", lambda run: run.name, words=True),  # it links to the section of this title
        Column("verdict", lambda r: r.judgement.verdict if r.judgement else "", words=True),
        Column("condition", lambda run: run.record.condition, words=True),
        Column("status", lambda run: run.record.status, words=True),
        Column("answer", lambda r: r.judgement.answer if r.judgement else "", words=True),
        Column("benchmark", lambda run: run.record.benchmark, words=True),
        Column("started (UTC)", lambda run: _format_start(run.record), words=True),
    )
    return make_table(f"{len(runs)} runs", runs, columns)


def _format_start(record: Record) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(record.at))


def comparisons(runs: Sequence[ReportRun], factor: str | None = None) -> list[Comparison]:
    """Compare groups of runs with the first: by a factor, by condition, or two runs."""
    launches = [Launch(record=run.record, summaries=run.summaries) for run in runs]
    if factor is not None:
        groups = group_by(launches, factor)
    elif len({run.record.condition for run in runs} - {""}) > 1:
        groups = group_by(launches, "condition")
    elif len(runs) == 2:  # noqa: PLR2004 - one against the other
        pairs = zip(runs, launches, strict=True)
        groups = tuple(Side(name=run.name, launches=(launch,)) for run, launch in pairs)
    else:
        return []
    return [compare(groups[0], other) for other in groups[1:]]


def compare_with_network(run: ReportRun, rate: float) -> ReportRun:
    """Compute a run's bounds from what the user's network carries one way, in B/s."""
    spec, definitions = run.record.spec, run.record.definitions
    ranks = spec.hosts * spec.ranks_per_host
    limit = Limit(kind="given", rate=rate)
    summaries = tuple(
        with_given_bound(s, definitions[s.definition], limit, spec.hosts, ranks)
        for s in run.summaries
    )
    return msgspec.structs.replace(run, summaries=summaries)


def _verdicts(runs: Sequence[ReportRun]) -> Iterator[str]:
    """Return the results of each run if there are few, else the number of runs per status."""
    if len(runs) > FEW:
        words = Counter(run.judgement.verdict if run.judgement else "-" for run in runs)
        yield f"{len(runs)} runs: {', '.join(f'{n} {word}' for word, n in words.most_common())}"
        return
    for run in runs:
        several = f"{run.name}: " if len(runs) > 1 else ""
        yield from (several + line for line in headlines(run))


def headlines(run: ReportRun) -> Iterator[str]:
    """Return the best result of each metric of a run: the shortest time, or the highest rate."""
    for best in best_per_metric(run.summaries):
        ends = f"95% CI, this launch, {ends_text(best.ci, best.unit)}" if best.ci else "no interval"
        share = "" if best.share is None else f"; {best.share:.1%} of its limit"
        point = format_point(best.params)
        median = format_value(best.median, best.unit)
        yield f"{best.metric} {point}: {median} ({ends}){share}"


def _wrong(run: ReportRun) -> Iterator[str]:
    if run.record.status != "done":
        reason = f": {run.record.reason}" if run.record.reason else ""
        yield f"{run.name} is {run.record.status}{reason}"
    yield from (f"{run.name}: {doubt}" for doubt in doubt_notes(run.summaries))


def _comparison(number: int, comparison: Comparison, no_plots: str) -> PageSection:
    can_be_drawn = not no_plots and any(cell.ratio for cell in comparison.cells)
    return PageSection(
        title=f"{comparison.other} against {comparison.base}",
        pictures=(plots.comparison(comparison, prefix=f"c{number}"),) if can_be_drawn else (),
        tables=comparison_tables(comparison),
        notes=tuple(filter(None, [no_plots])),
    )


def _fleet(run: ReportRun, verdict: FleetVerdict, no_plots: str) -> PageSection:
    names = tuple(machine.name for machine in run.record.machines)
    pictures = () if no_plots else plots.pair_map(run.pairs, names, verdict)
    return PageSection(
        title=f"Pairs of hosts: {run.name}",
        pictures=pictures,
        tables=(findings_table(verdict),) if verdict.findings else (),
        notes=tuple(filter(None, [verdict.answer, no_plots])),
    )


def _sweeps(runs: Sequence[ReportRun], no_plots: str) -> Iterator[PageSection]:
    by_metric = curves(runs)
    line_fits = fits(runs[0].summaries) if len(runs) == 1 else ()
    if by_metric:
        yield PageSection(
            title="Over message size",
            pictures=tuple(
                plots.sweep(group, prefix=f"s{number}")
                for number, group in enumerate(by_metric.values())
                if not no_plots and any(curve.points for curve in group)
            ),
            tables=(fits_table(line_fits),) if line_fits else (),
            notes=(no_plots or READ_POINTS,),
        )


def _steps(runs: Sequence[ReportRun], no_plots: str) -> Iterator[PageSection]:
    for number, run in enumerate(runs):
        parts = plots.step_parts(run.summaries)
        if parts:
            yield PageSection(
                title=f"Steps of training: {run.name}",
                pictures=() if no_plots else (plots.steps(parts, prefix=f"t{number}"),),
                tables=(),
                notes=tuple(filter(None, [no_plots])),
            )


def _efficiency(report_runs: Sequence[ReportRun], no_plots: str) -> Iterator[PageSection]:
    runs = [Launch(record=run.record, summaries=run.summaries) for run in report_runs]
    if scaling := training_scaling(runs):
        yield PageSection(
            title="Efficiency of training",
            pictures=() if no_plots else (plots.scaling([scaling], prefix="e0"),),
            tables=(scaling_table(scaling),),
            notes=(no_plots or "Shaded: from no overlap of the exchange with computing to all.",),
        )


def curves(runs: Sequence[ReportRun]) -> dict[str, list[Curve]]:
    """Return a curve over message sizes per metric, condition and series, with fits of a few."""
    names = labels(runs)
    few = len(set(names)) <= MOST_FITS
    launches: dict[tuple[str, ...], list[tuple[Summary, ...]]] = {}
    for name, run in zip(names, runs, strict=True):
        for sweep in sweeps(run.summaries):
            first = sweep[0]
            words = ", ".join(filter(None, [name, format_point(params_but_size(first))]))
            launches.setdefault((first.metric, words, first.definition), []).append(sweep)
    by_metric: dict[str, list[Curve]] = {}
    for (metric, name, _), group in launches.items():
        whole = tuple(sorted(pool_launches(group), key=lambda s: int(s.params["size"])))
        curve = plots.Curve(
            name=name, summaries=whole, launches=len(group), fit=fit(whole) if few else None
        )
        by_metric.setdefault(metric, []).append(curve)
    return by_metric


def labels(runs: Sequence[ReportRun]) -> list[str]:
    """Return each run's shortest name that tells it from others: condition, cluster or own."""
    clusters = Counter(run.record.spec.name for run in runs)
    first = {run.record.launch_of or run.name: run for run in reversed(runs)}
    several = len({run.record.spec.name for run in runs if run.record.condition}) > 1
    names = []
    for run in (first[run.record.launch_of or run.name] for run in runs):
        name, condition = run.record.spec.name, run.record.condition
        if condition:
            names.append(f"{name}, {condition}" if several else condition)
        else:
            names.append(name if clusters[name] == 1 else run.name)
    return names


def _results(run: ReportRun, *, is_folded: bool) -> PageSection:
    record = run.record
    title = f"{record.benchmark}, {_format_start(record)} UTC"
    notes = (*map(note_words, record.notes), *run.warnings)
    table = summaries_table(run.summaries, title=title, notes=notes)
    command = f"Command: {shlex.join(record.argv)}" if record.argv else ""
    ranks = f"Ranks were started with: {shlex.join(record.command)}" if record.command else ""
    return PageSection(
        title=run.name,
        word=run.judgement.verdict if run.judgement else "",
        tables=(table, *_troubles(run.findings)),
        notes=tuple(filter(None, (command, ranks))),
        links=run.links,
        is_folded=is_folded,
    )


def _troubles(findings: Sequence[Sign]) -> Iterator[Table]:
    columns: Columns[FindingAnswer] = (
        Column("trouble", lambda finding: finding.name, words=True),
        Column("confidence", lambda finding: finding.confidence, words=True),
        Column("evidence", lambda finding: finding.evidence, words=True),
        Column("remedy", lambda finding: finding.remedy, words=True),
        Column("the run that would confirm it", lambda finding: finding.confirm, words=True),
    )
    if findings:
        yield make_table("What to look at", map(finding_words, findings), columns)


def _environment(runs: Sequence[ReportRun]) -> PageSection:
    environments = [dict(factors(run.record)) for run in runs]
    names = dict.fromkeys(name for run in environments for name in run)
    values = {name: sorted({run.get(name, "") or "-" for run in environments}) for name in names}
    definitions = {d.id: d for run in runs for d in run.record.definitions.values()}
    of_factor: Columns[str] = (
        Column("factor", str, words=True),
        Column("value", lambda name: " | ".join(values[name]), words=True),
    )
    of_definition: Columns[Definition] = (
        Column("definition", lambda definition: definition.id, words=True),
        Column("what", lambda definition: definition.what, words=True),
        Column("clock", lambda definition: definition.clock, words=True),
        Column("warm-up", lambda definition: definition.warm_up, words=True),
        Column("aggregation", lambda definition: definition.aggregation, words=True),
    )
    rows = [name for name in values if values[name] != ["-"]]
    left_out = "Facts that no host reports and flags that were not given are left out."
    return PageSection(
        title="Environment and definitions",
        tables=(
            make_table("What was run, and on what", rows, of_factor, (left_out,)),
            make_table("What the metrics are", definitions.values(), of_definition),
        ),
    )
