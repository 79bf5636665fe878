"""Google's own description of Compute Engine: every request and every answer must obey it.

It comes with google-api-python-client, which is used for nothing else.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import googleapiclient

from cluster.core.model.value import Value

BASE = "/compute/v1/"
COMMON = {"alt", "$alt", "key", "prettyPrint", "fields", "userIp", "quotaUser"}
NUMBER = re.compile(r"-?\d+")
KINDS: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}


class Method(Value, frozen=True, kw_only=True):
    """A call that there is."""

    id: str  # such as `instances.bulkInsert`
    http: str  # such as `POST`
    path: str  # such as `projects/{project}/zones/{zone}/instances/bulkInsert`
    parameters: dict[str, Any]  # of path and query, as described
    request: str  # schema of the body; empty, if it has none
    response: str  # schema of the answer

    @property
    def mutating(self) -> bool:
        asks = self.id.endswith(".wait") or self.collection == "advice"
        return self.http != "GET" and not asks

    @property
    def collection(self) -> str:
        """What it is about, such as `instances`."""
        return self.id.partition(".")[0]


@cache
def _document() -> dict[str, Any]:
    folder = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"
    document: dict[str, Any] = json.loads((folder / "compute.v1.json").read_bytes())
    return document


@cache
def methods() -> tuple[tuple[re.Pattern[str], Method], ...]:
    """Return all calls that there are, each with what its path looks like."""
    methods = []
    for resource, content in _document()["resources"].items():
        for name, method in content.get("methods", {}).items():
            pattern = re.sub(r"\\{\\?(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(method["path"]))
            call = Method(
                id=f"{resource}.{name}",
                http=method["httpMethod"],
                path=method["path"],
                parameters=method.get("parameters", {}),
                request=method.get("request", {}).get("$ref", ""),
                response=method.get("response", {}).get("$ref", ""),
            )
            methods.append((re.compile(pattern), call))
    return tuple(sorted(methods, key=lambda pair: pair[1].path.count("{")))


def find(http: str, path: str) -> tuple[Method, dict[str, str]] | None:
    """Find the call that a request makes."""
    for pattern, method in methods():
        if method.http == http and (match := pattern.fullmatch(path)):
            return method, match.groupdict()
    return None


def wrong_request(
    method: Method, places: Mapping[str, str], query: Mapping[str, str], body: object
) -> list[str]:
    """Tell what in a request the description does not allow."""
    parameters = method.parameters
    problems = [f"unknown parameter {name}" for name in query if name not in {*parameters, *COMMON}]
    for name, value in {**places, **{k: v for k, v in query.items() if k in parameters}}.items():
        pattern = parameters[name].get("pattern")
        if pattern and not re.fullmatch(pattern, value):
            problems.append(f"{name} is {value!r}, not like {pattern}")
    problems += [
        f"{name} is missing"
        for name, described in parameters.items()
        if described.get("required") and name not in places and name not in query
    ]
    if method.request:
        problems += _wrong({"$ref": method.request}, body, method.request, method.id)
    elif body:
        problems.append("it takes no body")
    return problems


def kind(method: Method) -> dict[str, str]:
    """Return the `kind` that each answer of a call has."""
    described = _document()["schemas"][method.response]["properties"].get("kind", {})
    return {"kind": described["default"]} if "default" in described else {}


def wrong_answer(method: Method, answer: object) -> list[str]:
    """Tell what in an answer the description does not allow."""
    return list(_wrong({"$ref": method.response}, answer, method.response, ""))


def wrong_value(schema: str, value: object) -> list[str]:
    """Tell what in a value the description of its kind does not allow."""
    return list(_wrong({"$ref": schema}, value, schema, ""))


def _wrong(described: Mapping[str, Any], value: object, path: str, call: str) -> Iterator[str]:
    if "$ref" in described:
        described = _document()["schemas"][described["$ref"]]
    kind = described.get("type", "any")
    if kind == "any":
        return
    if not isinstance(value, KINDS[kind]) or (kind != "boolean" and isinstance(value, bool)):
        yield f"{path} is {value!r}, not of type {kind}"
    elif isinstance(value, dict):
        yield from _wrong_object(described, value, path, call)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _wrong(described["items"], item, f"{path}[{number}]", call)
    elif isinstance(value, str):
        yield from _wrong_text(described, value, path)


def _wrong_object(
    described: Mapping[str, Any], value: Mapping[str, object], path: str, call: str
) -> Iterator[str]:
    properties = described.get("properties", {})
    for name, item in value.items():
        inner = properties.get(name) or described.get("additionalProperties")
        if inner is None:
            yield f"{path} has no {name}"
        else:
            yield from _wrong(inner, item, f"{path}.{name}", call)
    for name, inner in properties.items():
        required = inner.get("annotations", {}).get("required", ())
        if call and f"compute.{call}" in required and name not in value:
            yield f"{path}.{name} is missing"


def _wrong_text(described: Mapping[str, Any], value: str, path: str) -> Iterator[str]:
    if described.get("format") in ("int64", "uint64") and not NUMBER.fullmatch(value):
        yield f"{path} is {value!r}, not a number"
    if "enum" in described and value not in described["enum"]:
        yield f"{path} is {value!r}, not one of {', '.join(described['enum'])}"
    pattern = described.get("pattern")
    if pattern and not re.fullmatch(pattern, value):
        yield f"{path} is {value!r}, not like {pattern}"
