"""What holds of any log: to know less of it makes no figure surer."""

import io
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from cluster.analysis.limits import hardware
from cluster.analysis.verdict.verdict import verdicts
from cluster.core.errors import ParseError
from cluster.runs import store
from cluster.runs.import_.logs import LogLocation, import_logs
from tests.analysis.test_verdict import BRIDGED, HEAD, MATRIX, row

RANKS = "".join(
    f"#  Rank {n:2} Group  0 Pid {n}1 on node{n // 8} device {n % 8} [0x00] NVIDIA H100 80GB HBM3\n"
    for n in range(16)
)
PAIRS = (
    "# OSU MPI Multiple Bandwidth / Message Rate Test v7.3\n"
    "# [ pairs: 32 ] [ window size: 64 ]\n# Size                  MB/s        Messages/s\n"
    "1048576              46000.00          43869.01\n"
    "4194304              99000.00          23603.43\n"
)
LOGS = {
    "bridged": (BRIDGED + MATRIX.format(gpu="NVIDIA A100 80GB PCIe", on=290.0, off=20.0), "", 0),
    "above bridges": (MATRIX.format(gpu="NVIDIA A100 80GB PCIe", on=450.0, off=20.0), "", 0),
    "collective": (
        RANKS + HEAD + row(8 << 30, 0.02, 1.875) + row(4 << 30, 0.01, 1.875),
        "p5.48xlarge",
        2,
    ),
    "pairs": (PAIRS, "nic=100gbit,rdma=yes", 8),
}
Figure = tuple[str, object, float]


def certain(text: str, words: str, hosts: int, folder: Path) -> Mapping[Figure, str]:
    """Judge a log; give the figures that are surely impossible, and the words of the others."""
    place = LogLocation(hardware=hardware.find(words) if words else None, hosts=hosts)
    try:
        result = import_logs(["-"], folder, stdin=io.BytesIO(text.encode()), place=place)
    except ParseError:
        return {}
    run = store.read(result.folder)
    figures = verdicts(run.summary(), run.record.definitions, run.record.hardware)
    return {(v.metric, v.params.get("p2p"), v.median): v.word for v in figures}


@pytest.mark.parametrize("name", LOGS)
def test_removing_lines_never_raises_a_figures_certainty(name: str, tmp_path: Path) -> None:
    """What is not impossible in the whole log is not impossible in a part of it."""
    text, words, hosts = LOGS[name]
    whole = certain(text, words, hosts, tmp_path)
    lines = text.splitlines(keepends=True)
    chance = random.Random(name)
    assert whole
    for _ in range(8):
        cuts = set(chance.sample(range(len(lines)), chance.randrange(1, max(2, len(lines) // 3))))
        part = "".join(line for n, line in enumerate(lines) if n not in cuts)
        for figure, word in certain(part, words, hosts, tmp_path).items():
            base = whole.get(figure)
            assert word != "impossible" or base in (None, "impossible"), (figure, base, part)
