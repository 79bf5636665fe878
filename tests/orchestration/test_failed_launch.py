"""A launch that fails takes everything down, and names no file that went with it."""

from pathlib import Path

import pytest

import cluster
from cluster.core.errors import Unreachable
from cluster.core.state import journal
from cluster.core.state.ssh_keys import KNOWN


def test_the_remedy_names_no_file_of_a_cluster_that_was_taken_down(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del home
    pinned = journal.for_cluster("gone").folder / KNOWN

    def connect(*_: object) -> None:
        pinned.write_text("a key\n")
        error = Unreachable("", state="host key", remedy=f"ssh-keygen -f {pinned} -R 0")
        error.file = str(pinned)
        raise error

    monkeypatch.setattr("cluster.orchestration.launch.launch.connect", connect)
    with pytest.raises(Unreachable) as failure:
        cluster.launch("gone", hosts=1)
    assert not pinned.exists()
    assert str(pinned.parent) not in failure.value.remedy
    assert journal.names() == ()
