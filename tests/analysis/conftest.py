"""What a log says, for all tests of this folder."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from cluster.analysis.limits.hardware import find
from cluster.runs import store
from cluster.runs.import_.logs import LogLocation, import_logs

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.analysis.verdict.evidence import Evidence
    from tests.analysis.evidence import Look


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """Return what a log says, on some hardware."""

    def evidence(text: str, hardware: str = "", hosts: int = 0) -> Evidence:
        place = LogLocation(hardware=find(hardware) if hardware else None, hosts=hosts)
        done = import_logs(["-"], tmp_path, stdin=io.BytesIO(text.encode()), place=place)
        run = store.read(done.folder)
        return run.evidence(run.summary())

    return evidence
