"""A fleet on leaf switches: `check` names planted faults of hosts, pairs and uplinks."""

import pytest

import cluster
from cluster.fleet.pair_measurements import pair_tests
from tests.conftest import answer, command

LEAVES = (
    *("--provider", "lab", "--hosts", "8", "--option", "leaves=4"),
    *("--option", "rate=60mbit", "--option", "uplink=120mbit"),
)


def faults(name: str) -> set[str]:
    """Return what a check blames; rates are so low that a busy machine carries all of them."""
    verdict = answer("check", name, "--milliseconds", "200")
    kinds = ("BAD", "LINK", "GROUP", "HUNG", "UNSTABLE")
    return {
        f"{b['kind']} {b['part']} {b['direction']}" for b in verdict["blamed"] if b["kind"] in kinds
    }


def assert_as_simulated(name: str) -> None:
    """B4: alone, pairs of a leaf and between leaves are as fast as in the simulator, within 5%.

    Of four tests of a pair, the best counts: other tests run beside these.
    """
    words = ("--provider", "sim", "--hosts", "8", "--option", "rate=60mbit")
    command("up", "rehearsed", *words, "--option", "fabric=leafspine:4x2")
    shares = []
    for fleet in (name, "rehearsed"):
        verdicts = [answer("check", fleet, "--pairs", "0-1,2-3,0-2") for _ in range(2)]
        best: dict[frozenset[int], float] = {}
        for test in (t for f in verdicts for t in pair_tests(cluster.load(f["run"]).measurements)):
            pair = frozenset((test.source, test.target))
            best[pair] = max(best.get(pair, 0.0), test.value or 0.0)
        shares.append({pair: value / max(best.values()) for pair, value in best.items()})
    assert shares[0] == pytest.approx(shares[1], rel=0.05)


@pytest.mark.serial  # beside other work, links of the lab are as slow as the planted ones
@pytest.mark.usefixtures("own_labs", "home")
def test_planted_faults_are_named_by_a_check() -> None:
    """65 s: eight hosts start, and each check tests all 28 pairs in both directions."""
    command("up", "leaves", *LEAVES)
    assert_as_simulated("leaves")
    command("lab", "leaves", "slow", "5", "--rate", "24mbit", "--direction", "rx")
    command("lab", "leaves", "cut", "2-7")
    assert faults("leaves") == {"BAD host:5 rx", "LINK pair:2-7 both"}

    command("lab", "leaves", "heal", "5")
    command("lab", "leaves", "heal", "2-7")
    command("lab", "leaves", "slow", "leaf:1", "--rate", "24mbit")
    assert faults("leaves") == {"GROUP group:1 both"}

    refused = {
        ("slow", "leaf:9"): "has 4 leaf switches, and none has number 9",
        ("kill", "leaf:1"): "can be slowed, cut off or healed",
        ("slow", "2-7"): "can be cut off from one another, or healed",
        ("slow", "5", "--direction", "up"): "'up' is no direction",
    }
    for words, message in refused.items():
        assert message in command("lab", "leaves", *words, status=2).stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"leaves": "3"}, "leaves is 3; 2 hosts have at most as many"),
        ({"uplink": "1gbit"}, "needs leaf switches"),
    ],
)
@pytest.mark.usefixtures("possible")
def test_leaf_switches_that_cannot_be(options: dict[str, str], message: str) -> None:
    words = (word for name, value in options.items() for word in ("--option", f"{name}={value}"))

    assert message in command("up", "none", "--provider", "lab", *words, status=2).stderr
