"""How the verdict on a host names its GPUs, NICs and NUMA nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cluster.core.model.logs import NUMA
from cluster.core.units import format_value

if TYPE_CHECKING:
    from cluster.core.model.fleet import DeviceKind, Fleet, PairTest

GPU, CORE = "GPU", "core"


class DeviceWords(NamedTuple):
    """The words for one kind of device."""

    one: str
    several: str
    tests: str = "pairs"
    directed: bool = False
    causes: tuple[str, str] = ("", "")
    link: str = ""
    again: str = ""
    unknown: str = ""
    too_few: str = ""

    def cause(self, target: bool) -> str:  # noqa: FBT001 - of two
        """Say what may be wrong with a device."""
        return self.causes[int(target)]


_ADD_TOPOLOGY = "add the output of nvidia-smi topo -m as a log"
_WORDS: dict[DeviceKind, DeviceWords] = {
    "gpus": DeviceWords(
        one="GPU",
        several="GPUs",
        causes=("the GPU, its slot or its link to the switch",) * 2,
        link="both GPUs are good with others: a link between them, or a route",
        unknown=f"GPUs differ, and so do paths between them: {_ADD_TOPOLOGY}",
        too_few="no class has three pairs without a common GPU",
    ),
    "nics": DeviceWords(
        one="NIC",
        several="NICs and GPUs",
        tests="tests",
        causes=("the device, its slot, its cable or its switch port",) * 2,
        link="both are good with others: the path through PCIe between them",
        again="its partner could be the cause; test it again with another host",
        unknown=f"NICs differ, and so do their paths: {_ADD_TOPOLOGY}",
        too_few="no class has three NICs to compare",
    ),
    "numa": DeviceWords(
        one="NUMA node",
        several="NUMA nodes",
        directed=True,
        causes=(
            "its cores, or their way to memory",
            "its memory: a channel without a DIMM, a slow DIMM, or other work in it",
        ),
        link="the cores and the memory are good with others: the link between the two nodes",
        unknown="how far the nodes are from one another is not known: add the output of "
        "numactl --hardware as a log",
        too_few="no distance has three pairs without a common node",
    ),
    "cores": DeviceWords(
        one="core",
        several="cores",
        directed=True,
        causes=(
            "the core as reader, or other work on it",
            "the core as writer, or other work on it",
        ),
        link="both cores are good with others: other work at that time?",
        unknown="how the cores are connected is not known",
        too_few="no class has three pairs without a common core",
    ),
    "copies": DeviceWords(
        one="NUMA node or GPU",
        several="NUMA nodes and GPUs",
        directed=True,
        causes=(
            "its memory: a channel without a DIMM, a slow DIMM, or other work in it",
            "the GPU, its slot or its link to the CPU",
        ),
        link="the node and the GPU are good with others: the link between them",
        unknown=f"which node each GPU is at is not known: {_ADD_TOPOLOGY}",
        too_few="no distance has three pairs without a common node or GPU",
    ),
}


def words_of(kind: DeviceKind) -> DeviceWords:
    """Return the words for a kind of device.

    Args:
        kind: such as `gpus`.

    """
    return _WORDS[kind]


def part_name(name: str, words: DeviceWords) -> str:
    """Name a device as a part.

    Args:
        name: such as `GPU3`, `NUMA0`, `mlx5_2`, or `node7/NUMA0` if there are several hosts.

    Returns:
        Such as `gpu:3`, `numa:0`, `nic:mlx5_2` or `numa:node7/0`.

    """
    host, slash, own = name.rpartition("/")
    for mark, prefix in ((GPU, "gpu"), (NUMA, "numa"), (CORE, "core")):
        if own.startswith(mark) and own.removeprefix(mark).isdecimal():
            return f"{prefix}:{host}{slash}{own.removeprefix(mark)}"
    return f"{words.one.lower()}:{name}"


def pair_name(fleet: Fleet, test: PairTest) -> str:
    """Name the two ends of a test; one of a device alone by that device.

    Returns:
        Such as `GPU0-GPU3`.

    """
    source, target = fleet.names[test.source], fleet.names[test.target]
    return source if source == target else f"{source}-{target}"


def class_words(path: str, words: DeviceWords) -> str:
    """Name a class of paths.

    Args:
        path: such as `NV18`, or `21`, the distance of NUMA nodes.

    Returns:
        The words; empty if the class is not known.

    """
    return f"distance {path}" if path.isdecimal() and words.directed else path


def shown(fleet: Fleet, rate: float) -> str:
    """Format a rate, or a latency of which the rate is the inverse.

    Args:
        rate: per second.

    Returns:
        The value with its unit.

    """
    if fleet.metric == "bandwidth":
        return format_value(rate, "B/s")
    return format_value(1 / rate, "s")


def reached(fleet: Fleet, rate: float, share: float) -> str:
    """Say what a device reaches at best, and what others of its class do."""
    if fleet.metric == "bandwidth":
        return f"reaches at most {shown(fleet, rate)}, {share:.0%} of what others of its class do"
    return f"takes at least {shown(fleet, rate)}, {1 / share:.0%} of what others of its class take"
