"""What several threads may decode at once."""

from __future__ import annotations

import sys

import pytest

from tests.conftest import run

DECODES = """
import sys
import msgspec
from cluster.providers.{cloud} import responses

def note(frame, event, _):
    if event == "call" and "msgspec" in frame.f_code.co_filename:
        sys.exit(f"msgspec reads annotations: {{frame.f_code.co_name}}")

types = [one for one in vars(responses).values() if isinstance(one, type)]
structs = [one for one in types if issubclass(one, msgspec.Struct)]
assert len(structs) > 10
sys.setprofile(note)
for one in structs:
    try:
        msgspec.json.decode(b"[]", type=one)
    except msgspec.ValidationError:
        pass
"""


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_the_annotations_of_answers_are_read_before_any_thread_begins(cloud: str) -> None:
    run(sys.executable, "-c", DECODES.format(cloud=cloud))
