"""How runs, tables and JSON are shown."""

from __future__ import annotations

import re
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from rich.text import Text

from cluster.agent.hardware.gpus import BUILT
from cluster.cli import flags
from cluster.cli.console import console
from cluster.cli.terminal import json_printable, printable
from cluster.core import decoders, plugins
from cluster.core.errors import SpecError
from cluster.core.model.hang import HangAnswer
from cluster.core.model.resources import Plan
from cluster.core.model.results.measurements import Planned, Summary
from cluster.core.model.results.records import Status
from cluster.core.model.value import Value
from cluster.core.text.units import dollars, format_seconds
from cluster.reports.formats import Report
from cluster.reports.formats.terminal import summaries_text, table_text, wrap_line
from cluster.reports.logbook import expectation_lines, missing_series
from cluster.reports.table import Columns, Table, make_table
from cluster.reports.words.findings import FindingAnswer, finding_lines, finding_words
from cluster.reports.words.hang import answer_line
from cluster.reports.words.limits import doubt_notes
from cluster.reports.words.notes import note_words
from cluster.reports.words.verdict import Answer, SummaryAnswer, answer, summary_answers
from cluster.runs.dumps import newest_hang
from cluster.runs.run import PROFILES, RAW, Run, judge_launches
from cluster.runs.store import read

if TYPE_CHECKING:
    from cluster.analysis.verdict.evidence import Sign
    from cluster.orchestration.cluster import Cluster


T = TypeVar("T")
MOST_ROWS = 500  # of a table on the screen: nobody reads more, and each takes a millisecond
VERDICT_STYLES = {  # PLAUSIBLE and UNKNOWN are plain
    **dict.fromkeys(("normal", "healthy", "faster"), "bold green"),
    **dict.fromkeys(("low", "slower"), "bold yellow"),
    **dict.fromkeys(("impossible", "failed", "faulty"), "bold red"),
}


class RunAnswer(Value, frozen=True, kw_only=True):
    """What `--json` prints."""

    run: str
    status: Status
    reason: str
    notes: tuple[str, ...]
    findings: tuple[FindingAnswer, ...]
    summaries: tuple[SummaryAnswer, ...]
    missing: tuple[Planned, ...] = ()
    verdict: str = ""
    answer: str = ""
    hang: HangAnswer | None = None  # of the newest look at its ranks


def show_newest_run(cluster: Cluster, *, as_json: bool) -> Answer | None:
    if not cluster.state.jobs:
        return None
    record, _ = cluster.job()
    return show_run(read(Path(record.run)), as_json=as_json)


def show_run(
    run: Run,
    *,
    as_json: bool,
    report: str = "terminal",
    wide: bool = False,
    file: Path | None = None,
) -> Answer | None:
    if run.status in ("planned", "running") and not as_json:
        name = run.record.spec.name
        sys.stdout.write(f"It runs. Then: cluster wait {name}; cluster fetch {name}\n")
        sys.stdout.write(f"Run folder: {relative_path(run.folder)}\n")
        return None
    summaries, signs, judgement = judge_launches([run])
    conclusion = answer(judgement)
    if as_json:
        run_answer = RunAnswer(
            verdict=conclusion.word,
            answer=conclusion.line,
            run=str(file or run.folder),
            status=run.status,
            reason=run.record.reason,
            notes=notes_of(run, summaries),
            findings=tuple(map(finding_words, signs)),
            missing=run.missing,
            summaries=summary_answers(summaries),
            hang=newest_hang(run.folder)[1],
        )
        print_json(run_answer)
        return conclusion
    if report == "terminal":
        place = f"Shared run: {file}" if file else f"Run folder: {relative_path(run.folder)}"
        _show_on_screen(run, summaries, conclusion, signs, place, wide=wide)
        return conclusion
    content = plugins.load(Report, report).render(summaries, notes=notes_of(run, summaries))
    if isinstance(content, bytes):
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
    else:
        sys.stdout.write(content)
    return conclusion


def _show_on_screen(
    run: Run,
    summaries: tuple[Summary, ...],
    conclusion: Answer,
    signs: tuple[Sign, ...],
    place: str,
    *,
    wide: bool,
) -> None:
    """Show tables, findings and where the run is, as wide as the terminal; the answer last."""
    width = None if wide else screen_width()
    sys.stdout.write(summaries_text(summaries[:MOST_ROWS], notes_of(run, summaries), width))
    if len(summaries) > MOST_ROWS:
        print_lines(
            f"These are {MOST_ROWS} of {len(summaries)} series. All of them: cluster show "
            f"{run.name} --json"
        )
    hosts_by_gpus: dict[str, list[str]] = {}
    for facts in run.record.environment:
        if facts.gpus:
            models = ", ".join(f"{count} x {model}" for model, count in Counter(facts.gpus).items())
            builds = {"true": "MPI with CUDA", "false": "MPI without CUDA"}
            mpi = builds.get(facts.mpi_flags.get(BUILT, ""), "")
            words = (models, f"driver {facts.gpu_driver}", *facts.gpu_modules, mpi)
            text = ", ".join(filter(None, (*words, "paths in raw/topology.*.txt")))
            hosts_by_gpus.setdefault(text, []).append(facts.host)
    print_lines(*(f"GPUs of {', '.join(hosts)}: {text}" for text, hosts in hosts_by_gpus.items()))
    print_lines(*finding_lines(signs))
    reason = f": {run.record.reason}" if run.record.reason else ""
    print_lines(f"{place} ({run.status}{reason})")
    _show_profiles(run)
    print_lines(*hang_lines(run))
    for verdict in conclusion.verdicts:
        if verdict.usual_source and verdict.usual is not None:
            usual = f"{verdict.usual:.0%} or more; {verdict.usual_source}"
            print_lines(f"Usual for {verdict.metric}: {usual}")
        if verdict.published is not None:
            print_lines(f"For {verdict.metric}, {verdict.published.text}")
    print_judgement(conclusion)


def hang_lines(run: Run) -> list[str]:
    """Say which rank the others waited for when somebody last looked."""
    time, answer = newest_hang(run.folder)
    return [printable(f"cluster hang, {time}: {answer_line(answer)}")] if answer else []


def screen_width() -> int | None:
    """Return width of the terminal in characters; None if standard output is a pipe or a file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_lines(*lines: str) -> None:
    """Print lines; on a terminal they wrap between words, so that no number is split."""
    width = screen_width()
    parts = [part for line in lines for part in wrap_line(line, width)]
    sys.stdout.write("".join(f"{part}\n" for part in parts))


def _show_profiles(run: Run) -> None:
    profiles = len(list((run.folder / RAW).rglob(PROFILES)))
    if profiles:
        print_lines(f"MPI profiles: {profiles}; show them: cluster more profile {run.name}")
    elif "LD_PRELOAD" in run.record.variables:
        print_lines("No MPI profile was written: no rank came to MPI_Finalize.")


def print_judgement(conclusion: Answer) -> None:
    """Print the verdict and the line that explains it, in colour on a terminal."""
    line = Text("\n".join(wrap_line(printable(conclusion.line), screen_width())))
    line.highlight_words([conclusion.verdict], VERDICT_STYLES.get(conclusion.word, "none"))
    console(quiet=False).print(line, soft_wrap=True)


def notes_of(run: Run, summaries: Sequence[Summary]) -> tuple[str, ...]:
    expected = expectation_lines(summaries, run.record.expected)
    gaps = missing_series(run.record, run.missing)
    notes = map(note_words, run.record.notes)
    return (*notes, *run.warnings, *gaps, *doubt_notes(summaries), *expected)


def relative_path(path: Path) -> Path:
    """Return an absolute path as a user would type it: relative below the working directory."""
    folder = Path.cwd()
    return path.relative_to(folder) if path.is_relative_to(folder) else path


def show_plan(plan: Plan, *, as_json: bool) -> None:
    if as_json:
        print_json(plan)
    else:
        print_lines(*plan.lines)


def receipt_lines(cluster: Cluster) -> list[str]:
    """Return the receipt of a cluster: what was proven; its cost, if any, and that 0 are left."""
    receipt = cluster.receipt()
    if receipt is None:
        return []
    proof = (f"Proven: {receipt.proven} host(s) before the first job, {receipt.replaced} replaced",)
    proven = proof if receipt.proven else ()
    if not cluster.costs:
        return [*proven]
    phases = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in cluster.phases.items())
    usage = f"{receipt.hosts} machine(s) for {format_seconds(receipt.seconds)}"
    if receipt.price is None or receipt.dollars is None:
        cost = f"{usage}, price unknown"
    else:
        hourly = f"${receipt.price.hourly:.4g} an hour each, {receipt.price.at}"
        cost = f"${receipt.dollars:.2f} for {usage} ({hourly})"
    if cluster.spec.max_cost is not None:
        cost += f", of at most ${cluster.spec.max_cost:g} (--max-cost)"
    if receipt.ended:
        cost = f"at most {cost}; {receipt.ended} of them had ended before, and it is not known when"
    groups = (
        f"  {part.group}: {part.spec.hosts} x {part.spec.instance}: "
        f"${dollars(price, part.spec.hosts, receipt.seconds):.2f} "
        f"(${price.hourly:.4g} an hour each)"
        for part in cluster.spec.parts
        if (price := cluster.state.prices.get(part.group))
    )
    answer = f"{cluster.name} is down; 0 left (looked for {cluster.looked_for})."
    return [f"Receipt: {phases}", f"Cost: {cost}", *groups, *proven, answer]


def print_json(value: object) -> None:
    sys.stdout.write(json_printable(decoders.encode_indented(value).decode()))


def show_rows(
    items: Sequence[T], columns: Columns[T], *, empty: str, as_json: bool = False
) -> None:
    if as_json:
        print_json(items)
    elif not items:
        print_lines(*empty.splitlines())
    else:
        content = make_table("", items, columns)
        rows = tuple(tuple(map(printable, row)) for row in content.rows)
        content = msgspec.structs.replace(content, rows=rows, left_aligned=content.columns)
        print_table(content)


def print_table(table: Table) -> None:
    """Print a table, as wide as the terminal, there with the verdicts in colour."""
    text = Text()
    column = slice(0, 0)
    for line in printable(table_text(table, screen_width())).splitlines(keepends=True):
        row = Text(line)
        if not column.stop and (header := re.search(r"\bverdict\b *", line)):
            column = slice(*header.span())
        for match in re.finditer(r"[a-zA-Z]+", line[column]):
            style = VERDICT_STYLES.get(match[0].lower(), "")
            row.stylize(style, column.start + match.start(), column.start + match.end())
        text.append_text(row)
    console(quiet=False).print(text, soft_wrap=True, end="")


class LaunchesAnswer(Value, frozen=True, kw_only=True):
    """What `--launches N --json` prints: `summaries` are of the medians of the launches."""

    run: str
    runs: tuple[str, ...]
    status: Status
    reason: str
    verdict: str
    answer: str
    notes: tuple[str, ...]
    summaries: tuple[SummaryAnswer, ...]


def show_launches(runs: Sequence[Run], *, as_json: bool) -> Answer:
    """Show the launches of one command, the oldest first, together: medians and one verdict."""
    from cluster.reports.tables import launches_table  # noqa: PLC0415 - for several only
    from cluster.reports.words.launches import launch_notes  # noqa: PLC0415

    newest = runs[-1]
    record = newest.record
    summaries, signs, judgement = judge_launches(runs)
    conclusion = answer(judgement)
    hosts = len({machine.address for machine in record.machines}) or 1
    ranks = record.spec.hosts * record.spec.ranks_per_host // hosts
    notes = tuple(launch_notes(summaries, len(runs), ranks, record.environment))
    if as_json:
        print_json(
            LaunchesAnswer(
                run=str(newest.folder),
                runs=tuple(str(run.folder) for run in runs),
                status=newest.status,
                reason=record.reason,
                verdict=conclusion.word,
                answer=conclusion.line,
                notes=(*notes, *notes_of(newest, summaries)),
                summaries=summary_answers(summaries),
            )
        )
        return conclusion
    show_tables([launches_table(summaries, len(runs), notes)], "terminal")
    print_lines(*(f"Note: {note}" for note in notes_of(newest, summaries)))
    for number, run in enumerate(runs, 1):
        print_lines(f"Launch {number}: {relative_path(run.folder)} ({run.status})")
    for sign in signs[:1]:
        name = finding_words(sign).name
        print_lines(f"What to look at: {name}. Details: cluster judge {newest.folder.name}")
    print_judgement(conclusion)
    return conclusion


def show_tables(tables: Sequence[Table], report: str, answer: object = None) -> None:
    """Show tables on standard output in a format (SpecError); `json` prints the answer."""
    check_format(report)
    if report == "json":
        print_json(answer)
        return
    match report:
        case "html":
            from cluster.reports.html_page import (  # noqa: PLC0415 - slow: it imports all plots
                Page,
                PageSection,
                render_page,
            )

            sections = tuple(PageSection(title=t.title, tables=(t,)) for t in tables)
            texts = [render_page(Page(title="cluster", verdicts=(), sections=sections))]
        case "csv":
            from cluster.reports.formats.csv import table_csv  # noqa: PLC0415

            texts = [table_csv(table) for table in tables]
        case "markdown":
            from cluster.reports.formats.markdown import table_markdown  # noqa: PLC0415

            texts = [table_markdown(table) for table in tables]
        case _:
            for number, table in enumerate(tables):
                sys.stdout.write("\n" if number else "")
                print_table(table)
            return
    sys.stdout.write("\n".join(texts))


def check_format(report: str) -> None:
    if report not in flags.FORMATS:
        raise SpecError(
            f"There is no format {report!r} for this.",
            remedy=f"There are: {', '.join(flags.FORMATS)}",
        )
