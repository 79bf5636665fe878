"""IAM policy documents, judged as Amazon does, as far as policies for EC2 need it."""

import fnmatch
import re
from collections.abc import Iterable, Mapping
from typing import Any

from cluster.core.model.value import Value
from tests.fakes.gaps import GapError

UNRESOLVED = "\0"  # no value of a call is like this
VARIABLE = re.compile(r"\$\{([^}]+)\}")


class Demand(Value, frozen=True, kw_only=True):
    """One permission that a call needs."""

    action: str  # such as `ec2:RunInstances`
    resource: str  # its ARN, or `*`
    # the condition keys, in lower case; a key may have several values
    context: dict[str, tuple[str, ...]]


def allows(policy: Mapping[str, Any], demand: Demand) -> bool:
    """Judge whether a policy document grants a permission."""
    statements = _as_list(policy["Statement"])
    fitting = [statement for statement in statements if _fits(statement, demand)]
    effects = {statement["Effect"] for statement in fitting}
    return effects == {"Allow"}


def _fits(statement: Mapping[str, Any], demand: Demand) -> bool:
    fields = {"Sid", "Effect", "Action", "Resource", "Condition"}
    if extras := set(statement) - fields:
        raise GapError(f"{', '.join(sorted(extras))} in a policy")
    actions = [action.lower() for action in _as_list(statement["Action"])]
    return (
        _any_like(demand.action.lower(), actions)
        and _any_like(demand.resource, _as_list(statement["Resource"]))
        and all(
            _holds(operator, key, _as_list(values), demand.context)
            for operator, keys in statement.get("Condition", {}).items()
            for key, values in keys.items()
        )
    )


def _holds(
    operator: str, key: str, values: list[str], context: Mapping[str, tuple[str, ...]]
) -> bool:
    if operator != "StringLike":
        raise GapError(f"the condition operator {operator}")
    patterns = [_filled(str(value), context) for value in values]
    return any(_any_like(value, patterns) for value in context.get(key.lower(), ()))


def _filled(value: str, context: Mapping[str, tuple[str, ...]]) -> str:
    """Put what is known of a call where a policy has a variable."""
    for variable in VARIABLE.findall(value):
        tag = variable.lower().startswith(("aws:resourcetag/", "aws:requesttag/"))
        if tag and variable.lower() not in context:
            return UNRESOLVED  # then the whole statement does not hold
        if variable.lower() not in context:
            raise GapError(f"the variable {variable} in a policy")
        value = value.replace(f"${{{variable}}}", context[variable.lower()][0])
    return value


def _any_like(value: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(value, pattern.replace("[", "[[]")) for pattern in patterns)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
