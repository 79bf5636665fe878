"""What a test says to a test cloud, and what it reads from it."""

from collections.abc import Mapping
from typing import Any, Literal

from cluster.core.model.value import Value

Moment = Literal["", "before", "after"]


class Fault(Value, frozen=True, kw_only=True):
    """What goes wrong with a call, on the wire or in the cloud."""

    action: str  # such as `RunInstances`; `*` is any, `mutating` any that changes something
    code: str = ""  # of the error that is answered; the call is executed, if empty
    message: str = "This error was asked for by a test."  # of that error
    status: int = 0  # HTTP status of that error; what the cloud gives it, if 0
    delay: float = 0.0  # seconds until the reply
    # the connection ends without a reply, `before` or `after` the call is executed
    drop: Moment = ""
    # the process that calls is killed with SIGKILL, `before` the call is executed, or `after` it,
    # before it reads the reply; to kill it as soon as it has used a reply, kill it `before` its
    # next call
    kill: Moment = ""
    # of the answer, whatever was asked, as a proxy writes it; with `status`
    body: str | None = None
    cut: bool = False  # the call is executed, and half of its answer comes
    # seconds for which nobody can connect from this call on, which gets no reply
    refuse: float = 0.0
    skip: int = 0  # how many matching calls pass unharmed first
    times: int = 1_000_000  # how many are harmed then
    chance: float = 1.0  # of each matching call to be harmed
    # of that chance, which is drawn for matching calls in the order of their arrival: of those
    # that are sent at once, another may be harmed in the next run
    seed: int = 0
    # only calls with these parameters, such as {"Placement.GroupName": "c5"}; `region` is the
    # region of the call
    where: Mapping[str, str] = {}


class Call(Value, frozen=True, kw_only=True):
    number: int = 0  # counted from 0, as they come
    service: str  # such as `ec2`
    action: str  # such as `RunInstances`
    region: str  # where
    user: str  # who signed it
    mutating: bool  # it changes something (a DryRun does not)
    params: Mapping[str, Any]  # what was asked
    status: int = 0  # HTTP status of the answer; 0, if it was not executed or not answered yet
    code: str = ""  # of the error that was answered; empty, if none
    lost: bool = False  # the reply did not reach the caller


class Thing(Value, frozen=True, kw_only=True, order=True):
    """Something that exists, and costs money or is in the way."""

    region: str  # where
    kind: str  # such as `instance`, `volume`, `placement-group`
    id: str  # such as `i-0123`; the name, where that is what it is deleted by
    state: str = ""  # such as `running`; empty where it has none
    tags: tuple[str, ...] = ()  # as `key=value`, sorted
