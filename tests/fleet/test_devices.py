"""GPUs of a host are compared with others of their class of path, and never across classes."""

from itertools import combinations

import numpy as np
import pytest

from cluster.core.model.network.fleet import Fleet, FleetVerdict, PairTest
from cluster.fleet.devices import diagnose_devices

RATES = {
    "NV18": 371e9,
    "NV2": 48.4e9,
    "NV1": 24.2e9,
    "PIX": 26e9,
    "NODE": 21e9,
    "SYS": 18e9,
    "": 20e9,
}
DGX1 = {  # DGX-1V: four NVLinks to three or four others, and SYS to the rest
    "NV2": "03 04 12 15 23 47 56 67",
    "NV1": "01 02 13 26 37 45 46 57",
}
TWO_SOCKETS = {"PIX": "01 23 45 67", "NODE": "02 03 12 13 46 47 56 57"}


def paths(classes: dict[str, str], gpus: int = 8, other: str = "SYS") -> dict[tuple[int, int], str]:
    links = {(int(p[0]), int(p[1])): path for path, all_ in classes.items() for p in all_.split()}
    return {pair: links.get(pair, other) for pair in combinations(range(gpus), 2)}


SWITCH = paths({}, other="NV18")
HOSTS = {"DGX-1V": paths(DGX1), "HGX": SWITCH, "PCIe": paths(TWO_SOCKETS), "sockets": paths({})}


def judge(
    links: dict[tuple[int, int], str],
    bad: dict[int, float] | None = None,
    pairs: dict[tuple[int, int], float] | None = None,
    seed: int = 0,
) -> FleetVerdict:
    """Judge rates with one-sided noise of 1%; of bad GPUs and bad pairs, shares of them."""
    chance = np.random.default_rng(seed)
    count = 1 + max(b for _, b in links)
    tests = []
    for (a, b), path in links.items():
        share = min(
            1.0, *((bad or {}).get(gpu, 1.0) for gpu in (a, b)), (pairs or {}).get((a, b), 1.0)
        )
        value = RATES[path] * share * (1 - 0.01 * abs(chance.standard_normal()))
        tests.append(PairTest(round=0, source=a, target=b, value=value, path=path))
    names = tuple(f"GPU{gpu}" for gpu in range(count))
    fleet = Fleet(names=names, groups=(0,) * count, directed=False, foreign=True)
    return diagnose_devices(fleet, tests)


@pytest.mark.parametrize("host", HOSTS)
def test_a_healthy_host_is_left_in_peace(host: str) -> None:
    assert {judge(HOSTS[host], seed=s).verdict for s in range(40)} == {"HEALTHY"}


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_slow_gpu_is_named(host: str, share: float) -> None:
    for gpu in range(8):
        verdict = judge(HOSTS[host], {gpu: share}, seed=gpu)
        assert [(b.place.device, b.kind) for b in verdict.blamed] == [(f"GPU{gpu}", "BAD")]
        assert verdict.verdict == "FAULTY"


@pytest.mark.parametrize("host", HOSTS)
def test_a_slow_pair_is_named_and_no_gpu(host: str) -> None:
    pair = next(pair for pair, path in HOSTS[host].items() if path != "PIX")
    verdict = judge(HOSTS[host], pairs={pair: 0.5})

    (slow,) = verdict.blamed
    assert (slow.kind, slow.place.device, slow.place.other) == ("LINK", *(f"GPU{n}" for n in pair))
    assert slow.reason.classes[0].share == pytest.approx(0.5, rel=0.02)


def test_a_gpu_of_another_socket_is_not_compared_across_classes() -> None:
    """All its pairs are SYS, and so is no other pair."""
    links = {pair: "SYS" if 3 in pair else "NODE" for pair in combinations(range(6), 2)}
    verdict = judge(links)

    assert (verdict.verdict, verdict.blamed) == ("HEALTHY", ())


def test_without_a_topology_nobody_is_blamed() -> None:
    unknown = dict.fromkeys(combinations(range(6), 2), "")
    verdict = judge(unknown, {3: 0.8})

    assert (verdict.verdict, verdict.blamed) == ("UNDECIDED", ())
    assert verdict.suspects[0].place.device == "GPU3"
    assert verdict.reason.code == "unknown_paths"
    assert judge(unknown).verdict == "HEALTHY"


def test_few_gpus_are_undecided() -> None:
    four = paths({"NV2": "01 23"}, 4)
    verdict = judge(four, {0: 0.5})

    assert verdict.verdict == "UNDECIDED"
    few = [suspect for suspect in verdict.suspects if suspect.reason.code == "few_to_compare"]
    assert ("GPU0", "GPU1") in [(suspect.place.device, suspect.place.other) for suspect in few]
    assert judge({(0, 1): "NV2"}).reason.code == "few_classes"
