"""What Amazon is asked for: limits, images, addresses, and what one launch after a crash counts."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from cluster.core.errors import Capacity, ClusterError, Denied, Quota, SpecError, Timeout
from cluster.core.state import journal
from cluster.orchestration.launch.orphans import remove
from cluster.providers._cloud.api_errors import Failure
from cluster.providers.aws import AwsProvider, images, quotas
from cluster.providers.aws.errors import kind_of, to_cluster_error
from tests import killed_processes
from tests.fakes import userdata
from tests.fakes.aws import Fault
from tests.orphans import find_orphans
from tests.providers.aws.conftest import create, provider, spec_of

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import GpuInfoTypeDef, InstanceTypeInfoTypeDef

    from tests.fakes.aws import Cloud, Thing
    from tests.snapshots import Snapshot

pytestmark = pytest.mark.usefixtures("soon")


@pytest.mark.parametrize(
    ("instance", "usual", "spare"),
    [
        ("c5n.18xlarge", "L-1216C47A", "L-34B43A08"),
        ("gr6.8xlarge", "L-DB2E81BA", "L-3819A6DF"),
        ("p4d.24xlarge", "L-417A185B", "L-7212CCBC"),
        ("p5.48xlarge", "L-417A185B", "L-C4BD4855"),
        ("p5en.48xlarge", "L-417A185B", "L-C4BD4855"),
        ("p6-b200.48xlarge", "L-417A185B", None),  # nobody we asked knows its code
        ("u-6tb1.metal", "L-43DA4232", None),
        ("hpc7a.96xlarge", "L-F7808C92", None),
    ],
)
def test_the_limit_that_a_type_counts_for(instance: str, usual: str, spare: str | None) -> None:
    assert quotas.ON_DEMAND.get(quotas.family(instance)) == usual
    assert quotas.SPOT.get(quotas.family(instance, spot=True)) == spare


def test_a_launch_that_goes_on_counts_its_own_machines_once(aws: Cloud) -> None:
    """Two machines have 144 of 200 processors, and two more would not fit."""
    aws.set(vcpus=200)
    create(spec_of())

    assert provider().plan(spec_of()).lines == provider().plan(spec_of()).lines
    with pytest.raises(Quota):
        provider().plan(spec_of(name="other"))


def test_what_was_just_made_may_not_be_known_everywhere_yet(aws: Cloud) -> None:
    aws.fail(Fault(action="AuthorizeSecurityGroupIngress", code="InvalidGroup.NotFound", times=2))
    aws.fail(Fault(action="RunInstances", code="InvalidPlacementGroup.Unknown", skip=1, times=2))
    create(spec_of())

    calls = [call for call in aws.calls("RunInstances") if "DryRun" not in call.params]
    assert len(calls) == 3
    assert len({call.params["ClientToken"] for call in calls}) == 1
    assert len([thing for thing in aws.things(foreign=False) if thing.kind == "instance"]) == 2


def test_the_zones_that_were_tried_are_named(snapshot: Snapshot, aws: Cloud) -> None:
    aws.fail(Fault(action="RunInstances", code="InsufficientInstanceCapacity", status=500, skip=1))
    with snapshot.raises(Capacity):
        create(spec_of(options={"zones": "a,b"}))


def test_a_resumed_launch_names_also_the_zones_of_the_one_before(
    snapshot: Snapshot, aws: Cloud
) -> None:
    """The process was killed at the second zone, when the first had failed."""
    real = {"DryRun": "None"}
    lack = Fault(action="RunInstances", code="InsufficientInstanceCapacity", status=500, where=real)
    spec = spec_of(options={"zones": "a,b,c"})
    aws.fail(msgspec.structs.replace(lack, times=1))
    aws.fail(Fault(action="RunInstances", kill="before", where=real))
    assert killed_processes.status(killed_processes.launch, spec) == -signal.SIGKILL
    aws.mend()

    before = len(aws.calls("RunInstances"))
    aws.fail(lack)
    with snapshot.raises(Capacity):
        create(spec)
    calls = [call for call in aws.calls("RunInstances")[before:] if "DryRun" not in call.params]
    assert len(calls) == 2


def test_each_interface_needs_an_address(snapshot: Snapshot, aws: Cloud) -> None:
    spec = spec_of(instance="p4d.24xlarge", hosts=4500, options={"efa": "1", "public": "0"})
    aws.set(vcpus=1_000_000)
    with snapshot.raises(SpecError):
        provider().plan(spec)


def test_efa_gets_an_image_and_an_mpi_that_have_it(snapshot: Snapshot, aws: Cloud) -> None:
    spec = spec_of(instance="c5n.18xlarge", options={"efa": "1"})
    lines = "\n".join(provider().plan(spec).lines)
    efa = provider().environment(spec)
    stock = provider().environment(spec_of())

    assert aws.calls("GetParameters")[-1].params["Names"] == [images.LEARNING.format("x86_64")]
    snapshot(lines)
    assert efa
    assert stock
    assert (efa.mpi, stock.mpi) == ("/opt/amazon/openmpi", "")


def test_the_image_pytorch_is_the_newest_and_ranks_see_its_torch(
    snapshot: Snapshot, aws: Cloud
) -> None:
    spec = spec_of(instance="p4d.24xlarge", image="pytorch")
    lines = "\n".join(provider().plan(spec).lines)
    env = provider().environment(spec)

    assert aws.url
    snapshot(lines)
    assert env
    assert (env.mpi, env.python) == ("/opt/amazon/openmpi", "/opt/pytorch/bin/python")
    spec = spec_of(image="pytorch", options={"mpi": "/opt/mine", "python": "/opt/py/bin/python3"})
    assert (env := provider().environment(spec))
    assert (env.mpi, env.python) == ("/opt/mine", "/opt/py/bin/python3")
    with snapshot.raises(SpecError):
        images._check_open_driver(kind("p3.16xlarge", "NVIDIA"))


def kind(instance: Any, maker: str) -> InstanceTypeInfoTypeDef:
    gpus: GpuInfoTypeDef = {"Gpus": [{"Count": 1, "Manufacturer": maker}]}
    return {"InstanceType": instance, "VCpuInfo": {"DefaultVCpus": 4}, "GpuInfo": gpus}


def test_an_image_has_the_driver_of_its_gpus(snapshot: Snapshot, aws: Cloud) -> None:
    """AMD's get none of NVIDIA's; Volta and Maxwell get the one whose driver knows them."""
    assert aws.url
    assert "ubuntu/server" in images._own(kind("g4ad.4xlarge", "AMD"), efa=False)
    assert "nvidia" in images._own(kind("g4dn.4xlarge", "NVIDIA"), efa=False)
    assert images._own(kind("p3.16xlarge", "NVIDIA"), efa=False) == images.PROPRIETARY
    with snapshot.raises(SpecError):
        images._own(kind("p2.xlarge", "NVIDIA"), efa=False)


def test_volta_gets_a_driver_that_knows_it_and_a_python_that_is_new_enough(
    snapshot: Snapshot, aws: Cloud
) -> None:
    """The image is of Ubuntu 22.04, so Python comes before sshd does, and once."""
    spec = spec_of(instance="p3dn.24xlarge", hosts=1)
    lines = "\n".join(provider().plan(spec).lines)
    create(spec)
    [params] = [c.params for c in aws.calls("RunInstances") if "DryRun" not in c.params]
    orders = userdata.orders(params["UserData"])

    snapshot(lines)
    snapshot(orders.early)


@pytest.mark.parametrize(
    ("instance", "image", "installs"),
    [
        ("p3dn.24xlarge", images.PROPRIETARY, True),  # as messages of older revisions said
        ("c5.18xlarge", images.UBUNTU.replace("24.04", "22.04").format("amd64"), True),
        ("c5.18xlarge", images.UBUNTU.format("amd64"), False),
    ],
)
def test_an_alias_of_an_older_ubuntu_gets_a_python_that_is_new_enough(
    aws: Cloud, instance: str, image: str, *, installs: bool
) -> None:
    lines = provider().plan(spec_of(instance=instance, image=image, hosts=1)).lines

    assert any("python3.11" in line for line in lines) is installs


def test_other_machines_install_nothing_as_they_come_up(aws: Cloud) -> None:
    create(spec_of())
    [params] = [c.params for c in aws.calls("RunInstances") if "DryRun" not in c.params]

    assert userdata.orders(params["UserData"]).early == ""


def test_machines_behind_another_host_have_no_public_address(
    snapshot: Snapshot, aws: Cloud
) -> None:
    spec = spec_of(options={"jump": "me@bastion", "allow": "10.0.0.5"})
    book = journal.for_cluster("c5")
    book.append(journal.Intended(spec=spec, at=time.time()))
    amazon = provider()
    assert "private addresses" in amazon.plan(spec).lines[0]
    machines = amazon.create(spec, book)

    assert all(m.access and m.access.jump == "me@bastion" for m in machines)
    assert all(m.access and m.access.host == m.address for m in machines)
    [card] = aws.calls("RunInstances")[-1].params["NetworkInterfaces"]
    assert not card["AssociatePublicIpAddress"]
    with snapshot.raises(SpecError):
        provider().plan(spec_of(name="other", options={"jump": "me@bastion"}))


def test_an_account_that_never_had_spot_needs_a_role(snapshot: Snapshot) -> None:
    code = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
    failure = Failure(kind_of(code), operation="RunInstances", code=code, message="No role")
    error = to_cluster_error(failure)

    assert isinstance(error, Denied)
    snapshot(error.remedy)


def test_large_types_may_take_longer_to_answer() -> None:
    assert AwsProvider().reachable_within(spec_of()) == 300.0
    assert AwsProvider().reachable_within(spec_of(options={"ready_within": "1200"})) == 1200.0


def test_the_test_cloud_refuses_a_filter_that_amazon_does_not_have(
    snapshot: Snapshot, aws: Cloud
) -> None:
    odd = [{"Name": "placement-group-info.supported-strategies", "Values": ["cluster"]}]
    with pytest.raises(Failure, match="placement-group-info"):
        AwsProvider().client("us-east-1", None).all(
            "describe_instance_types", "InstanceTypes", Filters=odd
        )
    with snapshot.raises(SpecError):
        provider().plan(spec_of(instance="t2.large"))
    assert aws.calls("DescribeInstanceTypes")[-1].code == ""


def test_the_plan_says_what_ends_the_machines_and_what_a_network_costs(
    snapshot: Snapshot, aws: Cloud
) -> None:
    snapshot("\n".join(provider().plan(spec_of()).lines))
    assert aws.mutating() == ()


ELASTIC = {"efa": "1", "elastic_ip": "1"}


@pytest.fixture
def before(aws: Cloud) -> frozenset[Thing]:
    """What there is without us."""
    return aws.things()


def test_machines_with_several_adapters_get_elastic_ips_that_go_with_them(
    snapshot: Snapshot, aws: Cloud, before: frozenset[Thing]
) -> None:
    """Each request is in the journal before that of machines; each is at a first interface."""
    spec = spec_of(instance="p4d.24xlarge", options=ELASTIC)
    book = journal.for_cluster("c5")
    book.append(journal.Intended(spec=spec, at=time.time()))
    amazon = provider()
    lines = "\n".join(amazon.plan(spec).lines)
    aws.fail(
        Fault(action="AllocateAddress", drop="after", skip=1, times=1)
    )  # the first was a DryRun
    machines = amazon.create(spec, book)
    requests = [e.kind for e in book.entries() if isinstance(e, journal.Requested)]

    snapshot(lines)
    assert "elastic-ip" in requests
    assert "elastic-ip" not in requests[requests.index("instances") :]
    cards = aws.calls("RunInstances")[-1].params["NetworkInterfaces"]
    assert len(cards) == 5
    region = aws.region("us-east-1")
    addresses = {ip.eni.id: ip.public_ip for ip in region.backend.addresses if ip.eni}
    first = {m.id: region.lives[m.id].instance.nics[0].id for m in machines}
    assert {m.id: m.access and m.access.host for m in machines} == {
        id_: addresses[interface] for id_, interface in first.items()
    }
    assert len(addresses) == 2

    amazon.destroy("c5")
    assert aws.things() == before
    assert len(aws.calls("ReleaseAddress")) == 2


def test_a_machine_gets_its_elastic_ip_while_others_still_come_up(aws: Cloud) -> None:
    """Its packages come from the Internet; the wait for all of it is one phase."""
    aws.set(pending=3600.0)
    states: dict[str, str] = {}

    def follow(host: str, state: str) -> None:
        states[host] = state
        if not aws.calls("AssociateAddress"):
            aws.proceed(0)
        elif host == "1.mpi.c5" and state == "pending":
            aws.proceed()

    create(spec_of(instance="p4d.24xlarge", options={**ELASTIC, "wait": "20"}), follow)
    phases = [e.phase for e in journal.for_cluster("c5").entries() if isinstance(e, journal.Timed)]

    assert states == {"0.mpi.c5": "running", "1.mpi.c5": "running"}
    assert len(aws.calls("AssociateAddress")) == 2
    assert phases == ["create", "running"]


def test_a_limit_of_elastic_ips_is_met_before_there_are_machines(
    snapshot: Snapshot, aws: Cloud, before: frozenset[Thing]
) -> None:
    with snapshot.raises(Quota):
        create(spec_of(instance="p4d.24xlarge", hosts=6, options=ELASTIC))

    assert not [call for call in aws.calls("RunInstances") if "DryRun" not in call.params]
    assert aws.things() == before


LISTED_LATE = [  # how many hosts, and what goes wrong once addresses exist that nobody lists
    pytest.param(6, Fault(action="nothing"), Quota, id="the sixth address is refused"),
    pytest.param(
        2,
        Fault(action="AllocateAddress", drop="after", skip=1),  # the first only asks for permission
        Timeout,
        id="replies are lost",
    ),
]


@pytest.mark.parametrize(("hosts", "fault", "error"), LISTED_LATE)
def test_elastic_ips_that_are_not_listed_yet_are_waited_for_and_released(
    aws: Cloud,
    before: frozenset[Thing],
    monkeypatch: pytest.MonkeyPatch,
    hosts: int,
    fault: Fault,
    error: type[ClusterError],
) -> None:
    monkeypatch.setenv("CLUSTER_LATE", "3")
    monkeypatch.setattr("cluster.providers._cloud.api_errors.PATIENCE", 0.3)
    aws.set(visible=1.0)
    aws.fail(fault)
    with pytest.raises(error):
        create(spec_of(instance="p4d.24xlarge", hosts=hosts, options=ELASTIC))

    assert len(aws.calls("ReleaseAddress")) >= hosts - 1
    assert aws.things() == before


def test_elastic_ips_stay_when_machines_end_by_themselves_and_gc_alone_releases_them(
    aws: Cloud, before: frozenset[Thing]
) -> None:
    create(spec_of(instance="p4d.24xlarge", options=ELASTIC))
    for thing in aws.things() - before:
        if thing.kind == "instance":
            aws.end(thing.id)
    journal.for_cluster("c5").forget()
    assert [thing.kind for thing in aws.things() - before].count("address") == 2

    for orphan in find_orphans():
        remove(orphan)
    assert aws.things() == before


def test_an_elastic_ip_is_released_by_its_id_if_it_has_no_tags(
    aws: Cloud, before: frozenset[Thing]
) -> None:
    """Somebody may have removed them; the id is in the journal."""
    create(spec_of(instance="p4d.24xlarge", options=ELASTIC))
    backend = aws.region("us-east-1").backend
    for address in backend.addresses:
        backend.tags.pop(address.id)
    provider().destroy("c5")

    assert aws.things() == before


def test_elastic_ips_of_a_launch_that_died_are_found_by_their_tags(
    aws: Cloud, before: frozenset[Thing]
) -> None:
    aws.fail(Fault(action="AssociateAddress", code="UnauthorizedOperation", status=403))
    aws.fail(Fault(action="ReleaseAddress", code="UnauthorizedOperation", status=403))
    with pytest.raises(Denied) as denied:
        create(spec_of(instance="p4d.24xlarge", options=ELASTIC))
    addresses = aws.region("us-east-1").backend.addresses
    assert all(address.allocation_id in denied.value.means for address in addresses)
    assert {thing.kind for thing in aws.things() - before} == {"address"}

    aws.mend()
    provider().destroy("c5")
    assert aws.things() == before


def test_an_elastic_ip_for_machines_without_public_addresses_is_refused(
    snapshot: Snapshot, aws: Cloud
) -> None:
    with snapshot.raises(SpecError):
        provider().plan(spec_of(options={"elastic_ip": "1", "public": "0"}))
    assert not aws.mutating()
