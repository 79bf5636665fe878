"""What may be asked: each action with its parameters. Everything else is a gap, not a success.

Before a line is added, somebody has looked whether moto does that faithfully, or has written it.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from botocore.loaders import Loader

# A line each: service, action, parameters; or `parts`, a parameter that is a structure, and what is
# known of it. Structures without such a line are known whole.
LINES = [line.split() for line in Path(__file__).with_suffix(".txt").read_text().splitlines()]
KNOWN = {(words[0], words[1]): {*words[2:], "DryRun"} for words in LINES}
PARTS = {words[1]: set(words[2:]) for words in LINES if words[0] == "parts"}
READING = ("AssumeRole", "Describe", "Get")  # how the names of calls begin that change nothing


def mutating(action: str, params: Mapping[str, Any]) -> bool:
    """Tell whether a call changes something."""
    return not action.startswith(READING) and not params.get("DryRun")


def unknown(service: str, action: str, params: Mapping[str, Any]) -> str:
    """Tell what of a call is not known; nothing, if all is."""
    if (service, action) not in KNOWN:
        return f"unknown action of {service}"
    if extras := set(params) - KNOWN[service, action]:
        return f"unknown parameters {', '.join(sorted(extras))}"
    return _find_unknown(params)


def _find_unknown(params: Mapping[str, Any]) -> str:
    for key, value in params.items():
        parts = value if isinstance(value, list) else [value]
        for part in parts:
            if not isinstance(part, dict):
                continue
            if key in PARTS and (extras := set(part) - PARTS[key]):
                return f"unknown parts of {key}: {', '.join(sorted(extras))}"
            if deeper := _find_unknown(part):
                return deeper
    return ""


def odd_filter(action: str, params: Mapping[str, Any]) -> str:
    """Return the first filter of a call about instance types that Amazon does not document."""
    if action != "DescribeInstanceTypes":
        return ""
    names = (condition["Name"] for condition in params.get("Filters", ()))
    return next((name for name in names if name not in _type_filters()), "")


@cache
def _type_filters() -> frozenset[str]:
    shapes = Loader().load_service_model("ec2", "service-2")["shapes"]
    text = shapes["DescribeInstanceTypesRequest"]["members"]["Filters"]["documentation"]
    return frozenset(re.findall(r"<li>\s*<p>\s*<code>([^<]+)</code>", text))
