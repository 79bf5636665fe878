"""Who may connect to the machines of a cloud: too many, or nobody."""

import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import msgspec
import pytest

from cluster.core import plugins
from cluster.core.errors import Denied, ProvisionError, SpecError
from cluster.core.model.hosts import Machine
from cluster.core.state import journal
from cluster.orchestration.launch.launch import launch, plan_spec
from cluster.providers import Provider
from cluster.providers._cloud.api_errors import Failure
from cluster.providers._cloud.public_address import allowed_network, open_lines
from cluster.providers.gcp.errors import to_cluster_error
from tests.clouds import AWS, NAME, World
from tests.conftest import command, until
from tests.fakes.aws import Cloud
from tests.fakes.cloud import Emulated
from tests.snapshots import Snapshot


@pytest.mark.parametrize("allow", ["0.0.0.0/0", "128.0.0.0/1"])
def test_a_plan_warns_of_a_port_that_the_internet_may_reach(
    world: World, cloud: Emulated[Any], allow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    del cloud
    spec = msgspec.structs.replace(world.spec, options={**world.spec.options, "allow": allow})
    lines = plugins.load(Provider, world.name).plan(spec).lines
    assert [line for line in lines if "WARNING" in line and f"allow={allow}" in line]
    monkeypatch.setattr(
        "cluster.orchestration.launch.launch.launch_spec",
        lambda request, *_, confirm, **__: confirm(plan_spec(request)[1]),
    )
    options = {name: getattr(spec, name) for name in ("provider", "zone", "instance", "options")}
    with pytest.warns(UserWarning, match=f"allow={allow}"):
        launch(NAME, **options)


@pytest.mark.parametrize("allow", ["10.0.0.0/8", "192.0.2.1/32", "198.51.0.0/16"])
def test_a_network_of_ones_own_is_no_warning(allow: str) -> None:
    assert open_lines(allow) == ()


def test_all_ipv6_addresses_open_nothing_and_the_user_hears_why(snapshot: Snapshot) -> None:
    with snapshot.raises(SpecError):
        allowed_network("::/0")


class Ipv6(BaseHTTPRequestHandler):
    """Tells every caller an address of IPv6."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"2001:db8::7\n")

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def checkip() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Ipv6) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_client_with_ipv6_only_is_told_the_way(
    checkip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER_CHECKIP", checkip)
    with pytest.raises(SpecError, match="2001:db8::7") as error:
        allowed_network("")
    assert "jump=" in error.value.remedy


def test_a_subnet_with_ipv6_only_is_refused(aws: Cloud) -> None:
    subnet = next(iter(aws.region("us-east-1").backend.get_default_subnets().values()))
    subnet.ipv6_native = True
    spec = msgspec.structs.replace(AWS.spec, options={"subnet": subnet.id})
    with pytest.raises(SpecError, match=subnet.id):
        plugins.load(Provider, "aws").plan(spec)
    assert not aws.mutating()


@pytest.mark.parametrize(
    ("message", "error", "remedy"),
    [
        (
            "Constraint constraints/compute.vmExternalIpAccess violated for project 1.",
            Denied,
            "describe compute.vmExternalIpAccess",
        ),
        (
            "Resource cannot be deleted if it's protected against deletion.",
            ProvisionError,
            "--no-deletion-protection",
        ),
    ],
)
def test_google_remedies_name_the_policy_or_the_switch(
    snapshot: Snapshot, message: str, error: type[ProvisionError], remedy: str
) -> None:
    failure = Failure("other", operation="instances.x", code="conditionNotMet", message=message)
    output = to_cluster_error(failure, remains="It may still exist.")
    assert type(output) is error
    assert remedy in output.remedy
    snapshot(output.remedy)


def create(world: World, name: str, **options: str) -> Machine:
    """Do what a launch does, up to the first connection; return the first machine."""
    spec = msgspec.structs.replace(world.spec, name=name, options=options)
    provider, book = world.provider(), journal.for_cluster(name)
    provider.plan(spec)
    with book.open_for_launch(journal.Intended(spec=spec, at=time.time())), book.lock():
        return provider.create(spec, book)[0]


def is_open(machine: Machine) -> bool:
    with socket.socket() as probe:
        probe.settimeout(2.0)
        assert machine.access
        return probe.connect_ex((machine.access.host, 22)) == 0


@pytest.mark.usefixtures("soon")
def test_only_the_caller_is_let_in(world: World, request: pytest.FixtureRequest) -> None:
    """Also at Google, whose default network lets everybody in by SSH."""
    cloud: Emulated[Any] = request.getfixturevalue(f"{world.name}_hosts")
    before = cloud.things()
    default, other = create(world, "mine"), create(world, "other", allow="192.0.2.0/24")

    until(lambda: is_open(default), "sshd answers")
    assert not is_open(other)
    command("down", "--all", "-y")
    assert cloud.things() == before
