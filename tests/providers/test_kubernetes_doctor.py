"""`cluster doctor --provider kubernetes` on a strict API server: each step of the way to a pod."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from cluster.core.errors import SpecError
from tests.conftest import command
from tests.fakes.kubernetes.cluster import NEEDED, USER, Kubernetes
from tests.fakes.kubernetes.store import NAMESPACES
from tests.providers.kubernetes_here import OPTIONS, kubernetes, kubernetes_server
from tests.providers.test_kubernetes import LEVEL, planned, up
from tests.snapshots import Snapshot

__all__ = ["kubernetes", "kubernetes_server"]


def diagnosed(options: Mapping[str, str], status: int = 0) -> dict[str, dict[str, Any]]:
    """Return what `cluster doctor` looked for, by its name."""
    words = [word for pair in options.items() for word in ("--option", "{}={}".format(*pair))]
    result = command("doctor", "--provider", "kubernetes", *words, "--json", status=status)
    return {check["what"]: check for check in json.loads(result.stdout)}


def test_doctor_looks_at_each_step_of_the_way(snapshot: Snapshot, kubernetes: Kubernetes) -> None:
    kubernetes.label("node0", {"cloud.google.com/gce-topology-block": "a"})
    version = kubernetes.store.version
    before = diagnosed({})
    assert before["namespace and context"]["found"] == "team-a@fake"
    snapshot(before["nodes"]["found"])
    assert before["image"]["missing"]
    assert kubernetes.store.version == version

    up(hosts=1).down()
    after = diagnosed(OPTIONS)
    snapshot(after["image"]["found"])
    assert after.keys() == {*before, "a Job"}


@pytest.mark.parametrize(
    ("options", "prepare", "bad", "words"),
    [
        ({"context": "other"}, None, "kubernetes", "context"),
        ({"namespace": "none"}, None, "a Job", "none"),
        ({"queue": "gpus"}, lambda k: setattr(k.plane, "kueue", True), "queue", "'gpus'"),
        ({"gpus": "9"}, None, "room", "8 of 8 nvidia.com/gpu free"),
        ({}, lambda k: k.add_quota(pods="0"), "quota", "allows 0 pods"),
        ({}, lambda k: k.tokens.clear(), "kubernetes", "Unauthorized"),
        ({}, lambda k: k.fail("/version", "503", 99), "kubernetes", "does not answer"),
        ({}, lambda k: setattr(k, "version", "1.27.0"), "API server", "v1.27.0"),
        ({}, lambda k: k.roles.update({USER: NEEDED - {("get", "jobs")}}), "verbs", "get jobs"),
        (
            {"network": "host"},
            lambda k: k.change(
                NAMESPACES, "team-a", lambda i: i["metadata"].update(labels={LEVEL: "restricted"})
            ),
            *("a Job", "hostNetwork=true"),
        ),
    ],
)
def test_doctor_names_the_step_that_fails(
    kubernetes: Kubernetes,
    options: dict[str, str],
    prepare: Callable[[Kubernetes], object] | None,
    bad: str,
    words: str,
) -> None:
    if prepare:
        prepare(kubernetes)
    failed = {k: c for k, c in diagnosed({**OPTIONS, **options}, 1).items() if not c["ok"]}
    kubernetes.version = "1.32.0"

    assert list(failed) == [bad]
    assert words in failed[bad]["found"]
    assert failed[bad]["remedy"]


def test_doctor_of_a_role_that_may_little_says_what_is_not_seen(kubernetes: Kubernetes) -> None:
    kubernetes.roles[USER] = NEEDED

    checks = diagnosed(OPTIONS)
    assert {name for name, check in checks.items() if check["missing"]} == {
        *("list nodes", "list resourcequotas", "list events", "patch nodes", "image"),
        "queues of Kueue",
    }


def test_without_kubectl_the_message_says_where_it_is(
    snapshot: Snapshot, kubernetes: Kubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SpecError, match="no kubectl"):
        planned()
    snapshot(diagnosed({}, 1)["kubernetes"]["remedy"])
