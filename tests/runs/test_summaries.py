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
    of = definition()
    store.write(folder, record(definitions={of.id: of}))
    store.append(folder, [msgspec.structs.replace(measurement(0, 3.0, 1.0), definition=of.id)])

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
    of = definition(metric="bandwidth", unit="B/s", better="higher", flow="one way")
    known = record(
        spec=ClusterSpec(name="mine", ranks_per_host=ranks_per_host),
        machines=tuple(machine(n, *one) for n, one in enumerate(machines)),
        params=msgspec.Raw(msgspec.json.encode(params)),
        definitions={of.id: of},
    )
    store.write(folder, known)
    store.append(folder, [msgspec.structs.replace(measurement(0, 1e-6), definition=of.id)])

    [summary] = store.read(folder).summary()
    assert summary.median == 8e6
    assert summary.bound == pytest.approx(expected)
    assert summary.share == (None if expected is None else pytest.approx(8e6 / expected))


def test_of_a_one_way_time_the_receivers_is_bounded(folder: Path) -> None:
    of = definition(metric="oneway_time", aggregation="each rank", flow="one way")
    known = record(
        machines=(machine(0, "a", GBIT), machine(1, "b", GBIT)),
        params=msgspec.Raw(b'{"pair": [1, 0]}'),
        definitions={of.id: of},
    )
    store.write(folder, known)
    taken = (measurement(rank, 1.0) for rank in (0, 1))
    store.append(folder, [msgspec.structs.replace(m, definition=of.id, bytes=10**8) for m in taken])

    received, sent = store.read(folder).summary()
    assert received.bound == received.share == pytest.approx(1e8 / GOODPUT)
    assert (sent.params["rank"], sent.bound, sent.share) == (1, None, None)


OLD = Path(__file__).parents[1] / "plain_run"


def test_a_run_of_before_there_were_bounds_is_read_as_it_was() -> None:
    """Written by the version without `link` and `flow`; its ids are still those of its values."""
    found = store.read(OLD)

    assert [(s.metric, s.bound) for s in found.summary()] == [
        ("latency", None),
        ("bandwidth", None),
    ]
    assert all(key == of.id for key, of in found.record.definitions.items())
