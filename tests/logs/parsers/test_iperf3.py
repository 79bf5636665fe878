"""iperf3: the receiver's figure, several documents, and failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster.logs.reader import read
from tests.logs.samples import LOGS, kinds, of, results, values

if TYPE_CHECKING:
    from cluster.core.model.logs import Parsed

TEXT = (LOGS / "iperf3.text.txt").read_text()
JSON = (LOGS / "iperf3.json.txt").read_text()


def totals(result: Parsed) -> dict[str, float]:
    return {m.metric: m.values[0] for m in result.measurements}


def test_text_gives_the_sum_of_the_streams_at_the_receiver() -> None:
    (result,) = read([TEXT.encode()]).results

    assert totals(result) == pytest.approx(
        {"received": 9.35e9 / 8, "sent": 9.41e9 / 8, "retransmits": 4}
    )
    assert result.measurements[0].params["streams"] == 2


def test_several_documents_are_several_results_and_an_error_is_a_failure() -> None:
    first, second, third = read([JSON.encode()]).results

    assert totals(first)["received"] == pytest.approx(9.4e9 / 8 * 2 / 2.04)
    assert totals(second)["sent"] == pytest.approx(9.2e9 / 8)
    assert len(first.measurements[2].values) == 2  # intervals
    assert third.measurements == ()
    assert third.failures == ("unable to connect to server: Connection refused",)


@pytest.mark.parametrize("indent", ["", "  ", "\t\t"])
def test_the_indentation_may_be_lost(indent: str) -> None:
    text = "".join(indent + line.strip() + "\n" for line in JSON.splitlines())

    assert [totals(r) for r in read([text.encode()]).results] == [
        totals(r) for r in read([JSON.encode()]).results
    ]


def test_a_document_without_its_end_is_a_failure_and_the_next_one_is_read() -> None:
    first = JSON[: JSON.index('"end":') - 40]
    found = read([(first + "\n" + JSON).encode()]).results

    assert [bool(r.failures) for r in found] == [True, False, False, True]


def test_only_a_senders_figure_is_said_to_be_one() -> None:
    text = "".join(line for line in TEXT.splitlines(keepends=True) if "receiver" not in line)
    (result,) = read([text.encode()]).results

    assert totals(result) == pytest.approx({"sent": 9.41e9 / 8, "retransmits": 4})
    assert kinds(result)[0] == "only_sent"


def test_a_failed_client_is_a_failure() -> None:
    text = "Connecting to host 10.0.0.9, port 5201\niperf3: error - unable to connect: timed out\n"

    assert "timed out" in read([text.encode()]).results[0].failures[0]


def test_udp_counts_what_was_lost() -> None:
    text = (
        "Connecting to host 10.0.0.2, port 5201\n"
        "[  5]   0.00-10.00  sec  1.25 MBytes  1.05 Mbits/sec  0.000 ms  0/906 (0%)  sender\n"
        "[  5]   0.00-10.04  sec  1.24 MBytes  1.04 Mbits/sec  0.012 ms  9/906 (0.99%)  receiver\n"
    )

    found = totals(read([text.encode()]).results[0])
    assert found["lost"] == pytest.approx(100 * 9 / 906)
    assert found["jitter"] == pytest.approx(12e-6)
    assert found["received"] == pytest.approx(1.04e6 / 8)


@pytest.mark.parametrize(("client", "metric"), [(True, "sent"), (False, "received")])
def test_the_one_sum_of_old_udp_documents_is_of_their_own_side(
    client: bool,  # noqa: FBT001 - a parameter of the test
    metric: str,
) -> None:
    start = '"connecting_to":{"host":"h","port":5201},' if client else ""
    text = (
        '{"start":{"version":"iperf 3.0.11",' + start + '"test_start":{"protocol":"UDP"}},'
        '"intervals":[],"end":{"sum":{"seconds":10,"bytes":1250000,"bits_per_second":1000000,'
        '"jitter_ms":0.012,"lost_percent":0.5}}}\n'
    )

    found = totals(read([text.encode()]).results[0])
    assert found == pytest.approx({metric: 125000.0, "jitter": 12e-6, "lost": 0.5})


def test_the_totals_of_datagrams_in_old_versions_have_no_role() -> None:
    (udp,) = results("iperf3.old_udp")

    assert values(udp, "sent", protocol="UDP") == pytest.approx([1.05e6 / 8])
    assert values(udp, "lost") == [12.5]
    assert values(udp, "jitter") == [250e-6]
    assert udp.failures == ()


def test_a_side_that_does_not_know_the_other_ones_bytes_says_nothing_of_them() -> None:
    (server,) = results("iperf3.old_server")

    assert values(server, "received") == pytest.approx([903e6 / 8])
    assert not values(server, "sent")
    assert server.failures == ()  # every server is stopped in the end


def test_datagrams_both_ways() -> None:
    (both,) = results("iperf3.both_ways")

    assert values(both, "received", way="TX") == pytest.approx([8.8e6 / 8])
    assert values(both, "received", way="RX") == pytest.approx([9.6e6 / 8])
    assert values(both, "lost", way="TX") == [10]
    assert values(both, "jitter", way="RX") == [500e-6]


def test_rows_without_their_head_are_ours_and_not_of_iperf_2() -> None:
    rows = (
        "[ ID] Interval           Transfer     Bandwidth\n"
        "[  4]   0.00-1.00   sec   112 MBytes   941 Mbits/sec\n"
        "[  4]   1.00-2.00   sec   112 MBytes   941 Mbits/sec\n"
        "- - - - - - - - - - - - - - - - - - - - - - - - -\n"
        "[  4]   0.00-2.00   sec   224 MBytes   940 Mbits/sec    3             sender\n"
        "[  4]   0.00-2.00   sec   223 MBytes   936 Mbits/sec                  receiver\n"
    )
    (test,) = read([rows.encode()]).results

    assert test.format == "iperf3"
    assert values(test, "received") == pytest.approx([936e6 / 8])


def test_a_test_that_was_interrupted_received_not_nothing() -> None:
    text = (
        "Connecting to host 10.0.0.2, port 5201\n"
        "[  5]   0.00-1.50   sec  1.00 GBytes  5.73 Gbits/sec    3             sender\n"
        "[  5]   0.00-1.50   sec  0.00 Bytes  0.00 bits/sec                  receiver\n"
        "iperf3: interrupt - the client has terminated\n"
    )
    (test,) = read([text.encode()]).results

    assert not values(test, "received")
    assert "the client has terminated" in test.failures[0]


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


def test_a_list_of_documents() -> None:
    document = "\n".join(f"  {line}" for line in DATAGRAMS.splitlines())
    found = read([f"[\n{document},\n{document}\n]\n".encode()]).results

    assert [values(test, "received") for test in found] == [[125], [125]]


def test_a_document_without_an_end_is_a_failure() -> None:
    text = '{"start": {"version": "iperf 3.12", "test_start": {}}, "intervals": []}\n'
    empty = text.replace("[]", '[{"sum": {"seconds": 1, "bytes": 5}}], "end": {}')

    for broken in (text, empty):
        (test,) = read([broken.encode()]).results
        assert len(test.failures) == 1


def test_a_sum_alone_does_not_say_of_how_many_streams_it_is() -> None:
    """The last lines of `-P 16`, as people paste them."""
    line = "[SUM]   0.00-30.00  sec   123 GBytes  35.2 Gbits/sec"
    result = of(f"{line}    0             sender\n{line}                  receiver\n")
    assert result.measurements
    assert {m.params["streams"] for m in result.measurements} == {"several"}


def test_streams_of_one_number_and_two_ports_are_of_two_tests() -> None:
    """As in esnet/iperf issue 408, with --title: rows of clients side by side belong to none."""
    lines = "[  4] local 10.0.0.1 port {} connected to 10.0.0.2 port 5101\n"
    rows = "[  4]   0.00-1.00   sec   390 MBytes  3.27 Gbits/sec    0    446 KBytes\n"
    (mixed,) = read([(lines.format(45424) + lines.format(42245) + rows * 2).encode()]).results
    (plain,) = read([(lines.format(45424) * 2 + rows).encode()]).results

    assert not mixed.measurements
    assert mixed.failures
    assert len(plain.measurements) == 1
