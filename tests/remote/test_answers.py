"""What hosts answer, which several threads decode at once."""

from __future__ import annotations

import sys

from tests.conftest import run

DECODES = """
import sys
from cluster.remote.environment.tools import FACTS
from cluster.remote.jobs import EVENT
from tests.plain_values import plain_facts
import msgspec

facts = msgspec.json.encode(plain_facts())

def note(frame, event, _):
    if event == "call" and "msgspec" in frame.f_code.co_filename:
        sys.exit(f"msgspec reads annotations: {frame.f_code.co_name}")

sys.setprofile(note)
assert FACTS.decode(facts) == plain_facts()
assert type(EVENT.decode(b'{"type": "running"}')).__name__ == "Running"
"""


def test_the_annotations_of_answers_are_read_before_any_thread_begins() -> None:
    run(sys.executable, "-c", DECODES)
