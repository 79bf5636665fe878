"""Problems of networks: caps, wrong interfaces, packets, overlays, TCP."""

from collections import Counter
from ipaddress import IPv4Address, IPv4Network

from cluster.analysis.verdict.evidence import Evidence, Finding, count

GBIT = 1e9 / 8
CAPS = (5 * GBIT, 10 * GBIT)
"""Of one TCP connection on EC2: outside and inside a cluster placement group (EC2 user guide)."""
FULL = 0.8  # of an interface's rate, from which the interface is the limit
NEAR = 0.92  # of a cap, from which a rate is at the cap: 4.7 of 5 and 9.5 of 10 Gbit/s are usual
CORE = (10 * GBIT, 45 * GBIT)  # the range of what one core carries over TCP: about 25 Gbit/s
FEW = 0.6  # of a network's rate: below this, one connection does not fill it
GAIN = 1.5  # of several streams over one, from which a single stream is the limit
JUMBO = 9001
# docker0, virbr0, and what /etc/hosts may say of the host's own name.
PRIVATE = tuple(map(IPv4Network, ("172.17.0.0/16", "192.168.122.0/24", "127.0.0.0/8")))
BUFFER = 16 * 2**20  # bytes, what hosts with fast networks should allow a socket
HALVED = 0.8  # of a bound: below this, both directions together are slow
EAGER = 65_536  # bytes: for larger messages, Open MPI over TCP asks first (btl_tcp_eager_limit)
LOST = 5.0  # percent of datagrams, from which their loss is a finding
OLD = (3, 16)  # the first version of iperf3 with a thread for each stream
OVERLAYS = ("cali", "vxlan", "flannel", "tunl", "geneve", "cilium", "weave")
TYPICAL = {1398: 1450, 1388: 1440, 1428: 1480, 1410: 1450, 1400: 1440}
"""Sizes of TCP segments, and the MTU of the overlay that they imply: vxlan 1450, ipip 1480."""


def one_flow(evidence: Evidence) -> Finding | None:
    """A single connection is capped, by the cloud or by the member of a bond that carries it."""
    return _streams_help(evidence) or _at_a_cap(evidence) or _one_core(evidence)


def _streams_help(evidence: Evidence) -> Finding | None:
    rates = [s for s in evidence.between_hosts() if count(s, "streams")]
    alone = [s for s in rates if count(s, "streams") == 1]
    parallel_rates = [s for s in rates if count(s, "streams") > 1]
    if not alone or not parallel_rates or parallel_rates[0].median < GAIN * alone[0].median:
        return None
    return Finding(kind="one_flow", confidence="certain", series=alone[0], other=parallel_rates[0])


def _at_a_cap(evidence: Evidence) -> Finding | None:
    """Check whether the fastest single connection is at a known cap, on a faster network."""
    hardware, rates = evidence.hardware, evidence.between_hosts()
    if hardware is None or hardware.nic is None or not rates or count(rates[0], "streams") > 1:
        return None
    caps = (*CAPS, hardware.flow.rate) if hardware.flow else CAPS
    for cap in caps:
        if hardware.nic.rate > GAIN * cap and NEAR < rates[0].median / cap <= 1:
            network = hardware.nic.rate
            return Finding(
                kind="one_flow", confidence="likely", series=rates[0], rate=cap, network=network
            )
    return None


def _one_core(evidence: Evidence) -> Finding | None:
    """Check whether one connection carries what one core can, on a much faster network."""
    hardware, rates = evidence.hardware, evidence.between_hosts()
    if hardware is None or hardware.nic is None or not rates:
        return None
    fastest = rates[0]
    part = fastest.median / hardware.nic.rate
    if count(fastest, "streams") != 1 or not CORE[0] <= fastest.median <= CORE[1] or part > FEW:
        return None
    return Finding(
        kind="one_core", confidence="likely", series=fastest, share=part, network=hardware.nic.rate
    )


def links_without_effect(evidence: Evidence) -> Finding | None:
    """Several links were requested of Open MPI, but connections or rate are those of one."""
    links_setting = evidence.setting("OMPI_MCA_btl_tcp_links")
    links = evidence.links()
    if not links_setting.isdigit() or int(links_setting) < 2:  # noqa: PLR2004
        return None
    few = bool(links) and max(links.values()) < int(links_setting)
    if not few and _at_a_cap(evidence) is None:
        return None
    pair, most = max(links.items(), key=lambda link: link[1], default=((), 0))
    return Finding(
        kind="links_without_effect",
        confidence="certain" if few else "likely",
        name=links_setting,
        names=tuple(map(str, pair)),
        count=most,
    )


def directions_wait(evidence: Evidence) -> Finding | None:
    """With MPI over one TCP connection, each direction waits for the other.

    Before Open MPI sends a large message, it asks the receiver. The answer queues behind data in
    the same direction, so it depends on which side asked first whether both send at once.
    """
    if evidence.setting("OMPI_MCA_btl_tcp_eager_limit"):
        return None
    crossing = [s for s in evidence.crossing(total=True) if count(s, "size") > EAGER]
    slow = [s for s in crossing if (s.share or 0) < HALVED]
    alone = max((s.share or 0 for s in evidence.crossing(total=False)), default=0)
    if not slow or alone < NEAR:
        return None
    worst = min(slow, key=lambda s: s.share or 0)
    return Finding(kind="directions_wait", confidence="likely", series=worst, share=alone)


def wrong_interface(evidence: Evidence) -> Finding | None:
    """The rate is that of a slow interface, although there is a much faster one."""
    rates = evidence.between_hosts()
    speeds = sorted({i.speed for host in evidence.hosts for i in host.interfaces if i.speed})
    if not rates or len(speeds) < 2:  # noqa: PLR2004 - with two, one can be wrong
        return None
    slow, fast = speeds[0], speeds[-1]
    near = FULL < rates[0].median / slow <= 1
    if not near or fast < 2 * slow:
        return None
    return Finding(
        kind="wrong_interface", confidence="likely", series=rates[0], rate=slow, network=fast
    )


def one_of_several(evidence: Evidence) -> Finding | None:
    """The rate is that of one network interface of several."""
    hardware, rates = evidence.hardware, evidence.between_hosts()
    if hardware is None or hardware.nic is None or hardware.nics < 2 or not rates:  # noqa: PLR2004
        return None
    rate = hardware.nic.rate / hardware.nics
    if not 0.85 < rates[0].median / rate <= 1.02:  # noqa: PLR2004 - the rate of one
        return None
    return Finding(
        kind="one_of_several", confidence="likely", series=rates[0], rate=rate, count=hardware.nics
    )


def shared_subnet(evidence: Evidence) -> Finding | None:
    """Ranks used addresses that every host has: of docker0, virbr0, or the loopback."""
    addresses = [value for _, value in evidence.symptoms("connect") if value and _is_private(value)]
    claims = Counter(i.address for host in evidence.hosts for i in host.interfaces)
    twice = [address for address, hosts in claims.items() if hosts > 1]
    if not addresses and not (twice and evidence.has_failed):
        return None
    return Finding(
        kind="shared_subnet",
        confidence="certain" if addresses and not addresses[0].startswith("127.0.0.") else "likely",
        name=addresses[0] if addresses else twice[0],
        count=len(addresses),
    )


def _is_private(address: str) -> bool:
    try:
        return any(IPv4Address(address) in network for network in PRIVATE)
    except ValueError:
        return False


def socket_buffers(evidence: Evidence) -> Finding | None:
    """The kernel's limit for socket buffers is small for a fast network, and the rate is low."""
    small = [
        int(value)
        for kind in ("rmem", "wmem")
        for _, value in evidence.symptoms(kind)
        if value.isdigit() and int(value) < BUFFER
    ]
    slow = [s for s in evidence.between_hosts() if s.share is not None and s.share < 0.7]  # noqa: PLR2004
    if not small or not slow:
        return None
    return Finding(kind="socket_buffers", confidence="possible", count=min(small), series=slow[0])


def mtu_mismatch(evidence: Evidence) -> Finding | None:
    """Hosts of one network have different MTUs, or packets were too long."""
    long = evidence.symptom("too_long")
    networks = [{i.network for i in host.interfaces} for host in evidence.hosts]
    common = set.intersection(*networks) if len(networks) > 1 else set()
    mtus = {i.mtu for host in evidence.hosts for i in host.interfaces if i.network in common}
    if not long and len(mtus) < 2:  # noqa: PLR2004 - they differ
        return None
    return Finding(
        kind="mtu_mismatch", confidence="likely", text=long, names=tuple(map(str, sorted(mtus)))
    )


def congestion_control(evidence: Evidence) -> Finding | None:
    """BBR runs without the fair queue that it needs, or many segments were retransmitted."""
    kinds = {value for _, value in evidence.symptoms("congestion")}
    kinds |= {s.value for r in evidence.results for s in r.settings if s.name == "congestion"}
    queues = {value for _, value in evidence.symptoms("qdisc")}
    slow = [s for s in evidence.between_hosts() if s.share is not None and s.share < 0.8]  # noqa: PLR2004
    if not any(kind.startswith("bbr") for kind in kinds) or "fq" in queues or not (slow or queues):
        return None
    return Finding(
        kind="bbr_without_fq",
        confidence="likely" if queues else "possible",
        names=tuple(sorted(queues)),
        series=None if queues else slow[0],
    )


def retransmissions(evidence: Evidence) -> Finding | None:
    """Many segments were retransmitted, so the path loses packets."""
    for again in evidence.series("retransmits"):
        transfers = [s for s in evidence.between_hosts() if s.metric in ("sent", "received")]
        segments = again.median
        if segments > 1000 and transfers and (transfers[0].share or 0) < 0.9:  # noqa: PLR2004
            return Finding(
                kind="retransmissions", confidence="possible", figure=segments, series=transfers[0]
            )
    return None


def old_iperf(evidence: Evidence) -> Finding | None:
    """An iperf3 with one thread for all streams was used."""
    logs = [result for result in evidence.results if result.format == "iperf3"]
    several = [s for s in evidence.between_hosts() if count(s, "streams") > 1] if logs else []
    for result in logs:
        settings = {s.name: s.value for s in result.settings}
        parts = settings.get("version", "").partition("+")[0].split(".")
        version = tuple(int(part) for part in parts if part.isdigit())
        if len(version) < 2 or version >= OLD or not several:  # noqa: PLR2004
            continue
        busy = float(settings.get("cpu") or 0)
        if busy > 90 or (several[0].share is not None and several[0].share < 0.9):  # noqa: PLR2004
            return Finding(
                kind="old_iperf",
                confidence="certain" if busy > 90 else "likely",  # noqa: PLR2004 - percent
                name=settings["version"],
                series=several[0],
                figure=busy,
            )
    return None


def overlay(evidence: Evidence) -> Finding | None:
    """An overlay network encapsulates the packets."""
    tunnels = [i for host in evidence.hosts for i in host.interfaces if i.name.startswith(OVERLAYS)]
    sizes = [s.value for r in evidence.results for s in r.settings if s.name == "mss"]
    mss = [int(value) for value in sizes if value.isdigit() and int(value) in TYPICAL]
    line = evidence.symptom("overlay")
    if not tunnels and not mss and not line:
        return None
    return Finding(
        kind="overlay",
        confidence="likely" if mss or line else "possible",
        text=line,
        interfaces=tuple(tunnels[:2]),
        count=mss[0] if mss else 0,
        other_count=TYPICAL[mss[0]] if mss else 0,
    )


def nothing_received(evidence: Evidence) -> Finding | None:
    """After the first window nothing arrives: the path drops packets of the MTU without a word."""
    stalls = [r for r in evidence.results if any(s.name == "stalled" for s in r.settings)]
    sends = evidence.series("sent")
    if not stalls or not sends:
        return None
    return Finding(kind="nothing_received", confidence="likely", figure=sends[0].median)


def firmware_differs(evidence: Evidence) -> Finding | None:
    """NICs of one model, whose versions begin alike, have different firmware."""
    versions = sorted({version for _, version in evidence.symptoms("firmware")})
    models = Counter(version.partition(".")[0] for version in versions)
    unlike = [version for version in versions if models[version.partition(".")[0]] > 1]
    if not unlike:
        return None
    return Finding(kind="firmware_differs", confidence="possible", names=tuple(unlike))


def datagrams_lost(evidence: Evidence) -> Finding | None:
    """Many datagrams of UDP did not arrive."""
    series = (*evidence.series("lost"), *evidence.series("derived_lost"))
    share = max((s.median for s in series), default=0.0)
    if share < LOST:
        return None
    return Finding(kind="datagrams_lost", confidence="certain", figure=share)


def bond_reorders(evidence: Evidence) -> Finding | None:
    """A bond sends the packets of a connection over its members in turn, and they overtake."""
    modes = [text for text, mode in evidence.symptoms("bond") if "round-robin" in mode]
    if not modes:
        return None
    slow = any((s.share or 1.0) < FULL for s in evidence.between_hosts())
    return Finding(kind="bond_reorders", confidence="likely" if slow else "possible", text=modes[0])


def overlay_checksums(evidence: Evidence) -> Finding | None:
    """The NIC computes checksums for an overlay's packets, which some drivers do wrongly."""
    line = evidence.symptom("offload")
    if not line or not evidence.symptom("overlay"):
        return None
    return Finding(kind="overlay_checksums", confidence="possible", text=line)


RULES = (
    *(one_flow, links_without_effect, directions_wait, wrong_interface, one_of_several),
    *(shared_subnet, nothing_received, datagrams_lost, bond_reorders, overlay_checksums),
    *(socket_buffers, mtu_mismatch, congestion_control, retransmissions, old_iperf, overlay),
    firmware_differs,
)
