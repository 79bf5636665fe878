"""One word and one line for a run: ours or imported."""

import shlex
from typing import Any

import msgspec
import pytest

from benchmarks.p2p.definitions import BANDWIDTH, BIDIRECTIONAL, COPY, LATENCY
from benchmarks.program import RUN_TIME
from benchmarks.training.definitions import SAMPLES_RATE
from cluster.analysis.limits import hardware
from cluster.analysis.limits.link import Route, with_link_bound
from cluster.analysis.models.step_limits import Stage, Stalls, TrainingVerdict
from cluster.analysis.verdict.evidence import Finding, OtherLoad
from cluster.analysis.verdict.judgement import SmallSizes, judge, judge_launches
from cluster.analysis.verdict.reasons import Advice, Purpose, TooSmall
from cluster.core.model.hosts import SIMULATED, Link, Machine
from cluster.core.model.results.measurements import Definition, Distribution, Summary
from cluster.core.model.results.records import Record
from cluster.core.model.spec import ClusterSpec
from cluster.reports.words.step_limits import training_answer
from cluster.reports.words.verdict import answer
from tests.plain_values import plain_summary
from tests.snapshots import Snapshot

GBIT = 1e9 / 8
GIGABIT = Link(rate=GBIT, mtu=1500, source="ethtool of eth0")
MIB = 1 << 20


def summary(definition: Definition, median: float, size: int = MIB) -> Summary:
    ci = median * 0.99, median * 1.01
    return plain_summary(median, definition, params={"size": size}, ci=ci)


def always(rate: float) -> Summary:
    """Return a series whose best value is hardly above its median."""
    shape = Distribution(
        minimum=rate, p25=rate, p75=rate, maximum=rate * 1.01,
        outliers=0, drift=None, drifts=False, modes=(), tail=1.0,
    )  # fmt: skip
    return msgspec.structs.replace(summary(BANDWIDTH, rate), shape=shape)


def record(hosts: int = 2, **changes: Any) -> Record:
    machines = tuple(
        Machine(  # noqa: S604 - the name of a plug-in
            id=str(n),
            name=f"{n}.mpi.mine",
            address=f"10.0.0.{n}",
            shell="ssh",
            folder="/home/mine",
            bin="/usr/bin",
        )
        for n in range(hosts)
    )
    run = Record(
        id="1",
        benchmark="p2p",
        status="done",
        at=0.0,
        spec=ClusterSpec(name="mine", provider="lab", hosts=hosts),
        machines=machines,
        definitions={d.id: d for d in (BANDWIDTH, BIDIRECTIONAL, COPY, LATENCY, RUN_TIME)},
    )
    return msgspec.structs.replace(run, **changes)


def step(purpose: Purpose, command: str) -> Advice:
    return Advice(purpose=purpose, command=tuple(command.split()))


def again(benchmark: str, flags: str = "") -> Advice:
    options = "mine --provider lab --hosts 2"
    return step("measure", f"cluster bench {benchmark} {options} {flags}")


def bind(link: Link, *rows: Summary) -> list[Summary]:
    metrics = record().definitions
    route = Route(links=(link, link), ranks=2)
    return [
        with_link_bound(s, metrics[s.definition], int(str(s.params["size"])), route) for s in rows
    ]


def test_what_healthy_networks_reach_is_normal(snapshot: Snapshot) -> None:
    result = judge(bind(GIGABIT, summary(LATENCY, 20e-6, 8), summary(BANDWIDTH, 110e6)), record())

    assert result.word == "normal"
    assert [verdict.metric for verdict in result.figures] == ["latency", "bandwidth"]
    assert result.next_step is None
    snapshot(answer(result).line)


def test_what_is_slow_is_low_and_the_next_step_is_what_would_confirm_the_cause() -> None:
    slow = bind(GIGABIT, summary(BANDWIDTH, 30e6))
    cause = Finding(kind="one_flow", confidence="likely")

    assert judge(slow, record()).word == "low"
    assert judge(slow, record(), [cause]).next_step == Advice(purpose="confirm", sign=cause)
    assert answer(judge(slow, record(), [cause])).next_step == "cluster bench iperf --streams 1,8"


def test_faster_than_the_link_is_impossible() -> None:
    assert judge(bind(GIGABIT, summary(BANDWIDTH, 200e6)), record()).word == "impossible"


def test_both_directions_are_plausible_as_nobody_has_said_what_is_usual() -> None:
    assert judge(bind(GIGABIT, summary(BIDIRECTIONAL, 120e6)), record()).word == "plausible"


def test_one_host_is_compared_with_a_copy_in_its_memory(snapshot: Snapshot) -> None:
    definitions = record().definitions
    bounded = with_link_bound(
        summary(BANDWIDTH, 8.8e9), definitions[BANDWIDTH.id], MIB, Route(copies={1 << 16: 10e9})
    )
    result = judge([bounded], record(hosts=1))

    snapshot(answer(result).line)


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_message_that_is_too_small_is_not_judged(hosts: int) -> None:
    definitions = record().definitions
    route = (
        Route(copies={1 << 16: 10e9}) if hosts == 1 else Route(links=(GIGABIT, GIGABIT), ranks=2)
    )
    tiny = with_link_bound(summary(BANDWIDTH, 1e6, 2), definitions[BANDWIDTH.id], 2, route)
    result = judge([tiny], record(hosts))

    assert result.word == "unknown"
    assert [v.reason for v in result.figures] == [TooSmall(1 << 16 if hosts == 1 else 1 << 20)]


def in_memory(*rows: Summary) -> list[Summary]:
    metrics = record().definitions
    route = Route(copies={1 << 16: 10e9})
    return [
        with_link_bound(s, metrics[s.definition], int(str(s.params["size"])), route) for s in rows
    ]


def test_a_small_message_that_was_in_a_cache_hides_no_large_one() -> None:
    result = judge(
        in_memory(summary(BANDWIDTH, 9.9e9, 4096), summary(BANDWIDTH, 7e9)), record(hosts=1)
    )

    assert result.word == "plausible"
    [figure] = result.figures
    assert (figure.params, figure.median) == ({"size": MIB}, 7e9)


BUSY = OtherLoad(host="a", used=1.8, processors=2, slowdown=2.5)


@pytest.mark.parametrize(
    ("summaries", "hosts", "quiet", "busy", "says"),
    [
        (in_memory(summary(BANDWIDTH, 9e9, 1 << 16), summary(BANDWIDTH, 4e9)), 1, "low", "unknown",
         ("bandwidth 1 MiB: 4.000 GB/s, 40% of a memory copy here (less than half of the 90% that "
         "64 KiB reaches). LOW. Next: UCX_LOG_LEVEL=info or --mca btl_base_verbose 30: do two ")),
        (in_memory(summary(BANDWIDTH, 11e9)), 1, "impossible", "unknown", "110% of a memory copy"),
        (in_memory(summary(BANDWIDTH, 7e9)), 1, "plausible", "plausible", "of a memory copy"),
        (bind(GIGABIT, summary(BANDWIDTH, 30e6)), 2, "low", "unknown", "25% of TCP over 1gbit"),
        (bind(GIGABIT, always(30e6)), 2, "low", "low", "25% of TCP over 1gbit"),
        (bind(GIGABIT, always(70e6)), 2, "low", "unknown", "59% of TCP over 1gbit"),
        (bind(GIGABIT, summary(BANDWIDTH, 110e6)), 2, "normal", "normal", "93% of TCP"),
    ],
)  # fmt: skip
def test_what_else_ran_on_a_host_is_said_and_may_be_why_a_value_is_off(
    snapshot: Snapshot, summaries: list[Summary], hosts: int, quiet: str, busy: str, says: str
) -> None:
    """A value is low all the same if the best of the series is so low that no load explains it."""
    alone, with_load = judge(summaries, record(hosts)), judge(summaries, record(hosts), [BUSY])

    assert (alone.word, with_load.word) == (quiet, busy)
    assert says in answer(alone).line
    line = answer(with_load).line
    snapshot(line)
    assert line.endswith("Next: again when quiet: cluster compare mine --again") == (
        busy in ("unknown", "plausible")
    )


@pytest.mark.parametrize(
    ("summaries", "hosts", "next_step"),
    [
        ([summary(LATENCY, 1e-6, 8)], 1, "--metrics memory_copy,bandwidth"),
        ([summary(BANDWIDTH, 1e9)], 1, "--metrics memory_copy,bandwidth"),
        (in_memory(summary(BANDWIDTH, 1e9, 4096)), 1, "--sizes 64KiB:4MiB"),
        (
            bind(GIGABIT, summary(LATENCY, 1e-6, 8)),
            2,
            "mine --provider lab --hosts 2 --metrics bandwidth",
        ),
        (
            bind(GIGABIT, summary(BANDWIDTH, 1e6, 4096)),
            2,
            "mine --provider lab --hosts 2 --sizes 64KiB:4MiB",
        ),
    ],
)
def test_next_is_measured_what_is_lacking_and_never_the_same_again(
    summaries: list[Summary], hosts: int, next_step: str
) -> None:
    definitions = record().definitions
    metrics = {s.definition: definitions[s.definition] for s in summaries}
    result = judge(summaries, record(hosts, definitions=metrics))

    assert result.word == "unknown"
    assert result.next_step is not None
    assert shlex.join(result.next_step.command) == f"cluster bench p2p {next_step}"


def test_the_next_step_of_a_batch_job_is_a_batch_script() -> None:
    spec = ClusterSpec(name="batch", provider="batch", hosts=2)
    run = record(spec=spec, command=("/usr/bin/srun", "--mpi=pmix", "python3"))
    result = judge(bind(GIGABIT, summary(BIDIRECTIONAL, 110e6)), run)

    assert result.next_step == step("measure", "cluster more script srun iperf --hosts 2")


def test_the_next_step_on_simulated_hosts_is_one_that_they_can_do() -> None:
    machines = tuple(msgspec.structs.replace(m, shell=SIMULATED) for m in record().machines)
    run = record(machines=machines, benchmark="pairs")

    result = judge(bind(GIGABIT, summary(BIDIRECTIONAL, 110e6)), run)
    assert result.next_step == step("show", "cluster check mine")


def test_whoever_named_the_network_is_not_asked_for_it_again() -> None:
    network = hardware.find("nic=1gbit")
    result = judge([summary(BANDWIDTH, 200e6)], record(), hardware=network)

    assert result.word == "impossible"
    assert result.next_step == again("iperf")


def test_hardware_that_the_user_names_replaces_what_the_hosts_said() -> None:
    """A link that runs at a tenth of its rate says so itself; the user knows better."""
    slowed = msgspec.structs.replace(GIGABIT, rate=GBIT / 10)
    measured = bind(slowed, summary(LATENCY, 20e-6, 8), summary(BANDWIDTH, 11e6))

    assert judge(measured, record()).word == "normal"
    result = judge(measured, record(), hardware=hardware.find("nic=1gbit"))
    assert result.word == "low"
    latency, rate = result.verdicts
    assert latency.bound is None
    assert rate.limit is not None
    assert (rate.limit.kind, rate.limit.host) == ("tcp", True)
    assert rate.share == pytest.approx(0.09, abs=0.005)


def test_an_instance_type_is_hardware() -> None:
    """EFA does without TCP: healthy hosts reach more of it."""
    of_cloud = record(spec=ClusterSpec(name="a", provider="aws", hosts=2, instance="p4d.24xlarge"))
    measured = bind(GIGABIT, summary(BANDWIDTH, 100e6))

    assert judge(measured, record()).word == "normal"
    assert judge(measured, of_cloud).word == "low"


def test_a_run_that_failed_says_why(snapshot: Snapshot) -> None:
    failed = record(status="failed", reason="rank 1 was killed.")
    result = judge([], failed)

    assert result.failure == failed.reason
    snapshot(answer(result).line)


def test_without_a_bound_nothing_is_judged() -> None:
    result = judge([summary(BANDWIDTH, 1e9)], record())

    assert result.word == "unknown"
    command = "cluster judge mine --hardware nic=RATE"
    assert result.next_step == step("name_network", command)


def test_an_interrupted_run_says_so(snapshot: Snapshot) -> None:
    """Its figures stand; a reader must know that the rest is missing."""
    stopped = judge(bind(GIGABIT, summary(BANDWIDTH, 110e6)), record(status="interrupted"))

    assert (stopped.word, stopped.interrupted) == ("normal", True)
    words = "; the run was interrupted, and this is what it had measured. NORMAL."
    assert words in answer(stopped).line
    copied = judge([summary(COPY, 50e9)], record(hosts=1, status="interrupted"))
    snapshot(answer(copied).answer)


def test_messages_that_are_too_small_are_named(snapshot: Snapshot) -> None:
    mixed = bind(GIGABIT, summary(BANDWIDTH, 110e6), summary(BANDWIDTH, 1e6, 8))
    only = SmallSizes(metric="bandwidth", least=8, most=8)
    assert judge(mixed, record()).not_judged == (only,)
    small = judge([summary(BANDWIDTH, 1e6, 2)], record(hosts=1))

    assert small.word == "unknown"
    assert answer(small).unlimited
    assert not answer(judge(mixed, record())).unlimited
    snapshot(answer(small).answer)
    assert small.next_step == step("measure", "cluster bench p2p --sizes 64KiB:4MiB")


def test_launches_of_one_command_are_judged_by_their_median(snapshot: Snapshot) -> None:
    launches = [bind(GIGABIT, summary(BANDWIDTH, rate)) for rate in (110e6, 50e6, 111e6)]
    judged = judge_launches(launches, record())

    assert (judged.launches, judged.figures[0].median) == (3, 110e6)
    snapshot(answer(judged).answer)
    assert judge_launches(launches[:1], record()) == judge(launches[0], record())


@pytest.mark.parametrize("benchmark", ["p2p", "training"])
def test_the_next_step_of_a_run_without_values_is_its_log(benchmark: str) -> None:
    """A report would say the same: that no value was read."""
    judged = judge([], record(benchmark=benchmark))

    assert (judged.word, judged.next_step) == ("unknown", step("show", "cluster logs mine"))


@pytest.mark.parametrize("benchmark", ["collectives", "iperf"])
def test_on_one_host_the_next_step_measures_the_same_between_hosts(benchmark: str) -> None:
    """A copy in memory limits point-to-point messages, and nothing else."""
    run = record(hosts=1, benchmark=benchmark)
    command = f"cluster bench {benchmark} own-hosts --provider ssh --option hosts=HOST1,HOST2"

    assert judge([summary(BANDWIDTH, 1e9)], run).next_step == step("measure", command)
    changes = {"benchmark": "program", "params": msgspec.Raw(b'{"command": "./train"}')}
    program = judge([summary(RUN_TIME, 1.0)], record(hosts=1, **changes))
    settings = "cluster bench program --ab env:NAME=A,B --command ./train"
    assert program.next_step == step("compare_settings", settings)
    assert answer(program).unlimited


@pytest.mark.parametrize(
    ("hosts", "stage", "next_step"),
    [
        (1, "exchange", step("show", "cluster report mine")),
        (2, "fetch", step("show", "cluster report mine")),
        (2, "exchange", again("p2p", "--metrics bandwidth")),
    ],
)
def test_training_is_answered_by_what_limits_it(
    hosts: int, stage: Stage, next_step: Advice
) -> None:
    rate = plain_summary(4729.0, SAMPLES_RATE, params={"data": "memory"})
    definitions = {SAMPLES_RATE.id: SAMPLES_RATE}
    run = record(hosts, benchmark="training", definitions=definitions)
    training = TrainingVerdict(
        stage=stage, rate=4729.0, limit="compute", bounds={"compute": 5e3}, slowest=0,
        stalls=Stalls(fetch=0.34, preparation=0, exchange=0.34, slow_rank=0), times_slower=1.0,
        rounds=8, sure=True,
    )  # fmt: skip
    judged = judge([rate], run, training=training)

    assert (judged.word, judged.figures, judged.training) == ("plausible", (), training)
    assert answer(judged).answer == training_answer(training)
    assert judged.next_step == next_step
    assert judge_launches([[rate], [rate]], run).training is None


def test_a_finding_that_is_a_low_figure_makes_a_run_low() -> None:
    """Copies that are slower with peer-to-peer are below what the same hardware did without."""
    slow = Finding(kind="slow_peers", confidence="certain")
    other = Finding(kind="fork", confidence="certain")
    fine = bind(GIGABIT, summary(BANDWIDTH, 110e6))

    assert judge(fine, record(), [other]).word == "normal"
    result = judge(fine, record(), [other, slow])
    assert (result.word, result.next_step) == ("low", Advice(purpose="confirm", sign=slow))
