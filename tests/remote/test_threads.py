"""Whoever waits for a call in another thread gets its result, or whatever it raised."""

import pytest

from cluster.remote.parallel import start


def test_what_a_call_returns() -> None:
    assert start(lambda: 42).result() == 42


@pytest.mark.parametrize("kind", [OSError, ValueError, SystemExit, KeyboardInterrupt])
def test_whatever_a_call_raises_ends_the_wait(kind: type[BaseException]) -> None:
    """A thread that ends without a word would be waited for for ever."""

    def fail() -> None:
        raise kind

    with pytest.raises(kind):
        start(fail).result(timeout=60)
