"""What networks do to a rate: caps, interfaces, bridges, MTUs, and directions that wait."""

import msgspec
import pytest

from cluster.analysis.verdict.evidence import Evidence
from cluster.analysis.verdict.rules import network
from cluster.core.model.hosts import Connection, Interface, RankProcess
from tests.analysis.evidence import BW, ONE_WAY, Look, host, ours, summary

GBIT = 1e9 / 8


@pytest.mark.parametrize(
    ("rate", "says"), [(1.19e9, True), (0.585e9, True), (2.4e9, False), (0.9e9, False)]
)
def test_a_rate_at_a_known_cap_of_one_connection_of_a_faster_network(
    rate: float,
    says: bool,  # noqa: FBT001 - it is a column of a table
    look: Look,
) -> None:
    """Document 001: 1200 MB/s on 25 Gbit/s is what one stream of 10 Gbit/s brings."""
    evidence = look(BW.format(rate=f"{rate / 1e6:.2f}"), "c5.18xlarge", 2)
    found = network.one_flow(evidence)

    assert (found is not None) == says
    assert found is None or found.confidence == "likely"


def test_links_that_have_no_effect(look: Look) -> None:
    evidence = look(BW.format(rate="1190.00"), "c5.18xlarge", 2)
    asked = msgspec.structs.replace(evidence, variables={"OMPI_MCA_btl_tcp_links": "4"})

    assert network.links_without_effect(asked) is not None
    assert network.links_without_effect(evidence) is None


def connected(links: int, asked: str) -> Evidence:
    """Return a run of two ranks on two hosts that have so many TCP connections."""
    ends = [(f"10.0.0.1:{4000 + n}", "10.0.0.2:1024") for n in range(links)]
    other = Connection(here="10.0.0.1:22", there="10.0.0.9:5000")  # to nobody that we know
    ranks = (
        RankProcess(
            rank=0, host="a", connections=(other, *(Connection(here=a, there=b) for a, b in ends))
        ),
        RankProcess(
            rank=1, host="b", connections=tuple(Connection(here=b, there=a) for a, b in ends)
        ),
    )
    return ours(processes=ranks, variables={"OMPI_MCA_btl_tcp_links": asked})


@pytest.mark.parametrize(
    ("links", "asked", "short"),
    [
        (1, "4", True),
        (2, "4", True),
        (4, "4", False),
        (8, "4", False),  # by two networks
        (0, "4", False),  # by something else than TCP
        (1, "1", False),
        (1, "", False),
    ],
)
def test_links_that_are_not_there(links: int, asked: str, *, short: bool) -> None:
    found = network.links_without_effect(connected(links, asked))

    seen = found and (found.names, found.count, found.name, found.confidence)
    assert seen == ((("0", "1"), links, asked, "certain") if short else None)


def crossed(benchmark: str, metric: str, share: float, size: int = 4_000_000) -> Evidence:
    """Return what a run of ours moved between two hosts, and its share of the bound."""
    of = msgspec.structs.replace(ONE_WAY, benchmark=benchmark, metric=metric)
    taken = msgspec.structs.replace(
        summary(1e7, size=size), metric=metric, definition=of.id, share=share
    )
    return Evidence(summaries=(taken,), definitions={of.id: of})


def joined(*parts: Evidence, **variables: str) -> Evidence:
    return Evidence(
        summaries=tuple(s for part in parts for s in part.summaries),
        definitions={k: v for part in parts for k, v in part.definitions.items()},
        variables=variables,
    )


@pytest.mark.parametrize(
    ("one", "both"),
    [
        (("p2p", "bandwidth"), ("p2p", "bidirectional")),
        (("collectives", "bcast"), ("collectives", "allgather")),
    ],
)
def test_directions_that_wait_for_each_other(one: tuple[str, str], both: tuple[str, str]) -> None:
    alone = crossed(*one, 0.99)
    found = network.directions_wait(joined(alone, crossed(*both, 0.52)))

    assert found is not None
    assert found.series is not None
    assert (found.series.metric, found.series.share, found.share) == (both[1], 0.52, 0.99)
    silent = (
        joined(alone, crossed(*both, 0.97)),
        joined(crossed(*one, 0.6), crossed(*both, 0.52)),  # all is slow
        joined(crossed(*both, 0.52)),
        joined(alone, crossed(*both, 0.52, size=8192)),  # sent without asking
        joined(alone, crossed(*both, 0.52), OMPI_MCA_btl_tcp_eager_limit="33554432"),
        joined(alone, crossed("collectives", "reduce_scatter", 0.33)),  # the algorithm's
    )
    assert [network.directions_wait(evidence) for evidence in silent] == [None] * len(silent)


def test_the_wrong_interface() -> None:
    slow = Interface(name="eth0", address="10.0.0.1", prefix=24, mtu=1500, speed=1 * GBIT)
    fast = Interface(name="eth1", address="10.1.0.1", prefix=24, mtu=1500, speed=10 * GBIT)
    both = (host("a", slow, fast),)

    assert network.wrong_interface(ours(summary(0.94 * GBIT), hosts=both)) is not None
    assert network.wrong_interface(ours(summary(9.4 * GBIT), hosts=both)) is None
    assert network.wrong_interface(ours(summary(0.94 * GBIT), hosts=(host("a", slow),))) is None


def test_a_bridge_that_all_hosts_have_is_a_suspect_of_a_run_that_failed() -> None:
    docker = Interface(name="docker0", address="172.17.0.1", prefix=16, mtu=1500)
    both = (host("a", docker), host("b", docker))

    assert network.shared_subnet(ours(hosts=both, failed=True)) is not None
    assert network.shared_subnet(ours(hosts=both)) is None


def test_mtus_that_differ_in_one_network() -> None:
    def at(mtu: int, last: int) -> Interface:
        return Interface(name="eth0", address=f"10.0.0.{last}", prefix=24, mtu=mtu)

    assert network.mtu_mismatch(ours(hosts=(host("a", at(9001, 1)), host("b", at(1500, 2)))))
    assert not network.mtu_mismatch(ours(hosts=(host("a", at(9001, 1)), host("b", at(9001, 2)))))
