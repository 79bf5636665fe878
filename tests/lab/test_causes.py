"""Causes that are planted on a host of a lab: the check names the host, and what slows it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

import cluster
from tests.conftest import command
from tests.lab.conftest import must

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.orchestration.cluster import Cluster

pytestmark = [pytest.mark.usefixtures("own", "home"), pytest.mark.serial]
ODD = 3
ROUNDS = ("--rounds=10", "--alone=2")
# Each pair alone, and nothing again: however long a test with losses takes, that ends.
PAIRS = (f"--pairs={','.join(f'{a}-{b}' for a, b in combinations(range(5), 2))}",)
# Far below what the noise of a busy machine hides: a tenth of the segments costs 8% of the rate.
RULE = "INPUT -p tcp ! --dport 22 -m statistic --mode random --probability 0.3 -j DROP"
ATTEMPTS = 3


def check(words: tuple[str, ...], *starved: int) -> dict[str, Any]:
    """Check, again when quiet: while hosts other than the starved had too little processor time."""
    for _ in range(ATTEMPTS):
        verdict: dict[str, Any] = json.loads(
            command("check", "planted", "--json", *words, status=None).stdout
        )
        busy = [o for o in verdict["observations"] if o["reason"]["code"] == "busy"]
        others = [o for o in busy if o["place"]["host"] not in starved]
        if not others and (busy or verdict["verdict"] != "UNDECIDED"):
            break
    return verdict


@contextmanager
def lossy(lab: Cluster) -> Iterator[None]:
    must(lab, ODD, f"iptables -A {RULE}")
    yield
    must(lab, ODD, f"iptables -D {RULE}")


@contextmanager
def slow(lab: Cluster) -> Iterator[None]:
    command("lab", lab.name, "slow", str(ODD), "--rate", "100mbit")
    yield
    command("lab", lab.name, "heal", str(ODD))


@pytest.mark.parametrize(
    ("plant", "words", "cause"),
    [(lossy, PAIRS, "tcp.retransmitted"), (slow, ROUNDS, "rate")],
    ids=["lossy-tcp.retransmitted", "slow-rate"],
)
def test_the_cause_is_named(
    plant: Callable[[Cluster], Any], words: tuple[str, ...], cause: str
) -> None:
    lab = cluster.launch("planted", provider="lab", hosts=5, options={"rate": "400mbit"})
    with plant(lab):
        verdict = check(words)

    own = [f for f in verdict["blamed"] if ODD in (f["place"]["host"], f["place"].get("peer"))]
    assert own
    assert own == verdict["blamed"]
    assert {c["counter"] for f in own for c in f["counters"][:1]} == {cause}


def test_a_small_buffer_is_named_as_the_cause() -> None:
    """A window of 2.3 kB is slow, or takes so many steps that the processor is the limit."""
    lab = cluster.launch("planted", provider="lab", hosts=5, options={"rate": "300mbit"})
    must(lab, ODD, "sysctl -w net.ipv4.tcp_rmem='2304 2304 2304'")
    verdict = check(ROUNDS, ODD)

    parts = [*verdict["blamed"], *verdict["observations"]]
    assert {part["place"]["host"] for part in parts} == {ODD}
    assert {cause["setting"].rpartition(".")[2] for part in parts for cause in part["causes"]} == {
        "tcp_rmem"
    }
