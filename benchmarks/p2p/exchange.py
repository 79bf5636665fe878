"""One rank's half of all exchanges: every metric at every size."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from msgspec import structs

from cluster.benchmarks.p2p.definitions import (
    BLOCKING,
    COPY,
    LARGE,
    LATENCY,
    WINDOWED,
    P2PParams,
    series_of,
)
from cluster.benchmarks.p2p.loops import (
    MOST_AT_ONCE,
    CompiledPairLoops,
    Messages,
    MpiPairLoops,
    PairMemory,
)
from cluster.core.model.results.measurements import Definition
from cluster.core.text.units import format_seconds, format_size, format_value
from cluster.measure.rank import Rank
from cluster.measure.repetitions import BUDGET, FEWEST, WARMING, Counts, samples

AT_ONCE = 1 << 20  # bytes exchanged, about, between two checks of the precision
WINDOW_WITHIN = 0.15  # seconds of a window, or it has fewer messages
LEAD_WITHIN = 0.01  # seconds of an untimed message, or it has fewer bytes
PROBES = 3  # exchanges, of which the fastest says how long one takes: the first opens connections
PROBING = 0.02  # seconds of them where series end by time: several turns on a busy processor
LONG = 40.0  # seconds, from which series are shortened, and the user is told how long it takes
SHORTEST = BUDGET / 8  # seconds of a series, unless FEWEST values take longer


@dataclass
class Exchange:
    """One rank's half of all exchanges."""

    rank: Rank
    data: PairMemory
    loops: MpiPairLoops | CompiledPairLoops
    params: P2PParams
    _budget: float = BUDGET  # seconds of a series

    def run(self, definitions: tuple[Definition, ...]) -> None:
        cells = series_of(definitions, self.params)
        sizes = self.params.sizes
        start, whole = self._probe(LATENCY, min(sizes)), self._probe(LATENCY, max(sizes))
        cost = max(1e-15, whole - start) / max(sizes)
        self.data.lead = min(self.data.lead, int(LEAD_WITHIN / cost))
        if self.data.lead < max(sizes) and LATENCY in definitions:
            self.rank.note("latency: untimed round trips are shorter, as whole ones take too long.")
        while (seconds := self._estimate(cells, start, cost)) > LONG and self._budget > SHORTEST:
            self._budget /= 2
        if self._budget < BUDGET or seconds > LONG:
            duration = f"{seconds:.0f} s" if seconds < 2 * LONG else format_seconds(seconds)
            self.rank.notice(f"It will take about {duration}.")
        for number, (definition, size) in enumerate(cells):
            label = f"{definition.metric} {format_size(size)}"

            def report(part: float, number: int = number, label: str = label) -> None:
                self.rank.progress(number + part, len(cells), label)

            report(0.0)
            self._series(definition, size, report)
            report(1.0)

    def _series(self, definition: Definition, size: int, report: Callable[[float], None]) -> None:
        """Measure one metric at one size: warm up, repeat, and stop in agreement with the peer."""
        counts = self._counts(definition, size)
        if counts.seconds and definition in WINDOWED and size > LARGE:
            # give windows fewer messages where a link is so slow that one would take too long
            cell = definition.metric, size
            self.data.short_windows[cell] = 1
            fitting = max(1, int(WINDOW_WITHIN / max(self._probe(definition, size), 1e-9)))
            self.data.short_windows[cell] = min(fitting, self.data.window)
            if fitting < self.data.window:
                windows = f"windows of {fitting} message(s), not {self.data.window}"
                self.rank.note(
                    f"{definition.metric} {format_size(size)}: {windows}, which take too long."
                )
        messages = Messages(self.data, definition, size)
        repeat = self.loops.loop(definition, messages)
        payload = self.data.count_bytes(definition, size)
        most = 1 if definition in BLOCKING else max(1, min(MOST_AT_ONCE, AT_ONCE // payload))
        values = self.rank.begin(self.loops.redefine(definition), {"size": size}, size=payload)
        for result, seconds in samples(repeat, counts, most, self.data.comm, values):
            if definition in BLOCKING:
                for value in seconds:
                    self.rank.print_line(oneway_line(self.rank.number, size, value))
                report(result / counts.values)
        self.rank.end()
        if values and self.data.first and definition not in BLOCKING:
            middle = median(values)
            value = payload / middle if definition.unit == "B/s" else middle
            label = f"{definition.metric} {format_size(size)}"
            text = format_value(value, definition.unit)
            self.rank.print_line(f"Process {self.rank.number} {label}: {text} (n={len(values)})")

    def _probe(self, definition: Definition, size: int) -> float:
        """Return the seconds of an exchange, the same on both ranks."""
        repeat = self.loops.loop(definition, Messages(self.data, definition, size))
        probing = PROBING if self._counts(definition, size).seconds else 0.0
        seconds: list[float] = []
        end = time.monotonic() + probing
        while len(seconds) < PROBES or (probing and self.data.comm.bcast(time.monotonic() < end)):
            seconds += repeat(1) or [0.0]
        return float(self.data.comm.bcast(min(seconds)))

    def _estimate(self, cells: list[tuple[Definition, int]], start: float, cost: float) -> float:
        """Estimate the seconds of all series, from those of a round trip, and of each byte more."""
        total = 0.0
        for definition, size in cells:
            if definition is COPY:
                continue
            counts = self._counts(definition, size)
            transfer = self.data.count_bytes(definition, size) * cost
            fewest = FEWEST + 1  # the first warms up
            if counts.seconds and definition in WINDOWED and size > LARGE:
                transfer = min(transfer, max(WINDOW_WITHIN, size * cost))  # windows are shortened
                total += PROBES * size * cost
            value = 2 * start + transfer
            if definition is LATENCY:  # answered, and mostly followed by what is not timed
                lead = (start + min(size, self.data.lead) * cost) if size > LARGE else 0.0
                value = 2 * (start + transfer + lead)
            most = (counts.values + counts.warm_up) * value
            budget = counts.seconds * (1 + WARMING)
            total += min(most, max(budget, fewest * value)) if budget else most
        return total

    def _counts(self, definition: Definition, size: int) -> Counts:
        small = size <= LARGE
        if definition in BLOCKING:
            warm_up, values = 2, 100
        elif definition is LATENCY:
            warm_up, values = (100, 10_000) if small else (10, 1_000)
        else:
            warm_up, values = (10, 100) if small else (2, 20)
        counts = self.params.counts(warm_up, values)
        return structs.replace(counts, seconds=self._budget) if counts.seconds else counts


def oneway_line(rank: int, size: int, seconds: float) -> str:
    """Format a value as the founding program did; the rate is computed from the unrounded time.

    Such as `Process 1 transferred 100 MB in 23.1 ms (4323.8 MB/sec)`, where MB is 1e6 bytes.
    """
    mb = size / 1e6
    return (
        f"Process {rank} transferred {mb:g} MB in {seconds * 1e3:.1f} ms "
        f"({mb / seconds:.1f} MB/sec)"
    )
