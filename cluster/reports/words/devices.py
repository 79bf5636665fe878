"""What a check says of the GPUs, NICs, NUMA nodes or cores of a host, in words."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from cluster.core.model.network.fleet import ClassShare, Fleet, FleetVerdict, Part, Reason, Suspect
from cluster.core.text.units import format_value

NAMED = 5  # pairs of devices in a sentence
NUMBERED = re.compile(r"(.*/)?(GPU|NUMA|core)(\d+)$")
ADD_TOPOLOGY = "add the output of nvidia-smi topo -m as a log"


class DeviceWords(NamedTuple):
    singular: str
    several: str
    mark: str  # the beginning of the name of each
    causes: tuple[str, str]  # what may be wrong with a device; then with one that is written to
    link: str  # what may be wrong between two good ones
    unknown: str
    too_few: str
    tests: str = "pairs"
    again: str = ""
    single: str = ""  # why there was nothing to compare on a host


_SLOW_MEMORY = "its memory: a channel without a DIMM, a slow DIMM, or other work in it"
KINDS = {
    "gpus": DeviceWords(
        singular="GPU",
        several="GPUs",
        mark="GPU",
        causes=("the GPU, its slot or its link to the switch",) * 2,
        link="both GPUs are good with others: a link between them, or a route",
        unknown=f"GPUs differ, and so do paths between them: {ADD_TOPOLOGY}",
        too_few="no class has three pairs without a common GPU",
        single="the hosts have no two GPUs that the ranks see",
    ),
    "nics": DeviceWords(
        singular="NIC",
        several="NICs and GPUs",
        mark="",
        tests="tests",
        causes=("the device, its slot, its cable or its switch port",) * 2,
        link="both are good with others: the path through PCIe between them",
        again="its partner could be the cause; test it again with another host",
        unknown=f"NICs differ, and so do their paths: {ADD_TOPOLOGY}",
        too_few="no class has three NICs to compare",
    ),
    "numa": DeviceWords(
        singular="NUMA node",
        several="NUMA nodes",
        mark="NUMA",
        causes=("its cores, or their way to memory", _SLOW_MEMORY),
        link="the cores and the memory are good with others: the link between the two nodes",
        unknown="how far the nodes are from one another is not known: add the output of "
        "numactl --hardware as a log",
        too_few="no distance has three pairs without a common node",
        single="the hosts have one NUMA node each, or its rank may use the cores of one only",
    ),
    "cores": DeviceWords(
        singular="core",
        several="cores",
        mark="core",
        causes=(
            "the core as reader, or other work on it",
            "the core as writer, or other work on it",
        ),
        link="both cores are good with others: other work at that time?",
        unknown="how the cores are connected is not known",
        too_few="no class has three pairs without a common core",
        single="the hosts have one core each, or their ranks may use one only",
    ),
    "copies": DeviceWords(
        singular="NUMA node or GPU",
        several="NUMA nodes and GPUs",
        mark="",
        causes=(_SLOW_MEMORY, "the GPU, its slot or its link to the CPU"),
        link="the node and the GPU are good with others: the link between them",
        unknown=f"which node each GPU is at is not known: {ADD_TOPOLOGY}",
        too_few="no distance has three pairs without a common node or GPU",
    ),
}


def device_name(part: Part, kind: str) -> str:
    """Name a device or a pair of devices, such as `gpu:3`, `numa:node7/0` or `pair:GPU0-GPU3`."""
    if part.kind == "pair":
        return f"pair:{pair_name(part)}"
    if match := NUMBERED.match(part.device):
        return f"{match[2].lower()}:{match[1] or ''}{match[3]}"
    return f"{KINDS[kind].singular.lower()}:{part.device}"


def pair_name(part: Part) -> str:
    """Name two devices, such as `GPU0-GPU3`; a device alone by its name."""
    return f"{part.device}-{part.other}" if part.other else part.device


def evidence(reason: Reason, fleet: Fleet) -> str:
    words = KINDS[fleet.devices]
    figures = "; ".join(
        f"{_class(group, fleet)} {_share_words(group, fleet)}".strip() for group in reason.classes
    )
    match reason.code:
        case "slow_device":
            cause = words.causes[reason.target]
            return f"{figures}; so in {reason.low} of its {reason.of} pairs: {cause}"
        case "slow_device_pair":
            return f"{figures}; {words.link}"
        case "slow_device_alone":
            return (
                f"{_alone(reason, fleet)}: {words.causes[0]}, or what is at its other end, if that "
                "is always the same"
            )
        case _:
            return f"{_alone(reason, fleet)}: {words.again}"


def suspect(part: Suspect, fleet: Fleet) -> str:
    reason, words = part.reason, KINDS[fleet.devices]
    places = (part.place, *(twin for twin, _ in part.twins))
    match reason.code:
        case "few_pairs":
            names = ", ".join(device_name(place, fleet.devices) for place in places)
            return (
                f"{names}: {reason.low} low pair(s), too few to say which {words.singular} is slow"
            )
        case "unknown_path":
            names = ", ".join(pair_name(pair) for pair, _ in part.twins[:NAMED])
            more = f" and {reason.low - NAMED} more" if reason.low > NAMED else ""
            return f"{reason.low} pair(s) are slower than others: {names}{more}"
        case "few_to_compare":
            (best,) = reason.classes
            of_class = f" of {class_usual}" if (class_usual := _class(best, fleet)) else ""
            unit = "B/s" if fleet.metric == "bandwidth" else "s"
            capacity = format_value(part.capacity or 0.0, unit)
            return (
                f"{pair_name(part.place)}: {capacity}, and the best "
                f"of {reason.of} {words.tests}{of_class} {_rate(best, fleet)}: too few to compare"
            )
        case _:
            return f"{device_name(part.place, fleet.devices)}: {evidence(reason, fleet)}"


def nothing_compared(kinds: Sequence[str], devices: str) -> str:
    if kinds:
        several = " and ".join(kinds)
        reason = f"hosts differ: some compared {several}; say which, such as --devices numa"
    else:
        reason = KINDS[devices if devices in KINDS else "cores"].single
    return f"there is no pair to compare: {reason}."


def answer(verdict: FleetVerdict, fleet: Fleet, faults: str) -> str:
    reason, words = verdict.reason, KINDS[fleet.devices]
    figures = ", ".join(
        f"{_class(group, fleet) or words.tests} {_rate(group, fleet)}" for group in reason.classes
    )
    is_usual = any(group.share for group in reason.classes)
    extent = f"{verdict.tests + verdict.failed} {words.tests} of {len(fleet.names)} {words.several}"
    usually = f"{figures or 'nothing'} is {'usual' if is_usual else 'the best'}, in {extent}"
    match reason.code:
        case "faults":
            finding_text = faults
        case "alike":
            finding_text = f"no {words.singular} differs from the others of its class"
        case "few_classes":
            finding_text = words.too_few
        case "unknown_paths":
            finding_text = words.unknown
        case _:
            finding_text = (
                f"some {words.tests} are slow, too few to say which {words.singular} is at fault"
            )
    return f"{finding_text}; {usually}."


def _alone(reason: Reason, fleet: Fleet) -> str:
    (group,) = reason.classes
    usual = f" ({class_usual})" if (class_usual := _class(group, fleet)) else ""
    return f"{_share_words(group, fleet)}{usual}, in {reason.low} test(s)"


def _class(group: ClassShare, fleet: Fleet) -> str:
    """Name a class of paths, such as `NV18` or `distance 21`; empty if it is not known."""
    return f"distance {group.path}" if group.path.isdecimal() and fleet.directed else group.path


def _rate(group: ClassShare, fleet: Fleet) -> str:
    if fleet.metric == "bandwidth":
        return format_value(group.rate, "B/s")
    return format_value(1 / group.rate, "s")


def _share_words(group: ClassShare, fleet: Fleet) -> str:
    rate = _rate(group, fleet)
    if fleet.metric == "bandwidth":
        return f"reaches at most {rate}, {group.share:.0%} of what others of its class do"
    return f"takes at least {rate}, {1 / group.share:.0%} of what others of its class take"
