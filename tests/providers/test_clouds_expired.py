"""Credentials that expire in the middle: what remains is said from the journal alone."""

import re
from typing import Any

import msgspec
import pytest

from cluster.core.errors import ClusterError, Denied
from cluster.core.state import journal
from cluster.orchestration.launch.launch import launch_spec
from cluster.orchestration.launch.orphans import search
from tests.clouds import AWS, GCP, NAME, World, machines
from tests.conftest import command
from tests.fakes.cloud import Emulated
from tests.fakes.values import Fault

pytestmark = pytest.mark.usefixtures("soon")
EXPIRED: dict[str, dict[str, Any]] = {
    "aws": {"code": "RequestExpired", "status": 400},
    "gcp": {"code": "authError", "status": 401},
}
STEPS = [(world, call) for world in (AWS, GCP) for call in (*world.making[1:], *world.after[:1])]


def expire(cloud: Emulated[Any], world: World, call: str, patch: pytest.MonkeyPatch) -> None:
    """Refuse every call from the first one of a launch that matches."""
    fault, expired = Fault(action="*", **EXPIRED[world.name]), list[str]()

    def harm(request: Any) -> Fault | None:
        has_changes = any(earlier.mutating for earlier in cloud.log)
        if has_changes and request.action == call and "DryRun" not in request.params:
            expired.append(call)
        return fault if expired else None

    patch.setattr(cloud.faults, "match", harm)


@pytest.mark.parametrize(("world", "call"), STEPS, ids=[f"{w.name}-{c}" for w, c in STEPS])
def test_what_remains_is_said_by_each_command_although_nothing_can_be_asked(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, world: World, call: str
) -> None:
    cloud = request.getfixturevalue(world.name)
    cloud.set(**world.settings)
    expire(cloud, world, call, monkeypatch)
    with pytest.raises(ClusterError) as excinfo:
        launch_spec(msgspec.structs.replace(world.spec, ttl=3600.0))

    assert type(excinfo.value) is Denied
    command("more", "gc", "-y", status=1)
    [gc, *_] = [error.means for error in search().errors if f"down {NAME}" in error.means]
    down = command("down", NAME, status=1).stderr
    rest = machines(cloud)
    for words in (excinfo.value.means, gc, down):
        assert "0 left" not in words
        assert f"cluster down {NAME}" in words
        for id_ in rest:
            assert id_ in words
        assert not rest or re.search(r"\s20\d\d-", words)
    monkeypatch.setattr(cloud.faults, "match", lambda _: None)
    assert "0 left" in command("down", NAME).stdout
    assert not machines(cloud)
    assert not journal.for_cluster(NAME).entries()
