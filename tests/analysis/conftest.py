"""What a log says, for all tests of this folder."""

import io
from pathlib import Path

import pytest

from cluster.analysis.limits.hardware import find
from cluster.analysis.verdict.evidence import Evidence
from cluster.runs import store
from cluster.runs.import_.logs import LogLocation, import_logs
from tests.analysis.evidence import Look


@pytest.fixture
def look(tmp_path: Path) -> Look:

    def evidence(text: str, hardware: str = "", hosts: int = 0) -> Evidence:
        place = LogLocation(hardware=find(hardware) if hardware else None, hosts=hosts)
        result = import_logs(["-"], tmp_path, stdin=io.BytesIO(text.encode()), place=place)
        run = store.read(result.folder)
        return run.evidence(run.summary())

    return evidence
