"""The bound of a link: by hand, against published figures, and what is judged by it."""

import math
from typing import Literal

import msgspec
import pytest

from cluster.analysis.limits.link import (
    Route,
    bound,
    copy_rates,
    doubts,
    goodput,
    with_given_bound,
    with_link_bound,
)
from cluster.analysis.statistics.summarize import summarize
from cluster.core.errors import SpecError
from cluster.core.model.hosts import Link
from cluster.core.model.results.limits import Limit
from cluster.core.model.results.measurements import Definition, Factor, Flow, Measurement, Summary
from cluster.core.model.value import Scalar
from tests.plain_values import plain_definition, plain_summary

GBIT = 125e6  # bytes per second
ONE: Flow = "one way"
BOTH: Flow = "both ways"
BETWEEN: Flow = "between hosts"
GIVEN = Limit(kind="given", rate=1e9)
LINK = Link(rate=GBIT, source="test")


def definition(flow: Flow = ONE, unit: str = "B/s") -> Definition:
    return plain_definition(unit=unit, better="lower" if unit == "s" else "higher", flow=flow)


def summary(median: float, unit: str = "B/s", **params: Scalar) -> Summary:
    better = "lower" if unit == "s" else "higher"
    return plain_summary(median, unit=unit, better=better, params=params, n=1, converged=False)


def shared(factor: Factor, rate: Literal["algorithm", "bus"], flow: Flow = BETWEEN) -> Definition:
    return msgspec.structs.replace(definition(flow), factor=factor, rate=rate)


@pytest.mark.parametrize(
    ("mtu", "encapsulation", "share"),
    [
        (1500, 0, 1448 / 1538),
        (9000, 0, 8948 / 9038),
        (9001, 0, 8949 / 9039),
        (1500, 50, 1398 / 1538),
        (9000, 50, 8898 / 9038),
    ],
)
def test_goodput_is_what_headers_and_frames_leave(
    mtu: int, encapsulation: int, share: float
) -> None:
    link = Link(rate=GBIT, mtu=mtu, encapsulation=encapsulation, source="test")

    assert goodput(link) == pytest.approx(GBIT * share, rel=1e-12)


def test_goodput_in_the_figures_that_people_know() -> None:
    """1 Gbit/s brings 117.7 MB/s at 1500, 123.8 at 9000, and 113.6 through VXLAN."""
    assert round(goodput(LINK) / 1e6, 1) == 117.7
    assert round(goodput(msgspec.structs.replace(LINK, mtu=9000)) / 1e6, 1) == 123.8
    assert round(goodput(msgspec.structs.replace(LINK, encapsulation=50)) / 1e6, 1) == 113.6


@pytest.mark.parametrize(
    "changes",
    [
        {"rate": 0.0},
        {"rate": -1.0},
        {"rate": math.inf},
        {"rate": math.nan},
        {"mtu": 52},
        {"mtu": 102, "encapsulation": 50},
        {"encapsulation": -1},
    ],
)
def test_a_link_that_nothing_could_pass_is_refused(changes: dict[str, float]) -> None:
    with pytest.raises(SpecError):
        msgspec.convert({"rate": GBIT, "source": "test", **changes}, Link)


def test_the_slowest_link_bounds_a_rate() -> None:
    fast = Link(rate=10 * GBIT, source="test")

    assert bound(definition(), [fast, LINK, fast]) == goodput(LINK)
    assert bound(definition(BOTH), [fast, LINK]) == 2 * goodput(LINK)


def test_the_limit_of_a_connection_holds_for_tcp_and_not_for_a_fabric() -> None:
    """iperf opens connections of its own, whatever MPI's messages pass."""
    link = Link(rate=100 * GBIT, flow=10 * GBIT, mtu=9001, source="test", fabric="efa")
    tcp = msgspec.structs.replace(definition(), benchmark="iperf")
    route = Route(links=(link,))

    assert bound(definition(), [link]) == pytest.approx(10 * (bound(tcp, [link]) or 0))
    whole = Limit(
        kind="efa", rate=goodput(msgspec.structs.replace(link, flow=None)), flow=ONE,
        source="test", mtu=9001, line=100 * GBIT,
    )  # fmt: skip
    assert with_link_bound(summary(1e9), definition(), 1, route).limit == whole
    capped = msgspec.structs.replace(
        whole, kind="tcp", rate=goodput(link), per_connection=10 * GBIT
    )
    assert with_link_bound(summary(1e9), tcp, 1, route).limit == capped


@pytest.mark.parametrize(
    ("flow", "links"),
    [("", [LINK, LINK]), (ONE, [LINK, None]), (BOTH, [None, None]), (ONE, [])],
)
def test_without_a_link_or_a_flow_there_is_no_bound(flow: Flow, links: list[Link | None]) -> None:
    assert bound(definition(flow), links) is None


def test_a_rate_is_a_share_of_the_highest() -> None:
    result = with_link_bound(summary(100e6), definition(), 0, Route(links=(LINK, LINK)))

    assert result.bound == goodput(LINK)
    assert result.share == pytest.approx(100e6 / goodput(LINK))


def test_the_shortest_time_is_a_share_of_a_time() -> None:
    """One second for 100 MB at 1 Gbit/s: it could have been 0.8497 s."""
    result = with_link_bound(
        summary(1.0, "s"), definition(unit="s"), 100_000_000, Route(links=(LINK, LINK))
    )

    assert result.bound == result.share == pytest.approx(0.8497, abs=1e-4)


def test_a_time_without_bytes_has_no_bound_and_none_at_all_is_too_fast() -> None:
    route = Route(links=(LINK, LINK))

    assert with_link_bound(summary(1.0, "s"), definition(unit="s"), 0, route).bound is None
    assert with_link_bound(summary(0.0, "s"), definition(unit="s"), 8, route).share == math.inf


def test_nothing_bounds_the_time_until_a_buffer_is_free() -> None:
    """The last megabytes are in the kernel's buffers then: 31 times the line's rate for 1 MB."""
    route = Route(links=(LINK, LINK), sender=0)
    sender, receiver = (
        with_link_bound(summary(0.01, "s", rank=rank), definition(unit="s"), 1_000_000, route)
        for rank in (0, 1)
    )

    assert (sender.bound, sender.share) == (None, None)
    assert receiver.share == pytest.approx(0.8497, abs=1e-4)


def test_what_is_faster_than_possible_is_doubted() -> None:
    shares = (None, 0.5, 1.0, 1.02, 1.021, 8.0)
    codes = [
        list(doubts(msgspec.structs.replace(summary(1.0, size=65536), share=s))) for s in shares
    ]

    assert codes == [[], [], [], [], ["above_limit"], ["above_limit"]]


def test_a_copy_in_memory_bounds_what_ranks_of_one_host_exchange() -> None:
    """The best copy of at least their size: 8 B in 1 s; in both directions two cores copy."""
    copies = [
        Measurement(
            metric=metric,
            definition="d",
            unit="s",
            params={"size": size},
            rank=0,
            host="h",
            values=(8 / rate, 16 / rate),
            bytes=8,
        )
        for metric, size, rate in (
            ("memory_copy", 1024, 57.0),
            ("memory_copy", 2048, 8.0),
            ("memory_copy", 4096, 7.0),
            ("latency", 2048, 9.0),
        )
    ]
    route = Route(copies=copy_rates(copies))

    assert route.copies == {1024: 57.0, 2048: 8.0, 4096: 7.0}
    assert with_link_bound(summary(2.0, size=2000), definition(), 8, route).share == 0.25
    assert with_link_bound(summary(4.0, size=2048), definition(BOTH), 8, route).share == 0.25
    assert with_link_bound(summary(3.5, size=2049), definition(), 8, route).share == 0.5
    assert with_link_bound(summary(5.7, size=8), definition(), 8, route).share == 0.1
    assert with_link_bound(summary(1.0), definition(""), 8, route).bound is None
    assert with_link_bound(summary(1.0), definition(BETWEEN), 8, route).bound is None
    assert (
        with_link_bound(summary(1.0), definition(), 8, Route(copies=copy_rates([]))).bound is None
    )
    limit = with_link_bound(summary(2.0, size=2048), definition(), 8, route).limit
    assert limit == Limit(kind="memory_copy", rate=8.0, flow=ONE)


def test_a_bound_says_what_sets_it() -> None:
    fast = Link(rate=10 * GBIT, source="elsewhere")
    result = with_link_bound(summary(1.0), definition(BOTH), 0, Route(links=(fast, LINK)))

    assert result.limit is not None
    assert (result.limit.kind, result.limit.flow) == ("tcp", BOTH)
    assert (result.limit.line, result.limit.source) == (GBIT, "test")
    assert with_link_bound(summary(1.0), definition(), 0, Route()).limit is None


@pytest.mark.parametrize(
    ("values", "unit", "doubted"),
    [
        ((1.0, 2.0, 3.0), "s", False),
        ((0.0, 2.0, 3.0), "s", False),  # a coarse clock has some of these
        ((0.0, 0.0, 3.0), "s", True),
        ((-1e-9, 2.0, 3.0), "s", True),
        ((0.0, 0.0, 3.0), "B/s", True),
        ((-1.0, 2.0, 3.0), "C", False),  # a temperature may be below 0
    ],
)
def test_values_that_took_no_time_are_doubted(
    values: tuple[float, ...],
    unit: str,
    doubted: bool,  # noqa: FBT001
) -> None:
    """Neither a clock nor a network gives them: the record is damaged, or the clock coarse."""
    metric = definition(unit=unit)
    measurement = Measurement(
        metric="m",
        definition=metric.id,
        unit="s" if unit == "B/s" else unit,
        params={},
        rank=0,
        host="h",
        values=values,
        bytes=8,
    )
    [result] = summarize([measurement], [metric])

    assert list(doubts(result)) == (["no_time"] if doubted else [])


@pytest.mark.parametrize(
    ("metric", "hosts", "rate"),
    [
        (definition(), 2, 1e9),
        (definition(BOTH), 2, 2e9),
        (shared("2(n-1)/n", "algorithm"), 4, 1e9 / 1.5),
        (shared("2(n-1)/n", "bus"), 4, 1e9 * 1.75 / 1.5),
        (shared("(n-1)/n", "algorithm", "between ranks"), 4, 1e9 / 0.75 / 2),
        (shared("2(n-1)/n", "bus"), 1, None),
    ],
)
def test_a_network_that_somebody_named(metric: Definition, hosts: int, rate: float | None) -> None:
    """Both directions, and what a collective of 8 ranks must pass from host to host."""
    result = with_given_bound(summary(1e8, size=1000), metric, GIVEN, hosts, 8)

    assert result.bound == (None if rate is None else pytest.approx(rate))
    assert result.share == (None if rate is None else pytest.approx(1e8 / rate))


def test_a_network_that_somebody_named_bounds_times_and_nothing_without_a_size() -> None:
    result = with_given_bound(summary(1e-5, "s", size=1000), definition(unit="s"), GIVEN, 2, 2)

    assert result.bound == pytest.approx(1e-6)
    assert result.share == pytest.approx(0.1)
    assert with_given_bound(summary(1e-5, "s"), definition(unit="s"), GIVEN, 2, 2).bound is None
