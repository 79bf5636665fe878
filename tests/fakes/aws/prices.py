"""What things cost, and how many of them may run."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.core.responses import ActionResult

from tests.fakes.aws.calls import Calls
from tests.fakes.aws.errors import refused
from tests.fakes.aws.service import Service
from tests.fakes.gaps import GapError

# Dollars per hour, on demand, Linux, us-east-1: as published for these types. Others have no price.
ON_DEMAND = {
    "c5.large": "0.0850000000",
    "c5.9xlarge": "1.5300000000",
    "c5.18xlarge": "3.0600000000",
    "c5n.18xlarge": "3.8880000000",
    "m5.large": "0.0960000000",
    "t2.large": "0.0928000000",
    "t3.micro": "0.0104000000",
}
SPOT_SHARE = 0.4  # of the price on demand
WHERE = {"us-east-1": "US East (N. Virginia)", "us-west-2": "US West (Oregon)"}
PUBLISHED = "2026-11-01T00:00:00Z"
STANDARD = "L-1216C47A"  # Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances
QUOTAS = {
    STANDARD: "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
    "L-417A185B": "Running On-Demand P instances",
    "L-DB2E81BA": "Running On-Demand G and VT instances",
    "L-F7808C92": "Running On-Demand HPC instances",
    "L-34B43A08": "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
    "L-7212CCBC": "All P4, P3 and P2 Spot Instance Requests",
    "L-3819A6DF": "All G and VT Spot Instance Requests",
}


class SpotPriceCalls(Calls):
    """What spot instances cost."""

    def describe_spot_price_history(self) -> ActionResult:
        zones = self.ec2_backend.describe_availability_zones()
        zone_name = self.params.get("AvailabilityZone")
        for f in self.params.get("Filters", []):
            raise GapError(f"the filter {f['Name']} of spot prices")
        now = datetime.now(tz=UTC)
        rows = [
            {
                "AvailabilityZone": zone.name,
                "InstanceType": kind,
                "ProductDescription": "Linux/UNIX",
                "SpotPrice": f"{float(ON_DEMAND[kind]) * SPOT_SHARE:.6f}",
                "Timestamp": now - timedelta(hours=1),
            }
            for zone in zones
            for kind in self.params.get("InstanceTypes", ON_DEMAND)
            if kind in ON_DEMAND and zone_name in (None, zone.name)
        ]
        return ActionResult({"SpotPriceHistory": rows})


class Pricing(Service):
    """The price list."""

    name = "pricing"

    def get_products(self) -> ActionResult:
        self.need("ServiceCode")
        if self.params["ServiceCode"] != "AmazonEC2":
            raise refused("NotFoundException", "There is no such service here.")
        if self.region not in ("us-east-1", "eu-central-1", "ap-south-1"):
            raise GapError(f"the price list is not served in {self.region}")
        filters = {f["Field"]: f["Value"] for f in self.params.get("Filters", [])}
        rows = [
            json.dumps(_product(kind, region, price))
            for region in WHERE
            for kind, price in ON_DEMAND.items()
            if filters.items() <= _attributes(kind, region).items()
        ]
        if unknown := set(filters) - set(_attributes("t2.large", "us-east-1")):
            raise GapError(f"the fields {', '.join(sorted(unknown))} of the price list")
        return ActionResult({"FormatVersion": "aws_v1", "PriceList": rows})


def _attributes(kind: str, region: str) -> dict[str, str]:
    return {
        "instanceType": kind,
        "regionCode": region,
        "location": WHERE[region],
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "licenseModel": "No License required",
        "operation": "RunInstances",
        "marketoption": "OnDemand",
        "servicecode": "AmazonEC2",
    }


def _product(kind: str, region: str, price: str) -> dict[str, Any]:
    sku = f"SKU{kind.upper().replace('.', '')}{region[:2].upper()}"
    dimension = {
        "unit": "Hrs",
        "beginRange": "0",
        "endRange": "Inf",
        "description": f"${price} per On Demand Linux {kind} Instance Hour",
        "pricePerUnit": {"USD": price},
    }
    term = {
        "effectiveDate": PUBLISHED,
        "offerTermCode": "JRTCKXETXF",
        "priceDimensions": {f"{sku}.JRTCKXETXF.6YS6EN2CT7": dimension},
        "sku": sku,
        "termAttributes": {},
    }
    return {
        "product": {
            "productFamily": "Compute Instance",
            "sku": sku,
            "attributes": _attributes(kind, region),
        },
        "serviceCode": "AmazonEC2",
        "terms": {"OnDemand": {f"{sku}.JRTCKXETXF": term}},
        "publicationDate": PUBLISHED,
        "version": "20261101000000",
    }


class Quotas(Service):
    """How many virtual processors may run."""

    name = "servicequotas"
    model = "service-quotas"

    def get_service_quota(self) -> ActionResult:
        self.need("ServiceCode", "QuotaCode")
        code = self.params["QuotaCode"]
        if self.params["ServiceCode"] != "ec2" or code not in QUOTAS:
            raise refused(
                "NoSuchResourceException",
                "The request failed because the specified service quota does not exist.",
            )
        return ActionResult({"Quota": self._quota(code)})

    def _quota(self, code: str) -> dict[str, Any]:
        return {
            "ServiceCode": "ec2",
            "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
            "QuotaCode": code,
            "QuotaName": QUOTAS[code],
            "Value": float(self.cloud.settings.vcpus),
            "Unit": "None",
            "Adjustable": True,
            "GlobalQuota": False,
        }
