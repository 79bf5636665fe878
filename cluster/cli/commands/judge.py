"""Say whether the numbers of a run or log are normal.

Example: cluster judge all_reduce.log --hardware p4d.24xlarge --hosts 2
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from click.exceptions import Exit

from cluster.analysis.limits import hardware
from cluster.analysis.limits.network import FACTORS
from cluster.cli import flags, show
from cluster.cli.commands._log_files import progress
from cluster.cli.flags import argument, option
from cluster.cli.gates import GateFlags, Gates, judgement_cases, report_cases
from cluster.core.errors import SpecError
from cluster.core.model.hang import HangAnswer
from cluster.core.model.logs import NcclLog, Parsed, PeerAccess, Profile, Topology
from cluster.core.model.results.limits import Hardware
from cluster.core.model.results.records import Status
from cluster.core.model.spec import check_count
from cluster.core.model.value import Value
from cluster.core.state.files import is_there, read_file
from cluster.core.text.units import format_point, format_value
from cluster.reports.table import ends_text
from cluster.reports.words.findings import FindingAnswer, finding_lines, finding_words
from cluster.reports.words.limits import percentages
from cluster.reports.words.notes import note_words
from cluster.reports.words.verdict import (
    Answer,
    SeriesAnswer,
    SummaryAnswer,
    answer,
    summary_answers,
)
from cluster.runs import store
from cluster.runs.dumps import newest_hang
from cluster.runs.import_.logs import NAME, STDIN, LogLocation, keep, read_logs
from cluster.runs.run import Run, judge_launches
from cluster.runs.shared_file import is_shared

ORDER = ("impossible", "low", "normal", "plausible", "unknown")
MOST = 12  # series that are shown


class JudgeAnswer(Value, frozen=True, kw_only=True):
    """What `cluster judge --json` prints."""

    verdict: str
    answer: str
    run: str
    status: Status
    reason: str
    hardware: Hardware | None
    verdicts: tuple[SeriesAnswer, ...]
    findings: tuple[FindingAnswer, ...]
    notes: tuple[str, ...]
    summaries: tuple[SummaryAnswer, ...]
    launches: tuple[str, ...]
    hang: HangAnswer | None  # of the newest look at its ranks
    not_judged: str
    next_command: tuple[str, ...]


def command(  # noqa: PLR0913 - a parameter is a flag
    names: Annotated[
        list[str] | None,
        argument(
            "RUN|LOG...|-",
            "A run (latest, id, folder, cluster), or logs; - is stdin.  [default: latest]",
        ),
    ] = None,
    hardware_: Annotated[
        str | None,
        option(
            "--hardware NAME|WORDS|FILE.toml",
            "An instance type, a GPU model, or words: nic=100gbit,nics=4,gpus=8,gpu=a100.  "
            "[default: what the run or log says]",
            autocompletion=hardware.names,
        ),
    ] = None,
    hosts: Annotated[
        int | None, option("--hosts", "Number of hosts.  [default: what the log says]")
    ] = None,
    operation: Annotated[
        str,
        option(
            "--operation",
            "The collective of a log: all_reduce, broadcast.  [default: what the log says]",
            autocompletion=lambda: tuple(FACTORS),
        ),
    ] = "",
    format_: flags.LogFormat = "",
    keeps: Annotated[bool, option("--keep", "Keep the logs as a run.")] = False,
    name: flags.RunName = "",
    *,
    root: flags.Runs = None,
    json: flags.Json = False,
    gates: GateFlags,
) -> None:
    names = names or [flags.LATEST]
    lone = {"hosts": hosts, "format": format_, "operation": operation, "keep": keeps, "name": name}
    named_hardware = None if hardware_ is None else find_hardware(hardware_)
    # Logs, and not the name of a run.
    if not any(n == STDIN or (is_there(n) and not is_shared(Path(n))) for n in names):
        runs = [store.read(f) for f in _folders(names, root, lone)]
        path = Path(names[0])
        place = path if is_shared(path) else runs[-1].folder
        raise Exit(_show(runs, named_hardware, gates, as_json=json, place=place))
    if operation and operation not in FACTORS:
        raise SpecError(
            f"There is no collective {operation!r}.", remedy=f"Name one of {', '.join(FACTORS)}."
        )
    location = LogLocation(
        hardware=named_hardware,
        hosts=0 if hosts is None else check_count("hosts", hosts),
        operation=operation,
    )
    if not keeps and (name or root):
        raise SpecError(
            f"--{'name' if name else 'runs'} has no effect on logs that are not kept.",
            remedy=f"Add --keep, or leave it out: cluster judge {names[0]}",
        )
    reading = read_logs(
        names, name=name or NAME, format_=format_, stdin=sys.stdin.buffer, place=location
    )
    with progress(names), reading as logs:
        run = keep(logs, store.root(root)) if keeps else logs.run
    raise Exit(_show([run], None, gates, as_json=json, place=run.folder if keeps else None))


def _folders(
    names: Sequence[str], root: str | None, lone: Mapping[str, int | str | None]
) -> list[Path]:
    """Find the one run, or the launches, that are named; refuse flags that are for logs."""
    if len(names) != 1:
        raise SpecError(
            f"{len(names)} names were given, and none is a file.",
            remedy="Judge one run at a time, or name log files: cluster judge latest",
        )
    for flag, value in lone.items():
        if value:
            raise SpecError(
                f"--{flag} is for logs, and {names[0]!r} is not a file.",
                remedy=f"Leave it out: cluster judge {names[0]}",
            )
    runs_root = store.root(root)
    try:
        return store.find_launches(runs_root, names[0])
    except SpecError as error:
        if is_shared(Path(names[0])):  # one that is damaged, or too new
            raise
        folder = Path(names[0]).is_dir()
        raise SpecError(
            f"{names[0]} is a folder, but not of a run; a log is a file."
            if folder
            else f"There is neither a file nor a run {names[0]!r}.",
            means=f"Runs are looked for in {runs_root}, by folder, id, cluster or 'latest'.",
            remedy="List them: cluster runs. To judge a log, name its file: cluster judge LOG",
        ) from error


def _show(
    runs: Sequence[Run], board: Hardware | None, gates: Gates, *, as_json: bool, place: Path | None
) -> int:
    """Show the judgement of a run, or of several launches together; return the exit status."""
    run = runs[-1]
    summaries, signs, judgement = judge_launches(runs, board)
    conclusion = answer(judgement)
    if as_json:
        show.print_json(
            JudgeAnswer(
                verdict=conclusion.word,
                answer=conclusion.line,
                run=str(run.folder) if place else "",
                status=run.status,
                reason=run.record.reason,
                hardware=board or run.record.hardware,
                verdicts=conclusion.verdicts,
                findings=tuple(map(finding_words, signs)),
                notes=show.notes_of(run, summaries),
                summaries=summary_answers(summaries),
                launches=tuple(str(launch.folder) for launch in runs) if place else (),
                hang=newest_hang(run.folder)[1] if place else None,
                not_judged=conclusion.not_judged,
                next_command=conclusion.next_command,
            )
        )
    else:
        launches = f"{len(runs)} launches" if len(runs) > 1 else ""
        lines = [*_lines(run, conclusion, launches)]
        if conclusion.not_judged:
            small = "too small a message to fill the link or memory"
            lines.append(f"Not judged: {conclusion.not_judged}: {small}.")
        lines += finding_lines(signs)
        lines += show.hang_lines(run) if place else []
        lines += [f"Note: {note}" for note in (*map(note_words, run.record.notes), *run.warnings)]
        if kind := board or run.record.hardware:
            gpus = f", {kind.gpus} x {kind.gpu}" if kind.gpus else ""
            lines.append(f"Hardware: {kind.name}{gpus}")
        if place is None:
            lines.append("Not kept as a run, to compare or report: --keep keeps it.")
        elif place.is_dir():
            folder = show.relative_path(place)
            lines.append(f"Run folder: {folder}; all values: cluster show {place.name}")
        else:
            lines.append(f"Shared run: {place}; all values: cluster show {place}")
        show.print_lines(*lines)
        show.print_judgement(conclusion)
    return report_cases(gates, list(judgement_cases(run.name, conclusion)))


def find_hardware(text: str) -> Hardware:
    """Find hardware by a name or words, as `hardware.find`, or in a TOML file (SpecError)."""
    if not text.endswith(".toml"):
        return hardware.find(text)
    return hardware.in_toml(read_file(text), text)


def _lines(run: Run, conclusion: Answer, launches: str) -> Iterator[str]:
    """Return the verdict first, then a few lines for each series, the worst first."""
    verdicts = conclusion.verdicts
    yield conclusion.headline
    for finding in run.fleet.findings if run.fleet else ():
        label = " ".join(filter(None, (finding.kind, finding.part, finding.direction)))
        yield f"  {label}: {finding.evidence}"
    for result in run.results:
        yield from (f"  FAILED: {result.title}: {failure}" for failure in result.failures)
        yield from detail_lines(result)
    ranking = sorted(
        (v for v in verdicts if v.median), key=lambda verdict: ORDER.index(verdict.word)
    )
    several = len({verdict.benchmark for verdict in verdicts}) > 1
    for verdict in ranking[:MOST]:
        yield from _series(verdict, launches, several=several)
    if len(ranking) > MOST:
        yield f"{len(ranking) - MOST} more series, none of them worse: --json lists all."


def detail_lines(result: Parsed) -> Iterator[str]:
    """Describe what a log holds beside measurements, a line each."""
    log = result.detail
    if isinstance(log, NcclLog):
        pairs = ((e.source, e.target, "/".join(e.via.split("/")[:2])) for e in log.edges)
        links = Counter(via for _, _, via in dict.fromkeys(pairs))
        routes = ", ".join(f"{number} link(s) via {via}" for via, number in links.most_common())
        ranks = f"{log.size} ranks" if log.size else ""
        ranks += f" on {log.nodes} host(s)" if log.nodes else ""
        content = ": ".join(filter(None, (result.title, ranks, routes or "no links are named")))
        yield f"  {content}; see cluster more topology LOG"
    elif isinstance(log, Profile):
        share = f", {log.communication / log.elapsed:.0%} of it in MPI" if log.elapsed else ""
        yield (
            f"  Profile of rank {log.rank} of {log.size}: {log.elapsed:.4g} s{share}; "
            "see cluster more profile LOG"
        )
    elif isinstance(log, Topology):
        gpus = sum(device.is_gpu for device in log.devices)
        yield f"  Topology of {gpus} GPU(s); see cluster more topology LOG"
    elif isinstance(log, PeerAccess):
        yield f"  Peer access of {len(log.devices)} GPU(s); see cluster more topology LOG"


def _median(verdict: SeriesAnswer, launches: str) -> str:
    value = format_value(verdict.median, verdict.unit)
    basis = [f"median of {launches or f'{verdict.n} values'}"] if launches or verdict.ci else []
    if verdict.ci is not None:
        label = "95% CI" if launches else "95% CI, this launch,"
        basis.append(f"{label} {ends_text(verdict.ci, verdict.unit)}")
    return f"{value} ({', '.join(basis)})" if basis else value


def _series(verdict: SeriesAnswer, launches: str, *, several: bool) -> Iterator[str]:
    point, value = format_point(verdict.params), _median(verdict, launches)
    tool = f"{verdict.benchmark} " if several else ""
    is_plain = not verdict.bound or verdict.reason == "too_small"
    word = "" if verdict.word == "unknown" and is_plain else f" - {verdict.word}"
    yield f"{tool}{verdict.metric}{f' ({point})' if point else ''}: {value}{word}"
    if verdict.bound is not None and verdict.share is not None:
        share = f"{verdict.share:.1%}"
        if verdict.share_ci is not None:
            share += f" ({' .. '.join(f'{end:.1%}' for end in verdict.share_ci)})"
        bound = format_value(verdict.bound, verdict.unit)
        yield f"  {share} of its limit, {bound}, {verdict.limit}"
    if verdict.usual is not None:
        least = percentages(verdict.share or 0.0, verdict.usual)[1]
        yield f"  usual: {least} or more; {verdict.usual_source}"
    if verdict.published is not None:
        yield f"  {verdict.published.text}"
    if verdict.hint:
        is_unlimited = verdict.bound or verdict.reason == "no_limit_of_latency"
        yield f"  {'' if is_unlimited else 'no limit is known; '}{verdict.hint}"
