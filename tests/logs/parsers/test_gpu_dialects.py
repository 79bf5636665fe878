"""What tools that measure GPUs print in the wild: labels, torn tables, and failures."""

import pytest

from cluster.analysis.limits.devices import bound
from cluster.analysis.limits.hardware import find
from cluster.core.model.logs import PeerAccess, Topology
from cluster.logs.parsers.nvbandwidth import LOCAL
from cluster.logs.reader import read
from tests.logs.samples import LOGS, of, values

PREFIXES = (
    "node01: ",  # pdsh
    "node-1.example: ",  # clush
    "worker-0  | ",  # docker compose
    "[pod/w-0/main] ",
    "[pod/w-0/main] 2026-01-02T03:04:05.123456789Z ",
    "(worker pid=4711, ip=10.0.0.1) ",  # Ray
    "(head, rank=0, pid=4711) ",  # SkyPilot
    "Jan  2 03:04:05 node01 job[4711]: ",
    "03:04:05 ",
    "2026-01-02 03:04:05,123 - INFO - ",
    "INFO:root:",
    "[1,mpirank:0,algo-1]<stdout>:",  # SageMaker
)


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("name", ["nccl_tests.old", "p2p_matrix.full", "topology.nics"])
def test_what_stands_before_every_line_is_no_part_of_it(prefix: str, name: str) -> None:
    log = (LOGS / f"{name}.txt").read_text()
    plain = read([log.encode()]).results
    labelled = "".join(f"{prefix}{line}\n" for line in log.splitlines())
    found = read([labelled.encode()]).results

    assert [(r.measurements, r.detail, r.failures) for r in found] == [
        (r.measurements, r.detail, r.failures) for r in plain
    ]


class TestNvbandwidth:
    """nvbandwidth."""

    def test_a_test_that_failed_after_others_succeeded(self) -> None:
        text = (
            "nvbandwidth Version: v0.7\nRunning host_to_device_memcpy_ce.\n"
            "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n           0\n 0     24.10\n"
            "\nSUM host_to_device_memcpy_ce 24.10\n\nRunning device_to_device_memcpy_read_ce.\n"
            " Invalid value when checking the pattern at 0x70a640000000\n"
            "ASSERT in expression h_errorFlag == 0 in void f() : memcpy.cpp:165\n"
        )
        (test,) = read([text.encode()]).results

        assert values(test, "host_copy_bandwidth") == [24.1e9]
        assert len(test.failures) == 2

    def test_a_test_that_was_begun_and_never_ended(self) -> None:
        (test,) = read([b"nvbandwidth Version: v0.8\nRunning host_to_device_memcpy_ce.\n"]).results

        assert "host_to_device_memcpy_ce" in test.failures[0]

    def test_all_of_it_was_waived(self) -> None:
        text = b"nvbandwidth Version: v0.2\n\nWaiving device_to_device_memcpy_write_ce.\n"
        (test,) = read([text]).results

        assert len(test.failures) == 1

    def test_latency_between_devices(self) -> None:
        text = (
            "nvbandwidth Version: v0.8\nRunning device_to_device_latency_sm.\n"
            "Device to Device Latency SM GPU(row) <-> GPU(column) (ns)\n"
            "           0         1\n 0       N/A    697.60\n 1    698.70       N/A\n\n"
            "SUM device_to_device_latency_sm 1396.30\n"
        )
        (test,) = read([text.encode()]).results

        assert values(test, "access_latency") == pytest.approx([697.6e-9, 698.7e-9])

    def test_json_of_a_run_that_stopped(self) -> None:
        text = (
            '{"nvbandwidth":{"version":"v0.8","GPU Device List":["0: NVIDIA H100 (00000000:1b:00): '
            '(n)"],"testcases":[{"name":"a","status":"Waived"},{"name":"b","status":"Running"}]}}\n'
        )
        (test,) = read([text.encode()]).results

        assert test.devices == ("NVIDIA H100",)
        assert any(failure.startswith("b: ") for failure in test.failures)

    def test_a_copy_within_a_gpu_may_use_half_of_its_memory(self) -> None:
        h100 = find("h100")
        limit = bound(LOCAL, {"row": 0}, h100)

        assert limit is not None
        assert h100.memory is not None
        assert limit.rate == h100.memory.rate / 2


class TestCopies:
    """bandwidthTest, p2pBandwidthLatencyTest and nvidia-smi topo."""

    @pytest.mark.parametrize(
        "error",
        [
            "!!!!!No devices found!!!!!",
            "cudaGetDeviceProperties returned 3",
            'CUDA error at bandwidthTest.cu:730 code=700(cudaErrorIllegalAddress) "x"',
        ],
    )
    def test_errors_of_bandwidth_test(self, error: str) -> None:
        text = f"[CUDA Bandwidth Test] - Starting...\n{error}\n"

        assert error in read([text.encode()]).results[0].failures

    def test_pageable_memory_has_one_name(self) -> None:
        text = (
            b"bandwidthTest-H2D-Paged, Bandwidth = 12.9 GB/s, Time = 0.0 s, Size = 32000000 bytes, "
            b"NumDevsUsed = 1\n"
        )

        assert values(read([text]).results[0], "host_to_device", memory="pageable") == [12.9e9]

    def test_an_error_after_matrices_of_peers(self) -> None:
        text = (
            "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n"
            "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1 \n"
            "     0 450.11  10.32 \n     1  10.41 451.57 \n"
            "Cuda failure p2pBandwidthLatencyTest.cu:250: 'out of memory'\n"
        )
        (test,) = read([text.encode()]).results

        assert values(test, "p2p_bandwidth", row=0) == [10.32e9]
        assert "out of memory" in test.failures[0]

    def test_cells_that_abut_are_told_apart(self) -> None:
        text = (
            "         GPU0    GPU1    NIC0    NIC1NIC2    CPU Affinity    NUMA Affinity\n"
            "GPU0     X      NV12    PXB     SYSSYS      24-31,88-95     3\n"
            "GPU1    NV12     X      PXB     SYSSYS      24-31,88-95     3\n"
            "NIC0    PXB     PXB      X      PIXSYS\n"
        )
        (result,) = read([text.encode()]).results

        assert isinstance(result.detail, Topology)
        assert result.detail.path("GPU0", "NIC2") == "SYS"
        assert result.detail.path("NIC0", "NIC1") == "PIX"
        assert result.detail.devices[0].cpus == "24-31,88-95"

    def test_a_matrix_behind_the_names_of_pods(self) -> None:
        rows = ("\tGPU0\tGPU1", "GPU0\tX\tGNS", "GPU1\tGNS\tX")
        text = "".join(f"[pod/w-0/main] {row}\n" for row in rows)
        (result,) = read([text.encode()]).results

        assert isinstance(result.detail, PeerAccess)
        assert result.detail.status == (("X", "GNS"), ("GNS", "X"))


PEERS_OF_TWO = """
Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
          0         1
0       N/A    370.90
1    370.90       N/A

SUM device_to_device_memcpy_read_ce 741.80
COEFFICIENT_OF_VARIATION device_to_device_memcpy_read_ce 0.00
"""


def test_devices_before_the_first_test_are_its_own_without_the_head_of_nvbandwidth() -> None:
    devices = "Device 0: NVIDIA H100 80GB HBM3\nDevice 1: NVIDIA H100 80GB HBM3\n"
    assert of(devices + PEERS_OF_TWO).devices == ("NVIDIA H100 80GB HBM3",)
    assert of(devices + "\n\n\n\n" + PEERS_OF_TWO).devices == ()


def test_a_sum_of_latencies_is_no_rate() -> None:
    result = of("SUM device_to_device_memcpy_read_ce 9222.82\nSUM host_device_latency_sm 2312.78\n")
    assert {m.params["test"] for m in result.measurements} == {"device_to_device_memcpy_read_ce"}


def test_two_models_in_one_matrix_are_told_apart() -> None:
    """A copy within each has its own memory; between them, there is no model to name."""
    found = of(
        "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n"
        "Device: 0, NVIDIA GeForce RTX 4090, pciBusID: c1, pciDeviceID: 0, pciDomainID:0\n"
        "Device: 1, NVIDIA GeForce RTX 5090, pciBusID: 1, pciDeviceID: 0, pciDomainID:0\n"
        "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n"
        "   D\\D     0      1\n     0 909.49  20.65\n     1  20.21 1545.69\n"
    )
    models = {
        (m.params["row"], m.params["column"]): m.params.get("gpu") for m in found.measurements
    }
    assert models == {
        (0, 0): "NVIDIA GeForce RTX 4090",
        (1, 1): "NVIDIA GeForce RTX 5090",
        (0, 1): None,
        (1, 0): None,
    }


def test_two_runs_of_p2p_bandwidth_without_heads_are_two() -> None:
    """As in NVIDIA/nccl issue 814, with and without --sm_copy: no mean of the two."""
    title = "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1\n"
    first, second = read(
        [
            (
                f"# Without --sm_copy\n{title}     0 911.08  20.10\n     1  20.39 920.20\n"
                f"# With --sm_copy\n{title}     0 790.00  20.11\n     1  20.40 790.20\n"
            ).encode()
        ]
    ).results

    assert values(first, "device_copy") == [911.08e9, 920.20e9]
    assert values(second, "device_copy") == [790.00e9, 790.20e9]
    assert values(second, "p2p_bandwidth") == [20.11e9, 20.40e9]


def test_the_sum_names_the_test_of_a_matrix() -> None:
    """As in NVIDIA/nvbandwidth issue 50: `Running ...` is missing."""
    matrix = (
        "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n           0         1\n"
        " 0       N/A     26.34\n 1     26.35       N/A\n\n"
    )
    named = of(f"{matrix}SUM device_to_device_memcpy_read_ce 52.69\n")
    unnamed = of(matrix)

    assert values(named, "peer_copy_bandwidth", test="device_to_device_memcpy_read_ce") == [
        26.34e9,
        26.35e9,
    ]
    assert not values(unnamed, "peer_copy_bandwidth")
    assert values(unnamed, "copy_bandwidth") == [26.34e9, 26.35e9]


def test_the_name_of_a_test_that_a_page_quotes() -> None:
    """As in NVIDIA/nvbandwidth issue 24: only the lines with names are quoted."""
    result = of(
        "> Running host_to_device_memcpy_sm.\nmemcpy SM CPU(row) -> GPU(column) bandwidth (GB/s)\n"
        "0         1\n0     35.19     35.25\n"
    )

    assert values(result, "host_copy_bandwidth", test="host_to_device_memcpy_sm") == [
        35.19e9,
        35.25e9,
    ]
