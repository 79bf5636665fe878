"""A misspelt parameter of Open MPI is refused before anything is measured."""

import pytest

from cluster.core.errors import SpecError
from cluster.orchestration.bench.plan import _refuse_unknown
from tests.conftest import command, runs_folder, sessions
from tests.snapshots import Snapshot

KNOWN = ["btl", "btl_sm_eager_limit", "btl_sm_rndv_eager_limit", "btl_tcp_eager_limit", "pml"]


def test_near_names_are_suggested(snapshot: Snapshot) -> None:
    _refuse_unknown(["btl", "btl_sm_eager_limit"], KNOWN)
    with snapshot.raises(SpecError):
        _refuse_unknown(["btl_sm_eager_limitt"], KNOWN)


def test_what_resembles_nothing_has_no_suggestion(snapshot: Snapshot) -> None:
    with snapshot.raises(SpecError):
        _refuse_unknown(["nosuch"], KNOWN)


@pytest.mark.usefixtures("tools")
def test_the_open_mpi_of_the_hosts_is_asked() -> None:
    """And nothing is left of the cluster that was launched for it."""
    words = ("bench", "p2p", "--metrics=latency", "--sizes=8", "--iters=5")
    refused = command(*words, "--ab", "mca:btl_sm_eager_limitt=1024,4096", status=2).stderr

    assert "Did you mean btl_sm_eager_limit" in refused
    assert list(runs_folder().glob("*/*")) == []
    assert sessions() == []
