"""What TCP sockets do to the bus bandwidth of NCCL."""

import pytest

from cluster.analysis.verdict.rules import gpus
from tests.analysis.evidence import ALONE, Look, iperf3, nccl

PERF = "# Collective test starting: all_reduce_perf\n"


def test_few_sockets_of_nccl(look: Look) -> None:
    """A bus bandwidth far below its bound, over sockets, with nothing set for them."""
    test = ALONE.format(pid=7, bus="0.50").replace("104.86", "0.50").replace("10.00", "2097.15")
    test = test.replace("#  size", "#   Rank  1 Pid  8 on b device  0 [0x00] Tesla T4\n#  size")
    log = nccl("NET/Socket/0", network_="Socket") + test
    found = gpus.slow_sockets(look(log, "nic=100gbit"))

    assert found is not None
    asked = "NCCL_NSOCKS_PERTHREAD set by environment to 4"
    log = nccl("NET/Socket/0", network_="Socket", extra=asked) + test
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
    found = gpus.slow_sockets(look(sockets + test + iperf3(1.17e9, streams)))

    assert (found.share if found else None) == (share and pytest.approx(share, abs=0.005))
    assert found is None or (found.other is not None and found.confidence == "likely")
    rdma = nccl("NET/IB/0", network_="IB", extra=extra)
    assert gpus.slow_sockets(look(rdma + test + iperf3(1.17e9, streams))) is None


def test_links_of_efa_without_gpudirect_may_be_all_that_the_instances_have(look: Look) -> None:
    """On P3dn, it is normal; nobody who did not name the hosts is told to load a module."""
    log = nccl("NET/AWS Libfabric/0", network_="AWS Libfabric")
    unnamed, p4d = (gpus.no_gpudirect(look(log, name)) for name in ("", "p4d.24xlarge"))

    assert gpus.no_gpudirect(look(log, "p3dn.24xlarge")) is None
    assert unnamed is not None
    assert (unnamed.kind, unnamed.confidence) == ("efa_without_gpudirect", "likely")
    assert p4d is not None
    assert (p4d.kind, p4d.confidence) == ("no_gpudirect", "certain")
