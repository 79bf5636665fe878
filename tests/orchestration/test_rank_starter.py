"""What is asked of srun before it starts ranks."""

import time

import pytest

from cluster.core import plugins
from cluster.core.errors import SpecError
from cluster.measure.benchmark import Benchmark
from cluster.orchestration.bench.plan import find_pmi
from cluster.remote.shells import Shell
from tests.conftest import Install
from tests.plain_values import plain_facts

# It refuses other words than those of the question.
SRUN = """\
#!/bin/sh
[ "$*" = --mpi=list ] || exit 64
{does}
"""


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("exec sleep 600", "did not answer within 0.3 s"),
        ("echo 'srun: fatal: no configuration' >&2; exit 1", "says: srun: fatal: no configuration"),
        ("exit 0", "says: nothing"),
    ],
)
def test_srun_that_names_no_pmi_is_refused_before_anything_starts(
    install: Install, monkeypatch: pytest.MonkeyPatch, command: str, message: str
) -> None:
    install("srun", SRUN.format(does=command))
    limit = 0.3 if "sleep" in command else 60.0  # whoever answers has time, also on a busy machine
    monkeypatch.setattr("cluster.orchestration.bench.plan.LIMIT", limit)
    shell = plugins.find(Shell, "local")()
    start = time.monotonic()

    with pytest.raises(SpecError) as refused:
        find_pmi("", plugins.load(Benchmark, "p2p"), plain_facts(), shell)

    assert message in refused.value.what
    assert "srun --mpi=list; sinfo" in refused.value.remedy
    assert "--starter mpirun" in refused.value.remedy
    assert time.monotonic() - start < 60
