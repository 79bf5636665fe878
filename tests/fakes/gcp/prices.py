"""A price list in the form of Google's; its figures are round, and nobody's."""

from typing import Any

COMPUTE = "6F81-5844-456A"
PAGE = 4  # entries
PRICES = {  # description: nanodollars for an hour
    "Compute optimized Core running in Americas": 30_000_000,
    "Compute optimized Ram running in Americas": 4_000_000,
    "Commitment v1: Compute optimized Core in Americas for 1 Year": 1,
    "N1 Predefined Instance Core running in Americas": 30_000_000,
    "N1 Predefined Instance Ram running in Americas": 4_000_000,
    "Nvidia Tesla T4 GPU running in Americas": 350_000_000,
    "Spot Preemptible Compute optimized Core running in Americas": 10_000_000,
    "Spot Preemptible Compute optimized Ram running in Americas": 1_000_000,
    "Nvidia Tesla T4 GPU attached to Spot Preemptible VMs running in Americas": 100_000_000,
    "Spot Preemptible N1 Predefined Instance Core running in Americas": 10_000_000,
    "Spot Preemptible N1 Predefined Instance Ram running in Americas": 1_000_000,
    "Compute optimized Instance Core running in Netherlands": 40_000_000,
    "Compute optimized Instance Ram running in Netherlands": 5_000_000,
    "C2D AMD Instance Core running in Americas": 20_000_000,
    "C2D AMD Instance Ram running in Americas": 3_000_000,
    "E2 Instance Core running in Americas": 20_000_000,
}


def page(token: str) -> dict[str, Any]:
    """Return a page of the list."""
    start = int(token or 0)
    prices = list(PRICES.items())
    more = {"nextPageToken": str(start + PAGE)} if start + PAGE < len(prices) else {}
    return {"skus": [_sku(*entry) for entry in prices[start : start + PAGE]], **more}


def _sku(description: str, nanos: int) -> dict[str, Any]:
    americas = description.endswith("Americas")
    usage = "Preemptible" if "Spot Preemptible" in description else "OnDemand"
    return {
        "description": description,
        "category": {"resourceFamily": "Compute", "usageType": usage},
        "serviceRegions": ["us-central1", "us-east1"] if americas else ["europe-west4"],
        "pricingInfo": [
            {
                "effectiveTime": "2026-11-20T08:00:00.000Z",
                "pricingExpression": {
                    "usageUnit": "h",
                    "tieredRates": [{"unitPrice": {"units": "0", "nanos": nanos}}],
                },
            }
        ],
    }
