"""The benchmark p2p: its definitions, its counts, its honesty."""

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

import cluster
from cluster.analysis.limits.link import BELIEVABLE
from cluster.analysis.statistics.distribution import has_converged
from cluster.benchmarks.p2p import P2P
from cluster.benchmarks.p2p.definitions import (
    BANDWIDTH,
    BIDIRECTIONAL,
    COPY,
    LATENCY,
    ONEWAY,
    P2PParams,
)
from cluster.benchmarks.p2p.exchange import Exchange, oneway_line
from cluster.benchmarks.p2p.loops import Messages, MpiPairLoops, PairMemory
from cluster.core.model.results.measurements import Definition
from cluster.core.text.options import convert
from cluster.measure.buffers import (
    WrongDataError,
    check_data,
    first_difference,
    inverse,
    pattern,
)
from cluster.measure.rank import Rank
from tests.snapshots import Snapshot

DEFINITIONS = [ONEWAY, LATENCY, BANDWIDTH, BIDIRECTIONAL, COPY]


def test_the_founding_line_is_kept_exactly() -> None:
    """The rate is that of the unrounded time: 100 / 23.1 would be 4329.0."""
    line = oneway_line(1, 100_000_000, 100 / 4323.8)

    assert line == "Process 1 transferred 100 MB in 23.1 ms (4323.8 MB/sec)"


@pytest.mark.parametrize("definition", DEFINITIONS)
def test_every_metric_has_a_whole_definition(definition: Definition) -> None:
    assert definition.benchmark == "p2p"
    assert definition.better == ("higher" if definition.unit == "B/s" else "lower")
    for words in (definition.what, definition.clock, definition.synchronisation):
        assert len(words) > 20
    assert re.fullmatch(rf"p2p\.{definition.metric}-[0-9a-f]{{8}}", definition.id)


def test_a_difference_is_found_wherever_it_is() -> None:
    data = np.arange(3_000_000, dtype=np.uint64).astype(np.uint8)
    assert first_difference(data.copy(), data) is None
    for offset in (0, 1, 2**20 - 1, 2**20, 2_999_999):
        copy = data.copy()
        copy[offset] ^= 1
        assert first_difference(copy, data) == offset


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": "speed"}, "There are: oneway_time, oneway_bandwidth, latency, bandwidth"),
        ({"metrics": []}, "There are no metrics"),
        ({"sizes": []}, "There are no sizes"),
        ({"iterations": 0}, "iterations is 0"),
        ({"max_iterations": 0}, "max_iterations is 0"),
        ({"pair": (-1, 0)}, 'pair="-1,0" does not name two of the 2'),
        ({"iterations": "many"}, 'iterations="many" is not valid.\nIt must be a whole number'),
    ],
)
def test_what_cannot_be_measured_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(cluster.SpecError) as error:
        P2P().check(convert(options, P2PParams, "parameter"), 2)
    assert message in str(error.value)


@pytest.mark.usefixtures("tools")
def test_counts_are_those_of_osu_unless_said_otherwise() -> None:
    """10000 and 1000 round trips, 100 and 20 windows, or what 2 s allow; fewer above 8192 B."""
    with cluster.launch("osu", hosts=2) as c:
        metrics = ["latency", "bandwidth", "bidirectional"]
        run = c.bench("p2p", metrics=metrics, sizes=[8192, 8193])
        custom_run = c.bench("p2p", metrics=metrics, sizes=[8], iterations=7, warm_up=0, window=3)

    counts = {(m.metric, m.params["size"], m.rank): len(m.values) for m in run.measurements}
    most = {
        ("latency", 8192, 0): 10_000,
        ("latency", 8193, 0): 1_000,
        ("bandwidth", 8192, 0): 100,
        ("bandwidth", 8193, 0): 20,
        ("bidirectional", 8192, 0): 100,
        ("bidirectional", 8192, 1): 100,
        ("bidirectional", 8193, 0): 20,
        ("bidirectional", 8193, 1): 20,
    }
    assert counts.keys() == most.keys()
    assert all(10 <= counts[cell] <= most[cell] for cell in most)
    assert {m.metric: m.bytes for m in custom_run.measurements} == {
        "latency": 8,
        "bandwidth": 8 * 3,
        "bidirectional": 2 * 8 * 3,
    }
    assert {len(m.values) for m in custom_run.measurements} == {7}
    assert [s.metric for s in custom_run.summary()] == metrics


def looks() -> Iterator[int]:
    """Yield the numbers of values after which an adaptive run looks at them."""
    n = 20
    while n < 20_000:
        yield n
        n += max(1, n // 10)


@pytest.mark.usefixtures("tools")
def test_until_precise_stops_early_or_says_so() -> None:
    with cluster.launch("precise", hosts=2) as c:
        easy = c.bench("p2p", metrics="latency", sizes=[8], until_precise=True)
        # 25 values cannot hold the criterion to 20 B and more of noise: at most the cap is taken.
        capped = c.bench(
            "p2p", metrics="bidirectional", sizes=[8], until_precise=True, max_iterations=21
        )

    [summary], [measurement] = easy.summary(), easy.measurements
    values = measurement.values
    assert summary.n == len(values)
    assert summary.converged == has_converged(values)
    # A loaded machine may never come to rest: then all are taken, and it is said.
    assert len(values) == 20_000 or summary.converged
    assert not any(has_converged(values[:n]) for n in looks() if n < len(values))
    [summary] = capped.summary()
    assert summary.n in (20, 21)


@pytest.mark.usefixtures("tools")
def test_any_two_ranks_may_be_the_pair() -> None:
    """The founding program hangs with more than two ranks; here the others sleep."""
    with cluster.launch("pair", hosts=3) as c:
        metrics = ["oneway_time", "latency"]
        run = c.bench("p2p", metrics=metrics, sizes=[1000], pair=(2, 1), iterations=6)

    assert {(m.metric, m.rank) for m in run.measurements} == {
        ("oneway_time", 2),
        ("oneway_time", 1),
        ("latency", 2),
    }


@pytest.mark.usefixtures("tools")
def test_latency_is_half_of_a_round_trip_and_bandwidth_grows() -> None:
    """Physics that holds on any machine, at the best of many values whatever else it runs."""
    with cluster.launch("physics", hosts=2) as c:
        run = c.bench("p2p", metrics=["latency", "bandwidth"], sizes=[8, 2**20])

    best = {(m.metric, m.params["size"]): min(m.values) for m in run.measurements}
    small, large = best["latency", 8], best["latency", 2**20]
    rates = {
        m.params["size"]: (m.bytes or 0)
        / min(m.values)  # windows are shorter if they take too long
        for m in run.measurements
        if m.metric == "bandwidth"
    }
    slow, fast = rates[8], rates[2**20]
    assert small < large / 5
    assert slow < fast / 10
    assert fast < 2**20 / large * 10


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("kernel", ["auto", "python"])
def test_memory_is_copied_beside_and_bounds_the_messages_of_one_host(kernel: str) -> None:
    """Copies of each size that is large enough; nothing passes them."""
    with cluster.launch("memory", hosts=2) as c:
        metrics = ["memory_copy", "bandwidth", "latency"]
        run = c.bench("p2p", metrics=metrics, sizes=[8, 2**20], iterations=6, kernel=kernel)

    by_metric = {(s.metric, s.params["size"]): s for s in run.summary()}
    copy = by_metric["memory_copy", 2**20]
    assert {(m.rank, m.bytes) for m in run.measurements if m.metric == "memory_copy"} == {
        (0, 4 * 2**20)
    }
    assert copy.bound is None
    for size in (8, 2**20):
        summary = by_metric["bandwidth", size]
        assert (summary.bound or 0) >= copy.median
        assert 0 < (summary.share or 0) < 1
        assert by_metric["latency", size].bound is None


@pytest.mark.usefixtures("tools")
def test_a_message_beyond_all_caches_is_no_faster_than_a_copy_of_it() -> None:
    """Copies go into memory as good as that of messages; neighbours may disturb one of three."""
    with cluster.launch("large", hosts=2) as c:
        metrics = ["memory_copy", "oneway_time"]
        for _ in range(3):
            run = c.bench("p2p", metrics=metrics, sizes=[10**8], iterations=10)
            shares = [s.share or 0 for s in run.summary() if s.metric == "oneway_time"]
            assert all(shares)
            if max(shares) <= BELIEVABLE:
                break

    assert max(shares) <= BELIEVABLE


@pytest.mark.parametrize(
    ("definition", "size", "seconds"),
    [
        (LATENCY, 4 << 20, 11 * 2 * (0.35 + 0.01)),
        (BANDWIDTH, 4 << 20, 14 * 0.35),
        (COPY, 4 << 20, 0.0),
    ],
)
def test_an_estimate_counts_all_that_passes_a_slow_link(
    definition: Definition, size: int, seconds: float
) -> None:
    """At 12 MB/s: 11 values, each a round trip and 20 ms untimed, or a message; three probes."""
    window = 1 if definition is LATENCY else 64
    memory = cast(
        "PairMemory",
        SimpleNamespace(
            count_bytes=lambda _, size: size * window, lead=int(0.01 / 0.35 * (4 << 20))
        ),
    )
    exchange = Exchange(cast("Rank", None), memory, cast("MpiPairLoops", None), P2PParams())
    estimate = exchange._estimate([(definition, size)], 1e-6, 0.35 / (4 << 20))

    assert estimate == pytest.approx(seconds, rel=0.01)


@pytest.mark.parametrize("lead", [1 << 16, 1 << 10])
def test_the_end_of_a_message_that_does_not_arrive_is_noticed(
    snapshot: Snapshot, lead: int
) -> None:
    """Whatever an untimed round trip has of it: each timed message differs from the one before."""
    size, cut = 1 << 16, 1 << 10
    patterns = pattern(size), inverse(pattern(size))
    sizes: list[int] = []  # bytes of each message, timed and not in turn

    def receive(piece: NDArray[np.uint8], *_: object) -> None:
        timed, number = len(sizes) % 2 == 0, len(sizes) // 2
        count = cut if timed and number == 3 else len(piece)
        piece[:count] = patterns[number % 2][:count]
        sizes.append(count)

    moves = SimpleNamespace(ready=list, send=lambda *_: None, receive=receive)
    memory = SimpleNamespace(check=check_data, clear=lambda _: None, moves=lambda _: moves)
    pair = SimpleNamespace(
        patterns=patterns, incoming=np.zeros(size, np.uint8), window_of=lambda *_: 1, lead=lead,
        memory=memory, first=False, peer=0, comm=None, takes=lambda _: False,
    )  # fmt: skip
    data = cast("PairMemory", pair)
    repeat = MpiPairLoops(data).loop(LATENCY, Messages(data, LATENCY, size))

    repeat(3)
    with snapshot.raises(WrongDataError):
        repeat(1)
    assert sizes == [size, lead, size, lead, size, lead, cut]
