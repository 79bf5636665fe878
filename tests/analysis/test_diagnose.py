"""Each known trouble shows by its evidence, and a rule without its evidence says nothing."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec
import pytest

from cluster.analysis.diagnose import RULES, diagnose
from cluster.analysis.evidence import Evidence, Finding
from cluster.analysis.hardware import find
from cluster.analysis.pitfalls import gpus, hosts, network, trust
from cluster.core.model.hosts import Connection, Facts, Interface, RankProcess
from cluster.core.model.measurements import Definition, Distribution, Summary
from cluster.runs import store
from cluster.runs.import_logs import LogLocation, import_logs
from tests.conftest import PATIENCE
from tests.logs.parsers.test_parsers import LOGS

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.core.model.value import Scalar

GBIT = 1e9 / 8


class Look(Protocol):
    """Gives what a log says, on some hardware."""

    def __call__(self, text: str, hardware: str = "", hosts: int = 0) -> Evidence: ...


ONE_WAY = Definition(
    benchmark="iperf",
    metric="received",
    unit="B/s",
    better="higher",
    what="bytes",
    clock="a clock",
    synchronisation="none",
    warm_up="none",
    aggregation="all ranks",
    flow="one way",
)


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """Give what a log says, on some hardware."""

    def evidence(text: str, hardware: str = "", hosts: int = 0) -> Evidence:
        place = LogLocation(hardware=find(hardware) if hardware else None, hosts=hosts)
        done = import_logs(["-"], tmp_path, stdin=io.BytesIO(text.encode()), place=place)
        run = store.read(done.folder)
        return run.evidence(run.summary())

    return evidence


def summary(median: float, **params: Scalar) -> Summary:
    return Summary(
        metric="received",
        definition=ONE_WAY.id,
        unit="B/s",
        better="higher",
        params=params,
        n=20,
        median=median,
        ci=None,
        p5=median,
        p95=median,
        p99=median,
        converged=True,
        bound=1e12,
        share=median / 1e12,
    )


def ours(*summaries: Summary, **others: object) -> Evidence:
    """Give evidence of a run of ours."""
    words = {"summaries": summaries, "definitions": {ONE_WAY.id: ONE_WAY}, **others}
    return Evidence(**words)  # type: ignore[arg-type]


def host(name: str, *interfaces: Interface, cores: int = 8) -> Facts:
    return Facts(
        host=name,
        home="/",
        user="u",
        system="Debian",
        kernel="Linux",
        cpu="x",
        cores=cores,
        usable_cores=cores,
        cgroup_cpus=None,
        cgroup_memory=None,
        memory=1,
        clock="tsc",
        python="3",
        mpi=None,
        tmux=None,
        libraries={},
        variables={},
        interfaces=interfaces,
    )


def iperf3(rate: float, streams: int = 1, **words: object) -> str:
    """Write what iperf3 -J prints, at a rate in bytes per second."""
    total = {"seconds": 10.0, "bytes": rate * 10, "bits_per_second": rate * 8}
    return json.dumps(
        {
            "start": {
                "version": f"iperf {words.get('version', '3.17')}",
                "connecting_to": {"host": "b"},
                "tcp_mss_default": words.get("mss", 8949),
                "test_start": {"protocol": "TCP", "num_streams": streams},
            },
            "intervals": [],
            "end": {
                "sum_sent": {**total, "retransmits": words.get("again", 0)},
                "sum_received": total,
                "sender_tcp_congestion": words.get("congestion", "cubic"),
                "cpu_utilization_percent": {"host_total": words.get("cpu", 20.0)},
            },
        }
    )


def nccl(*vias: str, network_: str = "IB", extra: str = "") -> str:
    """Write a log of NCCL of two hosts."""
    lines = [f"Channel 0{i}/0 : 0[0] -> 1[0] [send] via {via}" for i, via in enumerate(vias)]
    words = [
        extra,
        f"Using network {network_}",
        "comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0",
        *lines,
        "Connected all rings",
    ]
    return "".join(f"a:1:1 [0] NCCL INFO {word}\n" for word in words if word)


def matrix(on: float, off: float) -> str:
    """Write two matrices of p2pBandwidthLatencyTest."""
    text = ""
    for state, rate in (("Disabled", off), ("Enabled", on)):
        text += f"Unidirectional P2P={state} Bandwidth Matrix (GB/s)\n   D\\D     0      1 \n"
        text += f"     0 500.00 {rate:6.2f} \n     1 {rate:6.2f} 500.00 \n"
    return text


NVBANDWIDTH = (
    "nvbandwidth Version: v0.6\nRunning host_to_device_memcpy_ce.\n"
    "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n           0\n"
    " 0     {near}\n 1     {far}\n\nSUM host_to_device_memcpy_ce 1.0\n"
)
ALONE = (
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20\n"
    "#   Rank  0 Pid  {pid} on a device  0 [0x00] Tesla T4\n"
    "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
    " 1048576 262144 float sum -1 10.00 104.86 {bus} 0 10.00 104.86 {bus} 0\n"
    "# Avg bus bandwidth    : {bus}\n"
)
PERF = "# Collective test starting: all_reduce_perf\n"
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
BW = "# OSU MPI Bandwidth Test v7.3\n# Size      Bandwidth (MB/s)\n4194304         {rate}\n"
REGISTRY = (
    "| Description | Cluster | processing rate | expected results |\n|-|-|-|-|\n"
    "| 1 P100 | A | {rate} images/sec | 220 images/sec |\n"
)
LOGGED: dict[
    Callable[[Evidence], Finding | None], tuple[str, str, str]
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
    hosts.limits: (
        "max locked memory           (kbytes, -l) 64\n",
        "",
        "max locked memory           (kbytes, -l) unlimited\n",
    ),
    hosts.waiting: (TINY.format(time="0.767"), "", TINY.format(time="0.004")),
    hosts.slow_input: (REGISTRY.format(rate=188), "", REGISTRY.format(rate=219)),
    hosts.burst_credits: ("    SW Power Cap : Active\n", "", "    SW Power Cap : Not Active\n# x"),
    trust.above_bound: (iperf3(1.25e9), "nic=1gbit", iperf3(1.1e8)),
}


@pytest.mark.parametrize("rule", LOGGED, ids=lambda rule: rule.__name__)
def test_a_trouble_shows_in_a_log_and_its_absence_is_silent(
    rule: Callable[[Evidence], Finding | None], look: Look
) -> None:
    log, hardware, healthy = LOGGED[rule]
    found = rule(look(log, hardware, 2))

    assert found is not None
    assert all(msgspec.to_builtins(found).values())
    assert found in diagnose(look(log, hardware, 2))
    try:
        healthy_evidence = look(healthy, hardware, 2)
    except Exception as error:  # noqa: BLE001 - a log of nothing that anybody knows is silent, too
        assert type(error).__name__ == "ParseError"  # noqa: PT017
    else:
        assert rule(healthy_evidence) is None


# Rules whose evidence is no log alone: each has tests of its own below.
APART = {
    *(network.links_without_effect, network.wrong_interface, network.directions_wait),
    *(gpus.slow_sockets, hosts.hyper_threads, hosts.shared_core),
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
    18: hosts.limits,
    19: network.congestion_control,
    20: network.old_iperf,
    21: network.overlay,
    22: hosts.burst_credits,
    23: trust.above_bound,
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
        found = diagnose(look(path.read_text(), hardware, 2))

        assert all(line for finding in found for line in finding.lines())


@pytest.mark.parametrize(
    ("rate", "says"),
    [(1.19e9, True), (0.585e9, True), (2.4e9, False), (0.9e9, False)],
)
def test_a_rate_at_a_known_cap_of_one_connection_of_a_faster_network(
    rate: float,
    says: bool,  # noqa: FBT001 - it is a column of a table
    look: Look,
) -> None:
    """Document 001: 1200 MB/s on 25 Gbit/s is what one stream of 10 Gbit/s brings."""
    evidence = look(BW.format(rate=f"{rate / 1e6:.2f}"), "c5.18xlarge", 2)
    found = network.one_flow(evidence)

    assert (found is not None) == says
    assert found is None or found.confidence == "likely"


def test_links_that_have_no_effect(look: Look) -> None:
    evidence = look(BW.format(rate="1190.00"), "c5.18xlarge", 2)
    asked = msgspec.structs.replace(evidence, variables={"OMPI_MCA_btl_tcp_links": "4"})

    assert network.links_without_effect(asked) is not None
    assert network.links_without_effect(evidence) is None


def connected(links: int, asked: str) -> Evidence:
    """Give a run of two ranks on two hosts that have so many TCP connections."""
    ends = [(f"10.0.0.1:{4000 + n}", "10.0.0.2:1024") for n in range(links)]
    other = Connection(here="10.0.0.1:22", there="10.0.0.9:5000")  # to nobody that we know
    ranks = (
        RankProcess(
            rank=0, host="a", connections=(other, *(Connection(here=a, there=b) for a, b in ends))
        ),
        RankProcess(
            rank=1, host="b", connections=tuple(Connection(here=b, there=a) for a, b in ends)
        ),
    )
    return ours(processes=ranks, variables={"OMPI_MCA_btl_tcp_links": asked})


@pytest.mark.parametrize(
    ("links", "asked", "says"),
    [
        (1, "4", "btl_tcp_links is 4, and ranks 0 and 1 have 1 TCP connection(s)"),
        (2, "4", "ranks 0 and 1 have 2"),
        (4, "4", ""),
        (8, "4", ""),  # by two networks
        (0, "4", ""),  # by something else than TCP
        (1, "1", ""),
        (1, "", ""),
    ],
)
def test_links_that_are_not_there(links: int, asked: str, says: str) -> None:
    found = network.links_without_effect(connected(links, asked))

    assert (found is not None) == bool(says)
    assert found is None or (says in found.evidence and found.confidence == "certain")


def crossed(benchmark: str, metric: str, share: float, size: int = 4_000_000) -> Evidence:
    """Give what a run of ours moved between two hosts, and its share of the bound."""
    of = msgspec.structs.replace(ONE_WAY, benchmark=benchmark, metric=metric)
    taken = msgspec.structs.replace(
        summary(1e7, size=size), metric=metric, definition=of.id, share=share
    )
    return Evidence(summaries=(taken,), definitions={of.id: of})


def joined(*parts: Evidence, **variables: str) -> Evidence:
    return Evidence(
        summaries=tuple(s for part in parts for s in part.summaries),
        definitions={k: v for part in parts for k, v in part.definitions.items()},
        variables=variables,
    )


@pytest.mark.parametrize(
    ("one", "both"),
    [
        (("p2p", "bandwidth"), ("p2p", "bidirectional")),
        (("collectives", "bcast"), ("collectives", "allgather")),
    ],
)
def test_directions_that_wait_for_each_other(one: tuple[str, str], both: tuple[str, str]) -> None:
    alone = crossed(*one, 0.99)
    found = network.directions_wait(joined(alone, crossed(*both, 0.52)))

    assert found is not None
    assert f"{both[1]} of 4 MB reaches 52% of its bound, and one direction alone 99%" in (
        found.evidence
    )
    silent = (
        joined(alone, crossed(*both, 0.97)),
        joined(crossed(*one, 0.6), crossed(*both, 0.52)),  # all is slow
        joined(crossed(*both, 0.52)),
        joined(alone, crossed(*both, 0.52, size=8192)),  # sent without asking
        joined(alone, crossed(*both, 0.52), OMPI_MCA_btl_tcp_eager_limit="33554432"),
        joined(alone, crossed("collectives", "reduce_scatter", 0.33)),  # the algorithm's
    )
    assert [network.directions_wait(evidence) for evidence in silent] == [None] * len(silent)


def test_the_wrong_interface() -> None:
    slow = Interface(name="eth0", address="10.0.0.1", prefix=24, mtu=1500, speed=1 * GBIT)
    fast = Interface(name="eth1", address="10.1.0.1", prefix=24, mtu=1500, speed=10 * GBIT)
    both = (host("a", slow, fast),)

    assert network.wrong_interface(ours(summary(0.94 * GBIT), hosts=both)) is not None
    assert network.wrong_interface(ours(summary(9.4 * GBIT), hosts=both)) is None
    assert network.wrong_interface(ours(summary(0.94 * GBIT), hosts=(host("a", slow),))) is None


def test_a_bridge_that_all_hosts_have_is_a_suspect_of_a_run_that_failed() -> None:
    docker = Interface(name="docker0", address="172.17.0.1", prefix=16, mtu=1500)
    both = (host("a", docker), host("b", docker))

    assert network.shared_subnet(ours(hosts=both, failed=True)) is not None
    assert network.shared_subnet(ours(hosts=both)) is None


def test_mtus_that_differ_in_one_network() -> None:
    def at(mtu: int, last: int) -> Interface:
        return Interface(name="eth0", address=f"10.0.0.{last}", prefix=24, mtu=mtu)

    assert network.mtu_mismatch(ours(hosts=(host("a", at(9001, 1)), host("b", at(1500, 2)))))
    assert not network.mtu_mismatch(ours(hosts=(host("a", at(9001, 1)), host("b", at(9001, 2)))))


def test_more_ranks_than_cores() -> None:
    few = (host("a", cores=2),)

    found = hosts.oversubscribed(ours(hosts=few, ranks_per_host=4))
    assert found is not None
    assert "4 ranks on 2 core(s) of a" in found.evidence
    assert hosts.oversubscribed(ours(hosts=few, ranks_per_host=2)) is None


def test_what_mpirun_says_of_too_few_cores(look: Look) -> None:
    """Open MPI's own words, whichever version is here: they are two lines long."""
    cores = os.sched_getaffinity(0)
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    many = str(len(cores) + 1)
    place = ["--host", f"localhost:{many}", "--map-by", "core", "--bind-to", "core"]
    mpirun = str(Path(sys.executable).with_name("mpirun"))
    words = [mpirun, *root, "-np", many, *place, "true"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
    found = hosts.oversubscribed(look(done.stdout + done.stderr))

    assert done.returncode != 0
    assert found is not None
    assert found.confidence == "certain"


CORES = ((0, 4), (1, 5), (2, 6), (3, 7))  # four, with hyper-threads


def bound(*masks: tuple[int, ...], cores: tuple[tuple[int, ...], ...] = CORES) -> Evidence:
    """Give a run whose ranks on one host have these affinity masks."""
    facts = msgspec.structs.replace(host("a"), boot="x", physical_cores=cores)
    ranks = (
        RankProcess(rank=rank, host="a", boot="x", processors=mask)
        for rank, mask in enumerate(masks)
    )
    return ours(hosts=(facts,), processes=tuple(ranks), ranks_per_host=len(masks))


ALL = tuple(range(8))


@pytest.mark.parametrize(
    ("masks", "evidence"),
    [
        (((0,), (0,)), "2 ranks have 1 core(s), and 3 have none"),
        (((0,), (4,)), "2 ranks have 1 core(s), and 3 have none"),  # its two threads
        (((0, 4), (1, 5), (0, 4, 1, 5)), "3 ranks have 2 core(s), and 2 have none"),
        (((2,), ALL, (6,)), "rank 0 on a is bound to processor(s) 2, rank 2 on a"),
        (((0,), (1,)), ""),
        (((0, 4), (0, 4, 1, 5)), ""),  # the second one may move on
        ((ALL, ALL), ""),  # bound nowhere
        (((0,), ALL), ""),
        ((ALL,) * 9, ""),
        (((0,), (1,), (2,), (3,), (4,)), ""),  # no core is free
        (((0,), (9,)), ""),  # a processor that nobody knows
        (((), ()), ""),
    ],
)
def test_ranks_that_share_a_core(masks: tuple[tuple[int, ...], ...], evidence: str) -> None:
    found = hosts.shared_core(bound(*masks))

    assert (found is not None) == bool(evidence)
    assert found is None or (evidence in found.evidence and found in diagnose(bound(*masks)))


def test_cores_that_nobody_can_tell_apart_say_nothing() -> None:
    assert hosts.shared_core(bound((0,), (0,), cores=())) is None


def test_hosts_of_one_kernel_share_its_cores() -> None:
    """As those of the lab, and containers."""
    run = bound((0,), (0,))
    first, second = run.processes
    apart = msgspec.structs.replace(second, host="b")
    elsewhere = msgspec.structs.replace(apart, boot="y")
    told = hosts.shared_core(msgspec.structs.replace(run, processes=(first, apart)))

    assert told is not None
    assert "rank 1 on b" in told.evidence
    assert not hosts.shared_core(msgspec.structs.replace(run, processes=(first, elsewhere)))


def test_hosts_with_gpus_whose_mpi_does_not_know_them() -> None:
    def told(built: str, *gpus_: str) -> Evidence:
        facts = host("a")
        flags = {hosts.BUILT: built}
        return ours(hosts=(msgspec.structs.replace(facts, gpus=gpus_, mpi_flags=flags),))

    assert hosts.not_cuda_aware(told("false", "Tesla T4")) is not None
    assert hosts.not_cuda_aware(told("true", "Tesla T4")) is None
    assert hosts.not_cuda_aware(told("false")) is None  # without a GPU it does no harm


def shaped(**words: object) -> Summary:
    whole = {
        "minimum": 1.0,
        "p25": 1.0,
        "p75": 1.0,
        "maximum": 1.0,
        "outliers": 0,
        "drift": None,
        "drifts": False,
        "modes": (),
        "tail": 1.0,
    }
    shape = msgspec.convert({**whole, **words}, Distribution)
    return msgspec.structs.replace(summary(1e9), shape=shape)


def test_what_got_slower_while_it_ran() -> None:
    fell = hosts.burst_credits(ours(shaped(drift=-0.4, drifts=True), instance="t3.large"))

    assert fell is not None
    assert fell.confidence == "likely"
    assert "t3.large has burst credits" in fell.evidence
    assert hosts.burst_credits(ours(shaped(drift=0.4, drifts=True))) is None  # it got faster
    assert hosts.burst_credits(ours(shaped(), instance="t3.large")) is None


def test_threads_that_share_cores(look: Look) -> None:
    results = look("Thread(s) per core:   2\n").results

    assert hosts.hyper_threads(ours(shaped(tail=3.0), results=results)) is not None
    assert hosts.hyper_threads(ours(shaped(tail=1.1), results=results)) is None
    assert hosts.hyper_threads(ours(shaped(tail=3.0))) is None


def test_few_sockets_of_nccl(look: Look) -> None:
    """A bus bandwidth far below its bound, over sockets, with nothing set for them."""
    test = ALONE.format(pid=7, bus="0.50").replace("104.86", "0.50").replace("10.00", "2097.15")
    test = test.replace("#  size", "#   Rank  1 Pid  8 on b device  0 [0x00] Tesla T4\n#  size")
    log = nccl("NET/Socket/0", network_="Socket") + test
    found = gpus.slow_sockets(look(log, "nic=100gbit"))

    assert found is not None
    asked = "NCCL_NSOCKS_PERTHREAD set by environment to 4"
    log = nccl("NET/Socket/0", network_="Socket", extra=asked) + test
    assert gpus.slow_sockets(look(log, "nic=100gbit")) is None


@pytest.mark.parametrize(
    ("bus", "streams", "extra", "says"),
    [
        ("0.50", 8, "", "is 43% of what 8 connections of iperf carry (1.170 GB/s)"),
        ("1.10", 8, "", ""),
        ("0.50", 1, "", ""),  # one connection may have a cap of its own
        ("0.50", 8, "NCCL_NSOCKS_PERTHREAD set by environment to 4", ""),
    ],
)
def test_nccl_over_tcp_below_what_iperf_carried(
    bus: str, streams: int, extra: str, says: str, look: Look
) -> None:
    """Pitfall 15: both measured on the same hosts, whose network nobody had to describe."""
    second = "#   Rank  1 Pid  8 on b device  0 [0x00] Tesla T4\n#  size"
    test = ALONE.format(pid=7, bus=bus).replace("104.86", bus).replace("10.00", "2097.15")
    test = test.replace("#  size", second).replace("# nThread", PERF + "# nThread")
    sockets = nccl("NET/Socket/0", network_="Socket", extra=extra)
    found = gpus.slow_sockets(look(sockets + test + iperf3(1.17e9, streams)))

    assert (found is not None) == bool(says)
    assert found is None or (says in found.evidence and found.confidence == "likely")
    rdma = nccl("NET/IB/0", network_="IB", extra=extra)
    assert gpus.slow_sockets(look(rdma + test + iperf3(1.17e9, streams))) is None


@pytest.mark.parametrize(
    ("rate", "guess"),
    [(8e9, "bits"), (2e9, "both directions"), (1.0737e9, "GiB"), (1.0486e9, "MiB"), (5e9, "")],
)
def test_a_value_above_its_bound_has_a_guess_at_the_mistake(rate: float, guess: str) -> None:
    above = msgspec.structs.replace(summary(rate), bound=1e9, share=rate / 1e9)
    found = trust.above_bound(ours(above))

    assert found is not None
    assert found.evidence.endswith("?") == bool(guess)
    assert guess in found.evidence


def test_the_surest_finding_comes_first(look: Look) -> None:
    log = (LOGS / "symptoms.several.txt").read_text()
    found = diagnose(look(log))

    order = [("certain", "likely", "possible").index(f.confidence) for f in found]
    assert order == sorted(order)
    assert len(found) >= 4
