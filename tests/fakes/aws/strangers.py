"""What a stranger in the same account has, with names like ours: nobody may touch it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fakes.aws import images
from tests.fakes.aws.region import PlacementGroup

if TYPE_CHECKING:
    from tests.fakes.aws.cloud import Cloud
    from tests.fakes.aws.values import Thing

HOME = "us-east-1"
OWNER = {"owner": "a stranger"}
NAMES = ("c5", "mpi_test", "cluster-c5", "cluster-mpi_test")
MARK = "owner=a stranger"
KEY = b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFQDkc5kMDyCOoRFNiX2dAXvDOhR6gYOLmJq8kFqeAIh stranger"


def put(cloud: Cloud) -> None:
    """Make the stranger's things."""
    region = cloud.region(HOME)
    backend = region.backend
    subnets = sorted(backend.get_default_subnets().items())
    for name in NAMES:
        backend.import_key_pair(name, KEY, OWNER)
        region.made += 1
        group = PlacementGroup(backend, region.made, name, "cluster")
        group.add_tags(OWNER)
        region.groups[name] = group
        if subnets:
            _instance(cloud, name, subnets[0][1])


def _instance(cloud: Cloud, name: str, subnet: Any) -> None:
    region = cloud.region(HOME)
    backend = region.backend
    security = backend.create_security_group(name, "of a stranger", subnet.vpc_id, OWNER)
    tags = {**OWNER, "Name": f"0.mpi.{name}"}
    reservation = backend.run_instances(
        images.UBUNTU["22.04", "amd64"].id,
        1,
        None,
        [],
        instance_type="c5.large",
        is_instance_type_default=False,
        region_name=HOME,
        subnet_id=subnet.id,
        key_name=name,
        security_group_ids=[security.id],
        tags={"instance": tags, "volume": tags},
    )
    for instance in reservation.instances:
        instance.placement.group_name = name
        for nic in instance.nics.values():
            nic.add_tags(OWNER)
        life = region.live(instance)
        life.made = life.visible = life.complete = life.due = 0.0


def owns(thing: Thing) -> bool:
    return MARK in thing.tags
