"""Hosts of an allocation that stay after a teardown, and could not be cleaned."""

from types import SimpleNamespace
from typing import cast

import pytest

from cluster.cli.commands.down import _down_line
from cluster.core.errors import ShellError
from cluster.orchestration import cluster as orchestration
from cluster.orchestration.cluster import Cluster
from cluster.providers.slurm import SlurmProvider


def test_a_teardown_that_could_not_look_does_not_say_that_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reason = "no grep"

    def fail(_: object) -> None:
        raise ShellError(reason)

    monkeypatch.setattr(orchestration, "clean_hosts", fail)
    monkeypatch.setattr(SlurmProvider, "revocation_reason", lambda *_: None)
    remote = SimpleNamespace(give_up_dead=lambda _: None)
    c = cast(
        "Cluster",
        SimpleNamespace(
            name="mine", spec=None, machines=(), leftovers={}, uncleaned="", remote=remote,
            _provider=SlurmProvider(), end_jobs=lambda _: None,
        ),
    )  # fmt: skip
    Cluster._leave_hosts(c, "down")

    assert c.uncleaned == reason
    assert reason in _down_line(c, 0)
    assert "0 left" not in _down_line(c, 0)
