"""What a run folder says of its values: medians, and the bounds of the links that took part."""

from pathlib import Path

import msgspec
import pytest

from cluster.core.model.hosts import Link, Machine
from cluster.core.model.results.measurements import Definition
from cluster.core.model.spec import ClusterSpec
from cluster.runs import store
from tests.plain_values import plain_definition
from tests.runs.conftest import measurement, record


def definition(**changes: object) -> Definition:
    return plain_definition(**{"metric": "latency", **changes})


def test_the_summary_of_a_run(folder: Path) -> None:
    metric = definition()
    store.write(folder, record(definitions={metric.id: metric}))
    store.append(folder, [msgspec.structs.replace(measurement(0, 3.0, 1.0), definition=metric.id)])

    assert [(s.metric, s.n, s.median) for s in store.read(folder).summary()] == [
        ("latency", 2, 2.0)
    ]


def machine(number: int, address: str, link: Link | None) -> Machine:
    return Machine(  # noqa: S604 - "shell" names one of our plug-ins
        name=f"{number}.mpi.mine",
        id=f"id-{number}",
        address=address,
        shell="local",
        folder="/x",
        bin="/y",
        link=link,
    )


GBIT = Link(rate=125e6, source="test")
SLOWER = Link(rate=12.5e6, source="test")
GOODPUT = 125e6 * 1448 / 1538  # bytes per second


@pytest.mark.parametrize(
    ("machines", "ranks_per_host", "params", "expected"),
    [
        ([("a", GBIT), ("b", GBIT)], 1, {"pair": [0, 1]}, GOODPUT),
        ([("a", GBIT), ("b", SLOWER)], 1, {"pair": [0, 1]}, GOODPUT / 10),
        ([("a", GBIT), ("b", SLOWER)], 1, {}, GOODPUT / 10),
        ([("a", GBIT), ("b", SLOWER)], 1, {"pair": "another meaning"}, GOODPUT / 10),
        ([("a", GBIT), ("b", SLOWER), ("c", GBIT)], 1, {"pair": [0, 2]}, GOODPUT),
        ([("a", GBIT), ("b", None)], 1, {"pair": [0, 1]}, None),
        ([("a", GBIT), ("b", GBIT)], 2, {"pair": [0, 1]}, None),
        ([("a", GBIT), ("b", GBIT)], 2, {"pair": [1, 2]}, GOODPUT),
        ([("a", GBIT), ("a", GBIT)], 1, {"pair": [0, 1]}, None),
        ([("a", GBIT)], 2, {}, None),
        ([], 1, {"pair": [0, 1]}, None),
    ],
)
def test_the_links_of_the_hosts_that_took_part_bound_a_run(
    folder: Path,
    machines: list[tuple[str, Link | None]],
    ranks_per_host: int,
    params: dict[str, object],
    expected: float | None,
) -> None:
    """Ranks of one host have no network between them, whatever its link is."""
    metric = definition(metric="bandwidth", unit="B/s", better="higher", flow="one way")
    run_record = record(
        spec=ClusterSpec(name="mine", ranks_per_host=ranks_per_host),
        machines=tuple(machine(n, *fields) for n, fields in enumerate(machines)),
        params=msgspec.Raw(msgspec.json.encode(params)),
        definitions={metric.id: metric},
    )
    store.write(folder, run_record)
    store.append(folder, [msgspec.structs.replace(measurement(0, 1e-6), definition=metric.id)])

    [summary] = store.read(folder).summary()
    assert summary.median == 8e6
    assert summary.bound == pytest.approx(expected)
    assert summary.share == (None if expected is None else pytest.approx(8e6 / expected))


def test_of_a_one_way_time_the_receivers_is_bounded(folder: Path) -> None:
    kind = definition(metric="oneway_time", aggregation="each rank", flow="one way")
    run_record = record(
        machines=(machine(0, "a", GBIT), machine(1, "b", GBIT)),
        params=msgspec.Raw(b'{"pair": [1, 0]}'),
        definitions={kind.id: kind},
    )
    store.write(folder, run_record)
    raw = (measurement(rank, 1.0) for rank in (0, 1))
    store.append(folder, [msgspec.structs.replace(m, definition=kind.id, bytes=10**8) for m in raw])

    receiver, sender = store.read(folder).summary()
    assert receiver.bound == receiver.share == pytest.approx(1e8 / GOODPUT)
    assert (sender.params["rank"], sender.bound, sender.share) == (1, None, None)


OLD = Path(__file__).parents[1] / "plain_run"


def test_a_run_of_before_there_were_bounds_is_read_as_it_was() -> None:
    """Written by the version without `link` and `flow`; its ids are still those of its values."""
    run = store.read(OLD)

    assert [(s.metric, s.bound) for s in run.summary()] == [
        ("latency", None),
        ("bandwidth", None),
    ]
    assert all(key == value.id for key, value in run.record.definitions.items())
