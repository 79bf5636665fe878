"""The test cloud of Google is as strict as Google's, for the unmodified client."""

from typing import Any

import pytest
from google.api_core import exceptions
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import compute_v1

from tests.fakes.gcp import Cloud
from tests.fakes.gcp.catalog import PROJECT

ZONE = "us-central1-a"
WHERE = {"project": PROJECT, "zone": ZONE}


def client(cloud: Cloud, kind: str) -> Any:
    client_type = getattr(compute_v1, f"{kind}Client")
    return client_type(
        credentials=AnonymousCredentials(),
        transport="rest",
        client_options=ClientOptions(api_endpoint=cloud.url),
    )


def request_body(count: int = 2, **changes: Any) -> dict[str, Any]:
    properties = {
        "machine_type": "c2-standard-4",
        "disks": [
            {
                "boot": True,
                "auto_delete": True,
                "initialize_params": {
                    "source_image": "projects/ubuntu-os-cloud/global/images/"
                    "ubuntu-2404-noble-amd64-v20261101"
                },
            }
        ],
        "network_interfaces": [{"network": "global/networks/default"}],
        **changes,
    }
    return {"count": count, "name_pattern": "n-###", "instance_properties": properties}


def bulk(cloud: Cloud, request: str = "", **how: Any) -> Any:
    body = compute_v1.BulkInsertInstanceResource(request_body(**how))
    message = compute_v1.BulkInsertInstanceRequest(
        **WHERE, bulk_insert_instance_resource_resource=body
    )
    if request:
        message.request_id = request
    return client(cloud, "Instances").bulk_insert_unary(message)


def test_what_its_description_does_not_allow_is_refused(gcp: Cloud) -> None:
    with pytest.raises(exceptions.BadRequest, match=r"not one of .*STANDARD"):
        bulk(gcp, scheduling={"provisioning_model": "CHEAP"})
    with pytest.raises(exceptions.BadRequest, match="live migration"):
        bulk(gcp, scheduling={"provisioning_model": "SPOT"})
    with pytest.raises(exceptions.BadRequest, match="Machine type"):
        bulk(gcp, machine_type="c2-standard-5")


def test_a_call_without_behaviour_is_a_gap(gcp: Cloud) -> None:
    with pytest.raises(exceptions.MethodNotImplemented):
        client(gcp, "Addresses").list(project=PROJECT, region="us-central1")

    assert "addresses.list has no behaviour" in gcp.gaps.pop()


FLEX: dict[str, Any] = {
    "machine_type": "a3-highgpu-8g",
    "reservation_affinity": {"consume_reservation_type": "NO_RESERVATION"},
    "scheduling": {
        "provisioning_model": "FLEX_START",
        "on_host_maintenance": "TERMINATE",
        "instance_termination_action": "DELETE",
        "max_run_duration": {"seconds": 3600},
    },
}


def group(cloud: Cloud, repairs: str = "DO_NOTHING", **changes: Any) -> None:
    """Make a template of Flex-start VMs, and a group of it without machines."""
    properties = request_body(**{**FLEX, **changes})["instance_properties"]
    template = {"name": "t", "properties": properties}
    body = compute_v1.InstanceTemplate(template)
    client(cloud, "InstanceTemplates").insert_unary(
        project=PROJECT, instance_template_resource=body
    )
    manager = {
        "name": "g",
        "instance_template": "global/instanceTemplates/t",
        "target_size": 0,
        "instance_lifecycle_policy": {"default_action_on_failure": repairs},
    }
    client(cloud, "InstanceGroupManagers").insert_unary(
        **WHERE, instance_group_manager_resource=compute_v1.InstanceGroupManager(manager)
    )


def resize(cloud: Cloud, **how: Any) -> None:
    body = compute_v1.InstanceGroupManagerResizeRequest(
        {"name": "r", **(how or {"instances": [{"name": "n-1"}, {"name": "n-2"}]})}
    )
    client(cloud, "InstanceGroupManagerResizeRequests").insert_unary(
        **WHERE,
        instance_group_manager="g",
        instance_group_manager_resize_request_resource=body,
    )


@pytest.mark.parametrize(
    ("repairs", "changes", "how", "why"),
    [
        ("REPAIR", {}, {}, "must not repair"),
        ("DO_NOTHING", {"machine_type": "c2-standard-4"}, {}, "no FLEX_START"),
        ("DO_NOTHING", {"reservation_affinity": {}}, {}, "NO_RESERVATION"),
        ("DO_NOTHING", {}, {"resize_by": 1, "instances": [{"name": "n-1"}]}, "Either it or"),
    ],
)
def test_requests_that_google_does_not_take(
    gcp: Cloud, repairs: str, changes: dict[str, Any], how: dict[str, Any], why: str
) -> None:
    group(gcp, repairs, **changes)
    with pytest.raises(exceptions.BadRequest, match=why):
        resize(gcp, **how)


@pytest.mark.parametrize("seconds", [599, 7 * 24 * 3600 + 1])
def test_flex_start_runs_ten_minutes_to_seven_days(gcp: Cloud, seconds: int) -> None:
    scheduling = {**FLEX["scheduling"], "max_run_duration": {"seconds": seconds}}
    group(gcp, scheduling=scheduling)
    with pytest.raises(exceptions.BadRequest, match="10 minutes to 7 days"):
        resize(gcp)
