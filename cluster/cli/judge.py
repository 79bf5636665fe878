"""`cluster judge`: is the number in a log normal?"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.analysis import hardware
from cluster.analysis.evidence import Finding
from cluster.analysis.verdict import Verdict, overall, verdicts
from cluster.cli import flags
from cluster.cli.show import finding_lines, findings, notes_of, print_json, relative_path
from cluster.core import plugins
from cluster.core.errors import SpecError
from cluster.core.model.hardware import Hardware
from cluster.core.model.logs import NcclLog, Parsed, PeerAccess, Profile, Topology
from cluster.core.model.measurements import Summary
from cluster.core.model.records import Status
from cluster.core.model.spec import check_count
from cluster.core.model.value import Value
from cluster.core.units import format_point, format_value
from cluster.logs.parsers import Parser
from cluster.runs import store
from cluster.runs.import_logs import NAME, LogLocation, import_logs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cluster.runs.run import Run

WORDS = {
    "failed": "FAILED: the log records a failure, so no number of it counts.",
    "impossible": "IMPOSSIBLE: a value is above what the hardware can do, so a definition, a unit "
    "or the hardware is not what was said.",
    "low": "LOW: at least one value is below what healthy hardware reaches.",
    "normal": "NORMAL: the values are as they should be.",
    "plausible": "PLAUSIBLE: nothing is faster than possible; nobody we know says what is usual.",
    "unknown": "UNKNOWN: too little is known of what it ran on to judge a value.",
}
NOTHING = "NOTHING TO JUDGE: there are no values in it."
ORDER = ("impossible", "low", "normal", "plausible", "unknown")
MOST = 12  # series that are shown
BAD = ("failed", "impossible")


class JudgeAnswer(Value, frozen=True, kw_only=True):
    """What `cluster judge --json` prints."""

    verdict: str
    run: str
    status: Status
    reason: str
    hardware: Hardware | None
    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    summaries: tuple[Summary, ...]


def judge(
    files: Annotated[
        list[str], typer.Argument(metavar="LOG...|-", help="Logs; - is standard input.")
    ],
    hardware_: Annotated[
        str | None,
        typer.Option(
            "--hardware",
            metavar="NAME|WORDS|FILE.toml",
            help="An instance type, a GPU model, or words: nic=100gbit,nics=4,gpus=8,gpu=a100.  "
            "[default: what the log says]",
            show_default=False,
            autocompletion=hardware.names,
        ),
    ] = None,
    hosts: Annotated[
        int | None,
        typer.Option("--hosts", help="That took part.  [default: what the log says]"),
    ] = None,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="NAME",
            help="The logs' format.  [default: what they look like]",
            show_default=False,
            autocompletion=lambda: list(plugins.names(Parser)),
        ),
    ] = "",
    name: Annotated[str, typer.Option("--name", help="Under which the run is kept.")] = NAME,
    root: flags.Runs = None,
    json: flags.Json = False,
) -> None:
    """Say what the numbers of a log should be, and what to look at.

    Example: cluster judge all_reduce.log --hardware p4d.24xlarge --hosts 2
    """
    place = LogLocation(
        hardware=None if hardware_ is None else find_hardware(hardware_),
        hosts=0 if hosts is None else check_count("hosts", hosts),
    )
    folder = import_logs(
        files, store.root(root), name=name, format_=format_, stdin=sys.stdin.buffer, place=place
    ).folder
    run = store.read(folder)
    summaries = run.summary()
    found = verdicts(summaries, run.record.definitions, run.record.hardware)
    word = overall(found, failed=run.status == "failed")
    if json:
        print_json(_answer(run, summaries, found, word))
    else:
        for line in (*_lines(run, found, word), *_rest(run, summaries)):
            sys.stdout.write(f"{line}\n")
    raise typer.Exit(1 if word in BAD else 0)


def find_hardware(text: str) -> Hardware:
    """Find hardware by a name, by words, or in a file.

    Args:
        text: what `analysis.hardware.find` takes, or the path of a TOML file with the same words.

    Returns:
        The hardware.

    Raises:
        SpecError: there is no such name, word or file.

    """
    if not text.endswith(".toml"):
        return hardware.find(text)
    try:
        content = Path(text).read_bytes()
    except OSError as error:
        raise SpecError(f"{text} cannot be read: {error.strerror}.") from error
    return hardware.in_toml(content, text)


def _answer(
    run: Run, summaries: tuple[Summary, ...], found: tuple[Verdict, ...], word: str
) -> JudgeAnswer:
    return JudgeAnswer(
        verdict=word,
        run=str(run.folder),
        status=run.status,
        reason=run.record.reason,
        hardware=run.record.hardware,
        verdicts=found,
        findings=findings(run, summaries),
        notes=notes_of(run, summaries),
        summaries=summaries,
    )


def _lines(run: Run, found: Sequence[Verdict], word: str) -> Iterator[str]:
    """Give the verdict first, then a few lines for each series, the worst first."""
    yield WORDS[word] if found or word == "failed" else NOTHING
    for result in run.results:
        yield from (f"  FAILED: {result.title}: {failure}" for failure in result.failures)
        yield from detail_lines(result)
    told = sorted((v for v in found if v.median), key=lambda verdict: ORDER.index(verdict.word))
    several = len({verdict.benchmark for verdict in found}) > 1
    for verdict in told[:MOST]:
        yield from _series(verdict, several=several)
    if len(told) > MOST:
        yield f"And {len(told) - MOST} more that are no worse: --json has all."


def detail_lines(result: Parsed) -> Iterator[str]:
    """Say in a line what a result holds that is no measurement.

    Args:
        result: of a log.

    Yields:
        A line; none if it holds nothing else.

    """
    found = result.detail
    if isinstance(found, NcclLog):
        pairs = {(e.source, e.target, "/".join(e.via.split("/")[:2])) for e in found.edges}
        links = Counter(via for _, _, via in pairs)
        said = ", ".join(f"{number} link(s) via {via}" for via, number in links.most_common())
        who = f"{found.size} ranks" if found.size else ""
        who += f" on {found.nodes} host(s)" if found.nodes else ""
        what = ": ".join(filter(None, (result.title, who, said or "no links are named")))
        yield f"  {what}; see cluster topology"
    elif isinstance(found, Profile):
        share = f", {found.communication / found.elapsed:.0%} of it in MPI" if found.elapsed else ""
        yield (
            f"  Profile of rank {found.rank} of {found.size}: {found.elapsed:.4g} s{share}; "
            "see cluster profile"
        )
    elif isinstance(found, Topology):
        gpus = sum(device.is_gpu for device in found.devices)
        yield f"  Topology of {gpus} GPU(s); see cluster topology"
    elif isinstance(found, PeerAccess):
        yield f"  Peer access of {len(found.devices)} GPU(s); see cluster topology"


def _series(verdict: Verdict, *, several: bool) -> Iterator[str]:
    point = format_point(verdict.params)
    value = format_value(verdict.median, verdict.unit)
    if verdict.ci is not None:
        ends = " .. ".join(format_value(end, verdict.unit) for end in verdict.ci)
        value += f" (median of {verdict.n}, 95% CI {ends})"
    tool = f"{verdict.benchmark} " if several else ""
    word = "" if verdict.bound is None else f" - {verdict.word}"
    yield f"{tool}{verdict.metric}{f' ({point})' if point else ''}: {value}{word}"
    if verdict.bound is not None and verdict.share is not None:
        share = f"{verdict.share:.1%}"
        if verdict.share_ci is not None:
            share += f" ({' .. '.join(f'{end:.1%}' for end in verdict.share_ci)})"
        bound = format_value(verdict.bound, verdict.unit)
        yield f"  {share} of its bound, {bound}, {verdict.limit}"
    if verdict.usual is not None:
        yield f"  usual: {verdict.usual:.0%} or more; {verdict.usual_source}"
    if verdict.hint:
        yield f"  {'' if verdict.bound else 'no bound is known; '}{verdict.hint}"


def _rest(run: Run, summaries: tuple[Summary, ...]) -> Iterator[str]:
    yield from finding_lines(findings(run, summaries))
    yield from (f"Note: {note}" for note in (*run.record.notes, *run.warnings))
    if run.record.hardware is not None:
        where = run.record.hardware
        yield f"Hardware: {where.name}{f', {where.gpus} x {where.gpu}' if where.gpus else ''}"
    yield f"Run folder: {relative_path(run.folder)}; all values: cluster show {run.folder.name}"
