"""Each known trouble shows by its evidence, and a rule without its evidence says nothing."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from cluster.analysis.verdict.evidence import Evidence, Sign
from cluster.analysis.verdict.rules import RULES, diagnose, failures, gpus, hosts, network, trust
from cluster.reports.words.findings import finding_lines, finding_words
from tests.analysis.evidence import ALONE, BW, Look, facts, iperf3, nccl, summary
from tests.logs.samples import LOGS


def matrix(enabled: float, disabled: float) -> str:
    """Write two matrices of p2pBandwidthLatencyTest."""
    text = ""
    for state, rate in (("Disabled", disabled), ("Enabled", enabled)):
        text += f"Unidirectional P2P={state} Bandwidth Matrix (GB/s)\n   D\\D     0      1 \n"
        text += f"     0 500.00 {rate:6.2f} \n     1 {rate:6.2f} 500.00 \n"
    return text


NVBANDWIDTH = (
    "nvbandwidth Version: v0.6\nRunning host_to_device_memcpy_ce.\n"
    "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n           0\n"
    " 0     {near}\n 1     {far}\n\nSUM host_to_device_memcpy_ce 1.0\n"
)
TINY = (
    "Data for MPI rank 0 of 4:\nTimes from MPI_Init() to MPI_Finalize().\n" + "-" * 71 + "\n"
    "MPI Routine                        #calls     avg. bytes      time(sec)\n" + "-" * 71 + "\n"
    "MPI_Allreduce                        1000            8.0          {time}\n" + "-" * 71 + "\n"
    "total communication time = {time} seconds.\ntotal elapsed time       = 10.000 seconds.\n"
    + "-"
    * 65
    + "\nMessage size distributions:\n\n"
    "MPI_Allreduce             #calls    avg. bytes      time(sec)\n"
    "                            1000           8.0          {time}\n"
)
MEMLOCK = next(rule for rule in failures.RULES if rule.__name__ == "memlock")
REGISTRY = (
    "| Description | Cluster | processing rate | expected results |\n|-|-|-|-|\n"
    "| 1 P100 | A | {rate} images/sec | 220 images/sec |\n"
)
LOGGED: dict[
    Callable[[Evidence], Sign | None], tuple[str, str, str]
] = {  # a rule, the log by which it shows, the hardware, and a log by which it does not
    network.one_flow: (
        iperf3(1.19e9, 1) + "\n" + iperf3(8e9, 8),
        "",
        iperf3(1.19e9, 1) + "\n" + iperf3(1.2e9, 8),
    ),
    network.one_of_several: (BW.format(rate="12000.00"), "p4d.24xlarge", BW.format(rate="40000.0")),
    network.shared_subnet: (
        "[a][[1,1],0][btl_tcp_endpoint.c:625] connect() to 172.17.0.1 failed: refused (111)\n",
        "",
        "[a][[1,1],0][btl_tcp_endpoint.c:625] connect() to 10.0.0.1 failed: refused (111)\n",
    ),
    network.socket_buffers: (
        "net.core.rmem_max = 212992\n" + iperf3(1e8),
        "nic=10gbit",
        "net.core.rmem_max = 16777216\n" + iperf3(1e8),
    ),
    network.mtu_mismatch: ("ping: local error: Message too long, mtu=1500\n", "", iperf3(1e8)),
    network.congestion_control: (
        "net.core.default_qdisc = pfifo_fast\n" + iperf3(1e8, congestion="bbr"),
        "nic=10gbit",
        "net.core.default_qdisc = fq\n" + iperf3(1e8, congestion="bbr"),
    ),
    network.retransmissions: (iperf3(6e8, again=90_000), "nic=10gbit", iperf3(6e8, again=3)),
    network.old_iperf: (
        iperf3(1.5e9, 8, version="3.12", cpu=99.5),
        "",
        iperf3(1.5e9, 8, version="3.17", cpu=99.5),
    ),
    network.overlay: (iperf3(1e8, mss=1398), "", iperf3(1e8, mss=1448)),
    gpus.cuda_ipc: ("  cuIpcCloseMemHandle return value:   4\n", "", iperf3(1e8)),
    gpus.no_gpudirect: (nccl("NET/IB/0", "NET/IB/1/GDRDMA"), "", nccl("NET/IB/0/GDRDMA")),
    gpus.on_sockets: (nccl("NET/Socket/0", network_="Socket"), "p4d.24xlarge", nccl("NET/IB/0")),
    gpus.level_by_number: (
        nccl("P2P/IPC", extra="NCCL_P2P_LEVEL set by environment to 1"),
        "",
        nccl("P2P/IPC", extra="NCCL_P2P_LEVEL set by environment to PIX"),
    ),
    gpus.peers_blocked: (matrix(11.1, 11.0), "", matrix(48.0, 11.0)),
    gpus.slow_peers: (matrix(9.9, 21.0), "", matrix(19.0, 21.0)),
    gpus.far_memory: (
        NVBANDWIDTH.format(near="12.2", far="3.80"),
        "",
        NVBANDWIDTH.format(near="12.2", far="11.9"),
    ),
    gpus.unconnected: (
        "".join(ALONE.format(pid=pid, bus="0.00") for pid in (7, 8)),
        "",
        ALONE.format(pid=7, bus="104.86").replace("Rank  0", "Rank  1"),
    ),
    hosts.oversubscribed: (
        "would result in binding more\nprocesses than cpus on a resource:\n\n   Bind to:  CORE\n",
        "",
        "A request was made to bind to core, but an appropriate target could not\nbe found\n",
    ),
    hosts.cma_blocked: (
        "[a:1] Read -1, expected 131072, errno = 1\nkernel.yama.ptrace_scope = 1\n",
        "",
        "kernel.yama.ptrace_scope = 1\n",
    ),
    hosts.not_cuda_aware: (
        "mca:mpi:base:param:mpi_built_with_cuda_support:value:false\n",
        "",
        "mca:mpi:base:param:mpi_built_with_cuda_support:value:true\n",
    ),
    MEMLOCK: (
        "max locked memory           (kbytes, -l) 64\n",
        "",
        "max locked memory           (kbytes, -l) unlimited\n",
    ),
    hosts.waiting: (TINY.format(time="0.767"), "", TINY.format(time="0.004")),
    hosts.slow_input: (REGISTRY.format(rate=188), "", REGISTRY.format(rate=219)),
    hosts.burst_credits: ("    SW Power Cap : Active\n", "", "    SW Power Cap : Not Active\n# x"),
    trust.above_limit: (iperf3(1.25e9), "nic=1gbit", iperf3(1.1e8)),
}


@pytest.mark.parametrize("rule", LOGGED, ids=lambda rule: rule.__name__)
def test_a_trouble_shows_in_a_log_and_its_absence_is_silent(
    rule: Callable[[Evidence], Sign | None], look: Look
) -> None:
    log, hardware, healthy = LOGGED[rule]
    finding = rule(look(log, hardware, 2))

    assert finding is not None
    words = finding_words(finding)
    assert all((words.name, words.evidence, words.confidence, words.remedy, words.confirm))
    assert finding in diagnose(look(log, hardware, 2))
    try:
        healthy_evidence = look(healthy, hardware, 2)
    except Exception as error:  # noqa: BLE001 - a log of nothing that anybody knows is silent, too
        assert type(error).__name__ == "ParseError"  # noqa: PT017
    else:
        assert rule(healthy_evidence) is None


# Rules whose evidence is no log alone: each has tests of its own in test_*_pitfalls.py.
APART = {
    *(network.links_without_effect, network.wrong_interface, network.directions_wait),
    *(gpus.slow_sockets, hosts.hyper_threads, hosts.shared_core, hosts.fork),
    hosts.other_load,
    *(network.nothing_received, network.datagrams_lost),
    *(network.firmware_differs, network.bond_reorders, network.overlay_checksums),
    *(rule for rule in failures.RULES if rule is not MEMLOCK),  # in test_reported_logs.py
}
PITFALLS = {  # of the table in the founding knowledge, by their numbers
    1: network.one_flow,
    2: network.links_without_effect,
    3: network.wrong_interface,
    4: network.shared_subnet,
    5: hosts.oversubscribed,
    6: hosts.cma_blocked,
    7: gpus.cuda_ipc,
    8: hosts.not_cuda_aware,
    9: gpus.no_gpudirect,
    10: network.socket_buffers,
    11: gpus.far_memory,
    12: network.mtu_mismatch,
    13: hosts.shared_core,
    14: gpus.on_sockets,
    15: gpus.slow_sockets,
    16: gpus.peers_blocked,
    17: gpus.level_by_number,
    18: MEMLOCK,
    19: network.congestion_control,
    20: network.old_iperf,
    21: network.overlay,
    22: hosts.burst_credits,
    23: trust.above_limit,
    24: gpus.unconnected,
    25: hosts.waiting,
    26: hosts.slow_input,
}


def test_no_rule_says_anything_without_evidence() -> None:
    assert diagnose(Evidence()) == ()


def test_each_pitfall_has_its_rule_and_each_rule_its_tests() -> None:
    assert len(set(PITFALLS.values())) == 26
    assert set(PITFALLS.values()) <= set(RULES)
    assert set(RULES) == {*LOGGED, *APART}


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.txt")), ids=lambda path: path.stem)
def test_every_rule_bears_every_log(path: Path, look: Look) -> None:
    for hardware in ("", "p4d.24xlarge", "k80"):
        findings = diagnose(look(path.read_text(), hardware, 2))

        assert all(finding_lines(findings))


@pytest.mark.parametrize(
    ("rate", "guess"),
    [(8e9, "bits"), (2e9, "both_ways"), (1.0737e9, "gib"), (1.0486e9, "mib"), (5e9, None)],
)
def test_a_value_above_its_bound_has_a_guess_at_the_mistake(rate: float, guess: str | None) -> None:
    point = msgspec.structs.replace(summary(rate), bound=1e9, share=rate / 1e9)
    finding = trust.above_limit(facts(point))

    assert finding is not None
    assert (finding.confidence, finding.mistake) == ("certain", guess)


def test_the_surest_finding_comes_first(look: Look) -> None:
    log = (LOGS / "symptoms.several.txt").read_text()
    findings = diagnose(look(log))

    order = [("certain", "likely", "possible").index(f.confidence) for f in findings]
    assert order == sorted(order)
    assert len(findings) >= 4
