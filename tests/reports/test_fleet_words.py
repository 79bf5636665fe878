"""Each code of a check has words, and is in the reference."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from cluster.core.model.fleet import PartKind, ReasonCode
from tests.conftest import ROOT

PAGE = Path(ROOT / "docs" / "reference" / "check-codes.md").read_text()


def test_the_reference_has_each_code_and_no_other() -> None:
    first_cells = re.findall(r"^\| (`[^|]*) \|", PAGE, re.MULTILINE)
    codes = {code for cell in first_cells for code in re.findall(r"`(\w+)`", cell)}

    assert codes == {*get_args(ReasonCode), *get_args(PartKind)}
