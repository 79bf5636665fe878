"""Files of 100 MB through `kubectl exec`, whose connection ends anywhere with exit status 0."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.core.errors import ShellError
from cluster.core.model.hosts import Machine
from cluster.remote.shells.kubectl import KubectlShell
from tests.fakes.kubernetes import Kubernetes

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
    pod_shell = KubectlShell(
        Machine(  # noqa: S604 - "shell" names a plug-in
            name="0.mpi.x", id="pod0.team-a@fake", address="", shell="kubectl", folder="", bin=""
        )
    )
    yield pod_shell
    pod_shell.close()


@pytest.mark.parametrize("way", ["in", "out"])
def test_a_copy_that_is_cut_is_an_error_and_leaves_no_file(
    kubernetes: Kubernetes, shell: KubectlShell, tmp_path: Path, way: str
) -> None:
    """30 s for ten."""
    source, home = tmp_path / "source", tmp_path / "home" / "source"
    source.write_bytes(os.urandom(1 << 20) * (SIZE >> 20) + os.urandom(SIZE % (1 << 20)))

    def copy() -> None:
        if way == "in":
            shell.put(source, str(home))
        else:
            shell.fetch(str(source), home.parent)

    for cut in CUTS:
        kubernetes.cuts.append((way, cut))
        with pytest.raises(ShellError):
            copy()

        assert not home.exists(), cut
    copy()
    assert home.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("cut", [0, 1, 5, 31, 40])
def test_output_that_is_cut_is_an_error_wherever_it_is(
    kubernetes: Kubernetes, shell: KubectlShell, cut: int
) -> None:
    """Also within the mark at its end."""
    kubernetes.cuts.append(("out", cut))
    with pytest.raises(ShellError):
        shell.run(["sh", "-c", "echo five; exit 0"])
