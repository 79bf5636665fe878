"""Fabrics and faults as people describe them."""

import pytest

from cluster.core.errors import SpecError
from cluster.core.model.network.fabric import Fabric, Fault, parse_fabric, parse_faults
from tests.snapshots import Snapshot

LEAFSPINE = Fabric(leaves=4, hosts=8)


def fabric(text: str, oversubscription: float = 1.0) -> Fabric:
    return parse_fabric(text, oversubscription=oversubscription, routes="ecmp", rate=1e9)


@pytest.mark.parametrize(
    ("text", "size", "nics", "spines"),
    [("leafspine:32x32", 1024, 1, 32), ("fattree:16", 1024, 1, 8), ("rail:8x16x8", 128, 8, 16)],
)
def test_a_fabric_has_room(text: str, size: int, nics: int, spines: int) -> None:
    network = fabric(text)

    assert (network.size, network.nics, network.spines) == (size, nics, spines)


def test_a_thin_fabric_has_fewer_spines() -> None:
    assert fabric("leafspine:32x32", 4).spines == 8


@pytest.mark.parametrize(
    "text", ["torus:4x4", "leafspine", "leafspine:4", "leafspine:4x0", "rail:2x2", "fattree:5"]
)
def test_what_is_no_fabric_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        fabric(text)


@pytest.mark.parametrize("thin", [0.5, 65])
def test_no_fabric_is_thinner_or_thicker(thin: float) -> None:
    with pytest.raises(SpecError, match="between 1 and 64"):
        fabric("leafspine:4x4", thin)


def test_a_fabric_that_would_not_fit_is_refused(snapshot: Snapshot) -> None:
    with snapshot.raises(SpecError):
        fabric("leafspine:1000x1000")


def test_faults_are_read() -> None:
    assert parse_faults("host:7:rx=0.4,link:3-5,nic:2.0=0", LEAFSPINE, 32) == (
        Fault(kind="host", number=7, direction="rx", share=0.4),
        Fault(kind="link", number=3, part=5, share=0.5),
        Fault(kind="nic", number=2, part=0, share=0.0),
    )
    assert parse_faults("", LEAFSPINE, 32) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fire:7", "is not KIND:NUMBER"),
        ("link:3:1=0.2", r"is not link:LEAF-SPINE=SHARE(.|\n)*link:3-5=0.4"),
        ("nic:3=0.2", r"is not nic:HOST.NIC=SHARE(.|\n)*nic:7.1=0.4"),
        ("host:x=0.4", "is not KIND:NUMBER"),
        ("host:7:up=0.4", "is not KIND:NUMBER"),
        ("host:7=2", "at least 0 and below 1"),
        ("host:7=nan", "at least 0 and below 1"),
        ("host:7=-1", "at least 0 and below 1"),
        ("host:32=0.4", "does not exist"),
        ("leaf:4=0.4", "does not exist"),
        ("link:3-8=0.4", "does not exist"),
        ("nic:3=0.4", "nic:HOST.NIC=SHARE"),
        ("nic:3.1=0.4", "does not exist"),
    ],
)
def test_a_fault_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse_faults(text, LEAFSPINE, 32)
