"""Each code of a check has words, and is in the reference."""

import re
from pathlib import Path
from typing import get_args

from cluster.core.model.network.fleet import PartKind, ReasonCode
from cluster.core.model.network.gate import GateCode
from cluster.reports.words.findings import WORDS
from tests.conftest import ROOT

PAGE = Path(ROOT / "docs" / "reference" / "check-codes.md").read_text()


def test_the_reference_has_each_code_and_no_other() -> None:
    first_cells = re.findall(r"^\| (`[^|]*) \|", PAGE, re.MULTILINE)
    codes = {code for cell in first_cells for code in re.findall(r"`(\w+)`", cell)}

    assert codes == {*get_args(ReasonCode), *get_args(PartKind)}


def test_the_reference_has_each_code_of_a_finding() -> None:
    page = (Path(ROOT) / "docs" / "reference" / "finding-codes.md").read_text()
    codes = {"above_limit", "above_assumption", "other_load", "added"}

    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == {*WORDS, *codes}


def test_the_page_of_the_gate_explains_each_of_its_codes() -> None:
    page = (Path(ROOT) / "docs" / "explanation" / "gate.md").read_text()
    rows = re.findall(r"^\| (`[^|]+) \|", page, re.MULTILINE)

    assert {code for row in rows for code in re.findall(r"`(\w+)`", row)} == {*get_args(GateCode)}
