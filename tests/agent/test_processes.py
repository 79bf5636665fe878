"""What a rank's process has of its host is kept with its run, and is what the kernel says."""

import os
import socket
from pathlib import Path

import pytest

import cluster
from cluster.agent import processes
from cluster.analysis.verdict.rules import hosts
from cluster.core.model.hosts import Connection

# As the kernel prints it (proc(5)): a listener, what is established, what is closing, and one of
# another process.
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid inode\n"
ROW = "   {n}: {here} {there} {state} 00000000:00000000 00:00000000 00000000  0  0 {inode} 1\n"
TCP = (
    ("020412C6:0400", "00000000:0000", "0A", 100),
    ("020412C6:0400", "030412C6:B963", "01", 101),
    ("020412C6:A101", "030412C6:0400", "01", 102),
    ("020412C6:A102", "030412C6:0400", "06", 103),
    ("020412C6:A103", "030412C6:0400", "01", 999),
    ("0100007F:A104", "0100007F:0400", "01", 104),
    ("020412C6:A105", "020412C6:0400", "01", 105),
)
TCP6 = (
    ("0000000000000000FFFF0000020412C6:0016", "0000000000000000FFFF0000030412C6:0017", "01", 106),
    ("000080FE000000000000000001000000:0016", "000080FE000000000000000002000000:0017", "01", 107),
)


def table(rows: tuple[tuple[str, str, str, int], ...]) -> str:
    return HEAD + "".join(
        ROW.format(n=n, here=local, there=remote, state=state, inode=inode)
        for n, (local, remote, state, inode) in enumerate(rows)
    )


def test_established_connections_of_this_process_to_other_hosts(tmp_path: Path) -> None:
    for name in ("fd", "net"):
        (tmp_path / name).mkdir()
    for number in range(100, 108):
        (tmp_path / "fd" / str(number)).symlink_to(f"socket:[{number}]")
    (tmp_path / "fd" / "1").symlink_to("/dev/null")
    (tmp_path / "net" / "tcp").write_text(table(TCP))
    (tmp_path / "net" / "tcp6").write_text(table(TCP6) + "   9: torn\n")

    assert processes.connections(tmp_path) == (
        Connection(here="198.18.4.2:41217", there="198.18.4.3:1024"),
        Connection(here="198.18.4.2:22", there="198.18.4.3:23"),
        Connection(here="198.18.4.2:1024", there="198.18.4.3:47459"),
        Connection(here="[fe80::1]:22", there="[fe80::2]:23"),
    )
    assert processes.connections(tmp_path / "nowhere") == ()


def test_connections_that_stay_on_a_host_do_not_count() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        address = "{}:{}".format(*client.getsockname())
        assert address not in {connection.here for connection in processes.connections()}


@pytest.mark.parametrize(
    ("text", "numbers"), [("3", {3}), ("0-2,8", {0, 1, 2, 8}), ("1,65", {1, 65}), ("", set())]
)
def test_lists_of_processors(text: str, numbers: set[int]) -> None:
    assert processes.parse_cpu_list(text) == numbers


def test_the_processors_of_each_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that a process may use; where the kernel does not say, nothing is guessed."""
    for number in range(8):
        folder = tmp_path / f"cpu{number}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{number % 4},{number % 4 + 4}\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 4, 6})

    assert processes.usable_cores(tmp_path) == ((0, 4), (1,), (6,))
    (tmp_path / "cpu1" / "topology" / "thread_siblings_list").unlink()
    assert processes.usable_cores(tmp_path) == ()


PINNED = '''
import os
from cluster.measure.benchmark import Benchmark
from cluster.core.model.results.measurements import Definition
from cluster.core.model.value import Value
from cluster.measure.main import main

NOTHING = Definition(benchmark="pinned", metric="nothing", unit="s", better="lower", what="nothing",
    clock="none", synchronisation="none", warm_up="none", aggregation="each rank")

class PinnedParams(Value, frozen=True, kw_only=True):
    """It has no parameters."""

class Pinned(Benchmark[PinnedParams]):
    """Ranks that are bound as a careless script would bind them."""

    Params = PinnedParams
    metrics = (NOTHING,)

    def measure(self, rank, params):
        """Bind, and take a value."""
        os.sched_setaffinity(0, range(os.cpu_count()))
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        rank.begin(NOTHING, {}).append(1.0)
        rank.end()

if __name__ == "__main__":
    main(Pinned())
'''


@pytest.mark.usefixtures("tools")
def test_ranks_that_share_a_core_though_another_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real ranks, whose masks come home with their run."""
    if len(processes.usable_cores()) < 2:
        pytest.skip("there are no two cores whose threads the kernel tells apart")
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "pinned.py").write_text(PINNED)
    monkeypatch.setenv("CLUSTER_PLUGINS", str(tmp_path))
    with cluster.launch("pin", hosts=2) as c:
        careless = c.bench("pinned")
        bound = c.bench("p2p", metrics=["latency"], sizes="8", iterations=20)
    together, separate = (run.evidence(run.summary()) for run in (careless, bound))
    first = min(os.sched_getaffinity(0))
    overlap = hosts.shared_core(together)

    assert [p.processors for p in together.processes] == [(first,), (first,)]
    assert overlap is not None
    assert overlap.ranks == together.processes
    assert len({p.processors for p in separate.processes}) == 2
    assert hosts.shared_core(separate) is None


def test_what_interfaces_sent_while_a_rank_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    counters = {"eth0.tx_bytes": 70, "eth0.rx_bytes": 5, "vxlan0.tx_bytes": 9}
    monkeypatch.setattr(processes, "interface_counters", lambda: iter(counters.items()))
    start = processes.processor_times()

    info = processes.process_info(0, start, start, {"eth0": 50})
    assert info.sent == (("eth0", 20), ("vxlan0", 0))
    assert processes.sent_bytes() == {"eth0": 70, "vxlan0": 9}
