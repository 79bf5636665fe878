"""Files of 100 MB through `kubectl exec`, whose connection ends anywhere with exit status 0."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from cluster.core.errors import ShellError
from cluster.core.model.hosts import Machine
from cluster.remote.shells.kubectl import KubectlShell
from tests.fakes.kubernetes import Kubernetes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIZE = 100_000_000
CUTS = sorted(random.Random(43).sample(range(1, SIZE), 10))


@pytest.fixture
def kubernetes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kubernetes]:
    """A cluster with a pod."""
    with Kubernetes() as cluster:
        cluster.add_node("node0")
        cluster.add_pod("pod0")
        monkeypatch.setenv("KUBECONFIG", str(cluster.settings()))
        yield cluster
        assert not cluster.gaps


@pytest.fixture
def shell(kubernetes: Kubernetes) -> Iterator[KubectlShell]:
    """The shell to the pod."""
    made = KubectlShell(
        Machine(  # noqa: S604 - "shell" names a plug-in
            name="0.mpi.x", id="pod0.team-a@fake", address="", shell="kubectl", folder="", bin=""
        )
    )
    yield made
    made.close()


def test_a_download_that_is_cut_is_an_error_and_leaves_no_file(
    kubernetes: Kubernetes, shell: KubectlShell, tmp_path: Path
) -> None:
    """30 s for ten."""
    source = tmp_path / "source"
    source.write_bytes(os.urandom(1 << 20) * (SIZE >> 20) + os.urandom(SIZE % (1 << 20)))
    for cut in CUTS:
        kubernetes.cuts.append(("out", cut))
        with pytest.raises(ShellError):
            shell.fetch(str(source), tmp_path / "home")

        assert not (tmp_path / "home" / "source").exists(), cut
    shell.fetch(str(source), tmp_path / "home")
    assert (tmp_path / "home" / "source").read_bytes() == source.read_bytes()


def test_an_upload_that_is_cut_is_an_error_and_leaves_no_file(
    kubernetes: Kubernetes, shell: KubectlShell, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(1 << 20) * (SIZE >> 20) + os.urandom(SIZE % (1 << 20)))
    for cut in CUTS:
        kubernetes.cuts.append(("in", cut))
        with pytest.raises(ShellError):
            shell.put(source, str(tmp_path / "there" / "file"))

        assert not (tmp_path / "there" / "file").exists(), cut
    shell.put(source, str(tmp_path / "there" / "file"))
    assert (tmp_path / "there" / "file").read_bytes() == source.read_bytes()


@pytest.mark.parametrize("cut", [0, 1, 5, 31, 40])
def test_output_that_is_cut_is_an_error_wherever_it_is(
    kubernetes: Kubernetes, shell: KubectlShell, cut: int
) -> None:
    """Also within the mark at its end."""
    kubernetes.cuts.append(("out", cut))
    with pytest.raises(ShellError):
        shell.run(["sh", "-c", "echo five; exit 0"])
