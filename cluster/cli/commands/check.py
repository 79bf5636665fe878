"""Find the bad host, link or group, by rounds of pairs.

Example: cluster check big --confirm
"""

import os
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
from click.exceptions import Abort, ClickException, Exit

from cluster.analysis.verdict.judgement import judge
from cluster.cli import flags
from cluster.cli.command_line import error_words, print_error
from cluster.cli.commands._log_files import print_left_out
from cluster.cli.deadline import answer_by
from cluster.cli.flags import (
    argument,
    group,
    option,
    refuse_together,
    refuse_unused,
    typed_values,
)
from cluster.cli.gates import GateFlags, Gates, judgement_cases, report_cases
from cluster.cli.measurement import BenchOptions, Request, temporary_cluster
from cluster.cli.progress import JobProgress
from cluster.cli.show import print_json, print_lines, relative_path, screen_width
from cluster.core import decoders
from cluster.core.errors import ClusterError, JobError, SpecError
from cluster.core.model.network.fleet import Drift, FleetVerdict, PairMetric
from cluster.core.model.network.gate import STATUS, Gate
from cluster.core.model.value import Value
from cluster.core.state.files import read_text
from cluster.core.text.units import (
    format_value,
    parse_percent,
    parse_rate,
    parse_seconds,
    parse_size,
)
from cluster.orchestration.bench.collect import Listener
from cluster.orchestration.bench.plan import LONGEST
from cluster.orchestration.cluster import Cluster, attach
from cluster.orchestration.launch.gate import WITHIN as GATE_TIME
from cluster.orchestration.launch.gate import compare_hosts, prove, prove_nothing
from cluster.reports.formats.terminal import table_text
from cluster.reports.tables import findings_table, group_table, layer_table, replacement_lines
from cluster.reports.words.fleet import drift_words, unread_words
from cluster.reports.words.verdict import answer
from cluster.runs import shared_file, store
from cluster.runs.import_.logs import NAME as IMPORTED
from cluster.runs.run import PAIRS, WITHIN, Run

GROUPS = "Give --groups {} with the hosts of a group on each line."
OTHERS = "Name hosts of the logs, or leave --groups out."
LOG_METRICS: dict[str, PairMetric] = {"bandwidth": "bandwidth", "latency": "latency"}
BY_TIME = "chooses its tests by the time"
LATE = 0.02  # of the time of a gate: an answer that is later than this is none
UNUSED_BY_GATES = ("rounds", "alone", "confirm", "milliseconds", "timeout", "keep")  # with --gate


class GateOptions(Value, frozen=True, kw_only=True):
    """Whether a check is a gate, as it was typed."""

    gate: Annotated[
        bool,
        option("--gate", "May a job start? Exit 0: proven, 1: bad, 75: undecided in the time."),
    ] = False
    within: Annotated[
        str | None,
        option("--within TIME", f"How long --gate may take.  [default: {GATE_TIME:g}s]"),
    ] = None
    drift: Annotated[
        bool,
        option("--drift", "Compare the settings of hosts, in seconds. Exit 75: one is not read."),
    ] = False
    busy: Annotated[bool, option("--busy", "Leave out hosts on which a job runs.")] = False


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


def run_of(names: Names, root: Path, logs: PairLogFlags, metric: str, groups: str | None) -> Run:
    """Find a run, or make one from logs of other tools (SpecError)."""
    words = (*(logs.from_ or ()), *(names or ()))
    if len(words) == 1 and _is_run(words[0]):
        return store.read(_find_run(root, words[0]))
    from cluster.orchestration.proximity import read_groups  # noqa: PLC0415 - slow: numpy
    from cluster.runs.import_.pairs import (  # noqa: PLC0415
        ImportedPairsParams,
        PairLogOptions,
        import_pairs,
    )

    if metric not in LOG_METRICS:
        message = f"--metric {metric} is not in logs of pairs."
        raise SpecError(message, remedy="There are: bandwidth, latency")
    if groups in ("placement", "topology"):
        raise SpecError(
            f"--groups {groups} is not known of hosts in logs.",
            remedy="Give a file with the hosts of a group on each line; without it, groups are "
            "taken from the values, if these show any.",
        )
    grouping = groups and partial(
        read_groups, read_text(groups, GROUPS.format("a file")), remedy=OTHERS
    )
    options = PairLogOptions(
        metric=LOG_METRICS[metric],
        pattern=logs.pairs_pattern or "",
        series=logs.series or "",
        grouping=grouping or None,
        limit=None if logs.limit is None else parse_rate(logs.limit),
    )
    run = import_pairs(words, root, options)
    print_left_out(decoders.decode(run.record.params, ImportedPairsParams).left_out)
    return run


def _find_run(root: Path, word: str) -> Path:
    """Find a run; say of what looks like a file that it is missing."""
    try:
        return store.find(root, word)
    except SpecError as error:
        if not Path(word).suffix and "/" not in word:
            raise
        message = f"There is no file {word}, and no run of that name under {root}."
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
    unfit = {
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
    refuse_unfit(gate, unfit, limit=logs.limit)
    if logs.from_:
        _judge_logs(names, survey, logs, gates, options)
        return
    name = only_name(names)
    bench = Request(WITHIN if survey.devices else PAIRS, _params(survey), options)
    with undecided_at_errors(is_gate=gate.gate), _cluster(name, machines, bench) as cluster:
        if gate.drift:
            show_drift(cluster, options)
            return
        if gate.gate:
            pass_gate(cluster, gate, _add_groups(bench, cluster, survey.grouping), logs.limit)
        if survey.near:
            from cluster.cli.heat_map import CheckProgress  # noqa: PLC0415 - slow: numpy

            with CheckProgress(len(cluster.machines), "latency", stderr=options.json) as live:
                near = _bench(cluster, bench, live)
            _show_near(near, as_json=options.json)
            return
        if survey.devices:
            run = _bench(cluster, bench, JobProgress(stderr=options.json))
            verdict = _show(run.fleet or _judge(run), as_json=options.json)
        else:
            with cluster.bench_jobs.claim_hosts():
                run, verdict = _check(cluster, bench, survey, share)
    _exit_by_gates(gates, run, verdict)


def _judge_logs(
    names: Names, survey: Survey, logs: PairLogFlags, gates: Gates, options: BenchOptions
) -> None:
    metric = "latency" if survey.near else survey.metric
    run = run_of(names, store.root(options.runs), logs, metric, survey.grouping)
    if survey.near:
        _show_near(run, as_json=options.json)
        return
    _exit_by_gates(gates, run, _show(_judge(run), as_json=options.json))


def _cluster(
    name: str | None, machines: dict[str, Any], bench: Request
) -> AbstractContextManager[Cluster]:
    """Attach to the cluster that is named, or launch one for the check."""
    provider = machines["provider"]
    if name is not None and provider is None:
        return nullcontext(attach(name))
    fields = {"name": name or NAME, "provider": provider or flags.DEFAULT_PROVIDER}
    return temporary_cluster(flags.spec(**{**machines, **fields}), bench)


def _bench(cluster: Cluster, bench: Request, live: Listener) -> Run:
    benchmark, params, options = bench
    return cluster.bench(
        benchmark, runs=options.runs, timeout=options.timeout, listener=live, **params
    )


def _exit_by_gates(gates: Gates, run: Run, verdict: FleetVerdict) -> NoReturn:
    """Report the verdict as `judge` does, and end with the exit status of the gates."""
    conclusion = answer(judge((), run.record, fleet=verdict))
    raise Exit(report_cases(gates, list(judgement_cases(run.name, conclusion))))


def _params(survey: Survey) -> dict[str, Any]:
    if survey.devices:
        if survey.devices not in DEVICES:
            message = f"--devices {survey.devices} is not known."
            raise SpecError(message, remedy=f"There are: {', '.join(DEVICES)}")
        return {"devices": survey.devices}
    milliseconds = survey.milliseconds or (100 if survey.near else 300)
    if survey.near:
        return {"metric": "latency", "rounds": 0, "alone": 0, "milliseconds": milliseconds}
    rounds = survey.rounds
    if rounds != "all" and not (rounds.isdecimal() and int(rounds)):
        raise SpecError(
            f"--rounds {rounds} is no number of rounds.", remedy="Give 1 or more, or: --rounds all"
        )
    return {
        "rounds": 0 if rounds == "all" else int(rounds),
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
    conflicts: dict[str, object] = {
        "--pairs": survey.pairs,
        "--groups": survey.grouping,
        "--confirm": survey.confirm or survey.replace or survey.cordon,
    }
    if survey.devices:
        conflicts = {"--from": logs.from_, **conflicts, "--near": survey.near}
        refuse_together("--devices", "measures the devices of each host", conflicts)
    if survey.near:
        refuse_together("--near", "measures the latency of all pairs", conflicts)
    if survey.near and gates.has_any:
        raise SpecError(
            "--near finds groups of hosts, and has no verdict for a gate.",
            remedy="Leave --near out, or --fail-on, --junit and --github.",
        )


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
    cluster: Cluster, bench: Request, survey: Survey, share: float | None
) -> tuple[Run, FleetVerdict]:
    """Show the results also of an interrupted run."""
    from cluster.cli.heat_map import CheckProgress  # noqa: PLC0415 - slow: numpy
    from cluster.orchestration.launch.replacement import (  # noqa: PLC0415
        cordoning_provider,
        finish_replacement,
    )

    if survey.replace:
        finish_replacement(cluster)
    if survey.cordon:
        cordoning_provider(cluster)
    bench = _add_groups(bench, cluster, survey.grouping)
    as_json = bench.options.json
    try:
        with CheckProgress(len(cluster.machines), bench.params["metric"], stderr=as_json) as live:
            run = _bench(cluster, bench, live)
    except (JobError, KeyboardInterrupt):
        if cluster.state.jobs:
            _show(_judge(store.read(Path(cluster.job()[0].run))), as_json=as_json)
        raise
    if survey.replace or survey.cordon:
        return run, _replace(cluster, run, bench, share)
    return run, _show(run.fleet or _judge(run), as_json=as_json)


def _replace(cluster: Cluster, run: Run, bench: Request, share: float | None) -> FleetVerdict:
    """Show the verdict, also if nothing can be replaced; then replace or cordon the bad hosts."""
    from cluster.cli.commands._replacement import raise_if_bad, replace  # noqa: PLC0415

    verdict = run.fleet or _judge(run)
    if not bench.options.json:
        show_verdict(verdict)
    try:
        verdict = replace(cluster, run, verdict, bench, share)
    finally:
        if bench.options.json:
            print_json(verdict)
    if not bench.options.json:
        result = "replaced" if share is None else "cordoned"
        text = f"No host is confirmed to be bad by itself, so none is {result}."
        print_lines(*(tuple(replacement_lines(verdict)) or (text,)))
    raise_if_bad(verdict, cluster.name)
    return verdict


def _add_groups(bench: Request, cluster: Cluster, source: str | None) -> Request:
    """Find which hosts share a switch; empty if neither --groups nor the provider names them."""
    from cluster.orchestration import proximity  # noqa: PLC0415 - slow: numpy

    if source is None:
        groups = proximity.ask_topology(cluster.spec, cluster.machines).switch_groups
    elif source == "topology":
        groups = proximity.topology_groups(cluster.spec, cluster.machines)
    elif source == "placement":
        groups = proximity.placed_groups(store.root(bench.options.runs), cluster.state)
    else:
        remedy = GROUPS.format("topology, placement, or a file")
        groups = proximity.read_groups(read_text(source, remedy), cluster.machines)
    return bench._replace(params={**bench.params, "groups": groups})


def _judge(run: Run) -> FleetVerdict:
    from cluster.orchestration.fleet_check import judge_check  # noqa: PLC0415 - slow: numpy

    return judge_check(run)


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
    lines = [f"Undecided: {suspect}" for suspect in verdict.undecided]
    lines += [f"No value: {pair}" for pair in verdict.missing[:SHOWN]]
    if (more := len(verdict.missing) - SHOWN) > 0:
        pairs = "pair" if more == 1 else "pairs"
        lines.append(f"No value: {more} more {pairs}; all are in verdict.json.")
    lines += [f"Assumed: {assumption}" for assumption in verdict.assumptions]
    lines += [
        f"To confirm {finding.part}: {finding.confirm}"
        for finding in verdict.findings
        if finding.confirm and not finding.confirmed
    ]
    suffix = " (simulated: nothing was measured)" if verdict.simulated else ""
    lines.append(f"Run folder: {relative_path(Path(verdict.run))}{suffix}")
    if verdict.reference is not None and verdict.tolerance:
        unit = "B/s" if verdict.metric == "bandwidth" else "s"
        edge = 1 - verdict.tolerance
        line = verdict.reference * edge if unit == "B/s" else verdict.reference / edge
        side = "below" if unit == "B/s" else "above"
        lines.append(
            f"{verdict.tests} tests, {verdict.failed} without a value; low is {side} "
            f"{format_value(line, unit)}."
        )
    print_lines(*lines, *replacement_lines(verdict), verdict.answer)


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
    name = run.record.spec.name
    lines = list(placement.disagreements)
    lines += [f"These groups form {len(set(layer))} larger ones." for layer in placement.layers[1:]]
    suffix = " (simulated: nothing was measured)" if placement.simulated else ""
    lines.append(f"Run folder: {relative_path(Path(placement.run))}{suffix}")
    if placement.untested:
        pairs = placement.pairs + placement.untested
        lines.append(f"{placement.untested} of {pairs} pairs have no latency.")
    lines.append(placement.answer)
    if placement.groups and name != IMPORTED:
        lines.append(f"Next: cluster check {name} --groups placement")
    print_lines(*lines)


def refuse_unfit(gate: GateOptions, values: Mapping[str, object], *, limit: str | None) -> None:
    """Refuse flags of a gate without one, and with what a gate does not do (SpecError)."""
    rate = None if values["--from"] else limit
    flags = (("--within", gate.within), ("--busy", gate.busy or None), ("--limit", rate))
    names = [flag for flag, value in flags if value is not None]
    if not gate.gate:
        if names:
            raise SpecError(
                f"{names[0]} belongs to --gate.",
                remedy="Type: cluster check NAME --gate. For the devices of each host: --devices",
            )
        return
    refuse_together("--gate", BY_TIME, {**values, "--drift": gate.drift})
    refuse_unused(UNUSED_BY_GATES, f"with --gate, which {BY_TIME}")


def show_drift(cluster: Cluster, options: BenchOptions) -> None:
    """Show the settings in which hosts differ, the most unusual first (Exit: some are not read)."""
    differences = compare_hosts(cluster)
    names = [machine.name for machine in cluster.machines]
    silent = tuple(host for host, name in enumerate(names) if name in cluster.remote.absent)
    total, read = len(names), len(names) - len(silent)
    values = ("no",) * len(silent)
    unread = Drift(
        setting="answers", usual="yes", count=read, of=total, hosts=silent, values=values
    )
    if options.json:
        print_json([unread, *differences] if silent else differences)
    else:
        print_lines(*([unread_words(unread, names)] if silent else []))
        print_lines(*map(drift_words, differences))
        if total == 1:
            print_lines(f"{cluster.name} has one host, and nothing to compare it with.")
        elif not differences and read > 1:
            print_lines(f"The {read} hosts of {cluster.name} do not differ.")
    if silent:
        raise Exit(STATUS["UNDECIDED"])


def pass_gate(cluster: Cluster, gate: GateOptions, bench: Request, limit: str | None) -> NoReturn:
    """Prove the hosts in the time, say what came of it, and end with its exit status."""
    # The seconds since this process began, which its user waits for, too: proc(5).
    ticks = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
    start = time.monotonic() - max(0.0, uptime - int(ticks) / os.sysconf("SC_CLK_TCK"))
    within = min(GATE_TIME if gate.within is None else parse_seconds(gate.within), LONGEST)
    params = {**bench.params, "limit": 0.0 if limit is None else parse_rate(limit)}
    listener = JobProgress(stderr=True)
    values = typed_values(("metric", "grouping", "limit", "busy"))

    def work() -> bytes:
        result = prove(
            cluster, within, busy=gate.busy, runs=bench.options.runs, listener=listener,
            params=params, start=start, options=values,
        )  # fmt: skip
        return msgspec.json.encode(result)

    content = answer_by(start + (1 + LATE) * within, work)
    if content is None:
        result = prove_nothing(cluster, within, start, params, values)
    else:
        result = decoders.decode(content, Gate)
    if bench.options.json:
        print_json(result)
    else:
        sys.stdout.write(f"{result.answer}\n")
    sys.stdout.flush()
    os._exit(STATUS[result.verdict])  # what is open belongs to the child, which closes it


@contextmanager
def undecided_at_errors(*, is_gate: bool) -> Iterator[None]:
    """End a gate that fails with the status of UNDECIDED: that of other failures says BAD."""
    try:
        yield
    except (SpecError, ClickException, Abort, Exit):
        raise
    except Exception as error:
        if not is_gate:
            raise
        if isinstance(error, ClusterError | OSError):
            print_error(error_words(error))
        else:
            traceback.print_exc()
        raise Exit(STATUS["UNDECIDED"]) from error
