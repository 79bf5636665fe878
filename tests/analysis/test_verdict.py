"""Verdicts on logs: what is judged, and what is only impossible if something is assumed."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.analysis.limits import hardware
from cluster.analysis.verdict.reasons import AboveAssumption, Collapse, Low, NoLimit, TooSmall
from cluster.analysis.verdict.rules import gpus, network, trust
from cluster.analysis.verdict.verdict import Verdict, overall, verdicts
from cluster.core.model.results.limits import Assumption
from cluster.runs import store
from cluster.runs.import_.logs import LogLocation, import_logs
from cluster.runs.run import Run

Import = Callable[..., Run]
Judge = Callable[..., tuple[Verdict, ...]]

MATRIX = (
    "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n"
    "Device: 0, {gpu}, pciBusID: 1, pciDeviceID: 0, pciDomainID:0\n"
    "Device: 1, {gpu}, pciBusID: 2, pciDeviceID: 0, pciDomainID:0\n"
    "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n"
    "   D\\D     0      1 \n     0 1290.00  {off} \n     1  {off} 1290.00 \n"
    "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n"
    "   D\\D     0      1 \n     0 1290.00  {on} \n     1  {on} 1290.00 \n"
)
BRIDGED = (
    "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n"
    "GPU0\t X \tNV12\t0-31\t0\nGPU1\tNV12\t X \t0-31\t0\n\n"
)
HEAD = "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
BW = "# OSU MPI Bandwidth Test v7.3\n# Size      Bandwidth (MB/s)\n"


@pytest.fixture
def load(tmp_path: Path) -> Import:

    def import_log(text: str, words: str = "", hosts: int = 0) -> Run:
        place = LogLocation(hardware=hardware.find(words) if words else None, hosts=hosts)
        result = import_logs(["-"], tmp_path, stdin=io.BytesIO(text.encode()), place=place)
        return store.read(result.folder)

    return import_log


@pytest.fixture
def judged(load: Import) -> Judge:

    def judge(text: str, words: str = "", hosts: int = 0) -> tuple[Verdict, ...]:
        run = load(text, words, hosts)
        return verdicts(run.summary(), run.record.definitions, run.record.hardware)

    return judge


def row(size: int, seconds: float, factor: float) -> str:
    half = f"{seconds * 1e6:.2f} {size / seconds / 1e9:.2f} {size / seconds / 1e9 * factor:.2f} 0"
    return f" {size} {size // 4} float sum -1 {half} {half}\n"


def pair(results: tuple[Verdict, ...]) -> Verdict:
    """Return the verdict on copies with peer-to-peer."""
    return next(v for v in results if v.metric == "p2p_bandwidth" and v.params["p2p"] == "on")


def test_bridged_boards_are_not_impossible(judged: Judge, load: Import) -> None:
    """250 GB/s is 8 times what PCIe carries, and 83 % of what NVLink bridges do."""
    text = MATRIX.format(gpu="NVIDIA A100 80GB PCIe", on=250.0, off=20.0)
    alone, with_matrix = pair(judged(text)), pair(judged(BRIDGED + text))

    assert alone.word == "unknown"
    assert alone.reason == AboveAssumption(Assumption(kind="no_bridge"))
    assert overall([alone], has_failed=False) == "unknown"
    run = load(text)
    finding = trust.above_limit(run.evidence(run.summary()))
    assert finding is not None
    assert finding.confidence == "possible"

    assert with_matrix.word == "plausible"
    assert with_matrix.bound == 300e9


def test_what_no_bridge_carries_is_impossible_all_the_same(judged: Judge) -> None:
    verdict = pair(judged(MATRIX.format(gpu="NVIDIA A100 80GB PCIe", on=450.0, off=20.0)))

    assert (verdict.word, verdict.bound) == ("impossible", 300e9)


@pytest.mark.parametrize(("rate", "word"), [(46000, "normal"), (99000, "unknown")])
def test_pairs_send_from_half_of_the_hosts(judged: Judge, rate: int, word: str) -> None:
    """8 ranks on each of 8 hosts: 4 hosts send, each 12.5 GB/s, unless pairs share a host."""
    text = (
        "# OSU MPI Multiple Bandwidth / Message Rate Test v7.3\n"
        "# [ pairs: 32 ] [ window size: 64 ]\n# Size                  MB/s        Messages/s\n"
        f"4194304               {rate}.00          10490.42\n"
    )
    (verdict,) = [v for v in judged(text, "nic=100gbit,rdma=yes", 8) if v.bound]

    assert (verdict.word, verdict.bound) == (word, 50e9)
    assert verdict.limit is not None
    assert verdict.limit.assumption == Assumption(
        kind="pairs_send_from_hosts", pairs=32, senders=4, hosts=8
    )


def test_read_and_write_by_kernels_both_ways_count_both_directions(judged: Judge) -> None:
    text = (
        "nvbandwidth Version: v0.6\nDevice 0: NVIDIA H100 80GB HBM3 (00000000:04:00)\n"
        "Running device_to_device_bidirectional_memcpy_read_sm.\n"
        "memcpy SM GPU(row) <- GPU(column) bandwidth (GB/s)\n"
        "           0         1\n 0       N/A    784.20\n 1    783.90       N/A\n\n"
        "SUM device_to_device_bidirectional_memcpy_read_sm 1568.10\n"
    )
    (verdict,) = [v for v in judged(text) if v.bound]

    assert (verdict.word, verdict.bound) == ("normal", 900e9)


def test_a_capped_connection_that_is_faster_than_its_cap(judged: Judge) -> None:
    """ENA Express lifts the 10 Gbit/s of a connection, and nobody said whether it was on."""
    text = (
        "Connecting to host 10.0.0.2, port 5201\n"
        "[  5]   0.00-10.00  sec  28.0 GBytes  24.0 Gbits/sec  receiver\n"
    )
    (verdict,) = judged(text, "c5n.18xlarge", 2)

    assert verdict.word == "unknown"
    assert isinstance(verdict.reason, AboveAssumption)
    assert verdict.reason.assumption.kind == "connection_held"
    assert verdict.reason.assumption.rate == 10e9 / 8
    (stated,) = judged(text, "nic=100gbit,flow=10gbit", 2)
    assert stated.word == "impossible"
    (cited,) = judged(text, "nic=100gbit,flow=10gbit,source=a page", 2)
    assert cited.word == "unknown"


def test_a_collapse_behind_a_good_message_is_the_finding(judged: Judge) -> None:
    rows = ((65536, 10900), (262144, 11800), (1048576, 11500), (4194304, 1100))
    text = BW + "".join(f"{size}        {rate}.00\n" for size, rate in rows)
    (low,) = judged(text, "nic=100gbit,rdma=yes", 2)
    (good,) = judged(text.replace("1100.00", "11600.00"), "nic=100gbit,rdma=yes", 2)

    assert (low.word, low.params["size"]) == ("low", 4194304)
    assert low.share == pytest.approx(0.088)
    assert low.reason == Collapse(
        check="messages",
        at=4194304,
        best=0.944,
        best_value=11.8e9,
        best_at=262144,
        best_value_of_usual=1100 / 11800 / 0.5,
    )
    assert (good.word, good.params["size"]) == ("normal", 4194304)


def test_a_small_message_that_is_best_is_not_what_is_judged(judged: Judge) -> None:
    """256 KiB does better than 4 MiB: nobody is told to measure 1 MiB or more."""
    text = BW + "262144        12300.00\n4194304        11800.00\n"
    (verdict,) = judged(text, "nic=100gbit,rdma=yes", 2)

    assert (verdict.word, verdict.params["size"], verdict.reason) == ("normal", 4194304, None)


@pytest.mark.parametrize("ranks", [3, 16, 72])
def test_a_pasted_table_says_its_operation_and_its_ranks(judged: Judge, ranks: int) -> None:
    factor = 2 * (ranks - 1) / ranks
    text = HEAD + row(8 << 30, 0.05, factor) + row(4 << 30, 0.025, factor)
    (verdict,) = [v for v in judged(text, "nic=400gbit,nics=8,rdma=yes", 1) if v.metric == "busbw"]

    assert verdict.params["operation"] == "all_reduce"
    assert verdict.params["ranks"] == ranks


def test_a_test_that_is_named_at_its_end_only(judged: Judge) -> None:
    text = HEAD + row(8 << 30, 0.05, 15 / 16) + "# Collective test concluded: all_gather_perf\n"
    (verdict,) = [v for v in judged(text) if v.metric == "busbw"]

    assert (verdict.params["operation"], verdict.params["ranks"]) == ("all_gather", 16)


def test_each_gpu_of_a_file_has_its_own_bound(judged: Judge) -> None:
    t4, l4 = (MATRIX.format(gpu=gpu, on=14.0, off=12.0) for gpu in ("Tesla T4", "NVIDIA L4"))
    bounds = {v.params["gpu"]: v.bound for v in judged(t4 + l4) if v.params.get("p2p") == "on"}

    assert bounds["Tesla T4"] == pytest.approx(15.75e9, rel=1e-3)
    assert bounds["NVIDIA L4"] == pytest.approx(31.5e9, rel=1e-3)


def test_boards_without_peers_get_no_advice_on_bridges(load: Import) -> None:
    geforce = load(MATRIX.format(gpu="NVIDIA GeForce RTX 4090", on=11.0, off=11.1))
    board = load(MATRIX.format(gpu="NVIDIA A100 80GB PCIe", on=11.0, off=11.1))
    finding = gpus.peers_blocked(geforce.evidence(geforce.summary()))
    other = gpus.peers_blocked(board.evidence(board.summary()))

    assert finding is not None
    assert other is not None
    assert (finding.kind, other.kind) == ("no_peers", "peers_blocked")


def test_geforce_boards_whose_peers_are_reached_get_no_advice_on_bridges(load: Import) -> None:
    """With a driver that was patched, as in aikitoria/open-gpu-kernel-modules issue 6."""
    acs = "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+\n"
    slow, fast = (MATRIX.format(gpu="{gpu}", on=rate, off=28.0) for rate in (9.9, 56.0))
    names = {}
    for gpu in ("NVIDIA GeForce RTX 5090", "NVIDIA A100 80GB PCIe"):
        runs = [load(text.replace("{gpu}", gpu) + acs) for text in (slow, fast)]
        findings = [
            finding
            for run in runs
            for look in (gpus.slow_peers, gpus.peers_blocked)
            if (finding := look(run.evidence(run.summary())))
        ]
        names[gpu] = [(sign.kind, sign.name) for sign in findings]

    assert names["NVIDIA GeForce RTX 5090"] == [("slow_peers", "NVIDIA GeForce RTX 5090")]
    kinds = ("slow_peers", "peers_blocked", "peers_blocked")
    assert names["NVIDIA A100 80GB PCIe"] == [(kind, "") for kind in kinds]


def test_one_stream_is_bound_by_a_core(load: Import) -> None:
    text = (
        "Connecting to host 10.0.0.2, port 5201\n"
        "[  5]   0.00-10.00  sec  28.0 GBytes  {rate} Gbits/sec  receiver\n"
    )
    slow, fast = (load(text.format(rate=rate), "nic=100gbit", 2) for rate in ("24.0", "94.0"))
    finding = network.one_flow(slow.evidence(slow.summary()))

    assert finding is not None
    assert finding.kind == "one_core"
    assert network.one_flow(fast.evidence(fast.summary())) is None


def test_both_directions_of_efa_are_held_against_what_others_reached(judged: Judge) -> None:
    text = "# OSU MPI Bi-Directional Bandwidth Test v7.3\n# Size      Bandwidth (MB/s)\n"
    (verdict,) = judged(text + "4194304   10500.00\n", "c5n.18xlarge", 2)

    assert verdict.word == "normal"
    assert verdict.usual is not None
    assert verdict.usual.source == hardware.find("c5n.18xlarge").both_ways.source  # type: ignore[union-attr]


def test_a_collapse_is_low_even_where_nobody_knows_what_is_usual(judged: Judge) -> None:
    """On 16 NICs, one pair may reach any share, but not less with larger messages."""
    text = "# OSU MPI Bandwidth Test v7.3\n# Size      Bandwidth (MB/s)\n"
    rows = "262144 40000.00\n1048576 45000.00\n4194304 9000.00\n"
    (verdict,) = judged(text + rows, "nic=400gbit,nics=8,rdma=yes", 2)

    assert (verdict.params["size"], verdict.word) == (4 << 20, "low")
    assert isinstance(verdict.reason, Collapse)


def test_a_small_message_that_fills_its_link_is_not_too_small(judged: Judge) -> None:
    """The pasted head of osu_mbw_mr: 94 % of 100 Gbit/s with 32 KiB."""
    (fast,) = judged(BW + "16384 11338.92\n32768 11810.79\n", "nic=100gbit,rdma=yes", 2)
    (slow,) = judged(BW + "16384 5338.92\n32768 5810.79\n", "nic=100gbit,rdma=yes", 2)

    assert (fast.word, fast.reason) == ("normal", None)
    assert slow.reason == TooSmall(1 << 20)


def test_the_next_step_on_efa_is_not_of_infiniband(judged: Judge) -> None:
    (verdict,) = judged(BW + "4194304 1265.38\n", "c5n.18xlarge", 2)

    assert verdict.word == "low"
    assert isinstance(verdict.reason, Low)
    assert verdict.reason.check == "efa"


def test_an_allreduce_at_the_rate_of_a_ring_may_lack_the_switch_that_sums(judged: Judge) -> None:
    """361 GB/s on 8 H20 were 80 % of the links, in a ring; with NVLS, others reach 480."""
    ranks = "".join(f"#  Rank {r} Pid 1 on a device {r} [0x0{r}] NVIDIA H20\n" for r in range(8))
    (verdict,) = judged(ranks + HEAD + row(1 << 31, 10400e-6, 1.75))

    assert isinstance(verdict.reason, Low)
    assert (verdict.word, verdict.reason.check) == ("low", "nvls")
    (slower,) = judged(ranks + HEAD + row(1 << 31, 145000e-6, 1.75))
    assert isinstance(slower.reason, Low)
    assert slower.reason.check == "gpu_to_gpu"  # far below a ring: not for want of a sum


def test_messages_within_a_host_are_not_asked_for_their_hardware(judged: Judge) -> None:
    (verdict,) = judged(BW + "4194304 9360.80\n", hosts=1)

    assert verdict.reason == NoLimit("network_within_host")


def test_a_latency_is_judged_beside_a_bandwidth_of_the_same_tool(judged: Judge) -> None:
    latency = "# OSU MPI Latency Test v7.1\n# Size          Latency (us)\n8               1.90\n"

    assert [v.metric for v in judged(BW + "4194304 9360.80\n" + latency)] == [
        "bandwidth",
        "latency",
    ]
