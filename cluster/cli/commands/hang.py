"""Say which rank of a job the others wait for, and why.

Example: cluster hang mine train; of dumps that somebody sent: cluster hang --from dumps/
"""

import sys
from typing import Annotated

from click.exceptions import Exit

from cluster.analysis.hang import diagnose
from cluster.cli import flags
from cluster.cli.flags import argument, option
from cluster.cli.overview import FAILED
from cluster.cli.show import print_json, print_lines
from cluster.cli.terminal import printable
from cluster.core.errors import SpecError
from cluster.core.model.hang import HangAnswer
from cluster.core.model.value import Value
from cluster.orchestration.cluster import attach
from cluster.reports.words.hang import answer_line, answer_lines, waited_line
from cluster.runs.dumps import read_dumps


class HangReply(Value, frozen=True, kw_only=True):
    """What `--json` prints."""

    answer: HangAnswer
    line: str
    unread: tuple[str, ...] = ()
    evidence: str = ""  # the folder where it is kept


def command(
    names: Annotated[
        list[str] | None, argument("NAME [JOB]", "A cluster and its job; or files with --from.")
    ] = None,
    *,
    dumps: Annotated[
        bool, option("--from", "The arguments are files or folders that somebody sent.")
    ] = False,
    native: Annotated[
        bool,
        option("--native", "Read native stacks: eu-stack stops each process for milliseconds."),
    ] = False,
    json: flags.Json = False,
) -> None:
    words = names or []
    if not words or (not dumps and len(words) > 2):  # noqa: PLR2004 - NAME JOB
        raise SpecError(
            "A cluster and one of its jobs are named, or files.",
            remedy="cluster hang mine train, or of files: cluster hang --from dumps/",
        )
    if dumps and native:
        raise SpecError("--native reads stacks of processes, and --from files that somebody sent.")
    evidence, unread = "", tuple[str, ...]()
    if dumps:
        snapshots, unread = read_dumps(words)
        if not snapshots:
            raise SpecError(
                f"None of {len(unread)} file(s) is a dump that can be read.",
                means="; ".join(unread[:3]),
            )
        answer = diagnose(snapshots)
        advice = "take dumps again in 30 s, and name both: cluster hang --from BEFORE AFTER"
    else:
        cluster = attach(words[0])
        jobs = words[1:] or list(cluster.jobs.running())
        if len(jobs) > 1:
            raise SpecError(
                f"Several jobs run on {cluster.name}: {', '.join(jobs)}.",
                remedy=f"Name one: cluster hang {cluster.name} {jobs[0]}",
            )
        if not jobs:
            raise SpecError(
                f"No job runs on {cluster.name}.", remedy=f"cluster status {cluster.name}"
            )
        answer, folder = cluster.jobs[jobs[0]].look_for_hang(native=native)
        evidence, advice = str(folder), f"cluster hang {' '.join(words)}"
    if native and "native_stacks" not in answer.sources:
        sys.stderr.write(
            "No native stack was read: eu-stack and eu-addr2line (of elfutils) are not on the "
            "hosts, or may not look at these processes.\n"
        )
    line = answer_line(answer)
    reply = HangReply(answer=answer, line=line, unread=unread, evidence=evidence)
    show(reply, advice, json=json)
    raise Exit(FAILED if answer.verdict == "hung" else 0)


def show(reply: HangReply, advice: str, *, json: bool) -> None:
    if json:
        print_json(reply)
        return
    for text in reply.unread[:5]:
        sys.stderr.write(printable(f"Not read: {text}\n"))
    wait_line = waited_line(reply.answer, live=bool(reply.evidence))
    lines = [*answer_lines(reply.answer, advice), wait_line]
    evidence = f"Evidence: {reply.evidence}" if reply.evidence else ""
    print_lines(*map(printable, filter(None, (*lines, evidence))))
