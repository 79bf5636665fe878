"""The verdict on the GPUs, NICs or NUMA nodes of a host: pairs are compared within their class.

The solver is that of hosts. A test is the share that a pair reaches of what its class does (NV18,
PIX, PXB, PHB, NODE, SYS, or a distance between NUMA nodes), so that a slow class is no evidence
against a device. A class in which one device is an end of every pair, or with less than three
pairs, has nothing to compare a pair with.

A value of a NIC alone (`source` is `target`) is compared with other NICs of its class. What is at
its other end is not known, so one value blames nobody.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from cluster.analysis.topology.gpu_paths import speed
from cluster.core.model.fleet import FleetFinding, FleetVerdict
from cluster.fleet.device_words import (
    DeviceWords,
    class_words,
    pair_name,
    part_name,
    reached,
    shown,
    words_of,
)
from cluster.fleet.diagnosis import faults_named
from cluster.fleet.pair_table import believable, diagnosed, pair_table
from cluster.fleet.solver import REFERENCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cluster.core.model.fleet import DeviceKind, Fleet, FleetWord, PairTest
    from cluster.fleet.pair_table import Diagnosed

LEAST = 3  # pairs of a class that are compared
ALIKE = 2  # pairs of a class that show that there is no difference
AGAIN = 2  # low values of a NIC, from which it is blamed
LOSS = 0.05  # of what the class reaches: devices of one host differ by less
NAMED = 5  # parts in the answer


class _DeviceTests(NamedTuple):
    """What is known of the devices: the tests, as rates, and what each class usually reaches."""

    fleet: Fleet
    words: DeviceWords
    classes: dict[str, list[PairTest]]
    usual: dict[str, float]


def diagnose_devices(fleet: Fleet, tests: Sequence[PairTest], kind: DeviceKind) -> FleetVerdict:
    """Diagnose the GPUs, NICs or NUMA nodes of a host.

    Args:
        fleet: the devices; `GPU3` is not always the fourth of them.
        tests: of their pairs, one after another, with the path of each. Between NUMA nodes, the
            cores of the source use the memory of the target.

    Returns:
        The verdict. If the paths are not known, a slow device may be that of another socket, and
        is undecided.

    """
    tests = believable(tests)
    seen = _seen(fleet, tests, kind)
    blamed, undecided = _findings(seen)
    alike = any(_is_alike(own) for own in seen.classes.values())
    word: FleetWord = (
        "FAULTY"
        if blamed
        else "HEALTHY"
        if (seen.usual or alike) and not undecided
        else "UNDECIDED"
    )
    missing = [test for test in tests if not test.value]
    extent = f"{len(tests)} {seen.words.tests} of {len(fleet.names)} {seen.words.several}"
    return FleetVerdict(
        verdict=word,
        rounds=len({test.round for test in tests}),
        blamed=tuple(blamed),
        undecided=tuple(undecided),
        answer=_answer(word, blamed, seen, extent),
        metric=fleet.metric,
        tests=len(tests) - len(missing),
        failed=len(missing),
        reference=_reference(seen),
        tolerance=LOSS,
        missing=tuple(f"{pair_name(fleet, test)}: {test.reason}" for test in missing),
    )


def _seen(fleet: Fleet, tests: Sequence[PairTest], kind: DeviceKind) -> _DeviceTests:
    """Turn latencies over, and sort the tests into classes."""
    known = [test for test in tests if test.value]
    if fleet.metric != "bandwidth":
        known = [msgspec.structs.replace(t, value=1 / (t.value or 1.0)) for t in known]
    classes = _classes(known)
    usual = {path: _usual(own) for path, own in classes.items() if _is_comparable(own)}
    return _DeviceTests(fleet, words_of(kind), classes, usual)


def _findings(seen: _DeviceTests) -> tuple[list[FleetFinding], list[str]]:
    """Return what is blamed, and what is undecided. Where no class is known, nothing is blamed."""
    found: list[FleetFinding] = []
    undecided: list[str] = []
    for is_known in (True, False):
        paths = [path for path in seen.usual if bool(path) == is_known]
        compared = [t for path in paths for t in seen.classes[path]]
        pairs = [t for t in compared if not _is_single(seen, t)]
        solved = _solved(seen, pairs) if pairs else None
        blamed = list(_blamed(seen, solved)) if solved else []
        suspects = list(_suspects(seen, solved)) if solved else []
        singles = [t for t in compared if _is_single(seen, t)]
        sure, unsure = _single_devices(seen, singles)
        found += [*blamed, *sure] if is_known else []
        undecided += [*unsure, *suspects]
        undecided += [] if is_known else _without_classes([*blamed, *sure])
    return found, [*undecided, *_not_compared(seen)]


def _is_single(seen: _DeviceTests, test: PairTest) -> bool:
    """Tell whether a test is of one device alone; the own memory of a NUMA node is a pair."""
    return test.source == test.target and not seen.words.directed


def _classes(tests: Iterable[PairTest]) -> dict[str, list[PairTest]]:
    """Return the pairs of each class, the fastest class first."""
    found: defaultdict[str, list[PairTest]] = defaultdict(list)
    for test in tests:
        found[test.path].append(test)
    return dict(sorted(found.items(), key=lambda item: speed(item[0]), reverse=True))


def _usual(tests: Iterable[PairTest]) -> float:
    return float(np.percentile([test.value or 0.0 for test in tests], REFERENCE))


def _is_comparable(tests: Sequence[PairTest]) -> bool:
    """Tell whether there are pairs enough, and no device is an end of all of them."""
    return len({(t.source, t.target) for t in tests}) >= LEAST and not _shared(tests)


def _is_alike(tests: Sequence[PairTest]) -> bool:
    """Tell whether two pairs or more, without a common device, reach the same."""
    rates = [test.value or 0.0 for test in tests]
    return len(tests) >= ALIKE and not _shared(tests) and min(rates) >= (1 - LOSS) * max(rates)


def _shared(tests: Iterable[PairTest]) -> set[int]:
    return set.intersection(*({test.source, test.target} for test in tests))


def _solved(seen: _DeviceTests, tests: Sequence[PairTest]) -> Diagnosed:
    """Solve with the share of its class that each pair reaches; no other pair was tested then."""
    shares = [
        msgspec.structs.replace(test, value=(test.value or 0.0) / seen.usual[test.path], alone=True)
        for test in tests
    ]
    fleet = msgspec.structs.replace(seen.fleet, directed=seen.words.directed, metric="bandwidth")
    return diagnosed(pair_table(fleet, shares))


def _blamed(seen: _DeviceTests, found: Diagnosed) -> Iterator[FleetFinding]:
    """Return the devices whose pairs are all low, then low pairs of good devices."""
    for culprit in found.blame.blamed:
        own = np.flatnonzero((found.parts.paths == culprit.part).any(axis=1))
        if culprit.capacity < 1 - LOSS:
            yield FleetFinding(
                part=_part(seen, found, culprit.part),
                kind="BAD",
                capacity=_best(seen, found, own),
                tests=culprit.tests,
                evidence=f"{_reached(seen, found, own)}; so in {culprit.tests} of its {len(own)} "
                f"pairs: {seen.words.cause(_is_target(seen, found, culprit.part))}",
            )
    suspects = [culprit.part for culprit in found.blame.undecided]
    clear = ~np.isin(found.parts.paths, suspects).any(axis=1)
    for at in np.flatnonzero(found.blame.unexplained & clear & (found.table.rates < 1 - LOSS)):
        here = np.array([at])
        yield FleetFinding(
            part=f"pair:{pair_name(seen.fleet, found.table.tests[at])}",
            kind="LINK",
            capacity=_best(seen, found, here),
            tests=1,
            evidence=f"{_reached(seen, found, here)}; {seen.words.link}",
        )


def _single_devices(
    seen: _DeviceTests, tests: Sequence[PairTest]
) -> tuple[list[FleetFinding], list[str]]:
    """Compare devices that were measured alone; two low values or more blame one."""
    own: defaultdict[int, list[PairTest]] = defaultdict(list)
    for test in tests:
        own[test.source].append(test)
    blamed, undecided = [], []
    for device, values in own.items():
        best = max(values, key=lambda test: (test.value or 0.0) / seen.usual[test.path])
        share = (best.value or 0.0) / seen.usual[best.path]
        if share >= 1 - LOSS:
            continue
        part = part_name(seen.fleet.names[device], seen.words)
        usual = class_words(best.path, seen.words)
        evidence = (
            f"{reached(seen.fleet, best.value or 0.0, share)}{usual and f' ({usual})'}, in "
            f"{len(values)} test(s)"
        )
        if len(values) < AGAIN:
            undecided.append(f"{part}: {evidence}: {seen.words.again}")
            continue
        blamed.append(
            FleetFinding(
                part=part,
                kind="BAD",
                capacity=_in_unit(seen.fleet, best.value or 0.0),
                tests=len(values),
                evidence=f"{evidence}: {seen.words.cause(target=False)}, or what is at its other "
                "end, if that is always the same",
            )
        )
    return blamed, undecided


def _without_classes(blamed: Sequence[FleetFinding]) -> Iterator[str]:
    """Say what differs if the paths are not known: a slow pair may just have a slower path."""
    for one in blamed:
        if one.kind == "BAD":
            yield f"{one.part}: {one.evidence}"
    pairs = [one.part.removeprefix("pair:") for one in blamed if one.kind == "LINK"]
    if pairs:
        more = f" and {len(pairs) - NAMED} more" if len(pairs) > NAMED else ""
        yield f"{len(pairs)} pair(s) are slower than others: {', '.join(pairs[:NAMED])}{more}"


def _in_unit(fleet: Fleet, rate: float) -> float:
    """Return a value in bytes per second, or in seconds."""
    return rate if fleet.metric == "bandwidth" else 1 / rate


def _best(seen: _DeviceTests, found: Diagnosed, own: Iterable[int]) -> float:
    """Return the best value of some tests, in the unit of the metric."""
    usual = seen.usual
    rates = [float(found.table.rates[at]) * usual[found.table.tests[at].path] for at in own]
    return _in_unit(seen.fleet, max(rates))


def _reached(seen: _DeviceTests, found: Diagnosed, own: Iterable[int]) -> str:
    """Say what some pairs reach at best, class by class, and what others do."""
    best: dict[str, float] = {}
    for at in own:
        path = found.table.tests[at].path
        best[path] = max(best.get(path, 0.0), float(found.table.rates[at]))
    said = {p: reached(seen.fleet, share * seen.usual[p], share) for p, share in best.items()}
    return "; ".join(f"{class_words(p, seen.words)} {what}".strip() for p, what in said.items())


def _is_target(seen: _DeviceTests, found: Diagnosed, part: int) -> bool:
    return seen.words.directed and part >= found.parts.endpoints


def _part(seen: _DeviceTests, found: Diagnosed, part: int) -> str:
    return part_name(seen.fleet.names[part % found.parts.endpoints], seen.words)


def _suspects(seen: _DeviceTests, found: Diagnosed) -> Iterator[str]:
    """Name devices of which it is not clear whether they or their partners are slow."""
    for culprit in found.blame.undecided:
        if culprit.capacity < 1 - LOSS:
            parts = ", ".join(_part(seen, found, p) for p in (culprit.part, *culprit.twins))
            yield (
                f"{parts}: {culprit.tests} low pair(s), too few to say which "
                f"{seen.words.one} is slow"
            )


def _not_compared(seen: _DeviceTests) -> Iterator[str]:
    """Name pairs of a class that is too small to compare, and slower than its fastest pair."""
    for path, own in seen.classes.items():
        best = max(test.value or 0.0 for test in own)
        for test in own if path not in seen.usual else ():
            if (test.value or 0.0) < (1 - LOSS) * best:
                words = class_words(path, seen.words)
                yield (
                    f"{pair_name(seen.fleet, test)}: {shown(seen.fleet, test.value or 0.0)}, and "
                    f"the best of {len(own)} {seen.words.tests}{words and f' of {words}'} "
                    f"{shown(seen.fleet, best)}: too few to compare"
                )


def _reference(seen: _DeviceTests) -> float | None:
    if len(seen.usual) != 1:
        return None
    return _in_unit(seen.fleet, max(seen.usual.values()))


def _answer(
    word: FleetWord, blamed: Sequence[FleetFinding], seen: _DeviceTests, extent: str
) -> str:
    """Return the answer in one line."""
    fleet, words, usual = seen.fleet, seen.words, seen.usual
    best = {path: max(t.value or 0.0 for t in own) for path, own in seen.classes.items()}
    each = {path: shown(fleet, rate) for path, rate in (usual or best).items()}
    stated = ", ".join(f"{class_words(p, words) or words.tests} {v}" for p, v in each.items())
    usually = f"{stated or 'nothing'} is {'usual' if usual else 'the best'}, in {extent}"
    if word == "FAULTY":
        return f"FAULTY: {faults_named(blamed)}; {usually}."
    if word == "HEALTHY":
        return f"HEALTHY: no {words.one} differs from the others of its class; {usually}."
    if not usual:
        return f"UNDECIDED: {words.too_few}; {usually}."
    if "" in usual:
        return f"UNDECIDED: {words.unknown}; {usually}."
    slow = f"some {words.tests} are slow, too few to say which {words.one} is at fault"
    return f"UNDECIDED: {slow}; {usually}."
