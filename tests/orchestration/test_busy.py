"""Whether a host is busy: what the probe prints on this one, and how it is read."""

import pytest

from cluster.orchestration.usage import PROBE, _reasons
from cluster.remote.shells.local import LocalShell

IDLE = "cpu  100 0 100 1000 0 0 0 0 0 0\ncpu  100 0 100 1200 0 0 0 0 0 0\n"
HALF = "cpu  100 0 100 1000 0 0 0 0 0 0\ncpu  150 0 150 1060 40 0 0 0 0 0\n"


@pytest.mark.parametrize(
    ("output", "reasons"),
    [
        (IDLE, []),
        (HALF, ["50% of its processors are in use"]),
        (f"{IDLE}4242\n4243\n", ["2 process(es) use its GPUs"]),
        (f"{IDLE}No devices were found\n", []),
        (f"{HALF}4242\n", ["50% of its processors are in use", "1 process(es) use its GPUs"]),
    ],
)
def test_processors_and_gpus_in_use_are_reasons(output: str, reasons: list[str]) -> None:
    assert list(_reasons(output, 0.25)) == reasons


def test_the_probe_prints_what_is_read() -> None:
    output = LocalShell().run(["sh", "-c", PROBE]).stdout

    assert [reason for reason in _reasons(output, 1.0) if "processors" in reason] == []
    reason, *_ = _reasons(output, -1.0)
    assert "%" in reason


@pytest.mark.parametrize("output", ["", "cpu  1 2 3\n", "Permission denied\n"])
def test_a_host_without_these_files_is_not_called_busy(output: str) -> None:
    assert list(_reasons(output, 0.25)) == []
