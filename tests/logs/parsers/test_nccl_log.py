"""NCCL's log: what carries what, in every dialect, and lines that were torn."""

import pytest

from cluster.logs.reader import read
from tests.logs.parsers.nccl import HEAD, log_of
from tests.logs.samples import LOGS, kinds

TEXT = (LOGS / "nccl_log.two_nodes.txt").read_text()


def test_what_a_log_says() -> None:
    log = log_of(TEXT)

    assert log.versions == ("2.18.5+cuda12.2",)
    assert (log.size, log.nodes, log.communicators, log.connected) == (4, 2, 1, True)
    assert (log.channels, log.p2p_channels) == (2, 4)
    assert log.rings == ((0, 1, 2, 3), (0, 1, 2, 3))
    assert log.networks == ("IB",)
    assert log.interfaces == ("mlx5_0:1/IB", "mlx5_1:1/IB")
    assert [(s.name, s.value) for s in log.settings] == [("NCCL_IB_HCA", "mlx5_0,mlx5_1")]
    assert [(r.rank, r.host, r.device, r.bus) for r in log.ranks][1:3] == [
        (1, "node-a", 1, "3b000"),
        (2, "node-b", 0, "19000"),
    ]


def test_what_carries_data_between_which_ranks() -> None:
    edges = {(e.source, e.target): e for e in log_of(TEXT).edges}

    assert edges[0, 1].transport == "P2P"
    assert edges[0, 1].channels == (0, 1)
    assert (edges[3, 0].via, edges[3, 0].direct) == ("NET/IB/0/GDRDMA", True)
    assert (edges[1, 2].via, edges[1, 2].direct) == ("NET/IB/0", False)
    assert (edges[2, 3].transport, edges[2, 3].channels) == ("SHM", (0,))


@pytest.mark.parametrize(
    ("line", "edge"),
    [
        ("INFO rank access 0 -> 1 via P2P device mem", (0, 1, "P2P")),
        (HEAD + "Ring 00 : 3[3] -> 0[0] via P2P/direct pointer", (3, 0, "P2P")),
        (HEAD + "Ring 01 : 63 -> 0 [receive] via NET/FastSocket/0", (63, 0, "NET")),
        (HEAD + "Ring 01 : 3[b0] -> 0[80] via direct shared memory", (3, 0, "SHM")),
        (HEAD + "Coll 00 : 1 [receive] via COLLNET/SHARP/0", (1, -1, "COLLNET")),
        (HEAD + "Channel 00 : 0[7000] -> 1[4e000] via P2P/IPC/read", (0, 1, "P2P")),
        (HEAD + "Channel 02 : 0[6000] -> 5[89000] via P2P/indirect/4[85000]", (0, 5, "P2P")),
        (HEAD + "Channel 04/0 : 0[0] -> 1[1] via SHM/CE/direct", (0, 1, "SHM")),
        (HEAD + "Channel 04/1 : 7[7] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA", (7, 8, "NET")),
        (
            HEAD + "Channel 00/0 : 1[1] -> 8[0] [send] via NET/IB/3(0)/GDRDMA(PCI)/Shared",
            (1, 8, "NET"),
        ),
        (
            "[2026-01-02 03:04:05] " + HEAD + "Channel 00/0 : 0[0] -> 1[1] via P2P/MNNVL",
            (0, 1, "P2P"),
        ),
        ("NCCL INFO Channel 00 : 1[8a000] -> 0[7000] via P2P/CUMEM/CE", (1, 0, "P2P")),
    ],
)
def test_links_of_every_version(line: str, edge: tuple[int, int, str]) -> None:
    log = log_of(f"NCCL version 2.0\n{line}\n")

    assert [(e.source, e.target, e.transport) for e in log.edges] == [edge]
    assert log.torn == 0


@pytest.mark.parametrize(
    ("trees", "up", "down"),
    [
        ("[0] -1->0->1/32/-1", -1, (1, 32)),  # 2.4
        ("[0] -1/-1/-1->3->2|2->3->-1/-1/-1", 2, ()),  # 2.5 to 2.7
        ("[0] 1/2/-1->0->-1", -1, (1, 2)),  # from 2.8
    ],
)
def test_trees_of_every_version(trees: str, up: int, down: tuple[int, ...]) -> None:
    (tree,) = log_of(f"{HEAD}Trees {trees}\n").trees

    assert (tree.up, tree.down) == (up, down)


def test_torn_lines_are_counted_and_what_is_whole_behind_them_is_read() -> None:
    torn = (
        f"{HEAD}Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/h:3:4 [1] NCCL INFO Connected all rings\n"
        f"{HEAD}Channel 01/0 : 0[0] -> {HEAD}Channel 02/0 : 1[1] -> 0[0] via P2P/CUMEM\n"
    )
    log = log_of(torn)

    assert log.torn == 2
    assert log.connected
    assert [(e.source, e.target, e.channels) for e in log.edges] == [(1, 0, (2,))]


def test_a_warning_of_a_failure_is_a_failure() -> None:
    result, *_ = read([(LOGS / "nccl_log.failed.txt").read_bytes()]).results

    assert result.failures == ("NCCL WARN Connect to 10.0.0.2<40123> failed : Connection refused",)
    assert "not_connected" in kinds(result)


def test_the_largest_communicator_tells_the_size() -> None:
    sub = "".join(
        f"{HEAD}comm 0x7{n} rank {n} nranks 2 cudaDev {n} nvmlDev {n} - Init COMPLETE\n"
        for n in (0, 1)
    )
    log = log_of(sub + TEXT + sub)

    assert log.size == 4
    assert log.communicators == 3
