"""iperf3: the receiver's figure, several documents, and failures."""

import pytest

from cluster.core.model.logs import Parsed
from cluster.logs.reader import read
from tests.logs.samples import LOGS, kinds, values

TEXT = (LOGS / "iperf3.text.txt").read_text()
JSON = (LOGS / "iperf3.json.txt").read_text()


def totals(result: Parsed) -> dict[str, float]:
    return {m.metric: m.values[0] for m in result.measurements}


@pytest.mark.parametrize("indent", ["", "  ", "\t\t"])
def test_the_indentation_may_be_lost(indent: str) -> None:
    text = "".join(indent + line.strip() + "\n" for line in JSON.splitlines())

    assert [totals(r) for r in read([text.encode()]).results] == [
        totals(r) for r in read([JSON.encode()]).results
    ]


def test_a_document_without_its_end_is_a_failure_and_the_next_one_is_read() -> None:
    first = JSON[: JSON.index('"end":') - 40]
    results = read([(first + "\n" + JSON).encode()]).results

    assert [bool(r.failures) for r in results] == [True, False, False, True]


def test_only_a_senders_figure_is_said_to_be_one() -> None:
    text = "".join(line for line in TEXT.splitlines(keepends=True) if "receiver" not in line)
    (result,) = read([text.encode()]).results

    assert totals(result) == pytest.approx({"sent": 9.41e9 / 8, "retransmits": 4})
    assert kinds(result)[0] == "only_sent"


DATAGRAMS = """{
  "start": {"version": "iperf 3.1", "test_start": {"protocol": "UDP"}},
  "intervals": [],
  "end": {"sum": {"seconds": 2.0, "bytes": 250, "jitter_ms": 0.5, "lost_percent": -nan}}
}"""


def test_figures_that_are_no_numbers_are_left_out() -> None:
    (test,) = read([DATAGRAMS.encode()]).results

    assert values(test, "received") == [125]
    assert values(test, "jitter") == [0.0005]
    assert not values(test, "lost")


def test_a_document_without_an_end_is_a_failure() -> None:
    text = '{"start": {"version": "iperf 3.12", "test_start": {}}, "intervals": []}\n'
    empty = text.replace("[]", '[{"sum": {"seconds": 1, "bytes": 5}}], "end": {}')

    for document in (text, empty):
        (test,) = read([document.encode()]).results
        assert len(test.failures) == 1


def test_streams_of_one_number_and_two_ports_are_of_two_tests() -> None:
    """As in esnet/iperf issue 408, with --title: rows of clients side by side belong to none."""
    lines = "[  4] local 10.0.0.1 port {} connected to 10.0.0.2 port 5101\n"
    rows = "[  4]   0.00-1.00   sec   390 MBytes  3.27 Gbits/sec    0    446 KBytes\n"
    (mixture,) = read([(lines.format(45424) + lines.format(42245) + rows * 2).encode()]).results
    (plain,) = read([(lines.format(45424) * 2 + rows).encode()]).results

    assert not mixture.measurements
    assert mixture.failures
    assert len(plain.measurements) == 1
