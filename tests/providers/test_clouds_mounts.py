"""Shared file systems on machines of a cloud: mounted by the login user, or nothing is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from cluster.core import journal
from cluster.core.errors import SpecError
from cluster.orchestration.launch.launch import launch_spec, plan_spec

if TYPE_CHECKING:
    from tests.clouds import World

pytestmark = [pytest.mark.usefixtures("after_a_second"), pytest.mark.timeout(300)]
SERVER = "10.9.9.9@tcp:/lfs"


def test_hosts_that_cannot_mount_are_taken_down(
    world: World, request: pytest.FixtureRequest
) -> None:
    """No host has a client of Lustre, and none can be installed: `mount` says so on each."""
    cloud: Any = request.getfixturevalue(f"{world.name}_hosts")
    before = cloud.things()
    options = {**world.spec.options, "mount": f"lustre:{SERVER}:/scratch"}
    spec = msgspec.structs.replace(world.spec, hosts=1, options=options)

    assert f"lustre {SERVER} at /scratch" in plan_spec(spec)[1].lines[-1]
    with pytest.raises(SpecError, match="cannot mount") as caught:
        launch_spec(spec)
    assert "--image" in caught.value.remedy
    assert cloud.things() == before
    assert spec.name not in journal.names()


def test_a_wrong_mount_is_refused_in_the_plan(world: World, cloud: Any) -> None:
    spec = msgspec.structs.replace(
        world.spec, options={**world.spec.options, "mount": "nfs:h:data"}
    )
    with pytest.raises(SpecError, match="names no file system"):
        plan_spec(spec)

    assert not cloud.mutating()
