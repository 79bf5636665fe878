"""Which two hosts a log is between."""

import pytest

from cluster.logs.hosts import (
    host_lines,
    host_order,
    hosts_in_name,
    hosts_of_results,
    read_host_values,
)


@pytest.mark.parametrize(
    ("name", "hosts"),
    [
        ("nccl_N2_G8_cnode2-001_cnode2-002.log", ("cnode2-001", "cnode2-002")),
        ("gpu01-gpu02.out", ("gpu01", "gpu02")),
        ("host-1-host-2.log", ("host-1", "host-2")),
        ("ip-10-0-0-1_ip-10-0-0-2.log.gz", ("ip-10-0-0-1", "ip-10-0-0-2")),
        ("osu_bw_10.0.0.1_10.0.0.2.txt", ("10.0.0.1", "10.0.0.2")),
        ("gpu1_to_gpu2.log", ("gpu1", "gpu2")),
        ("a1__a2.log", ("a1", "a2")),
        ("node1-node2-3.out", ("node1", "node2")),
        ("2024-11-05_a1_a2.log", ("a1", "a2")),
        ("1-2.out", ("1", "2")),
        ("bw-1-2-3.out", None),
        ("n1_n2_n3.log", None),
        ("n1-n2_n3-n4.log", None),
        ("n1_n1.log", None),
        ("alpha-beta.out", None),
        ("osu_bw.out", None),
        ("osu-2-iter-1-1134089469952.out", None),
    ],
)
def test_names_of_files(name: str, hosts: tuple[str, str] | None) -> None:
    assert hosts_in_name(name) == hosts


@pytest.mark.parametrize(
    ("line", "hosts"),
    [
        ("srun -N2 -w node[01-02] osu_bw", ("node01", "node02")),
        ("mpirun -np 2 --host a:1,b:1 ./osu_bw", ("a", "b")),
        ("mpirun -H 10.0.0.1,10.0.0.2 ./osu_bw", ("10.0.0.1", "10.0.0.2")),
        ("Point-to-point pairwise experiments for nodes n-28 n-4", ("n-28", "n-4")),
        (
            "[  5] local 10.0.0.1 port 51000 connected to 10.0.0.2 port 5201",
            ("10.0.0.1", "10.0.0.2"),
        ),
        ('"connected": [{"local_host": "h1", "remote_host": "h2"}]', ("h1", "h2")),
        ('{"constraints": {"hostlist": ["s-12,s-3"]}}', ("s-12", "s-3")),
        ("# Rank 0 Pid 1 on h1 device 0\n# Rank 1 Pid 2 on h2 device 0", ("h1", "h2")),
        ("[0] MPI startup(): 0 12 h1 {0,1}\n[0] MPI startup(): 1 13 h2 {0,1}", ("h1", "h2")),
        ("number of hosts: 2", ()),
        ("both hosts are good", ()),
    ],
)
def test_lines_that_name_hosts(line: str, hosts: tuple[str, ...]) -> None:
    assert hosts_of_results(host_lines(f"{line}\n"), [1]) == [hosts]


def test_each_result_has_the_hosts_of_the_line_before_it_or_of_its_ranks() -> None:
    text = (
        "nodes a1 a2\nT1\nT2\nnodes a1 a3\nT3\nT4\n# Rank 0 on b1 device 0\n# Rank 1 on b2 device 0"
    )
    assert hosts_of_results(host_lines(text), [2, 3, 5, 6]) == [
        ("a1", "a2"), ("a1", "a2"), ("a1", "a3"), ("b1", "b2"),
    ]  # fmt: skip


def test_hosts_are_in_natural_order() -> None:
    assert host_order(["n10", "n2", "n2", "m3"]) == ["m3", "n2", "n10"]


@pytest.mark.parametrize(
    ("unit", "bytes_per_second"),
    [("GB/s", 1e9), ("Gb/s", 1.25e8), ("Gbps", 1.25e8), ("GBps", 1e9), ("bus_bw_GBs", 1e9),
     ("Gbit/s", 1.25e8), ("MiB/s", 2**20), ("bandwidth (MB/s)", 1e6), ("Gbits/sec", 1.25e8)],
)  # fmt: skip
def test_units(unit: str, bytes_per_second: float) -> None:
    table = read_host_values(f"host_a,host_b,{unit}\na,b,2\n")
    assert table is not None
    assert table.cells[0].value == pytest.approx(2 * bytes_per_second)


def test_prose_is_no_table() -> None:
    assert read_host_values("hello world\nfoo bar\n") is None
    assert read_host_values("") is None
