"""What TCP sockets do to the bus bandwidth of NCCL, and how its log proves what it uses."""

from pathlib import Path

import pytest

from cluster.analysis.verdict.rules import gpus
from cluster.core.model.results.records import Record
from cluster.core.model.spec import ClusterSpec
from cluster.runs import store
from tests.analysis.evidence import ALONE, Look, iperf3, nccl

PERF = "# Collective test starting: all_reduce_perf\n"


def test_few_sockets_of_nccl(look: Look) -> None:
    """A bus bandwidth far below its bound, over sockets, with nothing set for them."""
    test = ALONE.format(pid=7, bus="0.50").replace("104.86", "0.50").replace("10.00", "2097.15")
    test = test.replace("#  size", "#   Rank  1 Pid  8 on b device  0 [0x00] Tesla T4\n#  size")
    log = nccl("NET/Socket/0", network_="Socket") + test
    finding = gpus.slow_sockets(look(log, "nic=100gbit"))

    assert finding is not None
    setting = "NCCL_NSOCKS_PERTHREAD set by environment to 4"
    log = nccl("NET/Socket/0", network_="Socket", extra=setting) + test
    assert gpus.slow_sockets(look(log, "nic=100gbit")) is None


@pytest.mark.parametrize(
    ("bus", "streams", "extra", "share"),
    [
        ("0.50", 8, "", 0.43),
        ("1.10", 8, "", None),
        ("0.50", 1, "", None),  # one connection may have a cap of its own
        ("0.50", 8, "NCCL_NSOCKS_PERTHREAD set by environment to 4", None),
    ],
)
def test_nccl_over_tcp_below_what_iperf_carried(
    bus: str, streams: int, extra: str, share: float | None, look: Look
) -> None:
    """Pitfall 15: both measured on the same hosts, whose network nobody had to describe."""
    second = "#   Rank  1 Pid  8 on b device  0 [0x00] Tesla T4\n#  size"
    test = ALONE.format(pid=7, bus=bus).replace("104.86", bus).replace("10.00", "2097.15")
    test = test.replace("#  size", second).replace("# nThread", PERF + "# nThread")
    sockets = nccl("NET/Socket/0", network_="Socket", extra=extra)
    finding = gpus.slow_sockets(look(sockets + test + iperf3(1.17e9, streams)))

    assert (finding.share if finding else None) == (share and pytest.approx(share, abs=0.005))
    assert finding is None or (finding.other is not None and finding.confidence == "likely")
    rdma = nccl("NET/IB/0", network_="IB", extra=extra)
    assert gpus.slow_sockets(look(rdma + test + iperf3(1.17e9, streams))) is None


@pytest.mark.parametrize(
    ("hardware", "transport", "sure"),
    [
        ("a3-ultragpu-8g", "Socket", "certain"),
        ("a3-megagpu-8g", "Socket", "certain"),
        ("a3-highgpu-8g", "Socket", "certain"),
        ("nic=100gbit", "Socket", "possible"),
        ("a3-ultragpu-8g", "gIB", ""),
        ("a3-megagpu-8g", "FasTrak", ""),
        ("a3-highgpu-8g", "GPUDirectTCPX_v7", ""),
    ],
)
def test_the_log_proves_whether_nccl_uses_the_plug_in_of_googles_types(
    hardware: str, transport: str, sure: str, look: Look
) -> None:
    """`Using network gIB`: Google, "Collect and understand NCCL/gIB logs"; the others: captures.

    FasTrak's and TCPX's are quoted in public notes on a3-megagpu-8g and a3-highgpu-8g.
    """
    finding = gpus.on_sockets(look(nccl(f"NET/{transport}/0/GDRDMA", network_=transport), hardware))

    assert (finding.confidence if finding else "") == sure
    assert finding is None or finding.name == (hardware if sure == "certain" else "")


def test_the_logs_that_nccl_wrote_in_a_run_of_ours_prove_it_too(tmp_path: Path) -> None:
    folder = store.create(tmp_path, "c", "training", 1e9)
    spec = ClusterSpec(name="c", provider="gcp", instance="a3-megagpu-8g")
    store.write(
        folder, Record(id=folder.name, benchmark="training", status="done", at=1e9, spec=spec)
    )
    log = folder / "raw" / "nccl.a.1.log"
    log.parent.mkdir(exist_ok=True)
    findings = []
    for used in ("Socket", "FasTrak"):
        log.write_text(nccl(f"NET/{used}/0", network_=used))
        findings.append(gpus.on_sockets(store.read(folder).evidence(())))

    assert findings[0] is not None
    assert (findings[0].confidence, findings[0].name) == ("certain", "a3-megagpu-8g")
    assert findings[1] is None


def test_a_link_of_gib_without_gpudirect_is_found(look: Look) -> None:
    """GKE's notes on A4: `Channel 02/0 : 10[2] -> 2[2] [receive] via NET/gIB/2/GDRDMA`."""
    direct, copied = (nccl(f"NET/gIB/2{end}", network_="gIB") for end in ("/GDRDMA", ""))

    assert gpus.no_gpudirect(look(direct, "a4-highgpu-8g")) is None
    finding = gpus.no_gpudirect(look(copied, "a4-highgpu-8g"))
    assert finding is not None
    assert finding.kind == "no_gpudirect"


def test_links_of_efa_without_gpudirect_may_be_all_that_the_instances_have(look: Look) -> None:
    """On P3dn, it is normal; nobody who did not name the hosts is told to load a module."""
    log = nccl("NET/AWS Libfabric/0", network_="AWS Libfabric")
    unnamed, p4d = (gpus.no_gpudirect(look(log, name)) for name in ("", "p4d.24xlarge"))

    assert gpus.no_gpudirect(look(log, "p3dn.24xlarge")) is None
    assert unnamed is not None
    assert (unnamed.kind, unnamed.confidence) == ("efa_without_gpudirect", "likely")
    assert p4d is not None
    assert (p4d.kind, p4d.confidence) == ("no_gpudirect", "certain")
