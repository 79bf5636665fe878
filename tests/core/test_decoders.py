"""Several threads decode values of a type that was not decoded before."""

import sys

from tests.conftest import run

# The hash of a `Literal` is Python code, and so a point at which another thread goes on.
SCRIPT = """
import sys, threading, time, typing
import msgspec
from cluster.core.decoders import decode
from cluster.remote.sessions.tasks import TaskState

literal = typing._LiteralGenericAlias
plain = literal.__hash__
literal.__hash__ = lambda self: time.sleep(0.05) or plain(self)

def look():
    try:
        decode(b'{"state": 1}', TaskState)
    except msgspec.ValidationError:
        sys.stdout.write("invalid\\n")

threads = [threading.Thread(target=look) for _ in range(4)]
for thread in threads:
    thread.start()
    time.sleep(0.02)
for thread in threads:
    thread.join()
"""


def test_threads_decode_a_type_for_the_first_time() -> None:
    assert run(sys.executable, "-c", SCRIPT).stdout.split() == ["invalid"] * 4
