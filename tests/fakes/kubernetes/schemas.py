"""Objects checked by the schemas that Kubernetes publishes, in which each field is known."""

import functools
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import referencing
from referencing.jsonschema import DRAFT202012

from tests.fakes.kubernetes.errors import Refused

VERSION = "1.32.0"
FOLDER = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
UNKNOWN = re.compile(r"Additional properties are not allowed \('(.*?)' (?:was|were) unexpected\)")
KUEUE = {  # of custom resources, whose schemas are trimmed here to what is used
    "LocalQueue": {"spec": {"clusterQueue", "stopPolicy"}},
    "Workload": {"spec": {"queueName", "active", "podSets"}},
}


@functools.cache
def _validator(name: str, version: str) -> jsonschema.Draft202012Validator:
    folder = FOLDER / f"v{version}-local-strict"
    schema = json.loads((folder / f"{name}.json").read_text())
    definitions = json.loads((folder / "_definitions.json").read_text())
    registry: referencing.Registry[Any] = referencing.Registry().with_resources(
        [("_definitions.json", DRAFT202012.create_resource(definitions))]
    )
    return jsonschema.Draft202012Validator(schema, registry=registry)


def check(item: dict[str, Any], version: str = VERSION) -> None:
    """Refuse an object that has a field which Kubernetes does not know, or of another type."""
    kind, (group, _, api) = item["kind"], item["apiVersion"].rpartition("/")
    if kind in KUEUE:
        extras = set(item.get("spec", {})) - KUEUE[kind]["spec"]
        if extras:
            raise Refused(400, f'strict decoding error: unknown field "spec.{extras.pop()}"')
        return
    name = "-".join(filter(None, (kind.lower(), group.partition(".")[0], api)))
    errors = sorted(_validator(name, version).iter_errors(item), key=lambda e: len(e.path))
    for error in errors:
        path = ".".join(map(str, error.absolute_path))
        if unknown := UNKNOWN.match(error.message):
            raise Refused(
                400,
                f"{kind} in version {api!r} cannot be handled as a {kind}: strict decoding error: "
                f'unknown field "{path}{"." if path else ""}{unknown[1]}"',
            )
        raise Refused(
            422,
            f'{kind}{"." + group if group else ""} "{item["metadata"].get("name", "")}" is '
            f"invalid: {path}: Invalid value: {error.message}",
        )
