"""The TCP connections that ranks really have, counted where they are: in a host's own network."""

from cluster.analysis.verdict.evidence import Evidence
from cluster.analysis.verdict.rules import hosts, network
from cluster.orchestration.cluster import Cluster


def evidence(lab: Cluster, links: int) -> Evidence:
    variables = {"OMPI_MCA_btl_tcp_links": str(links)}
    run = lab.bench("p2p", metrics=["bandwidth"], sizes="1MiB", iterations=2, variables=variables)
    return run.evidence(run.summary())


def test_links_are_counted_and_those_that_are_not_there_are_named(lab: Cluster) -> None:
    """How many Open MPI makes of four is its affair (two, of 5.0.11): what we say is the truth."""
    single, several = evidence(lab, 1), evidence(lab, 4)
    count = several.links()[0, 1]
    finding = network.links_without_effect(several)

    assert single.links() == {(0, 1): 1}
    assert network.links_without_effect(single) is None
    assert 1 <= count <= 4
    assert (finding is not None) == (count < 4)
    assert finding is None or (finding.names, finding.count) == (("0", "1"), count)


def test_ranks_of_a_lab_share_the_cores_of_one_machine(lab: Cluster) -> None:
    """They are bound nowhere, so nothing is said of them."""
    run = lab.bench("p2p", metrics=["latency"], sizes="8", iterations=2)
    evidence = run.evidence(run.summary())
    ((machine, ranks),) = evidence.machines()

    assert [process.host for process in ranks] == ["shared-0", "shared-1"]
    assert {n for core in machine.physical_cores for n in core} == set(ranks[0].processors)
    assert hosts.shared_core(evidence) is None
