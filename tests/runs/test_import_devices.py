"""NICs and NUMA nodes of one host in logs of other tools: each is compared within its class."""

from pathlib import Path

import pytest

from cluster.core.errors import SpecError
from cluster.core.model.network.fleet import FleetVerdict, PairMetric
from cluster.orchestration.fleet_check import judge_fleet
from cluster.reports.words.devices import KINDS
from cluster.runs.import_.devices import readers
from cluster.runs.import_.pairs import PairLogOptions, import_pairs
from tests.snapshots import Snapshot

TOOLS = Path(__file__).parents[1] / "logs"
CXL, DISTANCES = TOOLS / "mlc.cxl.txt", TOOLS / "numactl.cxl.txt"
RATES = {"PIX": 196.0, "NODE": 120.0, "SYS": 90.0}  # Gb/s


def judge(tmp_path: Path, *files: Path, metric: PairMetric = "bandwidth") -> FleetVerdict:
    options = PairLogOptions(metric=metric)
    return judge_fleet(import_pairs(list(map(str, files)), tmp_path / "runs", options))


def copy_with(tmp_path: Path, file: Path, **values: str) -> Path:
    """Copy a log with other values."""
    text = file.read_text()
    for name, value in values.items():
        old = name.removeprefix("v").replace("_", ".")
        assert old in text
        text = text.replace(old, value)
    copy = tmp_path / f"changed{len(list(tmp_path.iterdir()))}.txt"
    copy.write_text(text)
    return copy


@pytest.mark.parametrize(("metric", "usual"), [("bandwidth", "GB/s"), ("latency", "ns")])
def test_far_memory_is_no_fault(tmp_path: Path, metric: PairMetric, usual: str) -> None:
    """Two sockets of two nodes each, and memory behind CXL: distances 10, 12, 32, 50 and 60."""
    verdict = judge(tmp_path, CXL, DISTANCES, metric=metric)

    assert (verdict.verdict, verdict.blamed, verdict.undecided) == ("HEALTHY", (), ())
    assert "distance 32" in verdict.answer
    assert usual in verdict.answer


def test_slow_memory_of_a_node_is_named(tmp_path: Path) -> None:
    """A node with half of its DIMMs: all nodes read its memory slowly, its cores read others'."""
    halves = {"v99833_3": "49833.3", "v101196_7": "51196.7", "v76935_0": "46935.0"}
    slow = copy_with(tmp_path, CXL, **halves, v76710_9="46710.9")
    verdict = judge(tmp_path, slow, DISTANCES)

    assert [(finding.part, finding.kind) for finding in verdict.blamed] == [("numa:0", "BAD")]
    assert "memory" in verdict.blamed[0].evidence
    assert "cores" not in verdict.blamed[0].evidence


def test_a_slow_link_between_two_good_nodes_is_named(tmp_path: Path) -> None:
    slow = copy_with(tmp_path, CXL, v77137_2="40000.0")
    verdict = judge(tmp_path, slow, DISTANCES)

    assert [(fault.part, fault.kind) for fault in verdict.blamed] == [("pair:NUMA1-NUMA2", "LINK")]


def test_without_distances_a_far_node_is_undecided(tmp_path: Path) -> None:
    verdict = judge(tmp_path, CXL)

    assert (verdict.verdict, verdict.blamed) == ("UNDECIDED", ())
    assert "numactl --hardware" in verdict.answer
    assert verdict.undecided[0].startswith("numa:4: ")


def test_two_sockets_are_compared_as_far_as_two_can_be(snapshot: Snapshot, tmp_path: Path) -> None:
    """Alike is HEALTHY; if they differ, nothing says which one is at fault."""
    two = TOOLS / "mlc.two_sockets.txt"
    verdict = judge(tmp_path, copy_with(tmp_path, two, v50916_6="11091.6"))

    assert judge(tmp_path, two).verdict == "HEALTHY"
    assert (verdict.verdict, verdict.blamed) == ("UNDECIDED", ())
    snapshot(verdict.undecided[0])


def test_matrices_of_several_hosts_or_without_the_metric_are_refused(
    tmp_path: Path, snapshot: Snapshot
) -> None:
    two = TOOLS / "mlc.two_sockets.txt"
    with snapshot.raises(SpecError):
        judge(tmp_path, CXL, two)
    with snapshot.raises(SpecError):
        judge(tmp_path, CXL, TOOLS / "p2p_matrix.full.txt")
    only = tmp_path / "latency.txt"
    only.write_text(two.read_text().partition("Measuring Memory")[0])
    with snapshot.raises(SpecError):
        judge(tmp_path, only)


def perftest(nic: str, rate: float, gpu: int | None = None) -> str:
    """Write what ib_write_bw prints, with the parts of its head that matter."""
    line = "" if gpu is None else f"initializing CUDA\nPicking device No. {gpu}\n"
    return (
        f"{line}                    RDMA_Write BW Test\n"
        f" Dual-port       : OFF\t\tDevice         : {nic}\n"
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
        f" 65536      5000             {rate:.2f}             {rate:.2f}           0.747376\n"
    )


def path(device: str, other: str) -> str:
    """Return the class of two devices of a host with a NIC per GPU, and two GPUs per socket."""
    a, b = int(device[-1]), int(other[-1])
    if device == other:
        return "X"
    if device[0] == other[0] == "G":
        return "NV12"
    return "PIX" if a == b else "NODE" if a // 2 == b // 2 else "SYS"


def topology(tmp_path: Path) -> Path:
    names = [f"{kind}{n}" for kind in ("GPU", "NIC") for n in range(4)]
    rows = ["\t".join([name, *(path(name, other) for other in names)]) for name in names]
    head = "\t".join(["", *names, "CPU Affinity", "NUMA Affinity"])
    legend = [f"  NIC{n}: mlx5_{n}" for n in range(4)]
    file = tmp_path / "topo.txt"
    file.write_text("\n".join([head, *rows, "", "NIC Legend:", "", *legend, ""]))
    return file


@pytest.mark.parametrize("slow", ["NIC2", "GPU1", ""])
def test_nics_and_gpus_are_compared_within_their_class(tmp_path: Path, slow: str) -> None:
    """Each GPU through each NIC: PIX is faster than SYS, and no GPU is at fault for that."""
    for gpu in range(4):
        tests = []
        for nic in range(4):
            rate = RATES[path(f"GPU{gpu}", f"NIC{nic}")] - gpu / 10
            share = 0.5 if slow in (f"GPU{gpu}", f"NIC{nic}") else 1.0
            tests.append(perftest(f"mlx5_{nic}", rate * share, gpu))
        (tmp_path / f"gpu{gpu}.log").write_text("".join(tests))
    verdict = judge(tmp_path, *sorted(tmp_path.glob("gpu*")), topology(tmp_path))

    parts = {"NIC2": ["nic:mlx5_2"], "GPU1": ["gpu:1"], "": []}[slow]
    assert [finding.part for finding in verdict.blamed] == parts, verdict
    assert verdict.verdict == ("FAULTY" if slow else "HEALTHY")
    assert verdict.tests == 16


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_nic_is_blamed_from_the_second_low_test_on(tmp_path: Path, repeats: int) -> None:
    """One test alone could be the partner's fault."""
    for node in range(repeats):
        for nic in range(4):
            text = perftest(f"mlx5_{nic}", 96.1 if nic == 3 else 196.5 - nic / 10)
            (tmp_path / f"to_node{node}.{nic}.log").write_text(text)
    verdict = judge(tmp_path, *sorted(tmp_path.glob("to_*")), topology(tmp_path))

    blamed = [(finding.part, finding.kind) for finding in verdict.blamed]
    assert blamed == ([("nic:mlx5_3", "BAD")] if repeats > 1 else [])
    assert any(text.startswith("nic:mlx5_3: ") for text in verdict.undecided) == (repeats == 1)


def test_a_nic_whose_test_failed_is_listed(tmp_path: Path) -> None:
    for nic in range(3):
        (tmp_path / f"bw_mlx5_{nic}.log").write_text(perftest(f"mlx5_{nic}", 196.5))
    (tmp_path / "bw_mlx5_3.log").write_text("nothing was printed\n")
    verdict = judge(tmp_path, *sorted(tmp_path.glob("bw_*")), topology(tmp_path))

    assert verdict.verdict == "HEALTHY"
    assert [text.partition(":")[0] for text in verdict.missing] == ["mlx5_3"]


def nvbandwidth(node: int, rates: list[float], test: str = "host_to_device_memcpy_ce") -> str:
    """Write what numactl and nvbandwidth print for one node; `rates` are those of the GPUs."""
    devices = "".join(f"Device {n}: NVIDIA H100 (00000000:{n}8:00)\n" for n in range(len(rates)))
    return (
        f"+ numactl --cpunodebind={node} --membind={node} ./nvbandwidth -t {test}\n"
        f"nvbandwidth Version: v0.9\nBuilt from Git version: v0.9\n\n{devices}\n"
        f"Running {test}.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n"
        f"           {'         '.join(str(n) for n in range(len(rates)))}\n"
        f" 0    {'    '.join(f'{rate:.2f}' for rate in rates)}\n\nSUM {test} {sum(rates):.2f}\n"
    )


def gpus_of_nodes(tmp_path: Path, gpus: int, nodes: int = 2) -> Path:
    """Write what nvidia-smi topo -m prints of GPUs at several nodes."""
    names = [f"GPU{n}" for n in range(gpus)]
    rows = [
        "\t".join([name, *("X" if name == other else "NV18" for other in names), "0-31",
                   str(n * nodes // gpus)])
        for n, name in enumerate(names)
    ]  # fmt: skip
    file = tmp_path / "topo.txt"
    head = "\t".join(["", *names, "CPU Affinity", "NUMA Affinity"])
    file.write_text("\n".join([head, *rows, ""]))
    return file


@pytest.mark.parametrize(
    ("slow", "parts", "cause"),
    [
        ("", [], ""),
        ("NUMA1", ["numa:1"], "its memory"),
        ("GPU5", ["gpu:5"], "the GPU, its slot or its link to the CPU"),
        ("NUMA0-GPU2", ["pair:NUMA0-GPU2"], "the link between them"),
    ],
)
def test_copies_of_each_node_are_compared(
    tmp_path: Path, slow: str, parts: list[str], cause: str
) -> None:
    """Far memory is no fault; half the memory of a node, half a slot, and one slow way are.

    Of the slow GPU, each log has two runs: two values, one for each node, could be chance.
    """
    for node in range(2):
        rates = [55.0 if gpu // 4 == node else 41.0 for gpu in range(8)]
        hit = [slow in (f"NUMA{node}", f"GPU{g}", f"NUMA{node}-GPU{g}") for g in range(8)]
        text = nvbandwidth(node, [r / 2 if h else r for r, h in zip(rates, hit, strict=True)])
        (tmp_path / f"run{node}.log").write_text(text * (2 if slow.startswith("GPU") else 1))
    verdict = judge(tmp_path, *sorted(tmp_path.glob("run*")), gpus_of_nodes(tmp_path, 8))

    assert [finding.part for finding in verdict.blamed] == parts
    assert all(cause in finding.evidence for finding in verdict.blamed)
    assert verdict.verdict == ("FAULTY" if slow else "HEALTHY")
    assert "distance 10 55.00 GB/s" in verdict.answer


def test_two_nodes_with_a_gpu_each_are_alike(snapshot: Snapshot, tmp_path: Path) -> None:
    """Two GH200, as github.com published them in 2026; the log has both nodes one after another."""
    log = tmp_path / "both.log"
    log.write_text(nvbandwidth(0, [377.0, 133.2]) + nvbandwidth(1, [133.2, 380.0]))
    verdict = judge(tmp_path, log, gpus_of_nodes(tmp_path, 2))

    assert (verdict.verdict, verdict.tests) == ("HEALTHY", 4)
    snapshot(verdict.assumptions[0])
    other = judge(tmp_path, log)
    assert (other.verdict, other.blamed) == ("UNDECIDED", ())


def test_the_name_of_a_log_may_have_the_node_and_several_tests_are_asked_for(
    snapshot: Snapshot,
    tmp_path: Path,
) -> None:
    for node in range(2):
        _, _, plain = nvbandwidth(node, [55.0, 54.9]).partition("\n")
        back = nvbandwidth(node, [50.0, 49.9], "device_to_host_memcpy_ce")
        (tmp_path / f"h2d_numa{node}.log").write_text(plain)
        (tmp_path / f"d2h{node}.log").write_text(back)
    logs = sorted(tmp_path.glob("*.log"))

    assert judge(tmp_path, *sorted(tmp_path.glob("h2d*")), gpus_of_nodes(tmp_path, 2)).tests == 4
    with snapshot.raises(SpecError):
        judge(tmp_path, *logs)


def test_each_kind_that_logs_are_read_for_has_words() -> None:
    assert set(readers()) == {"copies", "gpus", "nics", "numa"}
    assert set(readers()) < set(KINDS)
