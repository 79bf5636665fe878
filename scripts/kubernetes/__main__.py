"""Writes the schemas against which `cluster more script mpijob` and `jobset` are tested.

Usage: pip install kubeflow-trainer-api==2.3.0; python scripts/kubernetes

Kubeflow publishes its API as a package of models (Apache License 2.0), generated from the OpenAPI
definitions of Kubernetes, of JobSet v1alpha2 and of its own trainer. They are whole: each field of
a JobSet, a Job, a pod and a volume is there. Descriptions are left out, and unknown fields are
refused, as by `kubectl apply --validate=strict`. What surrounds the pods of an MPIJob is in
`mpijob.json` and stays.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubeflow_trainer_api.models.io_k8s_api_core_v1_pod_template_spec import (
    IoK8sApiCoreV1PodTemplateSpec,
)
from kubeflow_trainer_api.models.jobset_v1alpha2_job_set import JobsetV1alpha2JobSet

if TYPE_CHECKING:
    from pydantic import BaseModel

SCHEMAS = Path(__file__).resolve().parents[2] / "tests" / "cli" / "schemas"
POD = "IoK8sApiCoreV1PodTemplateSpec"
PROSE = {"description", "title", "default"}
# Models of these are wrappers of either type.
EITHER = {
    "IoK8sApimachineryPkgApiResourceQuantity": ["string", "number"],
    "IoK8sApimachineryPkgUtilIntstrIntOrString": ["string", "integer"],
}


def main() -> None:
    """Write both."""
    jobset = _schema(JobsetV1alpha2JobSet)
    jobset["required"] = ["apiVersion", "kind", "metadata", "spec"]
    jobset["properties"] |= {
        "apiVersion": {"const": "jobset.x-k8s.io/v1alpha2"},
        "kind": {"const": "JobSet"},
    }
    _write("jobset", jobset)
    mpijob = json.loads((SCHEMAS / "mpijob.json").read_text())
    replicas = mpijob["properties"]["spec"]["properties"]["mpiReplicaSpecs"]
    replicas["additionalProperties"]["properties"]["template"] = {"$ref": f"#/$defs/{POD}"}
    pod = _schema(IoK8sApiCoreV1PodTemplateSpec)
    mpijob["$defs"] = pod.pop("$defs") | {POD: pod}
    _write("mpijob", mpijob)


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    made = _object(model.model_json_schema(by_alias=True))
    for name, types in EITHER.items():
        if name in made["$defs"]:
            made["$defs"][name] = {"type": types}
    return made


def _closed(node: object) -> object:
    """Leave out prose and null, and refuse unknown fields."""
    if isinstance(node, list):
        return [_closed(one) for one in node]
    return _object(node) if isinstance(node, dict) else node


def _object(node: dict[str, Any]) -> dict[str, Any]:
    some = [one for one in node.get("anyOf", ()) if one != {"type": "null"}]
    if len(some) == 1:
        return _object(some[0])
    kept = {
        key: {name: _closed(one) for name, one in value.items()}
        if key in ("properties", "$defs")
        else _closed(value)
        for key, value in node.items()
        if key not in PROSE
    }
    return kept | {"additionalProperties": False} if "properties" in kept else kept


def _write(name: str, schema: dict[str, Any]) -> None:
    source = (
        f"kubeflow-trainer-api {version('kubeflow-trainer-api')} of PyPI, by scripts/kubernetes"
    )
    text = json.dumps({"$comment": source, **schema}, separators=(",", ":"), sort_keys=True)
    (SCHEMAS / f"{name}.json").write_text(text + "\n")
    sys.stdout.write(f"{name}: {len(text):,} bytes\n")


if __name__ == "__main__":
    main()
