"""Accelerators: the kinds that Google has, the machine types with them, and retired kinds."""

import re

from cluster.core.errors import SpecError
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value

WANTED = re.compile(r"([a-z0-9-]+)(?::(\d{1,2}))?")


class Accelerator(Value, frozen=True):
    type: str  # Google's name for it
    called: str  # in the price list
    quota: str  # in the names of quotas
    # by number of accelerators, the machine type that has them or gets them attached
    machines: dict[int, str]
    attached: bool = False  # it is attached to a machine type that does not include it
    retired: str = ""  # the day on which Google retired it; empty if it still exists


def _on_n1(*counts: int) -> dict[int, str]:
    return dict.fromkeys(counts, "n1-standard-8")


def _sizes(family: str) -> dict[int, str]:
    return {count: f"{family}-{count}g" for count in (1, 2, 4, 8)}


V100 = {**_on_n1(1, 2), 4: "n1-standard-16", 8: "n1-standard-32"}
L4 = {1: "g2-standard-4", **{count: f"g2-standard-{12 * count}" for count in (2, 4, 8)}}
K80 = _on_n1(1, 2, 4, 8)
END_OF_K80 = "2024-05-01"  # cloud.google.com/compute/docs/eol/k80-eol
KNOWN = {  # cloud.google.com/compute/docs/gpus
    "t4": Accelerator("nvidia-tesla-t4", "Tesla T4", "T4", _on_n1(1, 2, 4), attached=True),
    "v100": Accelerator("nvidia-tesla-v100", "Tesla V100", "V100", V100, attached=True),
    "l4": Accelerator("nvidia-l4", "L4", "L4", L4),
    "a100": Accelerator("nvidia-tesla-a100", "Tesla A100", "A100", _sizes("a2-highgpu")),
    "h100": Accelerator("nvidia-h100-80gb", "H100 80GB", "H100", _sizes("a3-highgpu")),
    "a100-80gb": Accelerator(
        "nvidia-a100-80gb", "Tesla A100 80GB", "A100_80GB", _sizes("a2-ultragpu")
    ),
    "k80": Accelerator("nvidia-tesla-k80", "Tesla K80", "K80", K80, True, END_OF_K80),
}
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
