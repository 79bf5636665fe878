"""What is refused before anything is launched, and the money that is said before."""

import pytest

from cluster.core.model.results.measurements import BestOfDraws, DrawnSeries
from cluster.reports.tables import lottery_answer, lottery_table
from tests.conftest import answer, command
from tests.fakes.aws import Cloud
from tests.snapshots import Snapshot

P2P = ("bench", "p2p", "c5")
AWS = ("--provider", "aws", "--instance", "c5.18xlarge", "--ttl", "1h")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--lottery", "1"), "two launches of machines or more"),
        (("--lottery", "3", "--launches", "1"), "two jobs on each"),
        (("--lottery", "3", "--keep"), "--lottery and --keep contradict"),
        (("--lottery", "3", "--detach"), "--lottery and --detach contradict"),
        (("--lottery", "3", "--ab", "window=1,2"), "--lottery and --ab contradict"),
        (("--lottery", "3", "--order", "near"), "--lottery and --order near contradict"),
        (("--lottery", "3", "--github"), "contradict"),
        (("--lottery", "3", "--provider", "local"), "the same hosts each time"),
        (("--lottery", "3", "--provider", "sim"), "the same hosts each time"),
    ],
)
def test_what_is_no_lottery_is_refused(words: tuple[str, ...], message: str) -> None:
    provider = () if "--provider" in words else ("--provider", "lab")
    assert message in command(*P2P, *words, *provider, status=2).stderr
    assert answer("ls") == []


def test_money_is_said_before_and_nothing_is_made_unasked(aws: Cloud, snapshot: Snapshot) -> None:
    before = aws.things()
    once = command(*P2P, *AWS, status=2).stderr
    result = command(*P2P, *AWS, "--lottery", "5", status=2)
    hourly = float(once.partition("$")[2].split()[0])

    assert f"${hourly:.4g}" in result.stdout
    assert f"(${5 * hourly:.2f})" in result.stdout  # five times the hour after which machines end
    snapshot(result.stderr)
    assert aws.things() == before
    assert not aws.calls("RunInstances") or all(c.code for c in aws.calls("RunInstances"))


def test_a_plan_creates_nothing(aws: Cloud) -> None:
    before = aws.things()
    assert "c5.18xlarge" in command(*P2P, *AWS, "--lottery", "5", "--plan").stdout
    assert aws.things() == before


def series(*, differs: bool, gain: float, hours: float | None) -> DrawnSeries:
    best = BestOfDraws(draws=2, measured=9e-6, gain=gain, dollars=4.0, hours=hours)
    return DrawnSeries(
        metric="latency",
        params={"size": 8},
        unit="s",
        better="lower",
        draws=((1e-5, 1.1e-5), (9e-6, 9e-6)),
        mean=1e-5,
        between=1e-6,
        within=2e-7,
        chance=0.002,
        differs=differs,
        best=(best,),
    )


def test_the_table_of_a_lottery() -> None:
    table = lottery_table(
        [
            series(differs=True, gain=0.1, hours=2.0),
            series(differs=False, gain=0.1, hours=2.0),
            series(differs=True, gain=0.0, hours=None),
        ],
        2,
    )
    assert table.rows[0][3:] == ("10.0%", "2.0%", "0.002", "9.000 µs", "10.0%", "2 h 0 min")
    assert table.rows[1][-2:] == ("none seen", "-")
    assert table.rows[2][-2:] == ("0.0%", "-")


def test_the_answer_of_a_lottery(snapshot: Snapshot) -> None:
    equal, lucky = (series(differs=differs, gain=0.1, hours=2.0) for differs in (False, True))
    jobs = [3] * 5
    text = lottery_answer([equal, lucky], jobs, 12.5)
    snapshot(text)
    snapshot(lottery_answer([equal], jobs, None))
    assert "$" not in lottery_answer([equal], jobs, None)
    snapshot(lottery_answer([lucky], [2, 2], None))
    snapshot(lottery_answer([], jobs, None))
