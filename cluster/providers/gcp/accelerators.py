"""Accelerators: the kinds that Google has, the machine types with them, and retired kinds."""

import re
from pathlib import Path

import msgspec

from cluster.core.errors import SpecError
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value

WANTED = re.compile(r"([a-z0-9-]+)(?::(\d{1,2}))?")


class Accelerator(Value, frozen=True, kw_only=True):
    type: str  # Google's name for it
    called: str = ""  # in the price list; empty if that has no part of its own for it
    quota: str  # in the names of quotas
    # by number of accelerators, the machine type that has them or gets them attached
    machines: dict[int, str]
    attached: bool = False  # it is attached to a machine type that does not include it
    retired: str = ""  # the day on which Google retired it; empty if it still exists


KNOWN = msgspec.toml.decode(
    Path(__file__).with_name("accelerators.toml").read_text(), type=dict[str, Accelerator]
)
BY_TYPE = {accelerator.type: accelerator for accelerator in KNOWN.values()}


class RequestedAccelerators(Value, frozen=True, kw_only=True):
    kind: Accelerator  # of accelerator
    count: int  # how many each machine has

    @property
    def machine(self) -> str:
        return self.kind.machines[self.count]


def requested_accelerators(
    spec: ClusterSpec, *, allow_retired: bool
) -> RequestedAccelerators | None:
    """Return the accelerators that a spec requests per machine, or None (SpecError: none such)."""
    if not spec.accelerator:
        return None
    match = WANTED.fullmatch(spec.accelerator.lower())
    kind = KNOWN.get(match[1]) if match else None
    if match is None or kind is None:
        current = ", ".join(name for name, accelerator in KNOWN.items() if not accelerator.retired)
        raise SpecError(
            f"--accelerator {spec.accelerator} is not known.",
            remedy=f"Write a kind and how many of them: --accelerator t4:1; there are: {current}",
        )
    count = int(match[2] or 1)
    if kind.retired and not allow_retired:
        raise _retired_error(spec, match[1], kind, count)
    if count not in kind.machines:
        raise SpecError(
            f"No machine has {count} x {match[1]}.",
            remedy=f"Ask for {', '.join(map(str, kind.machines))} of them.",
        )
    return RequestedAccelerators(kind=kind, count=count)


def _retired_error(spec: ClusterSpec, name: str, kind: Accelerator, count: int) -> SpecError:
    zone = f" --zone {spec.zone}" if spec.zone else ""
    command = f"cluster up {spec.name} --provider gcp --hosts {spec.hosts}{zone} --accelerator"
    count_offered = min(count, max(KNOWN["t4"].machines))
    return SpecError(
        f"Google retired the {name.upper()} on {kind.retired}.",
        means="Nothing was requested. Instead: T4 on N1, which is the "
        "same shape; L4 on G2; A100 on A2, which can also be placed close together (--placement).",
        remedy=f"Type: {command} t4:{count_offered}\nA private cloud that still has them: "
        "--option allow_retired=1",
    )
