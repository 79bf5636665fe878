"""One rank's half of all exchanges: every metric at every size."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from cluster.benchmarks.p2p.compiled_loops import MOST_AT_ONCE, CompiledPairLoops
from cluster.benchmarks.p2p.definitions import (
    BLOCKING,
    COPIED,
    COPY,
    LARGE,
    LATENCY,
)
from cluster.benchmarks.p2p.memory import Messages, PairMemory
from cluster.core.units import format_size, format_value
from cluster.measure.repetitions import Counts, samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cluster.benchmarks.p2p.mpi_loops import MpiPairLoops
    from cluster.benchmarks.p2p.params import P2PParams
    from cluster.core.model.measurements import Definition
    from cluster.measure.rank import Rank


AT_ONCE = 1 << 20  # bytes exchanged, about, between two checks of the precision


def series_of(definitions: Iterable[Definition], params: P2PParams) -> list[tuple[Definition, int]]:
    """Return series to measure: every metric at every size, but memory_copy at one size only."""
    return [
        (definition, size)
        for definition in definitions
        for size in ((COPIED,) if definition is COPY else params.sizes)
    ]


class Exchange:
    """One rank's half of all exchanges."""

    def __init__(
        self,
        rank: Rank,
        data: PairMemory,
        loops: MpiPairLoops | CompiledPairLoops,
        params: P2PParams,
    ) -> None:
        self.rank = rank
        self.data = data
        self.loops = loops
        self.params = params

    def run(self, definitions: tuple[Definition, ...]) -> None:
        """Measure every metric at every size."""
        cells = series_of(definitions, self.params)
        for number, (definition, size) in enumerate(cells):
            what = f"{definition.metric} {format_size(size)}"

            def report(part: float, number: int = number, what: str = what) -> None:
                self.rank.progress(number + part, len(cells), what)

            report(0.0)
            self._series(definition, size, report)
            report(1.0)

    def _series(self, definition: Definition, size: int, report: Callable[[float], None]) -> None:
        """Measure one metric at one size: warm up, repeat, and stop in agreement with the peer."""
        counts = self._counts(definition, size)
        messages = Messages(self.data, definition, size)
        repeat = self.loops.prepared(definition, messages)
        moved = self.data.moved(definition, size)
        most = 1 if definition in BLOCKING else max(1, min(MOST_AT_ONCE, AT_ONCE // moved))
        values = self.rank.begin(self.loops.defined(definition), {"size": size}, size=moved)
        for done, seconds in samples(repeat, counts, most, self.data.comm, values):
            self._print_oneway(definition, size, seconds, report, done / counts.values)
        self.rank.end()
        self._print_median(definition, size, values)

    def _counts(self, definition: Definition, size: int) -> Counts:
        small = size <= LARGE
        if definition in BLOCKING:
            warm_up, values = 2, 100
        elif definition is LATENCY:
            warm_up, values = (100, 10_000) if small else (10, 1_000)
        else:
            warm_up, values = (10, 100) if small else (2, 20)
        return self.params.counts(warm_up, values)

    def _print_oneway(
        self,
        definition: Definition,
        size: int,
        seconds: list[float],
        report: Callable[[float], None],
        part: float,
    ) -> None:
        """Print each one-way time as it is measured, and report the progress."""
        if definition in BLOCKING:
            for value in seconds:
                self.rank.print_line(oneway_line(self.rank.number, size, value))
            report(part)

    def _print_median(self, definition: Definition, size: int, values: list[float]) -> None:
        if definition in BLOCKING or not values or not self.data.first:
            return
        middle = median(values)
        moved = self.data.moved(definition, size)
        shown = moved / middle if definition.unit == "B/s" else middle
        what = f"{definition.metric} {format_size(size)}"
        text = format_value(shown, definition.unit)
        self.rank.print_line(f"Process {self.rank.number} {what}: {text} (n={len(values)})")


def oneway_line(rank: int, size: int, seconds: float) -> str:
    """Format a value as the founding program did; the rate is computed from the unrounded time.

    Such as `Process 1 transferred 100 MB in 23.1 ms (4323.8 MB/sec)`, where MB is 1e6 bytes.
    """
    mb = size / 1e6
    return (
        f"Process {rank} transferred {mb:g} MB in {seconds * 1e3:.1f} ms "
        f"({mb / seconds:.1f} MB/sec)"
    )
