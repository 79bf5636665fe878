"""Which GPUs belong together, which rates do not fit, and what NCCL made of it."""

import random

import pytest

from cluster.analysis.topology import speed
from cluster.analysis.topology.topology import FASTER, GpuTopology, TopologyNote, gpu_topology
from cluster.analysis.topology.transports import Transports, transports
from cluster.core.errors import ParseError
from cluster.core.model.logs import Device, Parsed, PeerAccess, Topology
from cluster.logs.reader import read
from cluster.reports.log_tables import topology_tables
from cluster.reports.words.topology import experiment_name, finding_words
from tests.logs.samples import LOGS, damaged
from tests.snapshots import Snapshot

DGX = (LOGS / "topology.dgx1v.txt").read_text()
RATE = {"NV2": 96.8, "NV1": 48.4, "SYS": 14.3}
P2P_RUN = """\
h:1:1 [0] NCCL INFO Setting affinity for GPU {first} to ff
h:2:2 [1] NCCL INFO Setting affinity for GPU {last} to ff
NCCL INFO Channel 00 : 0[{a}] -> 1[{b}] via {via}
NCCL INFO Channel 00 : 1[{b}] -> 0[{a}] via {via}
NCCL INFO Connected all rings
Images/sec: {rate}
Images/sec: {rate}
"""


def results(*texts: str) -> list[Parsed]:
    return [result for text in texts for result in read([text.encode()]).results]


def load(*texts: str) -> tuple[GpuTopology, Transports]:
    logs = results(*texts)
    matrices = [r.detail for r in logs if isinstance(r.detail, Topology)]
    access = [r.detail for r in logs if isinstance(r.detail, PeerAccess)]
    measured = [m for result in logs for m in result.measurements]
    first = matrices[0] if matrices else None
    gpus = gpu_topology(first, measured, access[0] if access else None)
    return gpus, transports(logs, gpus)


def names(pairs: object) -> list[str]:
    assert isinstance(pairs, tuple)
    return [pair.name for pair in pairs]


def matrix(rates: dict[tuple[int, int], float], size: int = 8, p2p: str = "Enabled") -> str:
    """What p2pBandwidthLatencyTest prints; other pairs have the rate of their links in a DGX-1."""
    (result,) = results(DGX)
    assert isinstance(result.detail, Topology)
    paths = result.detail
    lines = [f"Bidirectional P2P={p2p} Bandwidth Matrix (GB/s)"]
    lines.append("   D\\D " + " ".join(f"{n:6}" for n in range(size)))
    for a in range(size):
        cells = [
            rates.get((min(a, b), max(a, b)), RATE.get(paths.path(f"GPU{a}", f"GPU{b}"), 780.0))
            for b in range(size)
        ]
        lines.append(f"{a:6} " + " ".join(f"{cell:6.2f}" for cell in cells))
    return "\n".join(lines) + "\n"


def test_paths_have_an_order() -> None:
    order = ["NV18", "NV4", "NV1", "PIX", "PXB", "PHB", "NODE", "SYS", "?"]

    assert sorted(order, key=speed, reverse=True) == order
    assert speed("SOC") == speed("SYS")


def test_a_dgx1_comes_apart_into_what_belongs_together() -> None:
    gpus, _ = load(DGX)

    assert names(gpus.best)[:2] == ["GPU0-GPU3", "GPU0-GPU4"]
    assert {pair.path for pair in gpus.best} == {"NV2"}
    assert {pair.path for pair in gpus.worst} == {"SYS"}
    assert "GPU1-GPU7" in names(gpus.worst)
    assert [(group.path, group.sets) for group in gpus.groups] == [
        ("NV2", ((0, 3), (1, 2), (4, 7), (5, 6))),
        ("NV1", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("SYS", (tuple(range(8)),)),
    ]
    assert [(near.gpu, near.nics, near.path) for near in gpus.nearest][::3] == [
        (0, ("mlx5_0",), "PIX"),
        (3, ("mlx5_1",), "PIX"),
        (6, ("mlx5_3",), "PIX"),
    ]
    assert gpus.misfits == ()
    assert gpus.notes == ()


def test_where_all_pairs_are_alike_it_is_said() -> None:
    text = "\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n"
    gpus, carried = load(text)
    first = next(topology_tables(gpus, carried))

    assert first.rows == (("all pairs are alike", "GPU0-GPU1: NV18"), ("connected by NV18", "0,1"))
    titles = [sheet.title for sheet in topology_tables(*load("NCCL version 2.20.5+cuda12.4\n"))]
    assert titles == ["What NCCL chose"]


def test_nics_are_called_by_their_legend() -> None:
    gpus, _ = load((LOGS / "topology.nics.txt").read_text())

    assert [(near.gpu, near.nics, near.path) for near in gpus.nearest] == [
        (0, ("mlx5_0",), "PIX"),
        (1, ("mlx5_0",), "PXB"),
        (2, ("mlx5_1",), "PIX"),
        (3, ("mlx5_1",), "PHB"),
    ]


def test_rates_that_fit_their_links_are_no_misfits() -> None:
    gpus, _ = load(DGX, matrix({}))

    assert gpus.misfits == ()
    assert names(gpus.best)[0] == "GPU0-GPU3"
    assert all(pair.copies.ways == 2 for pair in gpus.pairs)


@pytest.mark.parametrize(
    ("rates", "misfit", "kind", "share"),
    [
        ({(1, 2): 48.4}, "GPU1-GPU2", "unlike_others", 0.5),
        ({(1, 2): 14.5}, "GPU1-GPU2", "as_without_nvlink", 0.15),
        ({(0, 1): 96.0}, "GPU0-GPU1", "unlike_others", 1.98),
        ({(3, 6): 5.0}, "GPU3-GPU6", "unlike_others", 0.35),
    ],
)
def test_a_pair_that_does_not_do_what_its_links_promise_is_named(
    rates: dict[tuple[int, int], float], misfit: str, kind: str, share: float
) -> None:
    gpus, _ = load(DGX, matrix(rates))
    (pair,) = gpus.misfits

    assert f"GPU{pair.gpus[0]}-GPU{pair.gpus[1]}" == misfit
    assert pair.kind == kind
    assert pair.expected is not None
    assert pair.rate / pair.expected == pytest.approx(share, abs=0.005)


def test_nvlinks_that_peer_to_peer_does_not_use() -> None:
    """Everything is as slow as without: no class is an example for the others."""
    slow = dict.fromkeys(((a, b) for a in range(8) for b in range(8)), 9.6)
    gpus, _ = load(DGX, matrix(slow), matrix(slow, p2p="Disabled"))

    assert len(gpus.misfits) == 16
    assert {pair.kind for pair in gpus.misfits} <= {"as_without_nvlink", "as_without_p2p"}
    assert any(pair.rate < FASTER for pair in gpus.findings)


def test_nvlinks_alone_are_compared_with_copies_without_peer_to_peer() -> None:
    """Without a pair on PCIe, nothing else shows that the links are not used."""
    links = "\tGPU0\tGPU1\nGPU0\t X \tNV2\nGPU1\tNV2\t X \n"
    gpus, _ = load(links, matrix({(0, 1): 9.6}, 2), matrix({(0, 1): 9.6}, 2, p2p="Disabled"))

    (pair,) = gpus.misfits
    assert (pair.kind, pair.rate, pair.without) == ("as_without_p2p", 9.6e9, 9.6e9)


def test_what_the_driver_forbids_is_said() -> None:
    gpus, _ = load(
        "\tGPU0\tGPU1\nGPU0\t X \tNV2\nGPU1\tNV2\t X \n",
        " \tGPU0\tGPU1\n GPU0\tX\tCNS\n GPU1\tCNS\tX\n",
    )

    assert gpus.pairs[0].access == "CNS"
    assert gpus.notes == (
        TopologyNote(kind="access", names=("GPU0-GPU1",), path="NV2", back="CNS"),
    )


def test_without_a_matrix_nvlinks_follow_from_rates() -> None:
    gpus, _ = load(matrix({}), matrix(dict.fromkeys([(0, 3), (0, 4)], 14.0), p2p="Disabled"))

    assert gpus.best[0].inferred
    assert gpus.best[0].path == "NV2"
    assert names(gpus.best) == ["GPU0-GPU3", "GPU0-GPU4"]
    assert [note.kind for note in gpus.notes] == ["inferred"]


def test_cards_on_pcie_have_no_nvlinks_however_fast_they_are() -> None:
    """25 GB/s with peer-to-peer is an NVLink, or PCIe 4.0."""
    log = matrix({}) + matrix(dict.fromkeys([(0, 3), (0, 4)], 14.0), p2p="Disabled")
    copies = [m for r in read([log.encode()]).results for m in r.measurements]
    gpus = gpu_topology(None, copies, None, ["NVIDIA GeForce RTX 4090"])

    assert {pair.path for pair in gpus.pairs} == {"?"}
    assert {finding.path for finding in gpus.findings} == {"?"}


def test_what_a_log_lost_is_said_and_taken_from_the_other_direction() -> None:
    lines = DGX.splitlines(keepends=True)
    gpus, _ = load("".join([*lines[:1], *lines[2:]]))
    pair = gpus.pair(3, 0)

    assert pair is not None
    assert pair.path == "NV2"
    gpus, _ = load("".join([*lines[:1], *lines[3:]]).replace("GPU2\t", "GPU9\t"))
    assert {note.kind for note in gpus.notes} & {"lost", "misread"}


def run(first: int, last: int, via: str, rate: float, setting: str = "") -> str:
    places = {0: "6000", 1: "7000", 3: "b000", 7: "8a000"}
    line = f"NCCL INFO NCCL_P2P_LEVEL set by environment to {setting}\n" if setting else ""
    return line + P2P_RUN.format(
        first=first, last=last, a=places[first], b=places[last], via=via, rate=rate
    )


def test_experiments_on_the_same_gpus_are_compared(snapshot: Snapshot) -> None:
    _, carried = load(
        DGX,
        run(0, 3, "P2P/IPC", 100000),
        run(1, 7, "direct shared memory", 97000),
        run(0, 3, "direct shared memory", 95000, "LOC"),
    )

    assert list(map(experiment_name, carried.experiments)) == [
        "GPU0-GPU3",
        "GPU1-GPU7",
        "GPU0-GPU3",
    ]
    unused, cost, extremes = map(finding_words, carried.findings)
    snapshot(unused)
    snapshot(cost)
    snapshot(extremes)


def test_alike_pairs_have_no_best_and_no_worst(snapshot: Snapshot) -> None:
    _, carried = load(DGX, run(0, 3, "P2P/IPC", 100000), run(0, 1, "P2P/IPC", 99500))

    snapshot(finding_words(carried.findings[-1]))


def test_what_goes_through_shared_memory_for_want_of_links_is_no_finding() -> None:
    _, carried = load(DGX, run(1, 7, "direct shared memory", 97000))

    assert carried.findings == ()


def test_ranks_are_found_on_their_gpus_however_nccl_says_it(snapshot: Snapshot) -> None:
    newer = (
        "NCCL version 2.20.5+cuda12.4\n"
        "h:1:1 [0] NCCL INFO Channel 00/0 : 0[1] -> 1[7] via SHM/direct/direct\n"
    )
    log = (
        "h:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 2 busId 6000 commId 0x2 - "
        "Init COMPLETE\n"
        "h:1:2 [1] NCCL INFO comm 0x1 rank 1 nranks 2 cudaDev 1 nvmlDev 5 busId b000 commId 0x2 - "
        "Init COMPLETE\n"
        "h:1:1 [0] NCCL INFO Channel 00/0 : 0[6000] -> 1[b000] via P2P/IPC\n"
    )

    assert experiment_name(load(newer)[1].experiments[0]) == "GPU1-GPU7"
    assert experiment_name(load(log)[1].experiments[0]) == "GPU2-GPU5"
    unknown = "NCCL INFO Channel 00 : 0[6000] -> 1[b000] via P2P/IPC\n"
    name = experiment_name(load(unknown)[1].experiments[0])
    snapshot(name)


def test_ranks_of_two_hosts_are_on_no_pair_of_one() -> None:
    _, carried = load((LOGS / "nccl_log.two_nodes.txt").read_text())
    (run,) = carried.experiments

    assert {carrier.same_host for carrier in run.carriers} == {True, False}
    assert all(via.startswith("NET") for c in run.carriers if not c.same_host for via in c.via)


def test_a_figure_of_other_work_is_not_comparable() -> None:
    table = (
        "|GPUs|Condition|Throughput A100|\n|-|-|-|\n"
        "|0,3|NVLink|~166697 (batch-size=8192)|\n|0,3|PCIe|~104000|\n"
    )
    _, carried = load(table)

    assert [(figure.rate, figure.alone) for figure in carried.figures] == [
        (166697.0, "batch-size=8192"),
        (104000.0, ""),
    ]
    assert carried.findings[0].kind == "not_comparable"
    assert carried.findings[0].figure == carried.figures[0]
    _, same_size = load(table.replace("~104000", "~104000 (batch-size=8192)"))
    assert same_size.findings == ()


def test_nvbandwidth_measures_pairs_too() -> None:
    gpus, _ = load((LOGS / "nvbandwidth.text.txt").read_text())

    assert all(pair.copies.rate for pair in gpus.pairs)
    text = (
        "nvbandwidth Version: v0.8\nRunning device_to_device_memcpy_read_ce.\n"
        "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n"
        "           0         1         2\n 0       N/A    276.07    276.30\n"
        " 1    275.76       N/A    140.00\n 2    276.10    275.00       N/A\n\n"
        "SUM device_to_device_memcpy_read_ce 1500.00\n"
    )
    lines = ["\tGPU0\tGPU1\tGPU2", "GPU0\t X \tNV12\tNV12", "GPU1\tNV12\t X \tNV12"]
    gpus, _ = load("\n".join([*lines, "GPU2\tNV12\tNV12\t X ", ""]), text)
    (misfit,) = gpus.misfits
    assert (misfit.gpus, misfit.rate) == ((1, 2), 140e9)


def test_a_large_matrix_costs_little() -> None:
    """Groups are found in a time that many GPUs do not explode."""
    gpus = [f"GPU{n}" for n in range(72)]
    chance = random.Random(1)
    devices = tuple(
        Device(name=name, paths=tuple(chance.choice(("NV1", "PIX", "SYS")) for _ in gpus))
        for name in gpus
    )

    assert len(gpu_topology(Topology(devices=devices)).pairs) == 72 * 71 / 2


@pytest.mark.parametrize(
    "names_",
    [
        ("topology.dgx1v",),
        ("topology.nics", "p2p_matrix.full"),
        ("topology.peers", "nccl_log.two_nodes"),
        ("p2p_matrix.full", "nccl_log.failed", "tables.scaling"),
    ],
    ids="+".join,
)
def test_damaged_logs_are_joined_all_the_same(names_: tuple[str, ...]) -> None:
    """Cut after any line, lines lost, doubled and shuffled, bytes changed: no other exception."""
    chance = random.Random("+".join(names_))
    text = b"".join((LOGS / f"{name}.txt").read_bytes() for name in names_)
    lines = text.splitlines(keepends=True)
    for log in damaged(lines, chance, b"\x00\xff\x1b\r9-.e, \tXNV"):
        try:
            gpus, _ = load(log.decode(errors="replace"))
        except ParseError:
            continue
        assert set(gpus.best) <= set(gpus.pairs)


def test_the_links_of_amd_are_faster_than_what_goes_through_pcie() -> None:
    text = (LOGS / "rocm_topology.mi100.txt").read_text()
    (result,) = read([text.encode()]).results
    assert isinstance(result.detail, Topology)
    gpus = gpu_topology(result.detail)

    assert [pair.gpus for pair in gpus.best] == [(0, 1)]
    assert {pair.path for pair in gpus.worst} == {"PCIE"}
    assert speed("XGMI") > speed("PIX") > speed("PCIE") > speed("?")
