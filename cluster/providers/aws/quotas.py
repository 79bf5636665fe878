"""Quotas: how many vCPUs the account may use, and how many it uses.

Source of the codes: `aws service-quotas list-service-quotas --service-code ec2`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cluster.core.errors import Quota as QuotaError
from cluster.providers._cloud.api_errors import Failure
from cluster.providers._cloud.launch import Demand
from cluster.providers.aws.instances import instances

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import InstanceTypeInfoTypeDef

    from cluster.providers.aws.api import Region

STANDARD = "standard"
FAMILIES = {"gr": "g", "vt": "g"}  # that count as another one
ON_DEMAND = {
    "standard": "L-1216C47A",
    "g": "L-DB2E81BA",
    "p": "L-417A185B",
    "x": "L-7295265B",
    "f": "L-74FC7D96",
    "inf": "L-1945791B",
    "trn": "L-2C3B7624",
    "hpc": "L-F7808C92",
    "dl": "L-6E869C2A",
    "u": "L-43DA4232",
}
SPOT = {
    "standard": "L-34B43A08",
    "g": "L-3819A6DF",
    "p": "L-7212CCBC",  # P4, P3 and P2
    "p5": "L-C4BD4855",
    "x": "L-E3A00192",
    "f": "L-88CF9481",
    "inf": "L-B5D1601B",
    "trn": "L-6B0D517C",
    "dl": "L-85EED4F7",
}
LAST_OF_P = 4  # newer generations of P have their own spot quotas
MOST_TYPES = 100  # in one call


def check(
    region: Region, kind: InstanceTypeInfoTypeDef, hosts: int, *, spot: bool, is_block: bool
) -> tuple[str, tuple[Demand, ...]]:
    """Refuse a launch that needs more vCPUs than the account's quota leaves (Quota).

    Instances in a Capacity Block count towards none (EC2 user guide, "Capacity Blocks for ML").
    """
    name, need = kind["InstanceType"], hosts * kind["VCpuInfo"]["DefaultVCpus"]
    if is_block:
        return f"vCPUs: {need} needed; those of a block count towards no quota", ()
    limit = _limit(region, family(name, spot=spot), spot=spot)
    if limit is None:
        return f"vCPUs: {need} needed; the account's limit is unknown", ()
    alive = {"Name": "instance-state-name", "Values": ["pending", "running"]}
    types = Counter(
        item["InstanceType"]
        for item in instances(region, [alive])
        if item.get("InstanceLifecycle") == ("spot" if spot else None)  # or it is of a block
        and family(item["InstanceType"], spot=spot) == family(name, spot=spot)
    )
    names = sorted(types)
    sizes: dict[str, int] = {}
    for start in range(0, len(names), MOST_TYPES):
        batch = names[start : start + MOST_TYPES]
        kinds: tuple[InstanceTypeInfoTypeDef, ...] = region.all(
            "describe_instance_types", "InstanceTypes", InstanceTypes=batch
        )
        sizes |= {item["InstanceType"]: item["VCpuInfo"]["DefaultVCpus"] for item in kinds}
    used = sum(count * sizes.get(name, 0) for name, count in types.items())
    quota, code = limit["Value"], limit["QuotaCode"]
    remedy = (
        "Ask for more: https://console.aws.amazon.com/servicequotas/home/services/ec2/"
        f"quotas/{code}\nOr end what runs: cluster ls, cluster more gc"
    )
    if used + need > quota:
        raise QuotaError(
            f"{hosts} x {name} needs {need} vCPUs; of {quota:g} in "
            f"{region.name}, {used} are in use.",
            means=f"It is the account's own limit, {limit.get('QuotaName', 'vCPUs')} "
            f"({code}); nothing was created.",
            remedy=remedy,
        )
    subject = f"vCPUs ({code})"
    demand = Demand(what=subject, count=need, free=quota - used, remedy=remedy, is_quota=True)
    return f"vCPUs: {need} needed, {used} in use, {quota:g} allowed", (demand,)


def _limit(region: Region, family_: str, *, spot: bool) -> Mapping[str, Any] | None:
    code = (SPOT if spot else ON_DEMAND).get(family_)
    if code is None:
        return None
    try:
        quotas = region.call(
            "get_service_quota",
            "Quota",
            service="service-quotas",
            ServiceCode="ec2",
            QuotaCode=code,
        )
    except Failure:
        return None
    quota: Mapping[str, Any] = quotas["Quota"]
    return quota


def family(instance: str, *, spot: bool = False) -> str:
    """Return the family of an instance type, such as `standard` or `p`: its quota.

    Some newer generations have a quota of their own for spot instances.
    """
    letters, generation = re.match(r"([a-z]*)(\d*)", instance, re.ASCII).groups()  # type: ignore[union-attr] # it matches all
    if spot and letters == "p" and int(generation or 0) > LAST_OF_P:
        return f"p{generation}"
    name = FAMILIES.get(letters, letters)
    return name if name in ON_DEMAND else STANDARD
