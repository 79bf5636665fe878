"""Nobody is charged without a question: who is asked, and what a refusal says."""

import pytest

from cluster.cli import confirm
from cluster.cli.confirm import confirm_cost, price_words
from cluster.core.errors import SpecError
from cluster.core.model.resources import Plan, Price
from cluster.core.model.spec import ClusterSpec
from tests.conftest import answer, command, launcher
from tests.fakes.aws import Cloud
from tests.snapshots import Snapshot

SPEC = ClusterSpec(name="c5", provider="aws", hosts=2)
PRICE = Price(hourly=3.06, at="2026-11-01", source="list price")
PLAN = Plan(lines=("make 2 x c5.18xlarge",), costs=True, price=PRICE)


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Answer every question with no, on a terminal."""
    questions: list[str] = []
    monkeypatch.setattr(confirm, "has_terminal", lambda: True)

    def ask(question: str, **how: bool) -> bool:
        assert how == {"err": True}, "standard output may be JSON"
        questions.append(question)
        return False

    monkeypatch.setattr("click.confirm", ask)
    return questions


def test_on_a_terminal_the_plan_and_the_price_come_first(
    snapshot: Snapshot, questions: list[str]
) -> None:
    lines: list[str] = []
    with snapshot.raises(SpecError):
        confirm_cost(SPEC, PLAN, lines.append, yes=False)

    assert lines == ["make 2 x c5.18xlarge"]
    assert ["$6.12" in question for question in questions] == [True]


def test_who_says_yes_sees_the_plan_and_is_not_asked(questions: list[str]) -> None:
    lines: list[str] = []
    confirm_cost(SPEC, PLAN, lines.append, yes=True)

    assert lines == ["make 2 x c5.18xlarge"]
    assert questions == []


def test_what_costs_nothing_is_no_question(questions: list[str]) -> None:
    lines: list[str] = []
    confirm_cost(SPEC, Plan(lines=("2 x this machine",)), lines.append, yes=False)

    assert lines == []
    assert questions == []


def test_a_price_that_is_not_known_is_said_to_be_unknown(snapshot: Snapshot) -> None:
    snapshot(price_words(SPEC, Plan(lines=(), costs=True)))


@pytest.mark.parametrize(
    "words",
    [
        ("up", "c5", "--provider=aws", "--instance=c5.18xlarge"),
        ("bench", "p2p", "c5", "--provider=aws", "--instance=c5.18xlarge"),
    ],
    ids=lambda words: words[0],
)
def test_without_a_terminal_and_without_yes_nothing_is_created(
    snapshot: Snapshot, aws: Cloud, words: tuple[str, ...]
) -> None:
    refused = command(*words, status=2)

    snapshot(refused.stderr)
    assert "make 2 x c5.18xlarge" in refused.stdout + refused.stderr
    assert not aws.mutating()
    assert answer("ls") == []


def test_the_founding_launcher_asks_as_well(aws: Cloud) -> None:
    refused = launcher("--name=c5", "--placement=1", "--instance=c5.18xlarge", status=2)

    assert "add --yes" in refused.stderr
    assert not aws.mutating()
