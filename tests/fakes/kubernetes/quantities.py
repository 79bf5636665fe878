"""Amounts of resources, such as `500m` and `32Gi`."""

import re
from typing import Any

from tests.fakes.kubernetes.errors import Refused
from tests.fakes.kubernetes.store import Object

SUFFIXES = {
    "": 1.0,
    "m": 1e-3,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
}
QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m|k|[MGT]i?|Ki)?")


def number(text: object) -> float:
    """Read an amount (400: it is none)."""
    match = QUANTITY.fullmatch(str(text))
    if match is None:
        raise Refused(
            400,
            "quantities must match the regular expression "
            f"'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': {text}",
        )
    return float(match[1]) * SUFFIXES[match[2] or ""]


def write(amount: float) -> str:
    return f"{amount:g}"


def add(first: dict[str, float], second: dict[str, float]) -> dict[str, float]:
    return {key: first.get(key, 0) + second.get(key, 0) for key in first | second}


def requests_of(pod: Object) -> dict[str, float]:
    """Return what a pod requests: what its containers do together, or more for one before them."""
    total: dict[str, float] = {}
    for container in pod["spec"]["containers"]:
        total = add(total, _requests(container))
    for container in pod["spec"].get("initContainers") or ():
        total |= {k: max(v, total.get(k, 0.0)) for k, v in _requests(container).items()}
    return total


def _requests(container: dict[str, Any]) -> dict[str, float]:
    requests = (container.get("resources") or {}).get("requests") or {}
    return {name: number(amount) for name, amount in requests.items()}
