"""What differs between runs."""

import msgspec

from cluster.analysis.statistics.factors import Factor, differing_factors, factors
from cluster.core.model.hosts import Interface, Link, Machine
from cluster.core.model.results.records import Record
from cluster.core.model.spec import ClusterSpec
from tests.plain_values import plain_facts, plain_record

FACTS = plain_facts(
    "h0",
    kernel="6.1",
    cpu="fast",
    usable_cores=4,
    memory=2**34,
    python="3.11",
    mpi="5.0",
    tmux="3.3",
    libraries={"numpy": "2.0"},
    boot="b",
    interfaces=(Interface(name="eth0", address="10.0.0.1", prefix=24, mtu=1500),),
)
RECORD = plain_record(
    benchmark="p2p",
    spec=ClusterSpec(name="x", options={"rate": "1gbit"}),
    params=msgspec.Raw(b'{"window": null, "sizes": [8, 64], "until_precise": false}'),
    environment=(FACTS,),
    variables={"OMPI_MCA_btl": "self", "OMP_NUM_THREADS": "1"},
    software="1.0",
)


def vary(**fields: object) -> Record:
    return msgspec.structs.replace(RECORD, **fields)


def test_each_factor_has_one_name_at_every_level() -> None:
    values = dict(factors(RECORD))

    assert values["placement"] == "0"
    assert values["options.rate"] == "1gbit"
    assert values["sizes"] == "8,64"
    assert values["window"] == "-"
    assert values["mca:btl"] == "self"
    assert values["env:OMP_NUM_THREADS"] == "1"
    assert values["host.libraries.numpy"] == "2.0"
    assert values["host.interfaces.mtu"] == "1500"


def test_who_and_when_are_no_factors() -> None:
    other = vary(
        id="s",
        at=9.0,
        spec=ClusterSpec(name="y", options={"rate": "1gbit"}),
        environment=(msgspec.structs.replace(FACTS, host="h9", boot="c"),),
        command=("mpirun", "10.0.0.9"),
        phases={"run": 3.0},
    )

    assert differing_factors([RECORD], [other]) == ()


def test_what_differs_is_named_with_both_values() -> None:
    host = msgspec.structs.replace(FACTS, kernel="6.2")
    other = vary(environment=(FACTS, host), variables={"OMPI_MCA_btl": "tcp"})

    assert differing_factors([RECORD], [other]) == (
        Factor(name="mca:btl", base="self", other="tcp"),
        Factor(name="env:OMP_NUM_THREADS", base="1", other="-"),
        Factor(name="host.kernel", base="6.1", other="6.1 | 6.2"),
    )


def test_runs_of_one_group_may_differ_too() -> None:
    records = [RECORD, vary(software="2.0")]

    assert differing_factors([RECORD], records) == (
        Factor(name="cluster", base="1.0", other="1.0 | 2.0"),
    )
    assert differing_factors(records, records) == ()


def test_a_link_is_a_factor() -> None:
    def with_link(rate: float) -> Record:
        link = Link(rate=rate, source="test")
        machine = Machine(  # noqa: S604 - no command
            name="0.x", id="0", address="a", shell="local", folder="f", bin="b", link=link
        )
        return vary(machines=(machine,))

    assert differing_factors([with_link(1e9)], [with_link(2e9)]) == (
        Factor(name="link.rate", base="1000000000.0", other="2000000000.0"),
    )
