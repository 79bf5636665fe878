"""Logs of pairs of hosts that other tools wrote, in place of a run of our own."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from cluster.cli.commands._log_files import print_left_out
from cluster.cli.flags import argument, group, option
from cluster.cli.repeat import BenchOptions
from cluster.core import decoders
from cluster.core.errors import SpecError
from cluster.core.files import read_text
from cluster.core.model.fleet import PairMetric
from cluster.core.model.value import Value
from cluster.core.units import parse_rate
from cluster.runs import shared_file, store
from cluster.runs.run import Run

GROUPS = "Give --groups a file with the hosts of a group on each line."
OTHERS = "Name hosts of the logs, or leave --groups out."
METRICS: dict[str, PairMetric] = {"bandwidth": "bandwidth", "latency": "latency"}
Text = str | None


class PairLogFlags(Value, frozen=True, kw_only=True):
    """How logs of pairs are read, as it was typed."""

    from_: Annotated[
        list[str] | None, option("--from RUN|LOG...", "Judge a run, or logs of other tools.")
    ] = None
    pairs_pattern: Annotated[
        Text,
        option(
            "--pairs-pattern TEXT",
            "Where the names of --from's files have the hosts: 'bw_{a}_{b}.log'.",
        ),
    ] = None
    series: Annotated[
        Text, option("--series WORDS", "Which test of --from's logs, if they have more.")
    ] = None
    limit: Annotated[
        Text, option("--limit RATE", "What a pair should reach, in logs or for --gate.")
    ] = None


Names = Annotated[list[str] | None, argument("NAME", "A running cluster.")]
SurveyOptions = Annotated[BenchOptions, group(BenchOptions, "runs keep timeout yes json")]


def only_name(names: Sequence[str] | None) -> str | None:
    """Return the name of a cluster, if any; several words belong to `--from` (SpecError)."""
    if names and len(names) > 1:
        raise SpecError(
            f"One cluster is checked at a time, and there are {len(names)} names.",
            remedy="For logs of other tools: --from LOG...",
        )
    return names[0] if names else None


def run_of(
    names: Sequence[str] | None,
    where: Path,
    typed: PairLogFlags,
    metric: str,
    groups: str | None = None,
) -> Run:
    """Find a run, or make one from logs of other tools (SpecError)."""
    words = (*(typed.from_ or ()), *(names or ()))
    if len(words) == 1 and _is_run(words[0]):
        return store.read(_find_run(where, words[0]))
    from cluster.orchestration.check.fleet_check import read_groups  # noqa: PLC0415 - slow: numpy
    from cluster.runs.import_.pair_reader import PairLogOptions  # noqa: PLC0415
    from cluster.runs.import_.pairs import ImportedPairsParams, import_pairs  # noqa: PLC0415

    if metric not in METRICS:
        message = f"--metric {metric} is not in logs of pairs."
        raise SpecError(message, remedy="There are: bandwidth, latency")
    if groups in ("placement", "topology"):
        raise SpecError(
            f"--groups {groups} is not known of hosts in logs.",
            remedy="Give a file with the hosts of a group on each line; without it, groups are "
            "taken from the values, if these show any.",
        )
    grouping = groups and partial(read_groups, read_text(groups, GROUPS), remedy=OTHERS)
    options = PairLogOptions(
        metric=METRICS[metric],
        pattern=typed.pairs_pattern or "",
        series=typed.series or "",
        grouping=grouping or None,
        limit=parse_rate(typed.limit) if typed.limit else None,
    )
    run = import_pairs(words, where, options)
    print_left_out(decoders.decode(run.record.params, ImportedPairsParams).left_out)
    return run


def _find_run(where: Path, word: str) -> Path:
    """Find a run; say of what looks like a file that it is missing."""
    try:
        return store.find(where, word)
    except SpecError as error:
        if not Path(word).suffix and "/" not in word:
            raise
        message = f"There is no file {word}, and no run of that name under {where}."
        raise SpecError(message, remedy="Name logs that exist, or a run: cluster runs") from error


def _is_run(word: str) -> bool:
    path = Path(word)
    is_stored = store.is_run(path) or shared_file.is_shared(path)
    return is_stored or not (path.exists() or any(mark in word for mark in "*?["))
