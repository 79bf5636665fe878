"""Whether we may create what a plan says: Amazon is asked to check each call, and to do none."""

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

AT_ONCE = 4  # questions
# Any key will do: nothing is imported.
KEY = b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"


def check(
    region: Region, spec: ClusterSpec, options: AwsOptions, offer: AwsOffer, tags: Tags
) -> None:
    """Ask whether each call of a launch would be permitted, and whether its end could be seen.

    What needs the id of a thing that is not there yet cannot be asked about.

    Args:
        region: where.
        spec: what is asked.
        options: of it.
        offer: what was decided.
        tags: as the real one will be.

    Raises:
        Failure: one would be refused.

    """
    asked = [*((name, {}) for name in LISTS), *calls(spec, options, offer, tags)]
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        list(pool.map(lambda one: region.permits(one[0], **one[1]), asked))


def calls(
    spec: ClusterSpec, options: AwsOptions, offer: AwsOffer, tags: Tags
) -> list[tuple[str, dict[str, Any]]]:
    """Give the calls that can be asked about.

    Args:
        spec: what is asked.
        options: of it.
        offer: what was decided.
        tags: as the real one will be.

    Returns:
        Each with its parameters.

    """
    label = tags.label
    key = {
        "KeyName": label,
        "PublicKeyMaterial": KEY,
        "TagSpecifications": tag_specifications(tags, "key-pair"),
    }
    asked: list[tuple[str, dict[str, Any]]] = [("import_key_pair", key)]
    if options.elastic_ip:
        tagged = {"TagSpecifications": tag_specifications(tags, "elastic-ip")}
        asked.append(("allocate_address", {"Domain": "vpc", **tagged}))
    if spec.placement:
        group = {"GroupName": label, "Strategy": "cluster"}
        tagged = {"TagSpecifications": tag_specifications(tags, "placement-group")}
        asked.append(("create_placement_group", {**group, **tagged}))
    if offer.vpc:
        firewall = {"GroupName": label, "Description": "cluster", "VpcId": offer.vpc}
        tagged = {"TagSpecifications": tag_specifications(tags, "security-group")}
        asked.append(("create_security_group", {**firewall, **tagged}))
        asked.append(("run_instances", _run(spec, options, offer, tags)))
    return asked


def _run(spec: ClusterSpec, options: AwsOptions, offer: AwsOffer, tags: Tags) -> dict[str, Any]:
    """Ask for the machines, without the groups and the key that are not there yet."""
    params = request(spec, options, offer, tags)
    del params["KeyName"]
    params.pop("Placement", None)
    cards = interfaces(options, offer, offer.sites[0].subnet, "")
    for card in cards:
        del card["Groups"]
    return {**params, "NetworkInterfaces": cards}
