"""Amazon, and a process that is killed: whoever comes after it leaves nothing of ours."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest

from cluster import journal, plugins
from cluster.clusters import attach
from cluster.forgotten import forgotten, remove
from cluster.model import ClusterSpec
from cluster.providers import Provider
from tests import dying
from tests.conftest import until
from tests.fakes.aws import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fakes.aws import Call, Cloud
    from tests.fakes.values import Moment

pytestmark = [pytest.mark.usefixtures("soon"), pytest.mark.timeout(300)]
SPEC = ClusterSpec(name="c5", provider="aws", instance="c5.18xlarge", placement=True)
WAYS = ("down", "gc", "gc without a journal")


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Amazon be consistent after a moment: the test cloud is at once."""
    monkeypatch.setenv("CLUSTER_LATE", "0.2")


@pytest.fixture
def provider(aws: Cloud) -> Provider:
    """One that has planned already: it does not plan again."""
    chosen = plugins.load(Provider, "aws")
    chosen.plan(SPEC)
    return chosen


def create(provider: Provider) -> None:
    """Do what a launch does, up to the first connection."""
    book = journal.of("c5")
    with book.launching(journal.Intended(spec=SPEC, at=time.time())), book.held():
        provider.create(SPEC, book)


def clear(way: str) -> None:
    """Do what `cluster down` and `cluster gc -y` do."""
    if way == "gc without a journal":
        journal.of("c5").forget()
    if way == "down":
        attach("c5").down(reachable=False)
        return
    for orphan in forgotten():
        remove(orphan)


def moments(calls: tuple[Call, ...]) -> Iterator[tuple[int, Moment, str]]:
    """Give when to kill: before each call, and after each that changes something.

    To be killed before a call is to be killed when the reply of the one before was used.
    """
    for number, call in enumerate(calls):
        yield number, "before", call.action
        if call.mutating:
            yield number, "after", call.action


@pytest.mark.parametrize("way", WAYS)
def test_a_launch_that_is_killed_at_any_call_leaves_nothing(
    aws: Cloud, provider: Provider, way: str
) -> None:
    """Nothing of it is listed any more, whoever looks, and nothing of others is touched."""
    before = aws.things()
    planned = len(aws.calls())
    create(provider)
    made = aws.calls()[planned:]
    clear("down")
    assert aws.things() == before

    for number, moment, action in moments(made):
        aws.fail(Fault(action="*", kill=moment, skip=planned + number, times=1))
        assert dying.status(dying.launch, SPEC) == -signal.SIGKILL, f"{moment} {action}"
        aws.mend()
        clear(way)
        assert aws.things() == before, f"killed {moment} {action}"


def test_a_teardown_that_is_killed_at_any_call_is_finished_by_the_next(
    aws: Cloud, provider: Provider
) -> None:
    """By each way in turn."""
    before = aws.things()
    create(provider)
    since = len(aws.calls())
    clear("down")
    gone = aws.calls()[since:]
    last = max(number for number, call in enumerate(gone) if call.mutating)

    for turn, (number, moment, action) in enumerate(moments(gone[: last + 2])):
        create(provider)
        aws.fail(Fault(action="*", kill=moment, skip=number, times=1))
        assert dying.status(dying.down, "c5") == -signal.SIGKILL, f"{moment} {action}"
        aws.mend()
        way = WAYS[turn % len(WAYS)]
        clear(way)
        assert aws.things() == before, f"killed {moment} {action}, then {way}"


@pytest.mark.parametrize(
    "action", ["TerminateInstances", "DeleteKeyPair", "DeletePlacementGroup", "DeleteSecurityGroup"]
)
def test_a_teardown_whose_replies_are_lost_gets_through(
    aws: Cloud, provider: Provider, action: str
) -> None:
    before = aws.things()
    create(provider)
    aws.fail(Fault(action=action, drop="after", times=2))
    clear("down")

    assert aws.things() == before
    assert len(aws.calls(action)) > 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("known", ["created", "rotated", "launched"])
def test_a_launch_that_is_killed_while_it_connects_leaves_nothing(
    aws_hosts: Cloud, known: str, way: str
) -> None:
    before = aws_hosts.things()
    aws_hosts.set(boot=0.5)
    with dying.begun(dying.launch, SPEC) as process:
        until(lambda: _is(known), f"the launch is so far: {known}")
        process.kill()
    for orphan in forgotten() if way == "gc" and known == "launched" else ():
        pytest.fail(f"a cluster that is up is taken for forgotten: {orphan}")
    clear("down" if known == "launched" and way == "gc" else way)

    assert aws_hosts.things() == before


def _is(known: str) -> bool:
    """Tell whether a launch is so far."""
    book = journal.of("c5")
    if known == "rotated":  # the new keys are being written down beside the first one
        path = book.folder / "known_hosts"
        return path.exists() and len(path.read_text().splitlines()) > SPEC.hosts
    wanted = journal.Created if known == "created" else journal.Launched
    return any(isinstance(entry, wanted) for entry in book.entries())
