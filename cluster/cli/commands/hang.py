"""Say which rank of a job the others wait for, and why.

Example: cluster hang --from dumps/
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from click.exceptions import Exit

from cluster.analysis.hang import diagnose
from cluster.cli import flags
from cluster.cli.flags import argument, option
from cluster.cli.overview import FAILED
from cluster.cli.show import print_json, print_lines
from cluster.core.errors import ClusterError, SpecError
from cluster.core.files import read_file
from cluster.core.model.hang import HangAnswer
from cluster.core.model.value import Value
from cluster.core.printable import printable
from cluster.logs.dumps import read_dump
from cluster.reports.words.hang import answer_line, answer_lines, waited_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cluster.core.model.hang import Snapshot

MOST_FILES = 20_000


class HangReply(Value, frozen=True, kw_only=True):
    """What `--json` prints."""

    answer: HangAnswer
    line: str
    unread: tuple[str, ...] = ()
    evidence: str = ""  # the folder where it is kept


def command(
    named: Annotated[
        list[str] | None, argument("NAME [JOB]", "A cluster and its job; or files with --from.")
    ] = None,
    *,
    dumps: Annotated[
        bool, option("--from", "The arguments are files or folders that somebody sent.")
    ] = False,
    json: flags.Json = False,
) -> None:
    words = named or []
    if not dumps or not words:
        raise SpecError(
            "No files were named.",
            remedy="Name the dumps, or their folder: cluster hang --from dumps/",
        )
    snapshots, unread = read_files(words)
    if not snapshots:
        raise SpecError(
            f"None of {len(unread)} file(s) is a dump that can be read.",
            means="; ".join(unread[:3]),
        )
    again = "take dumps again in 30 s, and name both: cluster hang --from BEFORE AFTER"
    answer = diagnose(snapshots)
    show(HangReply(answer=answer, line=answer_line(answer), unread=unread), again, json=json)
    raise Exit(FAILED if answer.verdict == "hung" else 0)


def show(reply: HangReply, again: str, *, json: bool) -> None:
    """Print the answer."""
    if json:
        print_json(reply)
        return
    for text in reply.unread[:5]:
        sys.stderr.write(printable(f"Not read: {text}\n"))
    lines = [*answer_lines(reply.answer, again), waited_line(reply.answer)]
    kept = f"Evidence: {reply.evidence}" if reply.evidence else ""
    print_lines(*map(printable, filter(None, (*lines, kept))))


def read_files(named: Sequence[str]) -> tuple[list[Snapshot], tuple[str, ...]]:
    """Read dumps; return what they say, and which were none."""
    snapshots: list[Snapshot] = []
    unread = []
    for path in _paths(named):
        try:
            snapshots += read_dump(str(path), read_file(path), path.stat().st_mtime)
        except ClusterError as error:
            unread.append(f"{error.what} {error.means}".strip())
    return snapshots, tuple(unread)


def _paths(named: Sequence[str]) -> Iterator[Path]:
    count = 0
    for name in named:
        path = Path(name)
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if path.is_dir() and not file.is_file():
                continue
            count += 1
            if count > MOST_FILES:
                raise SpecError(f"There are more than {MOST_FILES} files.")
            yield file
