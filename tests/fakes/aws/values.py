"""What a test says to the test cloud, and what it reads from it."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - msgspec looks at annotations
from typing import Any, Literal

from cluster.model import Value

Moment = Literal["", "before", "after"]


class Settings(Value, frozen=True, kw_only=True):
    """How the cloud behaves; times are in seconds.

    Args:
        pending: how long an instance is `pending`.
        visible: how long nobody but RunInstances knows of an instance.
        incomplete: how long after that an instance has no addresses yet.
        ending: how long an instance is `shutting-down` or `stopping`.
        dies: an instance ends by itself so long after its launch; never, if none.
        console: how long after a launch nothing is known of an instance's console.
        boot: how long a host takes to come up, besides what it really takes.
        minute: how long a minute of a host's `shutdown -P +1` takes.
        rate: of every host's link, such as `10gbit`; as fast as this machine can, if empty.
        vcpus: how many virtual processors of each kind may run at once in a region.
        capacity: how many instances there are, by "zone" or "zone type"; enough, if not said.
        gives: how many instances a launch gives at most, whatever it asked for; as asked, if none.
        default_vpc: the regions that have one; all, if none.
        page: how many instances a page of DescribeInstances has at most.

    """

    pending: float = 0.0
    visible: float = 0.0
    incomplete: float = 0.0
    ending: float = 0.0
    dies: float | None = None
    console: float = 0.0
    boot: float = 0.0
    minute: float = 60.0
    rate: str = ""
    vcpus: int = 100_000
    capacity: Mapping[str, int] = {}
    gives: int | None = None
    default_vpc: tuple[str, ...] | None = None
    page: int = 1000


class Fault(Value, frozen=True, kw_only=True):
    """What goes wrong with a call, on the wire or in the cloud.

    Args:
        action: such as `RunInstances`; `*` is any, `mutating` any that changes something.
        code: of the error that is answered; the call is executed, if empty.
        message: of that error.
        status: HTTP status of that error; what Amazon gives it, if 0.
        delay: seconds until the reply, after the call was executed.
        drop: the connection ends without a reply, `before` or `after` the call is executed.
        kill: the process that calls is killed with SIGKILL, `before` the call is executed, or
            `after` it, before it reads the reply; to kill it as soon as it has used a reply, kill
            it `before` its next call.
        skip: how many matching calls pass unharmed first.
        times: how many are harmed then.
        where: only calls with these parameters, such as {"Placement.GroupName": "c5"}; `region`
            is the region of the call.

    """

    action: str
    code: str = ""
    message: str = "This error was asked for by a test."
    status: int = 0
    delay: float = 0.0
    drop: Moment = ""
    kill: Moment = ""
    skip: int = 0
    times: int = 1_000_000
    where: Mapping[str, str] = {}


class Call(Value, frozen=True, kw_only=True):
    """A call that reached the cloud.

    Args:
        number: counted from 0.
        service: such as `ec2`.
        action: such as `RunInstances`.
        region: where.
        user: who signed it.
        mutating: it changes something (a DryRun does not).
        params: what was asked.
        status: HTTP status of the answer; 0, if it was not executed or not answered yet.
        code: of the error that was answered; empty, if none.
        lost: the reply did not reach the caller.

    """

    number: int
    service: str
    action: str
    region: str
    user: str
    mutating: bool
    params: Mapping[str, Any]
    status: int = 0
    code: str = ""
    lost: bool = False


class Thing(Value, frozen=True, kw_only=True, order=True):
    """Something that exists, and costs money or is in the way.

    Args:
        region: where.
        kind: such as `instance`, `volume`, `placement-group`.
        id: such as `i-0123`; the name, where that is what it is deleted by.
        state: such as `running`; empty where it has none.
        tags: as `key=value`, sorted.

    """

    region: str
    kind: str
    id: str
    state: str = ""
    tags: tuple[str, ...] = ()
