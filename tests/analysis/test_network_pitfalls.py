"""What networks do to a rate: caps, interfaces, bridges, MTUs, and directions that wait."""

import msgspec
import pytest

from cluster.analysis.verdict.evidence import Evidence
from cluster.analysis.verdict.rules import network
from cluster.core.model.hosts import Connection, Interface, RankProcess
from tests.analysis.evidence import BW, ONE_WAY, Look, facts, host, summary

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
    finding = network.one_flow(evidence)

    assert (finding is not None) == says
    assert finding is None or finding.confidence == "likely"


def test_links_that_have_no_effect(look: Look) -> None:
    evidence = look(BW.format(rate="1190.00"), "c5.18xlarge", 2)
    variant = msgspec.structs.replace(evidence, variables={"OMPI_MCA_btl_tcp_links": "4"})

    assert network.links_without_effect(variant) is not None
    assert network.links_without_effect(evidence) is None


def connect(links: int, setting: str) -> Evidence:
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
    return facts(processes=ranks, variables={"OMPI_MCA_btl_tcp_links": setting})


@pytest.mark.parametrize(
    ("links", "setting", "short"),
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
def test_links_that_are_not_there(links: int, setting: str, *, short: bool) -> None:
    finding = network.links_without_effect(connect(links, setting))

    figures = finding and (finding.names, finding.count, finding.name, finding.confidence)
    assert figures == ((("0", "1"), links, setting, "certain") if short else None)


def cross(benchmark: str, metric: str, share: float, size: int = 4_000_000) -> Evidence:
    """Return what a run of ours moved between two hosts, and its share of the bound."""
    definition = msgspec.structs.replace(ONE_WAY, benchmark=benchmark, metric=metric)
    result = msgspec.structs.replace(
        summary(1e7, size=size), metric=metric, definition=definition.id, share=share
    )
    return Evidence(summaries=(result,), definitions={definition.id: definition})


def join(*parts: Evidence, **variables: str) -> Evidence:
    return Evidence(
        summaries=tuple(s for part in parts for s in part.summaries),
        definitions={k: v for part in parts for k, v in part.definitions.items()},
        variables=variables,
    )


@pytest.mark.parametrize(
    ("way", "pair"),
    [
        (("p2p", "bandwidth"), ("p2p", "bidirectional")),
        (("collectives", "bcast"), ("collectives", "allgather")),
    ],
)
def test_directions_that_wait_for_each_other(way: tuple[str, str], pair: tuple[str, str]) -> None:
    alone = cross(*way, 0.99)
    finding = network.directions_wait(join(alone, cross(*pair, 0.52)))

    assert finding is not None
    assert finding.series is not None
    assert (finding.series.metric, finding.series.share, finding.share) == (pair[1], 0.52, 0.99)
    silent = (
        join(alone, cross(*pair, 0.97)),
        join(cross(*way, 0.6), cross(*pair, 0.52)),  # all is slow
        join(cross(*pair, 0.52)),
        join(alone, cross(*pair, 0.52, size=8192)),  # sent without asking
        join(alone, cross(*pair, 0.52), OMPI_MCA_btl_tcp_eager_limit="33554432"),
        join(alone, cross("collectives", "reduce_scatter", 0.33)),  # the algorithm's
    )
    assert [network.directions_wait(evidence) for evidence in silent] == [None] * len(silent)


def test_the_wrong_interface() -> None:
    slow = Interface(name="eth0", address="10.0.0.1", prefix=24, mtu=1500, speed=1 * GBIT)
    fast = Interface(name="eth1", address="10.1.0.1", prefix=24, mtu=1500, speed=10 * GBIT)
    hosts = (host("a", slow, fast),)

    assert network.wrong_interface(facts(summary(0.94 * GBIT), hosts=hosts)) is not None
    assert network.wrong_interface(facts(summary(9.4 * GBIT), hosts=hosts)) is None
    assert network.wrong_interface(facts(summary(0.94 * GBIT), hosts=(host("a", slow),))) is None


def test_a_bridge_that_all_hosts_have_is_a_suspect_of_a_run_that_failed() -> None:
    docker = Interface(name="docker0", address="172.17.0.1", prefix=16, mtu=1500)
    hosts = (host("a", docker), host("b", docker))

    assert network.shared_subnet(facts(hosts=hosts, has_failed=True)) is not None
    assert network.shared_subnet(facts(hosts=hosts)) is None


def test_mtus_that_differ_in_one_network() -> None:
    def nic(mtu: int, last: int) -> Interface:
        return Interface(name="eth0", address=f"10.0.0.{last}", prefix=24, mtu=mtu)

    assert network.mtu_mismatch(facts(hosts=(host("a", nic(9001, 1)), host("b", nic(1500, 2)))))
    assert not network.mtu_mismatch(facts(hosts=(host("a", nic(9001, 1)), host("b", nic(9001, 2)))))
