"""Check with dry runs that the caller has the permissions for a launch; nothing is created."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from cluster.providers.aws.delete import LISTS
from cluster.providers.aws.request import interfaces, request, tag_specifications

if TYPE_CHECKING:
    from cluster.core.model.spec import ClusterSpec
    from cluster.providers._cloud.tags import Tags
    from cluster.providers.aws.api import Region
    from cluster.providers.aws.options import AwsOffer, AwsOptions

AT_ONCE = 4  # calls in flight
# Any valid key will do: a dry run imports nothing.
KEY = b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"


def check(
    region: Region, spec: ClusterSpec, options: AwsOptions, offer: AwsOffer, tags: Tags
) -> None:
    """Check that the calls of a launch, and the lists of its teardown, are permitted (Failure).

    Calls that need the id of a resource that does not exist yet cannot be checked.
    """
    operations = [*((name, {}) for name in LISTS), *calls(spec, options, offer, tags)]
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        list(pool.map(lambda operation: region.permits(operation[0], **operation[1]), operations))


def calls(
    spec: ClusterSpec, options: AwsOptions, offer: AwsOffer, tags: Tags
) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls of a launch that a dry run can check."""
    label = tags.label
    key = {
        "KeyName": label,
        "PublicKeyMaterial": KEY,
        "TagSpecifications": tag_specifications(tags, "key-pair"),
    }
    operations: list[tuple[str, dict[str, Any]]] = [("import_key_pair", key)]
    if options.elastic_ip:
        tagged = {"TagSpecifications": tag_specifications(tags, "elastic-ip")}
        operations.append(("allocate_address", {"Domain": "vpc", **tagged}))
    if spec.placement:
        group = {"GroupName": label, "Strategy": "cluster"}
        tagged = {"TagSpecifications": tag_specifications(tags, "placement-group")}
        operations.append(("create_placement_group", {**group, **tagged}))
    if offer.vpc:
        firewall = {"GroupName": label, "Description": "cluster", "VpcId": offer.vpc}
        tagged = {"TagSpecifications": tag_specifications(tags, "security-group")}
        operations.append(("create_security_group", {**firewall, **tagged}))
        operations.append(("run_instances", _run(spec, options, offer, tags)))
    return operations


def _run(spec: ClusterSpec, options: AwsOptions, offer: AwsOffer, tags: Tags) -> dict[str, Any]:
    """Return the call for the machines, without the groups and the key, which do not exist yet."""
    params = request(spec, options, offer, tags)
    del params["KeyName"]
    params.pop("Placement", None)
    cards = interfaces(options, offer, offer.sites[0].subnet, "")
    for card in cards:
        del card["Groups"]
    return {**params, "NetworkInterfaces": cards}
