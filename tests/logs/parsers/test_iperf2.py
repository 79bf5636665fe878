"""iperf 2: which side counted what, and where one test ends and the next begins."""

import pytest

from cluster.logs.reader import read
from tests.logs.samples import LOGS, kinds, of, results, values

GBIT = 1e9 / 8


def test_a_sum_may_end_before_its_streams() -> None:
    (client,) = results("iperf2.parallel")

    assert values(client, "sent", streams=2) == pytest.approx([1.84 * GBIT])
    assert client.failures == ()


def test_the_interval_of_a_log_that_is_cut_off_is_not_the_whole() -> None:
    lines = (results_text := open_log("iperf2.parallel")).splitlines()
    (client,) = read(["\n".join(lines[:13]).encode() + b"\n"]).results

    assert "[SUM] 5.0000-10" in results_text
    assert not values(client, "sent")
    assert values(client, "interval", streams=2) == pytest.approx([1.84 * GBIT] * 2)
    assert kinds(client) == ["only_intervals"]


def test_both_directions_at_once_are_two_figures() -> None:
    both, _, _ = results("iperf2.both_ways")

    assert values(both, "sent", streams=2) == pytest.approx([(1.72 + 0.857) * GBIT])
    assert values(both, "received", streams=2) == pytest.approx([(3.43 + 2.56) * GBIT])
    assert kinds(both)[0] == "sum_of_both_ways"


def test_a_client_in_reverse_receives() -> None:
    _, reverse, _ = results("iperf2.both_ways")

    assert values(reverse, "received", streams=1) == pytest.approx([0.944 * GBIT])
    assert not values(reverse, "sent")


def test_what_the_server_reports_of_datagrams_was_received() -> None:
    udp = results("iperf2.both_ways")[2]

    assert values(udp, "sent", protocol="UDP") == pytest.approx([52.4e6 / 8])
    assert values(udp, "received", protocol="UDP") == pytest.approx([41.9e6 / 8])
    assert values(udp, "lost") == pytest.approx([100 * 8916 / 44582])
    assert values(udp, "jitter") == [250e-6]


def test_a_server_serves_one_client_after_the_other() -> None:
    first, second, third = results("iperf2.several")

    assert values(first, "received", streams=1) == pytest.approx([0.944 * GBIT])
    assert values(second, "received", streams=2) == pytest.approx([0.831 * GBIT])
    assert values(third, "received", streams=1) == pytest.approx([0.859 * GBIT])


def test_pasted_figures_of_three_runs_are_three_results() -> None:
    rows = "".join(f"[  3]  0.0-10.0 sec  {a} GBytes  {b} Gbits/sec\n" for a, b in RUNS)
    found = [value for run in read([rows.encode()]).results for value in values(run, "rate")]

    assert found == pytest.approx([b * GBIT for _, b in RUNS])


def test_the_seconds_of_csv_are_rounded() -> None:
    lines = (
        "20260101000000,10.0.0.1,34322,10.0.0.2,5001,2,0.0-0.5,206438460,3303015360\n"
        "20260101000000,10.0.0.1,34322,10.0.0.2,5001,2,0.5-1.0,145358848,2325741568\n"
        "20260101000000,10.0.0.1,34322,10.0.0.2,5001,2,0.0-1.0,351928380,2753134616\n"
    )
    reading = read([lines.encode()])

    assert values(reading.results[0], "rate") == [2753134616 / 8]
    assert reading.unread == 0


RUNS = ((8.91, 7.65), (8.80, 7.56), (8.85, 7.60))


def open_log(name: str) -> str:
    return (LOGS / f"{name}.txt").read_text()


def test_a_sum_alone_does_not_say_of_how_many_streams_it_is() -> None:
    """The last line of `-P 16`, as people paste it."""
    result = of("[SUM]  0.0-30.0 sec    337 GBytes  96.4 Gbits/sec\n")
    (rate,) = result.measurements
    assert rate.params["streams"] == "several"
