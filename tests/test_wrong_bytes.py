"""A message that arrives wrong or not at all fails the run; a latency is half of a round trip."""

import shutil
from pathlib import Path

import pytest

from tests.background import only_run, record
from tests.conftest import answer, command
from tests.one_file import one_file

pytestmark = pytest.mark.usefixtures("tools")


AFTER_ONE = (
    "                seconds.append(once(outgoing, incoming))\n",
    "                incoming[1234] ^= 4 * (messages.number == 3)\n",
)
FLIPS = {
    "oneway_time": AFTER_ONE,
    "latency": (
        "            seconds = [half(*messages.message(number)) for number in numbers]\n",
        "            messages.message(numbers.start)[1][5] ^= 4 * (50 in numbers)\n",
    ),
    "bandwidth": AFTER_ONE,
    "bidirectional": AFTER_ONE,
}
SIZES = ("2000", "1MB")  # each with each kernel, and with each metric
# C compares in C: so it is what the second rank waits for that changes, after a while.
BEFORE_C = """\
        alive = kind, outgoing  # as long as C has their addresses

        def repeat(n: int) -> list[float]:
"""
IN_C = """\
            if pair.number >= 3 and definition.metric == METRIC and not self.data.first:
                messages.patterns[0][1234] = self.data.patterns[1][1234]
"""


def altered(
    home: Path, monkeypatch: pytest.MonkeyPatch, module: str, after: str, added: str
) -> None:
    """Make a benchmark `altered`: the real p2p with a line added after another."""
    folder = home / "plugins" / "benchmarks"
    folder.mkdir(parents=True)
    (folder / "altered.py").write_text(one_file("p2p", module, after, after + added))
    monkeypatch.setenv("CLUSTER_PLUGINS", str(home / "plugins"))


@pytest.mark.parametrize(
    ("metric", "kernel", "size"),
    [
        (metric, kernel, SIZES[(number + shift) % 2])
        for number, metric in enumerate(FLIPS)
        for shift, kernel in enumerate(("c", "python"))
    ],
)
def test_a_wrong_byte_fails_the_run(
    home: Path, monkeypatch: pytest.MonkeyPatch, metric: str, size: str, kernel: str
) -> None:
    """The real benchmark, with one byte that differs after one message in the middle arrived."""
    if kernel == "c" and shutil.which("cc") is None:
        pytest.skip("there is no C compiler: apt-get install gcc")
    in_c = "loops", BEFORE_C, IN_C.replace("METRIC", repr(metric))
    altered(home, monkeypatch, *(in_c if kernel == "c" else ("loops", *FLIPS[metric])))

    words = (f"--metrics={metric}", f"--sizes={size}", "--iters=100", f"--kernel={kernel}")
    result = command("bench", "altered", *words, status=1)
    assert f"WrongDataError: {metric} of" in result.stderr
    assert record(only_run())["status"] == "failed"


def test_a_message_that_lands_nowhere_fails_the_run(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of an earlier message is not taken for the one that did not arrive."""
    after = "        def pong(outgoing: Piece, incoming: Piece) -> float:\n"
    altered(home, monkeypatch, "loops", after, "            incoming = incoming.copy()\n")

    words = ("--metrics=latency", "--sizes=64", "--iters=300", "--warm-up=0", "--kernel=python")
    assert "WrongDataError: latency of" in command("bench", "altered", *words, status=1).stderr


@pytest.mark.serial  # it measures speed
def test_latency_is_half_of_the_round_trip(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer sleeps 20 ms before it answers: so the latency is 10 ms and a little."""
    after = (
        "        def pong(outgoing: Piece, incoming: Piece) -> float:\n"
        "            receive(incoming, peer, TAG_DATA)\n"
    )
    altered(home, monkeypatch, "loops", after, "            __import__('time').sleep(0.02)\n")

    words = ("--metrics=latency", "--sizes=8", "--iters=10", "--warm-up=1", "--kernel=python")
    [summary] = answer("bench", "altered", *words)["summaries"]
    assert 0.010 <= summary["median"] < 0.019
