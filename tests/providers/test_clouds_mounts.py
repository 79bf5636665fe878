"""Shared file systems on machines of a cloud: mounted by the login user, or nothing is left."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from cluster.core.errors import SpecError
from cluster.core.model.mounts import KINDS, MountKind
from cluster.core.state import journal
from cluster.orchestration.launch.launch import launch_spec, plan_spec
from cluster.remote.files.mounts import unmount_all
from cluster.remote.shells import Shell
from tests.clouds import World
from tests.snapshots import Snapshot

pytestmark = [pytest.mark.usefixtures("after_a_second"), pytest.mark.timeout(300)]
SERVER = "10.9.9.9@tcp:/lfs"
MOUNTED = "awk '$2 == \"/scratch/a\" {print $1}' /proc/mounts"


def test_hosts_that_cannot_mount_are_taken_down(
    snapshot: Snapshot, world: World, request: pytest.FixtureRequest
) -> None:
    """No host has a client of Lustre, and none can be installed: `mount` says so on each."""
    cloud: Any = request.getfixturevalue(f"{world.name}_hosts")
    before = cloud.things()
    options = {**world.spec.options, "mount": f"lustre:{SERVER}:/scratch"}
    spec = msgspec.structs.replace(world.spec, hosts=1, options=options)

    snapshot(plan_spec(spec)[1].lines[-1])
    with pytest.raises(SpecError) as error:
        launch_spec(spec)
    assert "--image" in error.value.remedy
    assert cloud.things() == before
    assert spec.name not in journal.names()


def test_what_is_mounted_is_unmounted_before_the_machines_end(
    world: World, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system in memory is what this kernel has for certain; mount(8) takes it as any."""
    request.getfixturevalue(f"{world.name}_hosts")
    monkeypatch.setitem(KINDS, "nfs", MountKind("tmpfs", "size=1m", 2049))
    after: list[str] = []

    def unmount_and_look(shells: Mapping[str, Shell]) -> None:
        unmount_all(shells)
        after.extend(shell.run(["sh", "-c", MOUNTED]).stdout for shell in shells.values())

    monkeypatch.setattr("cluster.orchestration.cluster.unmount_all", unmount_and_look)
    options = {**world.spec.options, "mount": "nfs:server:/data:/scratch/a"}
    spec = msgspec.structs.replace(world.spec, hosts=1, options=options)
    cluster = launch_spec(spec)
    assert [result.stdout for result in cluster.run(MOUNTED).values()] == ["server:/data\n"]
    cluster.run("sudo -n umount /scratch/a")
    again = launch_spec(spec)
    assert [result.stdout for result in again.run(MOUNTED).values()] == ["server:/data\n"]
    again.down()

    assert after == [""]


def test_a_wrong_mount_is_refused_in_the_plan(snapshot: Snapshot, world: World, cloud: Any) -> None:
    spec = msgspec.structs.replace(
        world.spec, options={**world.spec.options, "mount": "nfs:h:data"}
    )
    with snapshot.raises(SpecError):
        plan_spec(spec)

    assert not cloud.mutating()
