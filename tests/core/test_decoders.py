"""What several threads may decode at once."""

from __future__ import annotations

import sys

import pytest

from tests.conftest import run

NOTE = """
import sys
import msgspec

def note(frame, event, _):
    if event == "call" and "msgspec" in frame.f_code.co_filename:
        sys.exit(f"msgspec reads annotations: {frame.f_code.co_name}")
"""
OF_CLOUD = """
from cluster.core.decoders import structs
from cluster.providers.gcp import responses

found = structs(vars(responses).values())
assert found
sys.setprofile(note)
for one in found:
    try:
        msgspec.json.decode(b"[]", type=one)
    except msgspec.ValidationError:
        pass
"""
OF_HOSTS = """
from cluster.agent.protocol import Event, Running
from cluster.core.model.hosts import Facts
from cluster.remote import jobs
from cluster.remote.environment import tools
from tests.plain_values import plain_facts

facts = msgspec.json.encode(plain_facts())
sys.setprofile(note)
assert msgspec.json.decode(facts, type=Facts) == plain_facts()
assert msgspec.json.decode(b'{"type": "running"}', type=Event) == Running()
"""


@pytest.mark.parametrize(
    "script",
    [OF_CLOUD, OF_HOSTS],
    ids=["gcp", "hosts"],
)
def test_the_annotations_of_answers_are_read_before_any_thread_begins(script: str) -> None:
    run(sys.executable, "-c", NOTE + script)
