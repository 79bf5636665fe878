"""Which NIC a log is of: in its lines, in its command, or in its name."""

import pytest

from cluster.logs.hosts import NamedNic, nics_of_results

ENV = "mpirun -x NCCL_IB_HCA=mlx5_2:1 -x CUDA_VISIBLE_DEVICES=5 all_reduce_perf\nfirst\n"
COMMANDS = (
    "$ ib_write_bw -d mlx5_0 --use_cuda=0 h\nfirst\n$ ib_write_bw -d mlx5_1 --use_cuda=3 h\nnext\n"
)


@pytest.mark.parametrize(
    ("text", "file", "firsts", "nics"),
    [
        (" Dual-port : OFF\tDevice         : mlx5_7\n", "a.log", [1], [("mlx5_7", None)]),
        ('first\n "Device": "mlx5_11",\n', "a.json", [1], [("mlx5_11", None)]),
        (ENV, "a.log", [2], [("mlx5_2", 5)]),
        (COMMANDS, "a.log", [2, 4], [("mlx5_0", 0), ("mlx5_1", 3)]),
        (
            "n1:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_4:1/IB [RO]\nx\n",
            "",
            [2],
            [("mlx5_4", None)],
        ),
        ("NCCL INFO NET/IB : Using [0]mlx5_4:1/IB [1]mlx5_5:1/IB\nx\n", "", [2], [("", None)]),
        ("NCCL_IB_HCA=mlx5_0,mlx5_1 ./all_reduce_perf\nx\n", "a.log", [2], [("", None)]),
        ("x\n", "bw_gpu3_mlx5_bond_0.log", [1], [("mlx5_bond_0", 3)]),
        ("x\n", "iperf_eth2.json", [1], [("eth2", None)]),
        ("x\n", "ib_write_bw_node17.log", [1], [("", None)]),
    ],
)
def test_nics(text: str, file: str, firsts: list[int], nics: list[tuple[str, int | None]]) -> None:
    assert nics_of_results(text, file, firsts) == [NamedNic(*nic) for nic in nics]
