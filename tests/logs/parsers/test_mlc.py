"""Intel MLC: its matrices, and what is said of its other rows."""

from cluster.logs.reader import read
from tests.logs.samples import LOGS, kinds, values

HEAD = "Intel(R) Memory Latency Checker - v3.9\nMeasuring idle latencies (in ns)...\n"


def test_latencies_under_load_are_named_as_not_read() -> None:
    """Their rows are no figures of the matrices, and no lines that nobody knows."""
    found = read([(LOGS / "mlc.two_sockets.txt").read_bytes()])
    (result,) = found.results

    assert [len(m.values) for m in result.measurements if m.params.get("row") is not None] == [
        1
    ] * 8
    assert values(result, "peak_injection", mix="3:1 Reads-Writes") == [212457.8e6]
    assert kinds(result) == ["under_load"]
    assert found.unread == 0
    assert not any("00002" in line.text for line in found.examples)


def test_a_node_that_is_named_twice_has_both_figures() -> None:
    rows = " 0 80.5 140.5 81.5\n 1 140.5 80.5 141.5\n"
    (result,) = read([f"{HEAD}Numa node 0 1 0\n{rows}".encode()]).results
    found = {(m.params["row"], m.params["column"]): m.values for m in result.measurements}

    assert found[0, 0] == (80.5 / 1e9, 81.5 / 1e9)
    assert found[1, 1] == (80.5 / 1e9,)
