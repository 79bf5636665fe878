"""Find the bad host, link or group, by rounds of pairs.

Example: cluster check big --confirm
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

from click.exceptions import Exit

from cluster.analysis.verdict.judgement import judge
from cluster.cli import flags
from cluster.cli.commands._gate import GateOptions, pass_gate, refuse_unfit, show_drift
from cluster.cli.commands._log_files import print_left_out
from cluster.cli.flags import argument, group, option
from cluster.cli.gates import GateFlags, Gates, report_cases
from cluster.cli.measurement import launched
from cluster.cli.progress.jobs import JobProgress
from cluster.cli.repeat import BenchOptions
from cluster.cli.show import print_json, print_lines, relative_path, screen_width
from cluster.core import decoders
from cluster.core.errors import JobError, SpecError
from cluster.core.files import read_text
from cluster.core.model.fleet import FleetVerdict, PairMetric
from cluster.core.model.placement import Placement
from cluster.core.model.value import Value
from cluster.core.units import format_value, parse_percent, parse_rate, parse_size
from cluster.orchestration.bench.listener import Listener
from cluster.orchestration.check.verdict import judge_check
from cluster.orchestration.cluster import Cluster, attach
from cluster.reports.ci import judgement_cases
from cluster.reports.formats.terminal import table_text
from cluster.reports.tables import findings_table, group_table, layer_table, replacement_lines
from cluster.reports.words.verdict import answer
from cluster.runs import shared_file, store
from cluster.runs.import_.logs import NAME as IMPORTED
from cluster.runs.run import PAIRS, WITHIN, Run

GROUPS = "Give --groups a file with the hosts of a group on each line."
OTHERS = "Name hosts of the logs, or leave --groups out."
LOG_METRICS: dict[str, PairMetric] = {"bandwidth": "bandwidth", "latency": "latency"}


class PairLogFlags(Value, frozen=True, kw_only=True):
    """How logs of pairs are read, as it was typed."""

    from_: Annotated[
        list[str] | None, option("--from RUN|LOG...", "Judge a run, or logs of other tools.")
    ] = None
    pairs_pattern: Annotated[
        str | None,
        option(
            "--pairs-pattern TEXT",
            "Where the names of --from's files have the hosts: 'bw_{a}_{b}.log'.",
        ),
    ] = None
    series: Annotated[
        str | None, option("--series WORDS", "Which test of --from's logs, if they have more.")
    ] = None
    limit: Annotated[
        str | None, option("--limit RATE", "What a pair should reach, in logs or for --gate.")
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

    if metric not in LOG_METRICS:
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
        metric=LOG_METRICS[metric],
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


Text = str | None
METRICS = ("bandwidth", "latency", "allreduce")
DEVICES = ("auto", "gpus", "numa", "cores")
NAME = "check"  # of a cluster that is launched for a check


class Survey(Value, frozen=True, kw_only=True):
    """What is tested, as it was typed."""

    rounds: Annotated[
        str, option("--rounds N|all", "Rounds of disjoint pairs; up to 17 hosts: all.")
    ] = "10"
    metric: Annotated[str, option("--metric WORD", "bandwidth, latency, allreduce:SIZE.")] = (
        "bandwidth"
    )
    grouping: Annotated[
        Text,
        option(
            "--groups topology|placement|FILE",
            "Which hosts share a switch: from the provider, from check --near, or a line per "
            "group.  [default: topology]",
        ),
    ] = None
    alone: Annotated[int, option("--alone N", "Pairs also tested alone.")] = 8
    pairs: Annotated[Text, option("--pairs LIST", "Test only these, alone: 7-12,7-40.")] = None
    devices: Annotated[
        Text,
        option(
            "--devices auto|gpus|numa|cores",
            "Compare the GPUs, NUMA nodes or cores of each host instead of hosts.",
        ),
    ] = None
    confirm: Annotated[
        bool, option("--confirm", "Test blamed parts again, with other partners.")
    ] = False
    replace: Annotated[
        bool, option("--replace", "Create new machines for confirmed bad hosts.")
    ] = False
    cordon: Annotated[
        bool, option("--cordon", "Cordon the nodes of confirmed bad hosts (Kubernetes).")
    ] = False
    at_most: Annotated[
        Text,
        option("--at-most PERCENT", "Share of all nodes that --cordon may take.  [default: 10%]"),
    ] = None
    near: Annotated[
        bool, option("--near", "Find which hosts are near one another, by latency.")
    ] = False
    milliseconds: Annotated[
        int | None, option("--milliseconds N", "Length of a test.  [default: 300; --near: 100]")
    ] = None


def command(
    names: Names = None,
    *,
    survey: Annotated[Survey, group(Survey)],
    logs: Annotated[PairLogFlags, group(PairLogFlags)],
    gate: Annotated[GateOptions, group(GateOptions)],
    gates: GateFlags,
    machines: flags.Machines,
    options: SurveyOptions,
) -> None:
    share = _share(survey)
    if change := "--replace" if survey.replace else "--cordon" if survey.cordon else "":
        provider = machines["provider"]
        stays = not (logs.from_ or survey.pairs) and (provider is None or bool(options.keep))
        if not stays or (survey.replace and survey.cordon):
            raise SpecError(
                f"{change} acts on a cluster that stays, after rounds of pairs, and alone.",
                remedy=f"Type: cluster check NAME {change}",
            )
    _refuse_unfit(survey, logs, gates)
    refuse_unfit(gate, _unfit_for_gate(survey, logs, gates, machines), limit=logs.limit or "")
    if logs.from_:
        _judge_logs(names, survey, logs, gates, options)
        return
    name = only_name(names)
    benchmark, params = (WITHIN, _devices(survey)) if survey.devices else (PAIRS, _params(survey))
    with _cluster(name, machines, benchmark, params, options) as cluster:
        if gate.drift:
            show_drift(cluster, options)
            return
        if gate.gate:
            groups = _groups(cluster, survey.grouping, store.root(options.runs))
            pass_gate(cluster, gate, {**params, "groups": groups}, logs.limit, options)
        if survey.near:
            from cluster.cli.progress.heat_map import CheckProgress  # noqa: PLC0415 - slow: numpy

            with CheckProgress(len(cluster.machines), "latency", stderr=options.json) as live:
                near = _bench(cluster, PAIRS, params, live, options)
            _show_near(near, as_json=options.json)
            return
        if survey.devices:
            run = _bench(cluster, WITHIN, params, JobProgress(stderr=options.json), options)
            verdict = _show(run.fleet or judge_check(run), as_json=options.json)
        else:
            with cluster.bench_jobs.claimed():
                run, verdict = _check(cluster, params, survey, share, options)
    _exit_by_gates(gates, run, verdict)


def _judge_logs(
    names: Names, survey: Survey, logs: PairLogFlags, gates: Gates, options: BenchOptions
) -> None:
    metric = "latency" if survey.near else survey.metric
    run = run_of(names, store.root(options.runs), logs, metric, survey.grouping)
    if survey.near:
        _show_near(run, as_json=options.json)
        return
    _exit_by_gates(gates, run, _show(judge_check(run), as_json=options.json))


def _cluster(
    name: str | None,
    machines: dict[str, Any],
    benchmark: str,
    params: dict[str, Any],
    options: BenchOptions,
) -> AbstractContextManager[Cluster]:
    """Attach to the cluster that is named, or launch one for the check."""
    provider = machines["provider"]
    if name is not None and provider is None:
        return nullcontext(attach(name))
    chosen = {"name": name or NAME, "provider": provider or flags.DEFAULT_PROVIDER}
    return launched(flags.spec(**{**machines, **chosen}), benchmark, params, options)


def _bench(
    cluster: Cluster, benchmark: str, params: dict[str, Any], live: Listener, options: BenchOptions
) -> Run:
    return cluster.bench(
        benchmark, runs=options.runs, timeout=options.timeout, listener=live, **params
    )


def _exit_by_gates(gates: Gates, run: Run, verdict: FleetVerdict) -> NoReturn:
    """Report the verdict as `judge` does, and end with the exit status of the gates."""
    judged = answer(judge((), run.record, fleet=verdict))
    suite = "/".join(run.folder.parts[-2:])
    raise Exit(report_cases(gates, list(judgement_cases(suite, judged))))


def _devices(survey: Survey) -> dict[str, Any]:
    if survey.devices not in DEVICES:
        message = f"--devices {survey.devices} is not known."
        raise SpecError(message, remedy=f"There are: {', '.join(DEVICES)}")
    return {"devices": survey.devices}


def _params(survey: Survey) -> dict[str, Any]:
    milliseconds = survey.milliseconds or (100 if survey.near else 300)
    if survey.near:
        return {"metric": "latency", "rounds": 0, "alone": 0, "milliseconds": milliseconds}
    return {
        "rounds": _rounds(survey.rounds),
        **_metric(survey.metric),
        "alone": survey.alone,
        "pairs": tuple(survey.pairs.split(",")) if survey.pairs else (),
        "milliseconds": milliseconds,
        "confirm": survey.confirm or survey.replace or survey.cordon,
    }


def _share(survey: Survey) -> float | None:
    """Return the share of all nodes that may be cordoned; None if none is to be."""
    if survey.at_most and not survey.cordon:
        raise SpecError("--at-most limits --cordon.", remedy="Add --cordon, or leave it out.")
    share = parse_percent(survey.at_most or "10%", "--at-most")
    return share if survey.cordon else None


def _refuse_unfit(survey: Survey, logs: PairLogFlags, gates: Gates) -> None:
    if survey.devices:
        _refuse_besides("--devices", "measures the devices of each host", survey, logs)
    if survey.near:
        _refuse_besides("--near", "measures the latency of all pairs", survey)
    if survey.near and gates.has_any:
        raise SpecError(
            "--near finds groups of hosts, and has no verdict for a gate.",
            remedy="Leave --near out, or --fail-on, --junit and --github.",
        )


def _unfit_for_gate(
    survey: Survey, logs: PairLogFlags, gates: Gates, machines: Mapping[str, Any]
) -> dict[str, object]:
    return {
        "--from": logs.from_,
        "--pairs": survey.pairs,
        "--near": survey.near,
        "--devices": survey.devices,
        "--replace": survey.replace,
        "--cordon": survey.cordon,
        "--provider": machines["provider"],
        "--metric latency": survey.metric == "latency",
        "--fail-on, --junit or --github": gates.has_any,
    }


def _refuse_besides(flag: str, why: str, survey: Survey, logs: PairLogFlags | None = None) -> None:
    typed = {
        "--from": logs and logs.from_,
        "--pairs": survey.pairs,
        "--groups": survey.grouping,
        "--confirm": survey.confirm or survey.replace or survey.cordon,
        "--devices": flag == "--near" and survey.devices,
        "--near": flag == "--devices" and survey.near,
    }
    unfit = [word for word, value in typed.items() if value]
    if unfit:
        raise SpecError(
            f"{unfit[0]} does not go with {flag}, which {why}.", remedy="Leave one of them out."
        )


def _rounds(text: str) -> int:
    if text == "all":
        return 0
    if not text.isdecimal() or int(text) < 1:
        raise SpecError(
            f"--rounds {text} is no number of rounds.", remedy="Give 1 or more, or: --rounds all"
        )
    return int(text)


def _metric(text: str) -> dict[str, Any]:
    """Return the parameters of a metric: `bandwidth`, `latency`, or `allreduce:SIZE`."""
    name, _, size = text.partition(":")
    if name not in METRICS or (size and name != "allreduce"):
        raise SpecError(
            f"--metric {text} is not known.", remedy=f"There are: {', '.join(METRICS)}:SIZE"
        )
    if name != "allreduce":
        return {"metric": name}
    if not size:
        raise SpecError(
            "--metric allreduce has no size.", remedy="Such as: --metric allreduce:64MiB"
        )
    return {"metric": "bandwidth", "allreduce": parse_size(size)}


def _check(
    cluster: Cluster,
    params: dict[str, Any],
    survey: Survey,
    share: float | None,
    options: BenchOptions,
) -> tuple[Run, FleetVerdict]:
    """Show the results also of an interrupted run."""
    from cluster.cli.progress.heat_map import CheckProgress  # noqa: PLC0415 - slow: numpy
    from cluster.orchestration.launch.replacement import (  # noqa: PLC0415
        cordoning_provider,
        finish_replacement,
    )

    if survey.replace:
        finish_replacement(cluster)
    if survey.cordon:
        cordoning_provider(cluster)
    params = {**params, "groups": _groups(cluster, survey.grouping, store.root(options.runs))}
    try:
        with CheckProgress(len(cluster.machines), params["metric"], stderr=options.json) as live:
            run = _bench(cluster, PAIRS, params, live, options)
    except (JobError, KeyboardInterrupt):
        if cluster.state.jobs:
            _show(judge_check(store.read(Path(cluster.job()[0].run))), as_json=options.json)
        raise
    if survey.replace or survey.cordon:
        return run, _replace(cluster, run, params, share, options)
    return run, _show(run.fleet or judge_check(run), as_json=options.json)


def _replace(
    cluster: Cluster, run: Run, params: dict[str, Any], share: float | None, options: BenchOptions
) -> FleetVerdict:
    """Show the verdict, also if nothing can be replaced; then replace or cordon the bad hosts."""
    from cluster.cli.commands._replacement import raise_if_bad, replace  # noqa: PLC0415

    verdict = run.fleet or judge_check(run)
    if not options.json:
        show_verdict(verdict)
    try:
        verdict = replace(cluster, run, verdict, params, options, share)
    finally:
        if options.json:
            print_json(verdict)
    if not options.json:
        result = "replaced" if share is None else "cordoned"
        text = f"No host is confirmed to be bad by itself, so none is {result}."
        print_lines(*(tuple(replacement_lines(verdict)) or (text,)))
    raise_if_bad(verdict, cluster.name)
    return verdict


def _groups(cluster: Cluster, source: str | None, where: Path) -> tuple[int, ...]:
    """Find which hosts share a switch; empty if neither --groups nor the provider names them."""
    from cluster.orchestration.check.fleet_check import known_groups, read_groups  # noqa: PLC0415
    from cluster.orchestration.proximity import placed_groups, topology_groups  # noqa: PLC0415

    if source is None:
        return known_groups(cluster.spec, cluster.machines)
    if source == "topology":
        return topology_groups(cluster.spec, cluster.machines)
    if source == "placement":
        return placed_groups(where, cluster.state)
    remedy = "Give --groups topology, placement, or a file with the hosts of a group on each line."
    return read_groups(read_text(source, remedy), cluster.machines)


def _show(verdict: FleetVerdict, *, as_json: bool) -> FleetVerdict:
    if as_json:
        print_json(verdict)
    else:
        show_verdict(verdict)
    return verdict


SHOWN = 5  # pairs without a value; the others are in verdict.json


def show_verdict(verdict: FleetVerdict) -> None:
    if verdict.findings:
        sys.stdout.write(table_text(findings_table(verdict), screen_width()))
    print_lines(*_lines(verdict))


def _lines(verdict: FleetVerdict) -> Iterator[str]:
    yield from (f"Undecided: {suspect}" for suspect in verdict.undecided)
    yield from (f"No value: {pair}" for pair in verdict.missing[:SHOWN])
    if (more := len(verdict.missing) - SHOWN) > 0:
        yield f"No value: {more} more {'pair' if more == 1 else 'pairs'}; all are in verdict.json."
    yield from (f"Assumed: {assumption}" for assumption in verdict.assumptions)
    for finding in verdict.findings:
        if finding.confirm and not finding.confirmed:
            yield f"To confirm {finding.part}: {finding.confirm}"
    simulated = " (simulated: nothing was measured)" if verdict.simulated else ""
    yield f"Run folder: {relative_path(Path(verdict.run))}{simulated}"
    if verdict.reference is not None and verdict.tolerance:
        unit = "B/s" if verdict.metric == "bandwidth" else "s"
        edge = 1 - verdict.tolerance
        line = verdict.reference * edge if unit == "B/s" else verdict.reference / edge
        side = "below" if unit == "B/s" else "above"
        yield (
            f"{verdict.tests} tests, {verdict.failed} without a value; low is {side} "
            f"{format_value(line, unit)}."
        )
    yield from replacement_lines(verdict)
    yield verdict.answer


def _show_near(run: Run, *, as_json: bool) -> None:
    """Find which hosts of a run of latencies are near one another, and show the groups."""
    from cluster.orchestration.proximity import judge_placement  # noqa: PLC0415 - slow: numpy

    placement = judge_placement(run)
    if as_json:
        print_json(placement)
        return
    if placement.groups:
        sys.stdout.write(table_text(group_table(placement), screen_width()))
    if placement.topology.layers:
        sys.stdout.write(table_text(layer_table(placement), screen_width()))
    print_lines(*_near_lines(placement, run.record.spec.name))


def _near_lines(placement: Placement, name: str) -> Iterator[str]:
    yield from placement.disagreements
    for layer in placement.layers[1:]:
        yield f"These groups form {len(set(layer))} larger ones."
    simulated = " (simulated: nothing was measured)" if placement.simulated else ""
    yield f"Run folder: {relative_path(Path(placement.run))}{simulated}"
    if placement.untested:
        pairs = placement.pairs + placement.untested
        yield f"{placement.untested} of {pairs} pairs have no latency."
    yield placement.answer
    if placement.groups and name != IMPORTED:
        yield f"Next: cluster check {name} --groups placement"
