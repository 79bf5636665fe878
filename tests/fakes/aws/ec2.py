"""EC2: moto's answers where they are true, and what is stricter."""

from typing import ClassVar

from moto.ec2.responses import EC2Response

from tests.fakes.aws.addresses import AddressCalls
from tests.fakes.aws.groups import GroupCalls
from tests.fakes.aws.networks import NetworkCalls
from tests.fakes.aws.prices import SpotPriceCalls
from tests.fakes.aws.run_instances import LaunchCalls
from tests.fakes.aws.service import Service
from tests.fakes.aws.topology import TopologyCalls


class Ec2(
    LaunchCalls,
    TopologyCalls,
    AddressCalls,
    GroupCalls,
    NetworkCalls,
    SpotPriceCalls,
    Service,
    EC2Response,
):
    """All calls of EC2 that are known here."""

    name: ClassVar[str] = "ec2"
    protocol: ClassVar[str] = "ec2"
