"""A fabric that messages must pass: libfabric has it on every host, or nothing is measured."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.core.errors import ProvisionError, SpecError
from cluster.core.model.hosts import Link, Machine
from cluster.core.model.results.records import Note
from cluster.remote.network import libfabric
from cluster.remote.shells.local import LocalShell
from tests.conftest import write_program
from tests.snapshots import Snapshot

EFA = """provider: efa
    fabric: efa
    domain: rdmap0s6-rdm
    version: 201.0
    type: FI_EP_RDM
    protocol: FI_PROTO_EFA
"""


@pytest.fixture
def fi_info(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put an fi_info of the test on the PATH."""

    def install(script: str) -> None:
        program = write_program(tmp_path / "bin" / "fi_info", f"#!/bin/sh\n{script}\n")
        monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")

    return install


def test_libfabric_itself_is_asked_for_the_provider(fi_info: Callable[[str], None]) -> None:
    fi_info(f'[ "$*" = "-p efa -t FI_EP_RDM" ] && cat << END\n{EFA}END')

    libfabric.check_provider({"0.mpi.c": LocalShell()}, "efa")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'fi_getinfo: -61 (No data available)' >&2; exit 61", "No data available"),
        ("echo 'provider: tcp'", "provider: tcp"),
        ("exec fi_info_that_is_not_there", "not found"),
    ],
)
def test_a_host_without_it_is_refused_by_name(
    fi_info: Callable[[str], None], script: str, why: str
) -> None:
    """Stock Ubuntu has no EFA in its libfabric, or none at all: TCP would be measured."""
    fi_info(script)
    with pytest.raises(SpecError, match=r"0\.mpi\.c .* efa") as refused:
        libfabric.check_provider({"0.mpi.c": LocalShell()}, "efa")

    assert why in refused.value.means
    assert "--option efa=0" in refused.value.remedy


@pytest.mark.parametrize(("listed", "direct"), [(1, False), (2, False), (2, True)])
def test_a_host_with_fewer_adapters_than_it_was_given(
    snapshot: Snapshot, fi_info: Callable[[str], None], listed: int, *, direct: bool
) -> None:
    """libfabric 2 lists each adapter twice: as `efa` and as `efa-direct`."""
    names = [f"rdmap{number}s6-rdm" for number in range(listed)]
    entries = [EFA.replace("rdmap0s6-rdm", name) for name in names]
    entries += [e.replace("fabric: efa", "fabric: efa-direct") for e in entries] if direct else []
    fi_info(f"cat << END\n{''.join(entries)}END")
    libfabric.check_provider({"0.mpi.c": LocalShell()}, "efa", {"0.mpi.c": listed})
    with snapshot.raises(ProvisionError):
        libfabric.check_provider({"0.mpi.c": LocalShell()}, "efa", {"0.mpi.c": 3, "1.mpi.c": 4})


def test_each_machine_says_how_many_adapters_it_was_given() -> None:
    link = Link(rate=1e9, source="test", fabric="efa", adapters=16)
    machine = Machine(  # noqa: S604 - "shell" names one of our plug-ins
        name="0", id="0", address="10.0.0.1", shell="local", folder="f", bin="b", link=link
    )
    assert libfabric.adapters_of((machine,)) == {"0": 16}


def test_tcp_needs_no_proof() -> None:
    libfabric.check_provider({"0.mpi.c": LocalShell()}, "")

    assert libfabric.variables("") == {}
    assert libfabric.notes("", {"OMPI_MCA_pml": "ob1"}) == ()


def test_open_mpi_may_use_nothing_else() -> None:
    """The cm layer has no TCP of its own, and libfabric no other provider: it ends instead."""
    link = Link(rate=1e9, source="test", fabric="efa")
    machine = Machine(  # noqa: S604 - "shell" names one of our plug-ins
        name="0", id="0", address="10.0.0.1", shell="local", folder="f", bin="b", link=link
    )

    assert libfabric.provider_of([machine]) == "efa"
    assert libfabric.variables("efa") == {
        "OMPI_MCA_pml": "cm",
        "OMPI_MCA_mtl": "ofi",
        "OMPI_MCA_mtl_ofi_provider_include": "efa",
        "FI_PROVIDER": "efa",
    }


def test_a_run_says_what_its_messages_passed() -> None:
    value = "OMPI_MCA_pml=ob1"

    assert libfabric.notes("efa", {}) == (Note("proven_provider", ("efa",)),)
    assert libfabric.notes("efa", {"OMPI_MCA_pml": "ob1"}) == (Note("tcp_instead", (value, "efa")),)
