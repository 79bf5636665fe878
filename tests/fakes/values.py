"""What a test says to a test cloud, and what it reads from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from cluster.core.model.value import Value

Moment = Literal["", "before", "after"]


class Fault(Value, frozen=True, kw_only=True):
    """What goes wrong with a call, on the wire or in the cloud.

    Args:
        action: such as `RunInstances`; `*` is any, `mutating` any that changes something.
        code: of the error that is answered; the call is executed, if empty.
        message: of that error.
        status: HTTP status of that error; what the cloud gives it, if 0.
        delay: seconds until the reply.
        drop: the connection ends without a reply, `before` or `after` the call is executed.
        kill: the process that calls is killed with SIGKILL, `before` the call is executed, or
            `after` it, before it reads the reply; to kill it as soon as it has used a reply, kill
            it `before` its next call.
        body: of the answer, whatever was asked, as a proxy writes it; with `status`.
        cut: the call is executed, and half of its answer comes.
        refuse: seconds for which nobody can connect from this call on, which gets no reply.
        skip: how many matching calls pass unharmed first.
        times: how many are harmed then.
        chance: of each matching call to be harmed.
        seed: of that chance, which is drawn for matching calls in the order of their arrival: of
            those that are sent at once, another may be harmed in the next run.
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
    body: str | None = None
    cut: bool = False
    refuse: float = 0.0
    skip: int = 0
    times: int = 1_000_000
    chance: float = 1.0
    seed: int = 0
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
