"""Keep logs of other tools, or a run from elsewhere.

Example: cluster import all_reduce.log
"""

import sys
from pathlib import Path
from typing import Annotated

from click.exceptions import Exit
from msgspec.structs import replace

from cluster.cli import flags
from cluster.cli.commands._log_files import progress
from cluster.cli.flags import argument, option
from cluster.cli.show import print_json, print_lines, show_run
from cluster.core.errors import SpecError
from cluster.core.model.logs import Reading
from cluster.core.model.results.measurements import Summary
from cluster.core.model.results.records import Condition, Status
from cluster.core.model.value import Value
from cluster.core.text.units import parse_expected
from cluster.reports.words.notes import note_words
from cluster.runs import shared_file, store
from cluster.runs.import_.logs import NAME, Imported, import_logs
from cluster.runs.store import import_run


class ImportAnswer(Value, frozen=True, kw_only=True):
    """What `cluster import --json` prints."""

    run: str
    status: Status
    reason: str
    notes: tuple[str, ...]
    readings: tuple[Reading, ...]  # without their values, which are in the run's folder
    summaries: tuple[Summary, ...]


def command(
    files: Annotated[
        list[str],
        argument(
            "FILE...|RUN|-", "Logs; - is standard input; or a run: its folder, or a shared file."
        ),
    ],
    format_: flags.LogFormat = "",
    name: flags.RunName = NAME,
    condition: Annotated[str, option("--condition", "Condition to compare by: cuda-ipc.")] = "",
    describe: flags.Describe = "",
    expect: flags.Expect = "",
    root: flags.Runs = None,
    json: flags.Json = False,
) -> None:
    if store.is_run(Path(files[0])) or shared_file.is_shared(Path(files[0])):
        if len(files) > 1 or format_ or condition or describe or expect:
            raise SpecError(
                f"{files[0]} is a run, which says itself what it is.",
                remedy=f"Name it alone: cluster import {files[0]}",
            )
        home = "" if name == NAME else name
        root_ = store.root(root)
        copy = import_run(store.find(root_, files[0]), root_, home)
        outcome = Imported(folder=copy, readings=())
    else:
        expected = parse_expected(expect) if expect else None
        with progress(files):
            outcome = import_logs(
                files,
                store.root(root),
                name=name,
                format_=format_,
                condition=Condition(name=condition, description=describe, expected=expected),
                stdin=sys.stdin.buffer,
            )
    run = store.read(outcome.folder)
    if json:
        print_json(
            ImportAnswer(
                run=str(run.folder),
                status=run.status,
                reason=run.record.reason,
                notes=tuple(map(note_words, run.record.notes)),
                readings=tuple(map(_without_values, outcome.readings)),
                summaries=run.summary(),
            )
        )
    else:
        for result in outcome.results:
            count = sum(len(m.values) for m in result.measurements)
            content = f"{count} value(s)" if count or result.detail is None else "no values"
            print_lines(f"line {result.first}: {result.format}: {result.title}: {content}")
            print_lines(*(f"  FAILED: {failure}" for failure in result.failures))
        show_run(run, as_json=False)
    raise Exit(0 if run.status == "done" else 1)


def _without_values(reading: Reading) -> Reading:
    return replace(reading, results=tuple(replace(r, measurements=()) for r in reading.results))
