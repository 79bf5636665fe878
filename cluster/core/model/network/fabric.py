"""A simulated fabric and its planted faults, and how the user writes them."""

import re
from typing import Literal, get_args

import msgspec

from cluster.core.errors import SpecError
from cluster.core.model.value import Value

FabricKind = Literal["leafspine", "fattree", "rail"]
Routing = Literal["ecmp", "dmodk", "leastloaded"]
Direction = Literal["tx", "rx", "both"]
FaultKind = Literal[
    "host", "nic", "link", "leaf", "uplinks", "spine", "misroute", "duplicate", "mtu", "cpu",
    "flap", "drift",
]  # fmt: skip
NoiseKind = Literal["loss", "both", "tails"]
MOST_ENDPOINTS = 200_000
SHAPES = {
    "leafspine": ("LEAVESxHOSTS", 2, "leafspine:32x32"),
    "fattree": ("PORTS", 1, "fattree:16"),
    "rail": ("GROUPSxHOSTSxNICS", 3, "rail:8x16x8"),
}
FAULT = re.compile(r"(?P<kind>[a-z]+):(?P<number>\d+)(?:[.-](?P<part>\d+))?(?::(?P<way>\w+))?$")
FORM = ("KIND:NUMBER[:tx|rx|both]=SHARE", "host:7:rx=0.4")  # of a fault, with an example
PARTED = {  # faults of a part of something
    "nic": ("nic:HOST.NIC=SHARE", "nic:7.1=0.4"),
    "link": ("link:LEAF-SPINE=SHARE", "link:3-5=0.4"),
}


class Fabric(Value, frozen=True, kw_only=True):
    """A fabric: how many switches and hosts it has, and how packets are routed."""

    # `leafspine`: each leaf switch is connected to each spine switch; `fattree`: three levels of
    # switches of `ports` ports; `rail`: NIC k of each host of a group is on the group's switch k,
    # and each rail has spine switches of its own
    kind: FabricKind = "leafspine"
    leaves: int = 4  # leaf switches; of `rail`, groups of hosts
    hosts: int = 8  # on each leaf, or in each group
    nics: int = 1  # of each host
    ports: int = 0  # of each switch of a fat tree
    oversubscription: float = 1.0  # the rate of all hosts of a leaf over the rate of its uplinks
    # how a path is chosen: by a hash of each connection (`ecmp`), by the number of the target
    # (`dmodk`), or the one with the least traffic (`leastloaded`)
    routes: Routing = "ecmp"
    rate: float = 12.5e9  # of each NIC, in bytes per second

    @property
    def size(self) -> int:
        return self.ports**3 // 4 if self.kind == "fattree" else self.leaves * self.hosts

    @property
    def spines(self) -> int:
        """Spine switches of a leaf-spine fabric, or of each rail."""
        return max(1, round(self.hosts / self.oversubscription))

    @property
    def words(self) -> str:
        shape = {
            "leafspine": f"leaf-spine, {self.leaves} leaves of {self.hosts} hosts",
            "fattree": f"fat tree of switches with {self.ports} ports",
            "rail": f"rail-optimised, {self.leaves} groups of {self.hosts} hosts, "
            f"{self.nics} NICs each",
        }[self.kind]
        return f"{shape}, {self.oversubscription:g}:1, routes by {self.routes}"


class Fault(Value, frozen=True, kw_only=True):
    kind: FaultKind  # what is wrong
    number: int  # of the host, leaf or spine
    part: int = 0  # of the NIC of a host, or of the spine of a link
    direction: Direction = "both"  # the direction of a host's traffic that is affected
    share: float = 0.5  # of the rate that is left; 0.4 leaves 40%; of `uplinks`, of their number


class Noise(Value, frozen=True, kw_only=True):
    """How rates of healthy pairs vary from test to test."""

    kind: NoiseKind = "loss"  # half of a normal distribution, a whole one, or losses of Student's t
    spread: float = 0.01  # of a rate
    background: float = 0.0  # flows of others between the switches, for each host of the fabric


def parse_noise(text: str, background: float) -> Noise:
    """Read a noise such as `tails:0.03` (SpecError: no such kind, or a share out of its range)."""
    kind, _, spread = text.partition(":")
    try:
        noise = msgspec.convert(
            {"kind": kind, "spread": spread or 0.01, "background": background}, Noise, strict=False
        )
    except msgspec.ValidationError:
        noise = None
    if noise is None or not 0 <= noise.spread <= 0.5 or not 0 <= noise.background <= 1:  # noqa: PLR2004
        raise SpecError(
            f"The noise {text!r} with background {background:g} is not KIND:SPREAD, a spread up to "
            "0.5, and a background up to 1.",
            means=f"The kinds are {', '.join(get_args(NoiseKind))}.",
            remedy="Such as: --option noise=tails:0.03 --option background=0.2",
        )
    return noise


def parse_fabric(text: str, *, oversubscription: float, routes: Routing, rate: float) -> Fabric:
    """Read a fabric such as `leafspine:32x32` (SpecError); the rate is of a NIC, in bytes/s."""
    kind, _, sizes = text.partition(":")
    if kind not in SHAPES:
        raise SpecError(f"There is no fabric {kind!r}.", remedy=f"There are: {', '.join(SHAPES)}")
    form, count, example = SHAPES[kind]
    numbers = sizes.split("x")
    if len(numbers) != count or not all(n.isdecimal() and int(n) > 0 for n in numbers):
        raise SpecError(
            f"The fabric {text!r} is not {kind}:{form}.",
            remedy=f"Such as: --option fabric={example}",
        )
    if not 1 <= oversubscription <= 64:  # noqa: PLR2004 - no real fabric has more
        raise SpecError(f"oversubscription is {oversubscription:g}; it must be between 1 and 64.")
    if kind == "fattree":
        ports = int(sizes)
        if ports % 2:
            raise SpecError(
                f"A fat tree of {ports} ports: half of them lead up, so it must be even."
            )
        fabric = Fabric(
            kind="fattree", ports=ports, leaves=ports**2 // 2, hosts=ports // 2,
            oversubscription=oversubscription, routes=routes, rate=rate,
        )  # fmt: skip
    else:
        leaves, hosts, *nics = map(int, numbers)
        fabric = Fabric(
            kind="rail" if nics else "leafspine", leaves=leaves, hosts=hosts,
            nics=nics[0] if nics else 1, oversubscription=oversubscription, routes=routes,
            rate=rate,
        )  # fmt: skip
    if fabric.size * fabric.nics > MOST_ENDPOINTS:
        raise SpecError(
            f"{text} has {fabric.size * fabric.nics} NICs; at most {MOST_ENDPOINTS} are simulated."
        )
    return fabric


def parse_faults(text: str, fabric: Fabric, hosts: int) -> tuple[Fault, ...]:
    """Read planted faults such as `host:7:rx=0.4,link:3-5=0.5` (SpecError)."""
    return tuple(_fault(word, fabric, hosts) for word in filter(None, text.split(",")))


def _fault(text: str, fabric: Fabric, hosts: int) -> Fault:
    part, _, number = text.partition("=")
    match = FAULT.match(part)
    try:
        share = float(number) if number else 0.5
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise SpecError(
            f"The fault {text!r} leaves a share of {number!r}; it must be at least 0 and below 1.",
            remedy="0.4 leaves 40% of the rate; 0 leaves nothing.",
        )
    try:
        fault = msgspec.convert(
            {
                "kind": match["kind"] if match else "",
                "number": int(match["number"]) if match else 0,
                "part": int(match["part"] or 0) if match else 0,
                "direction": (match["way"] if match else "") or "both",
                "share": share,
            },
            Fault,
        )
    except msgspec.ValidationError as error:
        raise _syntax_error(text) from error
    if fault.kind in PARTED and (match is None or match["part"] is None):
        raise _syntax_error(text)
    leaves = fabric.leaves * fabric.nics if fabric.kind == "rail" else fabric.leaves
    spines = {"fattree": fabric.ports**2 // 4}.get(fabric.kind, fabric.spines * fabric.nics)
    counts = dict.fromkeys(("leaf", "misroute", "link", "uplinks"), leaves) | {"spine": spines}
    most = counts.get(fault.kind, hosts)
    parts = {"nic": fabric.nics, "link": fabric.ports // 2 or fabric.spines}.get(fault.kind, 1)
    if fault.number >= most or fault.part >= parts:
        raise SpecError(
            f"The fault {text!r} names a part that does not exist.",
            means=f"Numbers begin at 0: there are {most}"
            + (f", with {parts} each." if parts > 1 else "."),
        )
    return fault


def _syntax_error(text: str) -> SpecError:
    form, example = PARTED.get(text.partition(":")[0], FORM)
    return SpecError(
        f"The fault {text!r} is not {form}.",
        means=f"The kinds are {', '.join(get_args(FaultKind))}.",
        remedy=f"Such as: --option fault={example}",
    )
