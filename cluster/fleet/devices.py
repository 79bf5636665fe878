"""The verdict on the GPUs, NICs or NUMA nodes of a host: pairs are compared within their class.

The solver is that of hosts. A test is the share that a pair reaches of what its class does (NV18,
PIX, PXB, PHB, NODE, SYS, or a distance between NUMA nodes), so that a slow class is no evidence
against a device. A class in which one device is an end of every pair, or with less than three
pairs, has nothing to compare a pair with.

A value of a NIC alone (`source` is `target`) is compared with other NICs of its class. What is at
its other end is not known, so one value blames nobody.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from cluster.analysis.topology import speed
from cluster.core.model.network.fleet import (
    ClassShare,
    Fleet,
    FleetFinding,
    FleetVerdict,
    FleetWord,
    PairTest,
    Part,
    Reason,
    Suspect,
    Way,
)
from cluster.fleet.pair_table import Diagnosed, believable, pair_table, solve_table
from cluster.fleet.solver import REFERENCE

LEAST = 3  # pairs of a class that are compared
ALIKE = 2  # pairs of a class that show that there is no difference
AGAIN = 2  # low values of a NIC, from which it is blamed
LOSS = 0.05  # of what the class reaches: devices of one host differ by less


class _DeviceTests(NamedTuple):
    """What is known of the devices: the tests, as rates, and what each class usually reaches."""

    fleet: Fleet
    classes: dict[str, list[PairTest]]
    usual: dict[str, float]


def diagnose_devices(fleet: Fleet, tests: Sequence[PairTest]) -> FleetVerdict:
    """Diagnose the GPUs, NICs or NUMA nodes of a host.

    If the paths are not known, a slow device may be that of another socket, and is undecided.
    `GPU3` is not always the fourth device. Between directed ones, such as NUMA nodes, the cores of
    the source use the memory of the target. Pairs are tested one after another.
    """
    tests = believable(tests)
    base = _device_tests(fleet, tests)
    findings, suspects = _findings(base)
    has_equal_class = any(_is_alike(members) for members in base.classes.values())
    word: FleetWord = (
        "FAULTY"
        if findings
        else "HEALTHY"
        if (base.usual or has_equal_class) and not suspects
        else "UNDECIDED"
    )
    failures = sum(1 for test in tests if not test.value)
    return FleetVerdict(
        verdict=word,
        rounds=len({test.round for test in tests}),
        blamed=tuple(findings),
        metric=fleet.metric,
        tests=len(tests) - failures,
        failed=failures,
        reference=_reference(base),
        tolerance=LOSS,
        reason=_reason(word, base),
        suspects=tuple(suspects),
    )


def _device_tests(fleet: Fleet, tests: Sequence[PairTest]) -> _DeviceTests:
    """Turn latencies over, and sort the tests into classes."""
    results = [test for test in tests if test.value]
    if fleet.metric != "bandwidth":
        results = [replace(t, value=1 / (t.value or 1.0)) for t in results]
    classes = _classes(results)
    usual = {path: _usual(members) for path, members in classes.items() if _is_comparable(members)}
    return _DeviceTests(fleet, classes, usual)


def _findings(base: _DeviceTests) -> tuple[list[FleetFinding], list[Suspect]]:
    """Return what is blamed, and what is undecided. Where no class is known, nothing is blamed."""
    findings: list[FleetFinding] = []
    suspects: list[Suspect] = []
    for is_known in (True, False):
        paths = [path for path in base.usual if bool(path) == is_known]
        class_tests = [t for path in paths for t in base.classes[path]]
        pairs = [t for t in class_tests if not _is_single(base, t)]
        solution = _solve(base, pairs) if pairs else None
        faults = list(_bad_devices(base, solution)) if solution else []
        unclear = list(_suspects(solution)) if solution else []
        singles = [t for t in class_tests if _is_single(base, t)]
        sure, unsure = _single_devices(base, singles)
        findings += [*faults, *sure] if is_known else []
        suspects += [*unsure, *unclear]
        suspects += [] if is_known else _without_classes([*faults, *sure])
    return findings, [*suspects, *_not_compared(base)]


def _is_single(base: _DeviceTests, test: PairTest) -> bool:
    """Tell whether a test is of one device alone; the own memory of a NUMA node is a pair."""
    return test.source == test.target and not base.fleet.directed


def _classes(tests: Iterable[PairTest]) -> dict[str, list[PairTest]]:
    """Return the pairs of each class, the fastest class first."""
    by_path: defaultdict[str, list[PairTest]] = defaultdict(list)
    for test in tests:
        by_path[test.path].append(test)
    return dict(sorted(by_path.items(), key=lambda item: speed(item[0]), reverse=True))


def _usual(tests: Iterable[PairTest]) -> float:
    return float(np.percentile([test.value or 0.0 for test in tests], REFERENCE))


def _is_comparable(tests: Sequence[PairTest]) -> bool:
    """Tell whether there are pairs enough, and no device is an end of all of them."""
    return len({(t.source, t.target) for t in tests}) >= LEAST and not _hubs(tests)


def _is_alike(tests: Sequence[PairTest]) -> bool:
    """Tell whether two pairs or more, without a common device, reach the same."""
    rates = [test.value or 0.0 for test in tests]
    return len(tests) >= ALIKE and not _hubs(tests) and min(rates) >= (1 - LOSS) * max(rates)


def _hubs(tests: Iterable[PairTest]) -> set[int]:
    return set.intersection(*({test.source, test.target} for test in tests))


def _solve(base: _DeviceTests, tests: Sequence[PairTest]) -> Diagnosed:
    """Solve with the share of its class that each pair reaches; no other pair was tested then."""
    shares = [
        replace(test, value=(test.value or 0.0) / base.usual[test.path], alone=True)
        for test in tests
    ]
    return solve_table(pair_table(replace(base.fleet, metric="bandwidth"), shares))


def _bad_devices(base: _DeviceTests, solution: Diagnosed) -> Iterator[FleetFinding]:
    """Return the devices whose pairs are all low, then low pairs of good devices."""
    for culprit in solution.blame.culprits:
        indices = np.flatnonzero((solution.parts.paths == culprit.part).any(axis=1))
        if culprit.capacity < 1 - LOSS:
            yield FleetFinding(
                place=_part(solution, culprit.part),
                kind="BAD",
                capacity=_best(base, solution, indices),
                tests=culprit.tests,
                reason=Reason(
                    code="slow_device",
                    low=culprit.tests,
                    of=len(indices),
                    classes=_shares(base, solution, indices),
                    target=base.fleet.directed and solution.way(culprit.part) == "rx",
                ),
            )
    suspects = [culprit.part for culprit in solution.blame.doubts]
    clear = ~np.isin(solution.parts.paths, suspects).any(axis=1)
    for position in np.flatnonzero(
        solution.blame.outliers & clear & (solution.table.rates < 1 - LOSS)
    ):
        index = np.array([position])
        yield FleetFinding(
            place=_pair(base.fleet, solution.table.tests[position]),
            kind="LINK",
            capacity=_best(base, solution, index),
            tests=1,
            reason=Reason(code="slow_device_pair", classes=_shares(base, solution, index)),
        )


def _single_devices(
    base: _DeviceTests, tests: Sequence[PairTest]
) -> tuple[list[FleetFinding], list[Suspect]]:
    """Compare devices that were measured alone; two low values or more blame one."""
    by_device: defaultdict[int, list[PairTest]] = defaultdict(list)
    for test in tests:
        by_device[test.source].append(test)
    faults: list[FleetFinding] = []
    suspects: list[Suspect] = []
    for device, values in by_device.items():
        best = max(values, key=lambda test: (test.value or 0.0) / base.usual[test.path])
        rate = best.value or 0.0
        share = rate / base.usual[best.path]
        if share >= 1 - LOSS:
            continue
        place = Part(kind="device", device=base.fleet.names[device])
        reason = Reason(
            code="slow_device_alone" if len(values) >= AGAIN else "one_test",
            low=len(values),
            classes=(ClassShare(path=best.path, rate=rate, share=share),),
        )
        if len(values) < AGAIN:
            suspects.append(Suspect(place=place, reason=reason))
        else:
            faults.append(
                FleetFinding(
                    place=place,
                    kind="BAD",
                    capacity=_in_unit(base.fleet, rate),
                    tests=len(values),
                    reason=reason,
                )
            )
    return faults, suspects


def _without_classes(faults: Sequence[FleetFinding]) -> Iterator[Suspect]:
    """Return what differs if the paths are not known: a slow pair may just have a slower path."""
    for culprit in faults:
        if culprit.kind == "BAD":
            yield Suspect(place=culprit.place, reason=culprit.reason)
    pairs: tuple[tuple[Part, Way], ...] = tuple(
        (culprit.place, "") for culprit in faults if culprit.kind == "LINK"
    )
    if pairs:
        reason = Reason(code="unknown_path", low=len(pairs))
        yield Suspect(place=Part(kind="pairs"), reason=reason, twins=pairs)


def _in_unit(fleet: Fleet, rate: float) -> float:
    """Return a value in bytes per second, or in seconds."""
    return rate if fleet.metric == "bandwidth" else 1 / rate


def _best(base: _DeviceTests, solution: Diagnosed, indices: Iterable[int]) -> float:
    """Return the best value of some tests, in the unit of the metric."""
    usual = base.usual
    rates = [float(solution.table.rates[i]) * usual[solution.table.tests[i].path] for i in indices]
    return _in_unit(base.fleet, max(rates))


def _shares(base: _DeviceTests, solution: Diagnosed, ids: Iterable[int]) -> tuple[ClassShare, ...]:
    """Return what some pairs reach at best, class by class."""
    best: dict[str, float] = {}
    for index in ids:
        path = solution.table.tests[index].path
        best[path] = max(best.get(path, 0.0), float(solution.table.rates[index]))
    return tuple(
        ClassShare(path=path, rate=share * base.usual[path], share=share)
        for path, share in best.items()
    )


def _part(solution: Diagnosed, part: int) -> Part:
    return Part(kind="device", device=solution.fleet.names[solution.host(part)])


def _pair(fleet: Fleet, test: PairTest) -> Part:
    """Return the two ends of a test; a device alone is one of them."""
    source, target = fleet.names[test.source], fleet.names[test.target]
    return Part(kind="pair", device=source, other="" if source == target else target)


def _suspects(solution: Diagnosed) -> Iterator[Suspect]:
    """Return devices of which it is not clear whether they or their partners are slow."""
    for culprit in solution.blame.doubts:
        if culprit.capacity < 1 - LOSS:
            yield Suspect(
                place=_part(solution, culprit.part),
                reason=Reason(code="few_pairs", low=culprit.tests),
                twins=tuple((_part(solution, twin), "") for twin in culprit.twins),
            )


def _not_compared(base: _DeviceTests) -> Iterator[Suspect]:
    """Return pairs of a class that is too small to compare, and slower than its fastest pair."""
    for path, tests in base.classes.items():
        best = max(test.value or 0.0 for test in tests)
        for test in tests if path not in base.usual else ():
            rate = test.value or 0.0
            if rate < (1 - LOSS) * best:
                yield Suspect(
                    place=_pair(base.fleet, test),
                    capacity=_in_unit(base.fleet, rate),
                    reason=Reason(
                        code="few_to_compare",
                        of=len(tests),
                        classes=(ClassShare(path=path, rate=best),),
                    ),
                )


def _reference(base: _DeviceTests) -> float | None:
    if len(base.usual) != 1:
        return None
    return _in_unit(base.fleet, max(base.usual.values()))


def _reason(word: FleetWord, base: _DeviceTests) -> Reason:
    """Return why the verdict is this, and what each class usually reaches, or else at best."""
    best = {path: max(t.value or 0.0 for t in tests) for path, tests in base.classes.items()}
    classes = tuple(
        ClassShare(path=path, rate=rate, share=float(bool(base.usual)))
        for path, rate in (base.usual or best).items()
    )
    if word != "UNDECIDED":
        return Reason(code="faults" if word == "FAULTY" else "alike", classes=classes)
    if not base.usual:
        return Reason(code="few_classes", classes=classes)
    return Reason(code="unknown_paths" if "" in base.usual else "slow_devices", classes=classes)
