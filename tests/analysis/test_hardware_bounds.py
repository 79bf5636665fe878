"""Bounds on named hardware, against arithmetic that is done here by hand."""

import msgspec
import pytest

from cluster.analysis.limits.devices import bound, missing, with_hardware_bound
from cluster.analysis.limits.hardware import find, of_devices, with_links
from cluster.analysis.limits.network import RECEIVER
from cluster.analysis.limits.usual import usual
from cluster.analysis.verdict.verdict import verdicts
from cluster.core.model.results.limits import Assumption, Hardware
from cluster.core.model.results.measurements import Definition, Summary
from cluster.core.model.value import Scalar
from cluster.logs.parsers import bandwidth_test, mpi_test, nvbandwidth, osu, p2p_matrix, perftest
from cluster.logs.parsers.iperf3 import INTERVAL, RECEIVED, SENT
from cluster.logs.parsers.nccl_tests.perf_test import BUSBW
from tests.plain_values import plain_summary

GBIT = 1e9 / 8
P4D, P5, K80, V100 = (find(n) for n in ("p4d.24xlarge", "p5.48xlarge", "k80", "v100"))


def rate(definition: Definition, hardware: Hardware, **params: Scalar) -> float:
    limit = bound(definition, params, hardware)
    assert limit is not None
    return limit.rate


def busbw(hardware: Hardware, operation: str, ranks: int, hosts: int) -> float:
    return rate(BUSBW, hardware, operation=operation, ranks=ranks, hosts=hosts)


def test_a_ring_within_a_host_is_bound_by_the_links_of_a_gpu_in_one_direction() -> None:
    assert busbw(P4D, "all_reduce", 8, 1) == 300e9
    assert busbw(P4D, "alltoall", 8, 1) == 300e9
    assert busbw(K80, "all_reduce", 2, 1) == 15.75e9  # without NVLink: PCIe


def test_a_switch_that_sums_may_be_faster_than_its_links() -> None:
    """S (n+1)/n instead of 2 S (n-1)/n, so 14/9 for 8 GPUs; nothing for other collectives."""
    assert busbw(P5, "all_reduce", 8, 1) == pytest.approx(450e9 * 14 / 9)
    assert busbw(P5, "all_gather", 8, 1) == 450e9
    assert busbw(P5, "all_reduce", 2, 1) == 450e9
    assert busbw(P5, "", 8, 1) == busbw(P5, "all_reduce", 8, 1)  # it may be one


@pytest.mark.parametrize("hosts", [2, 4, 16])
def test_between_hosts_the_network_of_a_host_is_shared_by_its_ranks(hosts: int) -> None:
    """Bus bandwidth is at most B (n-1)/n N/(N-1): for 2 hosts of 8 it may be 1.875 B."""
    n = 8 * hosts
    expected = 50e9 * (n - 1) / n * hosts / (hosts - 1)

    assert busbw(P4D, "all_reduce", n, hosts) == pytest.approx(expected)
    assert busbw(P4D, "all_gather", n, hosts) == pytest.approx(expected)
    assert busbw(P4D, "broadcast", n, hosts) == 50e9


def test_in_an_alltoall_each_rank_needs_its_own() -> None:
    """Of S bytes of each of 8 ranks, half go to the other host: 8 S/2 through 50 GB/s."""
    algbw = 50e9 / (8 / 2)

    assert busbw(P4D, "alltoall", 16, 2) == pytest.approx(algbw * 15 / 16)


def test_links_bind_where_the_network_is_faster() -> None:
    """Of 2 x 8 B200, 2 S 7/8 stay within a host, or S 9/8 if the switch sums."""
    hardware = find("gpus=8,gpu=a100,nic=400gbit,nics=16,rdma=yes")

    assert busbw(hardware, "all_reduce", 16, 2) == pytest.approx(300e9 * (15 / 16) / (7 / 8))


def test_one_rank_on_each_host_needs_not_say_which_collective_it_is() -> None:
    hardware = find("p2.8xlarge")

    assert busbw(hardware, "", 2, 2) == busbw(hardware, "all_reduce", 2, 2)
    assert bound(BUSBW, {"ranks": 16, "hosts": 2}, P4D) is None
    assert missing(BUSBW, {"ranks": 16, "hosts": 2}, P4D) == "operation"


def test_tcp_has_the_cap_of_its_connections_and_pays_for_headers() -> None:
    goodput = (9001 - 52) / (9001 + 38)

    assert rate(RECEIVED, P4D, streams=1) == pytest.approx(10 * GBIT * goodput)
    assert rate(RECEIVED, P4D, streams=8) == pytest.approx(80 * GBIT * goodput)
    assert rate(RECEIVED, P4D, streams=64) == pytest.approx(400 * GBIT * goodput)
    small = find("nic=1gbit")
    assert rate(RECEIVED, small, streams=1) == pytest.approx(GBIT * 1448 / 1538)
    assert rate(RECEIVED, small, protocol="UDP") == pytest.approx(GBIT * 1472 / 1538)
    assert bound(SENT, {"protocol": "UDP"}, small) is None  # what is lost was sent, too


def test_intervals_are_not_held_to_the_network_with_certainty() -> None:
    """The kernel of a sender may take more in an interval than the network carries."""
    for words in ("nic=1gbit", "nic=100gbit,flow=10gbit", "p4d.24xlarge"):
        limit = bound(INTERVAL, {"streams": 1}, find(words))
        assert limit is not None
        assert limit.assumption is not None
        assert limit.otherwise is None or limit.otherwise.assumption == RECEIVER


def test_several_connections_whose_number_is_not_known_have_no_cap() -> None:
    assert rate(RECEIVED, P4D, streams="several") == rate(RECEIVED, P4D, streams=64)


def test_messages_between_hosts_have_all_its_interfaces_and_both_directions() -> None:
    assert rate(osu.BANDWIDTH, P4D, hosts=2, size=4194304) == 50e9
    assert rate(osu.BIDIRECTIONAL, P4D, hosts=2) == 100e9
    assert rate(osu.BANDWIDTH, find("nic=10gbit"), hosts=2) == pytest.approx(
        10 * GBIT * 1448 / 1538
    )
    for unknown in ({}, {"hosts": 1}):
        assert bound(osu.BANDWIDTH, unknown, P4D) is None


def test_a_sender_that_is_timed_by_itself_has_no_bound() -> None:
    assert bound(mpi_test.TIME, {"hosts": 2, "rank": 0}, P4D) is None
    assert bound(mpi_test.TIME, {"hosts": 2, "rank": 1}, P4D) is not None


def test_copies() -> None:
    assert rate(p2p_matrix.ONE_WAY, V100, p2p="on") == 150e9
    assert rate(p2p_matrix.BOTH_WAYS, V100, p2p="on") == 300e9
    assert rate(p2p_matrix.ONE_WAY, V100, p2p="off") == pytest.approx(15.75e9, rel=1e-3)
    assert rate(bandwidth_test.HOST_TO_DEVICE, P4D, devices=1) == pytest.approx(31.5e9, rel=1e-3)
    assert rate(bandwidth_test.HOST_TO_DEVICE, P4D, devices=2) == pytest.approx(63e9, rel=1e-3)
    assert rate(bandwidth_test.DEVICE_TO_DEVICE, K80, devices=1) == 240.5e9


def test_no_bound_is_guessed() -> None:
    hardware = find("mtu=1500")
    every = (RECEIVED, osu.BANDWIDTH, BUSBW, p2p_matrix.ONE_WAY)

    for definition in (*every, bandwidth_test.HOST_TO_DEVICE, bandwidth_test.DEVICE_TO_DEVICE):
        for params in ({"hosts": 1, "ranks": 2}, {"hosts": 2, "ranks": 2}, {}):
            assert bound(definition, params, hardware) is None
            assert bound(definition, params, None) is None
    assert bound(osu.LATENCY, {"hosts": 2}, P4D) is None
    assert missing(osu.LATENCY, {"hosts": 2}, P4D) is None
    assert missing(osu.BANDWIDTH, {}, P4D) == "hosts"
    assert missing(osu.BANDWIDTH, {}, None) == "hardware"
    assert missing(RECEIVED, {}, K80) == "network"


def summary(definition: Definition, median: float, **params: Scalar) -> Summary:
    return plain_summary(median, definition, params=params, n=1, converged=False)


def test_a_summary_gets_its_share_as_a_rate_and_as_a_time() -> None:
    by_rate = with_hardware_bound(summary(osu.BANDWIDTH, 40e9, hosts=2), osu.BANDWIDTH, P4D)
    time = summary(mpi_test.TIME, 4e-3, hosts=2, rank=1, size=100_000_000)
    by_time = with_hardware_bound(time, mpi_test.TIME, P4D)

    assert (by_rate.bound, by_rate.share) == (50e9, 0.8)
    assert by_rate.limit is not None
    assert (by_rate.limit.kind, by_rate.limit.flow) == ("efa", "one way")
    assert (by_time.bound, by_time.share) == (2e-3, 0.5)


def test_a_bound_that_is_there_stays() -> None:
    point = msgspec.structs.replace(summary(osu.BANDWIDTH, 1e9, hosts=2), bound=2e9, share=0.5)

    assert with_hardware_bound(point, osu.BANDWIDTH, P4D) == point


def test_a_bound_says_direction_and_source() -> None:
    limit = bound(BUSBW, {"operation": "all_reduce", "ranks": 16, "hosts": 2}, P4D)

    assert limit is not None
    assert P4D.nic is not None
    assert (limit.kind, limit.flow, limit.hosts, limit.host) == ("efa", "one way", 2, True)
    assert limit.source == P4D.nic.source
    assert limit.rate == limit.times * P4D.nic.rate == 1.875 * 50e9
    four = bound(BUSBW, {"operation": "all_reduce", "ranks": 32, "hosts": 4}, P4D)
    assert four is not None
    assert four.assumption == Assumption(kind="no_sharp")


def test_few_gpus_cannot_fill_the_network_of_their_host() -> None:
    """Each is on one bus; and of a sendrecv only one rank of a host sends to another host."""
    pcie = 63.015e9

    assert busbw(P5, "all_reduce", 2, 2) == pytest.approx(pcie, rel=1e-3)
    assert busbw(P5, "all_reduce", 4, 2) == pytest.approx(2 * pcie * 1.5, rel=1e-3)
    assert busbw(P5, "sendrecv", 16, 2) == 4 * 100 * GBIT  # 4 of the 32 interfaces are next to it
    assert busbw(P5, "all_reduce", 16, 2) == 750e9


@pytest.mark.parametrize(
    ("hosts", "busbw_", "word"),
    [
        (2, 487e9, "normal"),  # trees, as AWS measured two p5.48xlarge
        (2, 370e9, "normal"),  # a ring that fills all interfaces
        (2, 200e9, "low"),
        (16, 370e9, "normal"),
        (16, 200e9, "low"),
    ],
)
def test_a_ring_between_hosts_is_no_fault(hosts: int, busbw_: float, word: str) -> None:
    params: dict[str, Scalar] = {"operation": "all_reduce", "ranks": 8 * hosts, "hosts": hosts}
    result = with_hardware_bound(summary(BUSBW, busbw_, size=1 << 33, **params), BUSBW, P5)
    (verdict,) = verdicts([result], {BUSBW.id: BUSBW}, P5)

    assert verdict.word == word


def test_nobody_knows_what_is_usual_for_some_of_a_hosts_gpus() -> None:
    params: dict[str, Scalar] = {"operation": "all_reduce", "ranks": 2, "hosts": 2}

    assert usual(BUSBW, params, P4D) is None


def word(definition: Definition, hardware: Hardware, value: float, **params: Scalar) -> str:
    """Judge one value."""
    point = plain_summary(value, definition, params=params)
    (verdict,) = verdicts(
        [with_hardware_bound(point, definition, hardware)], {point.definition: definition}, hardware
    )
    return verdict.word


@pytest.mark.parametrize(
    ("words", "gbit", "says"),
    [
        ("nic=100gbit", 96.4, "unknown"),  # iperf over jumbo frames, which nobody mentioned
        ("nic=100gbit,mtu=1500", 96.4, "impossible"),
        ("nic=100gbit", 102.0, "impossible"),  # above what any MTU allows
        ("p3.16xlarge", 26.0, "impossible"),  # the list knows the MTU
    ],
)
def test_an_mtu_that_nobody_stated_is_an_assumption(words: str, gbit: float, says: str) -> None:
    assert word(RECEIVED, find(words), gbit * GBIT) == says


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("nic=100gbit", "unknown"),
        ("nic=100gbit,rdma=no", "unknown"),  # then only the MTU is
        ("nic=100gbit,rdma=no,mtu=1500", "impossible"),
        ("nic=100gbit,rdma=yes", "normal"),
        ("p3.16xlarge", "impossible"),
    ],
)
def test_that_messages_go_by_tcp_is_an_assumption(words: str, says: str) -> None:
    """97 of 100 Gbit/s between two hosts are usual with RDMA, and too much for TCP."""
    value = 97 * GBIT if words != "p3.16xlarge" else 26 * GBIT
    assert word(osu.BANDWIDTH, find(words), value, hosts=2, size=4 << 20) == says


def test_what_goes_by_rdma_in_any_case_is_not_bound_by_tcp() -> None:
    """ib_write_bw sends 64 KiB unless told otherwise, with 128 messages in flight."""
    plain = find("nic=100gbit")
    assert word(perftest.ONE_WAY, plain, 98.02 * GBIT, hosts=2, size=65536) == "normal"
    assert word(perftest.ONE_WAY, plain, 18.58 * GBIT, hosts=2, size=65536) == "low"
    assert word(perftest.ONE_WAY, plain, 105 * GBIT, hosts=2, size=65536) == "impossible"


@pytest.mark.parametrize(
    ("operation", "busbw_", "says"),
    [
        ("all_reduce", 480e9, "unknown"),  # 8 hosts of 8: 450 GB/s without SHARP, 787.5 with it
        ("all_reduce", 810e9, "impossible"),
        ("all_gather", 480e9, "impossible"),  # nothing is summed
    ],
)
def test_switches_of_a_network_that_sum_are_an_assumption(
    operation: str, busbw_: float, says: str
) -> None:
    hosts = find("gpus=8,nic=400gbit,nics=8,rdma=yes")
    params: dict[str, Scalar] = {"operation": operation, "ranks": 64, "hosts": 8, "size": 1 << 33}
    assert word(BUSBW, hosts, busbw_, **params) == says


def test_hosts_that_nvlink_joins_need_no_network_however_they_are_named() -> None:
    """846.8 GB/s were published for a rack of GB200, whose network carries 200."""
    rack = find("gb200,nic=400gbit,nics=4,rdma=yes")
    assert bound(BUSBW, {"operation": "all_reduce", "ranks": 72, "hosts": 18}, rack) is None


def test_more_boards_than_a_bridge_joins_are_bound_by_pcie() -> None:
    """Pairs of A100 boards: all that leaves a pair passes its two slots."""
    pairs = with_links(find("a100-pcie-80gb"), 12)
    assert pairs is not None
    slot = 2 * 31.508e9
    assert busbw(pairs, "all_reduce", 2, 1) == 300e9
    assert busbw(pairs, "all_gather", 4, 1) == pytest.approx(slot * (3 / 4) / (1 / 2), rel=1e-3)
    assert busbw(pairs, "sendrecv", 8, 1) == pytest.approx(slot, rel=1e-3)
    four = with_links(find("mi210"), 3)
    assert four is not None
    assert busbw(four, "all_reduce", 4, 1) == 150e9


def test_a_copy_that_fits_a_cache_may_be_faster_than_the_memory() -> None:
    copy, memory = bandwidth_test.DEVICE_TO_DEVICE, find("rtx-4090")
    assert word(copy, memory, 3000e9, size=32 << 20, devices=1) == "unknown"
    assert word(copy, memory, 3000e9, size=1 << 30, devices=1) == "impossible"


def test_links_without_a_switch_join_a_pair_with_a_part_of_them() -> None:
    """Four A100 with NV4 between each two: 100 GB/s to one of them, 300 to all together."""
    four = with_links(find("a100"), 4)
    assert four is not None
    assert not four.switched
    assert rate(p2p_matrix.ONE_WAY, four, p2p="on") == 100e9
    assert rate(p2p_matrix.BOTH_WAYS, four, p2p="on") == 200e9
    assert busbw(four, "sendrecv", 4, 1) == busbw(four, "all_reduce", 2, 1) == 100e9
    assert busbw(four, "all_reduce", 4, 1) == 300e9
    assert with_links(find("a100"), 12) == find("a100")


@pytest.mark.parametrize(
    ("gb", "says"), [(24.0, "normal"), (12.0, "low"), (90.0, "normal"), (103.0, "impossible")]
)
def test_a_pair_of_ranks_may_use_one_of_the_interfaces(gb: float, says: str) -> None:
    """osu_bw of two GH200 hosts with 4 x 200 Gbit/s: 24 GB/s through one of them."""
    host = find("gh200,nic=200gbit,nics=4,rdma=yes")
    assert word(osu.BANDWIDTH, host, gb * 1e9, hosts=2, size=4 << 20) == says


def test_the_memory_of_a_board_for_games_may_have_a_raised_clock() -> None:
    """An RTX 4090 with 1008 GB/s: people raise that by 10 %, and nobody doubles it."""
    copy = p2p_matrix.LOCAL
    assert word(copy, find("rtx-4090"), 1090e9) == "unknown"
    assert word(copy, find("rtx-4090"), 2100e9) == "impossible"
    assert word(copy, find("gpu=rtx-4090,memory=1008GB/s"), 1090e9) == "impossible"
    assert word(copy, find("h100"), 3650e9) == "impossible"


def test_tcp_within_a_host_has_no_bound() -> None:
    assert bound(RECEIVED, {"streams": 1, "hosts": 1}, find("nic=10gbit")) is None
    assert missing(RECEIVED, {"streams": 1, "hosts": 1}, None) == "network_within_host"


def test_what_is_usual_comes_from_the_same_operation() -> None:
    """Rings of allreduce and allgather say nothing on an alltoall, as in NVIDIA/nccl issue 2169."""
    point = {"ranks": 8, "hosts": 1, "size": 1 << 30}

    assert usual(BUSBW, {**point, "operation": "all_gather"}, P4D) is not None
    for other in ("alltoall", "sendrecv", "broadcast"):
        assert usual(BUSBW, {**point, "operation": other}, P4D) is None


@pytest.mark.parametrize("gpu", ["gb200", "gb300"])
def test_two_gpus_on_the_c2c_of_a_cpu_reach_half_of_it_each(gpu: str) -> None:
    """Microsoft publishes 201 and 193 GB/s of an ND GB200 v6, of 450 in one direction."""
    copy, hardware = nvbandwidth.HOST, find(gpu)
    assert rate(copy, hardware) == 450e9
    assert word(copy, hardware, 201e9) == "normal"
    assert word(copy, hardware, 193e9) == "normal"
    assert word(copy, hardware, 120e9) == "low"
    assert word(copy, find("gh200"), 201e9) == "low"  # a GPU of its own


def test_boards_are_not_the_modules_that_they_are_named_after() -> None:
    """Eight H200 NVL without bridges have PCIe; an H20-3e has more memory, and a faster one."""
    board, module = of_devices(["NVIDIA H200 NVL"] * 8), of_devices(["NVIDIA H200"] * 8)
    assert board is not None
    assert module is not None
    assert busbw(module, "all_gather", 8, 1) == 450e9
    assert busbw(board, "all_gather", 8, 1) == pytest.approx(63.015e9, rel=1e-3)
    four = with_links(board, 6)
    assert four is not None
    assert busbw(four, "all_gather", 4, 1) == 450e9
    large = of_devices(["NVIDIA H20-3e"])
    assert large is not None
    assert word(p2p_matrix.LOCAL, large, 4400e9) != "impossible"
    assert word(p2p_matrix.LOCAL, find("h20"), 4400e9) == "impossible"
