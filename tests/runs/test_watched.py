"""Series of runs: the control series, and hosts of a fleet against the fleet's own median."""

from pathlib import Path

import msgspec
import numpy as np

from cluster.core.model.hosts import Machine
from cluster.core.model.network.fleet import PairTest
from cluster.core.model.results.measurements import Measurement
from cluster.core.model.spec import ClusterSpec
from cluster.fleet.pair_measurements import measurements_of
from cluster.runs.run import PAIRS, Run
from cluster.runs.watch import series
from tests.plain_values import plain_definition, plain_record

PAIR = plain_definition(metric="bandwidth", unit="B/s", better="higher")
COPY = plain_definition(metric="memory_copy", unit="B/s", better="higher")
HOSTS, RUNS, CHANGED = 5, 30, 28  # the newest two runs changed
SEED = 390_100


def fleet(*, all_: float = 1.0, copies: float = 1.0, host: float = 1.0) -> list[Run]:
    """Make runs of a fleet with 1% of noise; the newest two are as many times faster."""
    chance = np.random.default_rng(SEED)
    runs = []
    for number in range(RUNS):
        new = number >= CHANGED
        measurements = []
        for round_, (source, target) in enumerate(_pairs()):
            value = 1e9 * (1 + 0.01 * chance.standard_normal()) * (all_ if new else 1)
            value *= host if new and 3 in (source, target) else 1
            test = PairTest(round=round_, source=source, target=target, value=value)
            measurements += measurements_of([test], PAIR, {source: f"h{source}"})
        copy = 1e10 * (1 + 0.01 * chance.standard_normal()) * (copies if new else 1)
        measurements.append(_copy(copy))
        runs.append(_run(number, measurements))
    return runs


def _pairs() -> list[tuple[int, int]]:
    return [(a, b) for a in range(HOSTS) for b in range(HOSTS) if a != b]


def _copy(value: float) -> Measurement:
    return Measurement(
        metric="memory_copy",
        definition=COPY.id,
        unit="B/s",
        params={},
        rank=0,
        host="h0",
        values=(value,),
    )


def _machine(number: int) -> Machine:
    kind = "ssh"
    return Machine(
        name=f"h{number}", id=f"i{number}", address="10.0.0.1", shell=kind, folder="/f", bin="/b"
    )


def _run(number: int, measurements: list[Measurement]) -> Run:
    record = plain_record(
        id=f"r{number:02}",
        benchmark=PAIRS,
        at=float(number),
        spec=ClusterSpec(name="f", hosts=HOSTS),
        machines=tuple(_machine(number) for number in range(HOSTS)),
        definitions={PAIR.id: PAIR, COPY.id: COPY},
    )
    return Run(folder=Path(record.id), record=record, measurements=tuple(measurements))


def states(runs: list[Run]) -> dict[str, str]:
    """Return the state of each series: of the fleet, of the copies, and of each host."""
    return {str(item.params.get("host", item.metric)): item.state for item in series(runs)}


def test_a_change_that_the_control_shares_is_no_alarm_of_the_network() -> None:
    alone = states(fleet(all_=0.8))
    shared = states(fleet(all_=0.8, copies=0.8))

    assert alone["bandwidth"] == "alarm"
    assert alone["memory_copy"] == "steady"
    assert shared["bandwidth"] == "watch"
    assert shared["memory_copy"] == "alarm"


def test_a_change_of_all_hosts_is_one_finding_and_of_no_host() -> None:
    for state in (states(fleet(all_=0.8)), states(fleet(all_=0.8, copies=0.8))):
        assert list(state.values()).count("alarm") == 1
        assert {state[f"h{host}"] for host in range(HOSTS)} == {"steady"}


def test_a_change_of_one_host_is_its_own_and_names_it() -> None:
    state = states(fleet(host=0.8))

    assert state["h3"] == "alarm"
    assert {state[f"h{host}"] for host in range(HOSTS) if host != 3} == {"steady"}


def test_a_changed_definition_is_another_series_and_no_alarm() -> None:
    """The newest runs measure something else: their values are half as large."""
    other = msgspec.structs.replace(PAIR, what="half of it")
    runs = fleet(all_=0.5)
    copies = [
        msgspec.structs.replace(
            run,
            record=msgspec.structs.replace(run.record, definitions={other.id: other}),
            measurements=tuple(
                msgspec.structs.replace(m, definition=other.id)
                for m in run.measurements
                if m.definition == PAIR.id
            ),
        )
        for run in runs[CHANGED:]
    ]
    rows = [row for row in series([*runs[:CHANGED], *copies]) if row.metric == "bandwidth"]

    assert [(row.definition, row.runs, row.state) for row in rows] == [
        (PAIR.id, CHANGED, "steady"),
        (other.id, RUNS - CHANGED, "steady"),
    ]
