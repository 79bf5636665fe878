"""Logs that others recorded, where they are at hand: what a person reads in them."""

import re
from pathlib import Path

import pytest

from cluster.analysis.topology.topology import gpu_topology
from cluster.analysis.topology.transports import transports
from cluster.analysis.verdict.profiles import Source, job_profiles
from cluster.core.model.logs import NcclLog, Parsed, PeerAccess, Profile, Reading, Topology
from cluster.logs.reader import read
from cluster.reports.words.profiles import profile_words
from cluster.reports.words.topology import finding_words
from tests.logs.samples import values

DATA = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="no recorded logs beside the checkout")


def reading(name: str) -> Reading:
    return read([(DATA / name).read_bytes()])


def results(name: str, format_: str) -> list[Parsed]:
    return [result for result in reading(name).results if result.format == format_]


def test_nccl_tests() -> None:
    (a100,) = results("recorded/nccl_tests/allreduce.log", "nccl_tests")
    (k80,) = results("recorded/nccl_tests/allreduce_2xk80.txt", "nccl_tests")
    (alltoall,) = results("recorded/nccl_tests/alltoall.log", "nccl_tests")

    assert values(a100, "busbw", size=8589934592, place="out") == [235.26e9]
    assert a100.ranks == 8
    assert values(k80, "algbw", size=1073741824, place="in") == [0.61e9]
    assert values(alltoall, "time", size=8589934592, place="in") == pytest.approx([33234e-6])
    assert "alltoall" in alltoall.operation


def test_osu() -> None:
    (latency,) = results("recorded/osu/latency.txt", "osu")
    (rate,) = results("recorded/osu/mbw_mr.txt", "osu")
    (barrier,) = results("recorded/osu/barrier.txt", "osu")

    assert values(latency, "latency", size=8) == pytest.approx([25.03e-6])
    assert values(rate, "multi_bandwidth", size=8, pairs=4) == pytest.approx([252.65e6])
    assert values(barrier, "collective_time_max") == pytest.approx([41.15e-6])


def test_bandwidth() -> None:
    (k80,) = results("recorded/bandwidth/bandwidthtest_2xk80.txt", "bandwidth_test")
    (csv,) = results("recorded/bandwidth/bandwidthtest_csv.txt", "bandwidth_test")
    (nv,) = results("recorded/bandwidth/nvbandwidth.log", "nvbandwidth")

    assert values(k80, "host_to_device", devices=2) == [9254.7 * 2**20]
    assert values(csv, "device_to_host") == [9580.0 * 2**20]
    to_gpu = values(nv, "host_copy_bandwidth", test="host_to_device_memcpy_ce", column=2)
    assert to_gpu[0] == 412.11e9


def test_topology() -> None:
    (pair,), (eight,), (peers,) = (
        results(f"recorded/topology/{name}.txt", "topology")
        for name in ("dual_nv2", "h100_8xnv18", "p2p_matrix_4gpu")
    )

    assert isinstance(pair.detail, Topology)
    assert pair.detail.path("GPU0", "GPU1") == "NV2"
    assert isinstance(eight.detail, Topology)
    assert {eight.detail.path("GPU0", f"GPU{n}") for n in range(1, 8)} == {"NV18"}
    assert [device.numa for device in eight.detail.devices] == list("00001111")
    assert isinstance(peers.detail, PeerAccess)
    assert peers.detail.status[0] == ("X", "OK", "NS", "NS")


def test_profiles() -> None:
    (rank0,) = results("recorded/mpitrace/theta.19013.0", "mpitrace")
    (rank28,) = results("recorded/mpitrace/theta.19013.28", "mpitrace")
    first, second = (r.detail for r in (rank0, rank28))

    assert isinstance(first, Profile)
    assert isinstance(second, Profile)
    assert (first.rank, first.size, first.roles, len(first.tasks)) == (0, 32, ("minimum",), 32)
    assert (second.rank, second.roles, second.tasks) == (28, ("maximum",), ())
    assert (first.communication, second.communication) == (251.328, 278.406)
    assert first.memory == 1177.191 * 2**20
    assert rank0.notes == rank28.notes == ()


def test_nccl_log() -> None:
    (result,) = results("recorded/nccl_log/horovod_bert.txt", "nccl_log")
    log = result.detail

    assert isinstance(log, NcclLog)
    assert (log.versions, log.size, log.networks) == (("2.4.8+cuda10.0",), 64, ("FastSocket",))
    assert {(e.source, e.target, e.transport) for e in log.edges} == {
        *((0, 1, "P2P"), (0, 32, "NET"), (32, 0, "NET"), (63, 0, "NET"))
    }


@pytest.mark.parametrize(
    ("task", "mean"), [("cpu", 931.47), ("gpu", 935.56), ("cuda-ipc", 4626.54)]
)
def test_mlbench_without_its_first_iteration(task: str, mean: float) -> None:
    (result,) = results(f"recorded/mlbench_p2p/{task}/1000000000", "mlbench")
    rates = values(result, "oneway_bandwidth", size=4_000_000_000)

    assert len(rates) == 99
    assert sum(rates) / len(rates) / 2**20 == pytest.approx(mean, abs=0.01)


def test_document_000() -> None:
    (server, client) = results("origin/000_63ca28aa06e37baa.txt", "iperf2")
    (copy,) = results("origin/000_63ca28aa06e37baa.txt", "bandwidth_test")

    assert values(server, "received") == [7.65e9 / 8]
    assert values(client, "sent") == [7.66e9 / 8]
    assert values(copy, "device_to_host") == [10061.6 * 2**20]


def test_document_001() -> None:
    local, default, placed = results("origin/001_000c090430a6878a.txt", "mpi_test")

    assert values(local, "oneway_time") == pytest.approx([0.0231, 0.0186, 0.0215, 0.0232])
    assert len(values(default, "oneway_time")) == 4
    assert len(values(placed, "oneway_time")) == 5


def test_document_002() -> None:
    real, accuracy, synthetic, registry = results("origin/002_2e65bea6a127d6b1.txt", "tables")

    assert values(real, "processing_rate", gpus=16) == [2576, 2928]
    assert values(real, "processing_rate", commented=1) == [796, 1549, 2928]
    assert values(accuracy, "top1") == [0.7318, 0.7369, 0.6485, 0.6123]
    assert values(synthetic, "processing_rate", network="Host", gpus=8) == [1408]
    assert values(registry, "expected_rate") == [220, 220]


def test_document_003() -> None:
    cpu, gpu = (r.detail for r in results("origin/003_b3d311bde8b9b682.txt", "mpitrace"))

    assert isinstance(cpu, Profile)
    assert isinstance(gpu, Profile)
    small = next(r for r in cpu.distributions if r.name == "MPI_Allreduce")
    assert (small.calls, small.bytes, small.time) == (7428, 8.0, 5.696)
    assert (gpu.size, gpu.communication, gpu.elapsed) == (8, 5.519, 17.725)


def test_document_004() -> None:
    logs = [r.detail for r in results("origin/004_fec670535f695af9.txt", "nccl_log")]
    (matrices,) = results("origin/004_fec670535f695af9.txt", "p2p_matrix")
    (table,) = results("origin/004_fec670535f695af9.txt", "tables")

    links = [
        (log.channels, {edge.via for edge in log.edges}) for log in logs if isinstance(log, NcclLog)
    ]
    assert links == [
        (4, {"P2P/IPC"}),
        (2, {"direct shared memory"}),
        (2, {"direct shared memory"}),
        (4, {"direct shared memory"}),
        (4, {"P2P/IPC"}),
        (24, {"P2P/IPC/read"}),
    ]
    assert values(matrices, "p2p_bidirectional", p2p="on", column=4) == [96.90e9]
    assert values(matrices, "p2p_latency", p2p="off", column=1) == pytest.approx([17.52e-6])
    assert values(table, "processing_rate", remark="batch-size=8192") == [166697]


def test_the_profiles_of_document_003_mean_what_it_says() -> None:
    sources = [
        Source(job="003", profile=result.detail)
        for result in reading("origin/003_b3d311bde8b9b682.txt").results
        if isinstance(result.detail, Profile)
    ]
    cpu, gpu = job_profiles(sources)
    says = {finding.name: profile_words(finding)[0] for finding in cpu.findings}
    gpu_says = {finding.name: profile_words(finding)[0] for finding in gpu.findings}

    assert re.findall(r"\d+(?=%)", says["negotiation"]) == ["91", "54"]
    assert "no_payload" not in says
    assert re.findall(r"[\d.]+", says["payload"])[:2] == ["4.719", "97"]
    assert "NCCL" in gpu_says["no_payload"]
    for job in (cpu, gpu):
        assert job.checks
        assert all(check.agrees for check in job.checks)


def test_the_recorded_profiles_agree_with_themselves() -> None:
    names = ("theta.19013.0", "theta.19013.28", "thetagpu.163698.0")
    sources = [
        Source(job=name.split(".")[1], profile=result.detail)
        for name in names
        for result in results(f"recorded/mpitrace/{name}", "mpitrace")
        if isinstance(result.detail, Profile)
    ]
    theta, gpu = job_profiles(sources)

    assert theta.ranks == (0, 28)
    assert all(check.agrees for job in (theta, gpu) for check in job.checks)
    assert "payload" in {finding.name for finding in theta.findings}
    assert {"no_payload", "imbalance"} <= {finding.name for finding in gpu.findings}


def test_the_conclusions_of_document_004_come_out_of_its_figures() -> None:
    logs = reading("origin/004_fec670535f695af9.txt").results
    topology = gpu_topology(None, [m for result in logs for m in result.measurements])
    analysis = transports(logs, topology)

    assert next((pair.name, pair.path) for pair in topology.best) == ("GPU0-GPU3", "NV2")
    assert "6.7 x" in finding_words(topology.findings[0])
    for words in (
        "GPU0-GPU3: peer-to-peer off costs 6.3%: 94848 images/s",
        "peer-to-peer off costs 7.2%: 97400 images/s (direct shared memory, 4 channel(s)",
        "best GPU0-GPU3 with 101216 images/s (P2P/IPC, 4 channel(s)), worst GPU1-GPU7",
        "not comparable: 166697 images/s",
    ):
        assert any(words in finding_words(f) for f in analysis.findings), analysis.findings
    assert [figure.alone for figure in analysis.figures if figure.alone] == ["batch-size=8192"]
