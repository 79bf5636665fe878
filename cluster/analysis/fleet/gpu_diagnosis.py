"""The verdict on the GPUs of a host: each pair is compared with others of its class of path.

The solver is that of hosts. A test is the share that a pair reaches of what its class does (NV18,
PIX, PXB, PHB, NODE, SYS), so that a slow class is no evidence against a GPU. A class in which one
GPU is an end of every pair, or with less than three pairs, has nothing to compare a pair with.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from cluster.analysis.fleet.blame import REFERENCE
from cluster.analysis.fleet.pair_table import diagnosed, pair_table
from cluster.analysis.gpu_paths import speed
from cluster.core.model.fleet import Blamed, FleetVerdict
from cluster.core.units import format_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cluster.analysis.fleet.pair_table import Diagnosed
    from cluster.core.model.fleet import Fleet, FleetWord, PairTest

LEAST = 3  # pairs of a class that are compared
LOSS = 0.05  # of what the class reaches: GPUs of one host differ by less
NAMED = 5  # parts in the answer


def diagnose_gpus(fleet: Fleet, tests: Sequence[PairTest]) -> FleetVerdict:
    """Diagnose the GPUs of a host.

    Args:
        fleet: the GPUs; `GPU3` is not always the fourth of them.
        tests: of their pairs, one after another, with the path of each.

    Returns:
        The verdict. If the paths are not known, a slow GPU may be that of another socket, and is
        undecided.

    """
    classes = _classes(tests)
    usual = {path: _usual(own) for path, own in classes.items() if _is_comparable(own)}
    compared = [test for path in usual for test in classes[path]]
    found = _solved(fleet, compared, usual) if compared else None
    blamed = list(_findings(fleet, found, usual)) if found else []
    undecided = [*(_suspects(fleet, found) if found else ()), *_not_compared(fleet, classes, usual)]
    if "" in usual:  # the class of a pair is not known
        blamed, undecided = [], [*_without_classes(blamed), *undecided]
    word: FleetWord = "FAULTY" if blamed else "UNDECIDED" if undecided or not usual else "HEALTHY"
    missing = [test for test in tests if not test.value]
    return FleetVerdict(
        verdict=word,
        rounds=len({test.round for test in tests}),
        blamed=tuple(blamed),
        undecided=tuple(undecided),
        answer=_answer(word, blamed, usual, f"{len(tests)} pairs of {len(fleet.names)} GPUs"),
        tests=len(tests) - len(missing),
        failed=len(missing),
        reference=max(usual.values()) if len(usual) == 1 else None,
        tolerance=LOSS,
        missing=tuple(f"{_pair_name(fleet, test)}: {test.reason}" for test in missing),
    )


def _classes(tests: Iterable[PairTest]) -> dict[str, list[PairTest]]:
    """Give the pairs of each class that have a value, the fastest class first."""
    found: defaultdict[str, list[PairTest]] = defaultdict(list)
    for test in tests:
        if test.value:
            found[test.path].append(test)
    return dict(sorted(found.items(), key=lambda item: speed(item[0]), reverse=True))


def _usual(tests: Iterable[PairTest]) -> float:
    return float(np.percentile([test.value or 0.0 for test in tests], REFERENCE))


def _is_comparable(tests: Sequence[PairTest]) -> bool:
    """Tell whether there are pairs enough, and no GPU is an end of all of them."""
    shared = set.intersection(*({test.source, test.target} for test in tests))
    return len(tests) >= LEAST and not shared


def _solved(fleet: Fleet, tests: Sequence[PairTest], usual: Mapping[str, float]) -> Diagnosed:
    """Solve with the share of its class that each pair reaches; no other pair was tested then."""
    shares = [
        msgspec.structs.replace(test, value=(test.value or 0.0) / usual[test.path], alone=True)
        for test in tests
    ]
    return diagnosed(pair_table(msgspec.structs.replace(fleet, directed=False), shares))


def _findings(fleet: Fleet, found: Diagnosed, usual: Mapping[str, float]) -> Iterator[Blamed]:
    """Give the GPUs whose pairs are all low, then low pairs of good GPUs."""
    for culprit in found.blame.blamed:
        own = np.flatnonzero((found.parts.paths == culprit.part).any(axis=1))
        if culprit.capacity < 1 - LOSS:
            yield Blamed(
                part=_gpu(fleet, culprit.part),
                kind="BAD",
                capacity=_best(found, own, usual),
                tests=culprit.tests,
                evidence=f"{_reached(found, own, usual)}; so in {culprit.tests} of its {len(own)} "
                "pairs: the GPU, its slot or its link to the switch",
            )
    suspects = [culprit.part for culprit in found.blame.undecided]
    clear = ~np.isin(found.parts.paths, suspects).any(axis=1)
    for at in np.flatnonzero(found.blame.unexplained & clear & (found.table.rates < 1 - LOSS)):
        test = found.table.tests[at]
        here = np.array([at])
        yield Blamed(
            part=f"pair:{_pair_name(fleet, test)}",
            kind="LINK",
            capacity=_best(found, here, usual),
            tests=1,
            evidence=f"{_reached(found, here, usual)}; both GPUs are good with others: a link "
            "between them, or a route",
        )


def _without_classes(blamed: Sequence[Blamed]) -> Iterator[str]:
    """Say what differs if the paths are not known: a slow pair may just have a slower path."""
    for one in blamed:
        if one.kind == "BAD":
            yield f"{one.part}: {one.evidence}"
    pairs = [one.part.removeprefix("pair:") for one in blamed if one.kind == "LINK"]
    if pairs:
        more = f" and {len(pairs) - NAMED} more" if len(pairs) > NAMED else ""
        yield f"{len(pairs)} pair(s) are slower than others: {', '.join(pairs[:NAMED])}{more}"


def _best(found: Diagnosed, own: Iterable[int], usual: Mapping[str, float]) -> float:
    """Give the highest rate of some tests, in bytes per second."""
    return max(float(found.table.rates[at]) * usual[found.table.tests[at].path] for at in own)


def _reached(found: Diagnosed, own: Iterable[int], usual: Mapping[str, float]) -> str:
    """Say what some pairs reach at best, class by class, and what others do."""
    best: dict[str, float] = {}
    for at in own:
        path = found.table.tests[at].path
        best[path] = max(best.get(path, 0.0), float(found.table.rates[at]))
    return "; ".join(
        f"{path or 'it'} {'reaches' if not path else 'gives'} at most "
        f"{format_value(share * usual[path], 'B/s')}, {share:.0%} of what other pairs reach"
        for path, share in best.items()
    )


def _gpu(fleet: Fleet, part: int) -> str:
    return f"gpu:{fleet.names[part].removeprefix('GPU')}"


def _pair_name(fleet: Fleet, test: PairTest) -> str:
    return f"{fleet.names[test.source]}-{fleet.names[test.target]}"


def _suspects(fleet: Fleet, found: Diagnosed) -> Iterator[str]:
    """Name GPUs of which it is not clear whether they or their partners are slow."""
    for culprit in found.blame.undecided:
        if culprit.capacity < 1 - LOSS:
            parts = ", ".join(_gpu(fleet, part) for part in (culprit.part, *culprit.twins))
            yield f"{parts}: {culprit.tests} low pair(s), too few to say which GPU is slow"


def _not_compared(
    fleet: Fleet, classes: Mapping[str, Sequence[PairTest]], usual: Mapping[str, float]
) -> Iterator[str]:
    """Name pairs of a class that is too small to compare, and slower than its fastest pair."""
    for path, own in classes.items():
        best = max(test.value or 0.0 for test in own)
        for test in own if path not in usual else ():
            if (test.value or 0.0) < (1 - LOSS) * best:
                yield (
                    f"{_pair_name(fleet, test)}: {format_value(test.value or 0.0, 'B/s')}, and the "
                    f"best of {len(own)} pairs {f'of {path} ' if path else ''}"
                    f"{format_value(best, 'B/s')}: too few to compare"
                )


def _answer(
    word: FleetWord, blamed: Sequence[Blamed], usual: Mapping[str, float], extent: str
) -> str:
    """Give the answer in one line."""
    reached = ", ".join(f"{path or 'pairs'} {format_value(u, 'B/s')}" for path, u in usual.items())
    usually = f"{reached} is usual, in {extent}" if usual else f"in {extent}"
    if word == "FAULTY":
        named = ", ".join(one.part for one in blamed[:NAMED])
        more = f" and {len(blamed) - NAMED} more" if len(blamed) > NAMED else ""
        return f"FAULTY: {named}{more}; {usually}."
    if not usual:
        return f"UNDECIDED: no class has three pairs without a common GPU; {usually}."
    if word == "UNDECIDED" and "" in usual:
        return (
            f"UNDECIDED: GPUs differ, and so do paths between them: add the output of nvidia-smi "
            f"topo -m as a log; {usually}."
        )
    if word == "UNDECIDED":
        return f"UNDECIDED: some pairs are slow, too few to say which GPU is at fault; {usually}."
    return f"HEALTHY: no GPU differs from the others of its class; {usually}."
