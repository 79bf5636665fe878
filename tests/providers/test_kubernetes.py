"""The provider kubernetes on a strict API server, by the real kubectl."""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

import cluster
from cluster.core.errors import ClusterError, Denied, ProvisionError, Quota, SpecError, Timeout
from cluster.core.model.spec import ClusterSpec
from cluster.core.state import journal
from cluster.orchestration.launch.launch import launch_spec, make_spec, plan_spec
from cluster.orchestration.launch.orphans import remove
from cluster.orchestration.proximity import ask_topology
from cluster.providers.kubernetes import RUN, KubernetesProvider
from cluster.providers.kubernetes.plan import parse_quantity
from cluster.providers.kubernetes.states import Object as ServerObject
from cluster.providers.kubernetes.states import scheduler_words, why_over
from cluster.remote.parallel import start
from tests.conftest import ROOT, answer, command, until, write_program
from tests.fakes.kubernetes.cluster import NEEDED, USER, Kubernetes
from tests.fakes.kubernetes.pods import Image
from tests.fakes.kubernetes.store import JOBS, NAMESPACES, NODES, PODS, QUEUES, Object
from tests.orphans import find_orphans
from tests.providers.kubernetes_here import OPTIONS, kubernetes, kubernetes_server
from tests.snapshots import Snapshot

__all__ = ["kubernetes", "kubernetes_server"]
LEVEL = "pod-security.kubernetes.io/enforce"
COUNT = r"""#!/bin/sh
(printf "%s " "$@" | tr "\n" " "; echo) >> "$0.calls"
exec {real} "$@"
"""


def spec_of(hosts: int = 2, options: Mapping[str, str] | None = None) -> ClusterSpec:
    values = {**OPTIONS, **(options or {})}
    fields = {"provider": "kubernetes", "hosts": hosts, "options": values}
    return make_spec("mine", fields)


def up(hosts: int = 2, options: Mapping[str, str] | None = None) -> cluster.Cluster:
    return launch_spec(spec_of(hosts, options))


def planned(hosts: int = 2, options: Mapping[str, str] | None = None) -> tuple[str, ...]:
    return plan_spec(spec_of(hosts, options))[1].lines


def test_a_cluster_is_a_job_whose_pods_are_hosts(kubernetes: Kubernetes) -> None:
    c = up()

    results = c.run(["sh", "-c", "echo $JOB_COMPLETION_INDEX; pwd; echo $HOME"])
    lines = [results[f"{number}.mpi.mine"].stdout.splitlines() for number in (0, 1)]
    assert [words[0] for words in lines] == ["0", "1"]
    assert all(words[1] == words[2] for words in lines)
    [job] = kubernetes.jobs()
    assert (job["spec"]["activeDeadlineSeconds"], job["spec"]["backoffLimitPerIndex"]) == (14400, 0)
    assert len({pod["spec"]["nodeName"] for pod in kubernetes.pods()}) == 2
    assert [row["status"] for row in answer("ls")] == ["idle"]

    c.down()
    assert kubernetes.things() == []
    assert "team-a@fake" in "".join(c.looked_for)


def test_a_launch_starts_kubectl_as_often_for_eight_hosts_as_for_two(
    kubernetes: Kubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start takes 0.1 s of a core. All pods run when the launch first asks."""
    script = COUNT.format(real=shutil.which("kubectl"))
    counted = write_program(tmp_path / "bin" / "kubectl", script)
    monkeypatch.setenv("PATH", f"{counted.parent}:{os.environ['PATH']}")
    for number in range(4, 8):
        kubernetes.add_node(f"node{number}")
    calls = {}
    for hosts in (2, 8):
        clock = SimpleNamespace(
            monotonic=time.monotonic,
            sleep=lambda _, hosts=hosts: until(lambda: are_running(kubernetes, hosts), "all have"),
        )
        monkeypatch.setattr("cluster.providers.kubernetes.startup.time", clock)
        Path(f"{counted}.calls").write_text("")
        c = up(hosts)
        calls[hosts] = Path(f"{counted}.calls").read_text().splitlines()
        c.down()

    assert len(calls[2]) == len(calls[8]) == 10, calls
    assert sum(" exec " in line for line in calls[8]) == 1


def test_a_node_that_the_api_server_cannot_reach_ends_the_launch(
    kubernetes: Kubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first pod is said to run; no command would reach it."""

    def lose(_: float) -> None:
        until(lambda: are_running(kubernetes, 2), "all have")
        kubernetes.kubelets.dead.add("node0")

    def find_again() -> None:
        until(lambda: any("deletionTimestamp" in j["metadata"] for j in kubernetes.jobs()), "down")
        kubernetes.kubelets.dead.clear()

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lose)
    monkeypatch.setattr("cluster.providers.kubernetes.startup.time", clock)
    finding = start(find_again)
    with pytest.raises(Timeout, match="error dialing backend: dial tcp"):
        up(2, {"wait": "0"})

    finding.result()
    assert kubernetes.things() == []


def are_running(kubernetes: Kubernetes, hosts: int) -> bool:
    """Tell whether all pods run."""
    return [pod["status"]["phase"] for pod in kubernetes.pods()] == ["Running"] * hosts


def test_files_and_started_commands(kubernetes: Kubernetes, tmp_path: object) -> None:
    c = up(hosts=1)
    c.start("echo begun; sleep 600", name="serve")
    until(lambda: "begun" in c.jobs["serve"].logs(), "it prints")

    c.down()
    assert all(pod["status"]["phase"] != "Running" for pod in kubernetes.pods())


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"image": ""}, SpecError, "needs the image"),
        ({"network": "moon"}, SpecError, "multus:NAME"),
        ({"rdma": "hca"}, SpecError, "RESOURCE:NUMBER"),
        ({"nodes": "fast"}, SpecError, "KEY=VALUE"),
        ({"context": "other"}, SpecError, "does not know which cluster"),
        ({"namespace": "none"}, SpecError, "no such namespace"),
        ({"queue": "gpus"}, SpecError, "There is no queue 'gpus'"),
        ({"cpu": "many"}, ClusterError, "many"),
    ],
)
def test_what_can_never_be_is_refused_before_anything_is_created(
    kubernetes: Kubernetes, options: dict[str, str], error: type[Exception], words: str
) -> None:
    kubernetes.plane.kueue = True
    with pytest.raises(error) as refused:
        planned(options=options)

    assert words in str(refused.value)


@pytest.mark.parametrize("missing", sorted(NEEDED))
def test_a_role_that_lacks_a_verb_is_named(
    kubernetes: Kubernetes, missing: tuple[str, str]
) -> None:
    kubernetes.roles[USER] = NEEDED - {missing}
    with pytest.raises(Denied) as refused:
        planned()

    assert "you may not: {} {}".format(*missing) in refused.value.what


def test_the_verbs_that_are_named_are_enough(kubernetes: Kubernetes) -> None:
    """A role in the namespace, which may not see nodes, quotas or events."""
    kubernetes.roles[USER] = NEEDED
    c = up()

    assert c.run(["true"])["0.mpi.mine"].status == 0
    c.down()


def test_a_plan_says_which_nodes_have_no_room(snapshot: Snapshot, kubernetes: Kubernetes) -> None:
    kubernetes.add_pod("other", gpus=1)
    kubernetes.change(NODES, "node1", lambda node: node["spec"].update(unschedulable=True))
    taints = [{"key": "team-b", "effect": "NoSchedule"}]
    kubernetes.change(NODES, "node2", lambda node: node["spec"].update(taints=taints))

    lines = planned(options={"gpus": "8"})
    snapshot(lines[-1])
    snapshot(planned(options={"nodes": "pool=h100"})[-1])
    assert len(planned(1, {"gpus": "8"})) == 2
    kubernetes.remove(PODS, "other")


def test_a_pod_on_each_node_that_can_have_one(snapshot: Snapshot, kubernetes: Kubernetes) -> None:
    """Others on a node do not change the number: the plan says that pods would wait."""
    kubernetes.change(NODES, "node1", lambda node: node["spec"].update(unschedulable=True))
    kubernetes.label("node3", {"pool": "h100"})
    kubernetes.add_pod("other", gpus=1)

    def make(nodes: str, **fields: object) -> ClusterSpec:
        options = {**OPTIONS, "nodes": nodes, "gpus": "8"}
        return make_spec("mine", {"provider": "kubernetes", "options": options, **fields})

    assert (make("all").hosts, make("all,pool=h100").hosts, make("pool=h100").hosts) == (3, 1, 2)
    snapshot(plan_spec(make("all"))[1].lines[-1])
    with snapshot.raises(SpecError):
        plan_spec(make("all", hosts=2))
    with snapshot.raises(SpecError):
        make("all,pool=none")
    kubernetes.remove(PODS, "other")
    c = launch_spec(make("all"))
    assert {p["spec"]["nodeName"] for p in kubernetes.pods()} == {"node0", "node2", "node3"}
    c.down()


def test_a_plan_says_what_quotas_allow(snapshot: Snapshot, kubernetes: Kubernetes) -> None:
    kubernetes.add_quota(requests_nvidia__com="unused", pods="1")

    snapshot(planned()[-1])


def test_network_cards_and_a_second_network_reach_the_pods(
    snapshot: Snapshot, kubernetes: Kubernetes
) -> None:
    options = {"rdma": "rdma/hca_shared:8", "network": "multus:fast", "security": "baseline"}
    snapshot(planned(options=options)[-1])
    for name in ("node0", "node1"):
        kubernetes.change(
            NODES, name, lambda node: node["status"]["allocatable"].update({"rdma/hca_shared": "8"})
        )
    c = up(options=options)

    for pod in kubernetes.pods():
        container = pod["spec"]["containers"][0]
        assert pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] == "fast"
        assert container["resources"]["limits"]["rdma/hca_shared"] == "8"
        assert container["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]
    assert {pod["spec"]["nodeName"] for pod in kubernetes.pods()} == {"node0", "node1"}
    snapshot(planned(options=options)[-1])
    c.down()


def test_a_client_whose_clock_is_off_by_an_hour(
    kubernetes: Kubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = time.time
    for hours in (-1, 1):
        monkeypatch.setattr(time, "time", lambda hours=hours: clock() + 3600 * hours)
        c = up()
        assert c.run("echo here")["1.mpi.mine"].stdout == "here\n"
        assert [row["status"] for row in answer("ls")] == ["idle"]
        c.down()
        assert kubernetes.things() == []


@pytest.mark.parametrize("level", ["restricted", "baseline"])
def test_pods_keep_the_level_of_pod_security(
    snapshot: Snapshot, kubernetes: Kubernetes, level: str
) -> None:
    kubernetes.change(
        NAMESPACES, "team-a", lambda item: item["metadata"].update(labels={LEVEL: level})
    )
    c = up(1, {"security": level})
    c.down()

    with snapshot.raises(SpecError):
        planned(options={"network": "host"})


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"image": "registry.example/none:1"}, ProvisionError, "ImagePullBackOff"),
        ({"image": "BAD IMAGE"}, ProvisionError, "InvalidImageName"),
        ({"image": "registry.example/root:1"}, ProvisionError, "runAsNonRoot"),
        ({"gpus": "9", "wait": "0.5"}, Timeout, "of 4 nodes, 4 have too little nvidia.com/gpu"),
        ({"nodes": "a=b", "wait": "0.5"}, Timeout, "of 4 nodes, 4 lack the labels"),
    ],
)
def test_pods_that_never_run_end_the_launch_and_leave_nothing(
    kubernetes: Kubernetes, options: dict[str, str], error: type[Exception], words: str
) -> None:
    kubernetes.kubelets.images["registry.example/root:1"] = Image(user=0)
    with pytest.raises(error) as failed:
        up(options=options)

    assert words in str(failed.value)
    assert kubernetes.things() == []


@pytest.mark.parametrize(
    ("lacks", "hosts", "words"),
    [
        (("tmux",), 1, "The image lacks tmux."),
        (("tar", "find"), 1, "The image lacks tar, find."),
        (("sshd", "ssh-keygen"), 2, "The image lacks sshd, ssh-keygen."),
        (("python3",), 1, "The image lacks Python 3.11 or newer."),
        (("sh",), 1, 'StartError: failed to create .* exec: "sh": executable file not found'),
    ],
)
def test_what_an_image_lacks_ends_the_launch(
    kubernetes: Kubernetes, lacks: tuple[str, ...], hosts: int, words: str
) -> None:
    """Nothing is installed or timed before, and what to do is in no need of root."""
    kubernetes.kubelets.images[OPTIONS["image"]] = Image(lacks=lacks)
    with pytest.raises(ClusterError, match=words) as failed:
        up(hosts)

    assert "examples/Containerfile" in failed.value.remedy or lacks == ("sh",)
    assert kubernetes.things() == []


def test_a_host_alone_needs_no_sshd_and_a_python_of_the_image_is_looked_for(
    kubernetes: Kubernetes,
) -> None:
    kubernetes.kubelets.images[OPTIONS["image"]] = Image(lacks=("sshd", "ssh", "ssh-keygen"))
    up(1).down()
    with pytest.raises(ClusterError, match=r"The image lacks /nowhere/bin/python3 \(Python 3"):
        up(1, {"python": "/nowhere/bin/python3"})


def test_a_container_that_was_out_of_memory_is_named_so() -> None:
    container = {"state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}
    status = {"phase": "Failed", "containerStatuses": [container]}
    pod = msgspec.convert({"metadata": {"name": "a"}, "status": status}, ServerObject)

    assert why_over(pod) == "OOMKilled"


def test_a_quota_that_refuses_pods_ends_the_launch(kubernetes: Kubernetes) -> None:
    kubernetes.add_quota(pods="1")
    with pytest.raises(Quota) as failed:
        up()

    assert "limits" in failed.value.what
    assert "pods=1" in failed.value.what
    assert kubernetes.things() == []


def test_the_reason_why_a_pod_waits_is_shown_and_passes(kubernetes: Kubernetes) -> None:
    for number in range(1, 4):
        kubernetes.change(NODES, f"node{number}", lambda node: node["spec"].update(taints=[CORDON]))
    states: set[str] = set()

    def note(_: str, state: str) -> None:
        if "cordoned" in state:
            kubernetes.change(NODES, "node1", lambda node: node["spec"].pop("taints"))
        states.add(state)

    launch_spec(spec_of(), note).down()
    assert any(
        "of 4 nodes, 1 have a pod of this cluster already, 3 are cordoned" in s for s in states
    )


CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def test_hosts_are_in_the_order_of_the_network_and_its_layers_are_known(
    snapshot: Snapshot,
    kubernetes: Kubernetes,
) -> None:
    key = "topology.k8s.aws/network-node-layer"
    for number, (near, far) in enumerate((("x", "A"), ("y", "B"), ("x", "A"), ("z", "B"))):
        kubernetes.label(f"node{number}", {f"{key}-3": near, f"{key}-1": far})
    c = up(4)

    nodes = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in kubernetes.pods()}
    order = [nodes[machine.id.partition(".")[0]] for machine in c.machines]
    assert order == ["node0", "node2", "node1", "node3"]
    layers = ask_topology(c.spec, c.machines).layers
    assert [(layer.name, layer.groups) for layer in layers] == [
        ("network node 3", (0, 0, 2, 3)),
        ("network node 1", (0, 0, 2, 2)),
    ]
    hint = KubernetesProvider().replacement_hint(c.spec, c.machines[:2])
    snapshot(hint)
    c.down()


def cordoned(kubernetes: Kubernetes) -> dict[str, str]:
    """Tell which nodes are cordoned, and by which run."""
    return {
        node["metadata"]["name"]: node["metadata"]["annotations"].get(RUN, "")
        for node in kubernetes.store.list(NODES, "")
        if node["spec"].get("unschedulable")
    }


def test_nodes_are_cordoned_up_to_a_limit_and_only_those_with_our_mark_uncordoned(
    kubernetes: Kubernetes,
) -> None:
    c, provider = up(4), KubernetesProvider()
    (last_node,) = provider.cordon(c.machines[3:], "by hand", "", 0.1)  # one, whatever the share
    kubernetes.change(NODES, last_node, lambda node: node["metadata"]["annotations"].clear())
    with pytest.raises(SpecError) as refused:
        provider.cordon(c.machines, "run-1", "slow", 0.5)
    assert (refused.value.means, cordoned(kubernetes)) == ("None was cordoned.", {last_node: ""})

    nodes = provider.cordon(c.machines[1:], "run-1", "slow", 0.5)
    assert cordoned(kubernetes) == {nodes[0]: "run-1", nodes[1]: "run-1", last_node: ""}
    assert nodes[2] == last_node
    with pytest.raises(SpecError):
        provider.cordon(c.machines[:1], "run-2", "slow", 0.5)  # there are two with a mark
    assert provider.uncordon(c.machines, "run-2") == ()
    assert set(provider.uncordon(c.machines, "run-1")) == set(nodes[:2])
    assert cordoned(kubernetes) == {last_node: ""}

    kubernetes.roles[USER] = NEEDED
    with pytest.raises(Denied):
        provider.cordon(c.machines[:1], "run-3", "slow", 0.5)
    c.down()


def test_a_second_cluster_is_on_the_nodes_of_the_first(
    snapshot: Snapshot, kubernetes: Kubernetes
) -> None:
    base = up()
    fields = {"provider": "kubernetes", "hosts": 2, "options": {**OPTIONS, "share": "mine"}}
    other = launch_spec(make_spec("other", fields))

    nodes = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in kubernetes.pods()}
    first, second = ([nodes[m.id.partition(".")[0]] for m in c.machines] for c in (base, other))
    assert first == second
    other.down()
    base.down()
    with snapshot.raises(SpecError):
        planned(options={"share": "mine"})


def test_a_queue_starts_the_pods(kubernetes: Kubernetes) -> None:
    kubernetes.plane.kueue = True
    kubernetes.add(QUEUES, "gpus", spec={"clusterQueue": "all"})
    admitted: list[Object] = []
    kubernetes.plane.admits = lambda _: bool(admitted)
    states: set[str] = set()

    def note(_: str, state: str) -> None:
        states.add(state)
        if "queue" in state:
            admitted.append({})

    c = launch_spec(spec_of(2, {"queue": "gpus"}), note)
    c.down()
    assert any("waits in the queue: couldn't assign flavors" in state for state in states)


def test_its_end_is_kept_by_the_control_plane(kubernetes: Kubernetes) -> None:
    """Also when nobody is there any more: the deadline ends the pods, and later the Job goes."""
    c = up(hosts=1)
    kubernetes.change(JOBS, kubernetes.job_name(), lambda j: j["spec"].update(FAST))

    until(lambda: kubernetes.things() == [], "all is gone")
    reason = KubernetesProvider().revocation_reason(c.spec, c.machines)
    assert reason
    assert "DeadlineExceeded" in reason.what
    c.down()


FAST = {"activeDeadlineSeconds": 0, "ttlSecondsAfterFinished": 0}


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("Evicted", "The node was low on resource: memory."),
        ("Preempting", "Preempted by a pod of team-b"),
        ("NodeLost", "Node node0 is gone"),
    ],
)
def test_a_pod_that_is_taken_away_is_named_and_the_others_stay(
    kubernetes: Kubernetes, reason: str, message: str
) -> None:
    c = up()
    words = f"{reason}: {message}"
    name = kubernetes.pods()[0]["metadata"]["name"]
    kubernetes.evict(name, reason, message)

    with pytest.raises(ClusterError) as failed:
        c.run(["true"])
    assert f"0.mpi.mine ended: {words}" in failed.value.means
    rows = json.loads(command("run", "mine", "--json", "--", "true", status=None).stdout)
    assert [words in row["error"] for row in rows] == [True, False]
    refused = command("up", "mine", *FLAGS, "--hosts", "2", status=2).stderr
    assert words in refused
    assert "0.mpi.mine ended" in refused
    assert sum(pod["status"]["phase"] == "Running" for pod in kubernetes.pods()) == 1
    c.down()


@pytest.mark.parametrize(
    ("reason", "message", "event"),
    [
        ("PreemptionByScheduler", "preempting to accommodate a higher priority pod", "Preempted"),
        ("EvictionByEvictionAPI", "Eviction API: evicting", "Evicted"),
        ("DeletionByTaintManager", "Taint manager: deleting", "TaintManagerEviction"),
    ],
)
def test_a_pod_that_was_deleted_is_named_with_its_reason_before_and_after_it_is_gone(
    snapshot: Snapshot, kubernetes: Kubernetes, reason: str, message: str, event: str
) -> None:
    c = up()
    name, node = kubernetes.pods()[0]["metadata"]["name"], kubernetes.pods()[0]["spec"]["nodeName"]
    kubernetes.kubelets.dead.add(node)  # so that the pod is being deleted until it is asked
    kubernetes.take(name, reason, message, event)
    meanwhile = KubernetesProvider().revocation_reason(c.spec, c.machines)
    kubernetes.kubelets.dead.clear()
    until(lambda: len(kubernetes.pods()) == 1, "it is gone")
    after = KubernetesProvider().revocation_reason(c.spec, c.machines)

    assert meanwhile
    snapshot(meanwhile.what)
    words = f"0.mpi.mine ended: its pod was deleted by somebody else: {event}: {message}"
    assert after
    assert words in after.what
    assert KubernetesProvider().describe_unreachable(c.spec, c.machines) == words
    c.down()


FLAGS = ("--provider", "kubernetes", "--option", f"image={OPTIONS['image']}")


def test_a_node_that_is_gone_is_said_and_what_to_type(
    kubernetes: Kubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = up()
    kubernetes.lose_node("node0")
    reason = KubernetesProvider().revocation_reason(c.spec, c.machines)
    assert reason
    assert "0.mpi.mine" in reason.what
    assert "node0" in reason.what
    monkeypatch.setattr("cluster.providers.kubernetes.GONE_WITHIN", 1.0)

    with pytest.raises(ProvisionError) as failed:
        c.down()
    pod = kubernetes.pods()[0]["metadata"]["name"]
    assert f"kubectl delete pod {pod} --force" in failed.value.remedy
    kubernetes.kubelets.dead.clear()
    c.down()


def test_a_finalizer_that_never_goes_is_said(
    kubernetes: Kubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = up(hosts=1)
    job = kubernetes.job_name()
    kubernetes.change(JOBS, job, lambda j: j["metadata"].update(finalizers=["other.example/x"]))
    monkeypatch.setattr("cluster.providers.kubernetes.GONE_WITHIN", 1.0)

    with pytest.raises(ProvisionError, match=job):
        c.down()
    kubernetes.change(JOBS, job, lambda j: j["metadata"].update(finalizers=[]))
    c.down()


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [("401", Denied, "has expired"), ("503", ProvisionError, "The API server does not answer")],
)
def test_an_api_server_that_refuses_says_why(
    kubernetes: Kubernetes, fault: str, error: type[Exception], words: str
) -> None:
    kubernetes.fail("/api", fault, times=100)
    with pytest.raises(error) as failed:
        planned()

    assert words in str(failed.value)


def test_an_api_server_that_restarts_is_waited_for(kubernetes: Kubernetes) -> None:
    kubernetes.fail("GET .*/pods$", "503", times=2)
    kubernetes.fail("GET .*/pods$", "drop", times=1)
    c = up(hosts=1)

    c.down()


def test_a_token_that_expires_leaves_what_runs_and_is_said(kubernetes: Kubernetes) -> None:
    c = up(hosts=1)
    kubernetes.tokens.clear()
    with pytest.raises(ClusterError):
        c.run(["true"])
    with pytest.raises(Denied):
        c.down()

    kubernetes.tokens["secret-of-jane"] = USER
    c.down()


def test_a_webhook_that_adds_a_container_does_no_harm(kubernetes: Kubernetes) -> None:
    def add(kind: object, item: Object) -> None:
        if kind == JOBS:
            container = item["spec"]["template"]["spec"]["containers"][0]
            sidecar = {**container, "name": "aaa-proxy"}
            item["spec"]["template"]["spec"]["containers"].append(sidecar)

    kubernetes.webhooks.append(add)
    c = up(hosts=1)
    assert c.run(["true"])["0.mpi.mine"].status == 0
    c.down()


def test_a_namespace_that_is_being_deleted_is_refused(kubernetes: Kubernetes) -> None:
    stamp = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["kubernetes"]}
    with kubernetes.store.lock:
        kubernetes.store.objects[NAMESPACES, "", "team-a"]["metadata"] |= stamp

    with pytest.raises(SpecError, match="team-a"):
        planned()


def test_gc_finds_ours_by_its_mark_and_nothing_else(kubernetes: Kubernetes) -> None:
    kubernetes.add_pod("other")
    c = up(hosts=1)
    c.close()
    journal.for_cluster("mine").forget()

    [orphan] = find_orphans()
    assert (orphan.name, orphan.provider) == ("mine", "kubernetes")
    remove(orphan)
    assert kubernetes.things() == [("pods", "other")]
    kubernetes.remove(PODS, "other")


def test_a_server_that_lacks_a_field_is_refused(snapshot: Snapshot, kubernetes: Kubernetes) -> None:
    kubernetes.version = "1.27.0"
    with snapshot.raises(SpecError):
        planned()
    kubernetes.version = "1.32.0"


def test_words_of_the_scheduler(snapshot: Snapshot) -> None:
    message = (
        "0/8 nodes are available: 1 Insufficient nvidia.com/gpu, 3 node(s) had untolerated taint "
        "{nvidia.com/gpu: present}, 4 node(s) didn't match Pod's node affinity/selector. "
        "preemption: 0/8 nodes are available: 8 Preemption is not helpful for scheduling."
    )
    snapshot(scheduler_words(message))
    assert scheduler_words("0/1 nodes are available: 1 node(s) odd.") == "of 1 nodes, 1 node(s) odd"
    text = "no nodes available to schedule pods"
    assert scheduler_words(text) == text


@pytest.mark.parametrize(
    ("text", "amount"), [("8", 8.0), ("500m", 0.5), ("32Gi", 32 * 2**30), ("1e3", 1e3), (2, 2.0)]
)
def test_quantities(text: str, amount: float) -> None:
    assert parse_quantity(text) == amount


def test_time_of_launch_and_teardown(kubernetes: Kubernetes) -> None:
    launch_start = time.monotonic()
    up(hosts=4).down()

    assert time.monotonic() - launch_start < 60


def test_the_packages_of_the_container_file_have_what_hosts_need() -> None:
    """By Debian's own package manager; the release is the one that CI is."""
    text = (ROOT / "examples" / "Containerfile").read_text()
    [line] = [line for line in text.replace("\\\n", "").splitlines() if "apt-get install" in line]
    words = line.partition("apt-get install")[2].partition("&&")[0].split()
    packages = [word for word in words if not word.startswith("-")]
    files = subprocess.check_output(["dpkg-query", "--listfiles", *packages], text=True).split()
    names = {Path(path).name for path in files if "bin/" in path}

    assert names >= {"tmux", "sshd", "ssh", "ssh-keygen", "ip", "ps"}
    assert {"python3", "python3-venv"} <= {*packages}
    assert f"FROM debian:{re.findall('[0-9]+', Path('/etc/debian_version').read_text())[0]}" in text
    assert text.splitlines()[-1] == "USER 1000"
