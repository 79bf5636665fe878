"""Settings in which some hosts differ from most of a fleet, the most unusual first."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from cluster.analysis.statistics.factors import IDENTITY, flat
from cluster.core.model.fleet import Drift, FleetFinding
from cluster.core.model.hosts import Facts
from cluster.core.units import format_rate

UNLIKE = {"physical_cores", "gpu_slots", "variables"}  # alike hosts number and set these otherwise
GIB = 1 << 30
SLOWING = (
    *("mtu of ", "speed of ", "slot of ", "duplex of ", "usable_cores", "cgroup_cpus"),
    *("tuning.governor", "tuning.sysctls.net."),
)
"""How the names of settings begin that can make a link or its tests slow."""


def drifts(facts: Mapping[int, Facts]) -> tuple[Drift, ...]:
    """Return settings of which most hosts, by their numbers, have one value, and some another."""
    values: defaultdict[str, dict[int, str]] = defaultdict(dict)
    for host, fact in facts.items():
        for name, value in _settings(fact):
            values[name][host] = value
    differences = (_drift(name, by_host) for name, by_host in values.items())
    return tuple(sorted((d for d in differences if d), key=lambda d: (len(d.hosts), d.setting)))


def _drift(setting: str, by_host: Mapping[int, str]) -> Drift | None:
    (usual, count), *_ = Counter(by_host.values()).most_common(1)
    odd = {host: value for host, value in by_host.items() if value != usual}
    if not odd or 2 * count <= len(by_host):
        return None
    return Drift(
        setting=setting,
        usual=usual,
        count=count,
        of=len(by_host),
        hosts=tuple(odd),
        values=tuple(odd.values()),
        slows=setting.startswith(SLOWING),
    )


def _settings(facts: Facts) -> Iterator[tuple[str, str]]:
    """Return the settings of a host that are the same on alike hosts."""
    settings = msgspec.to_builtins(facts)
    settings["memory"] = f"{facts.memory / GIB:.0f} GiB"
    for name, value in flat("", settings, leave=IDENTITY | UNLIKE):
        if value:
            yield name, value
    for interface in facts.interfaces:
        yield f"mtu of {interface.name}", str(interface.mtu)
        if interface.speed:
            yield f"speed of {interface.name}", format_rate(interface.speed)
        for name in ("slot", "duplex"):
            if value := getattr(interface, name):
                yield f"{name} of {interface.name}", value


def causes(finding: FleetFinding, differences: Sequence[Drift]) -> tuple[Drift, ...]:
    """Return the settings that can make the hosts of a finding slow, and that only they have."""
    hosts = set(finding.reason.hosts or (finding.place.host,))
    return tuple(d for d in differences if d.slows and hosts <= set(d.hosts))
