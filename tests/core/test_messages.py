"""Messages speak to their reader: flags in a terminal, keywords in Python."""

import pytest

from cluster.core.errors import JobError, SpecError
from cluster.core.messages import for_command_line, for_reader
from tests.snapshots import Snapshot


@pytest.mark.parametrize(
    ("typed", "in_python"),
    [
        ("--hosts is 0; it must be more.", "hosts is 0; it must be more."),
        ("Say --ranks-per-host 2.", "Say ranks_per_host=2."),
        ("Give --zone us-east-1a, or less.", 'Give zone="us-east-1a", or less.'),
        ("Give one: --image ami-...", 'Give one: image="ami-..."'),
        ("See --runs DIR", "See runs=DIR"),
        ("--profile=/x.so is relative.", 'profile="/x.so" is relative.'),
        ("Say --option zones=a,b, or not.", 'Say options={"zones": "a,b"}, or not.'),
        ("Try --mca btl_tcp_links=4.", 'Try mca={"btl_tcp_links": "4"}.'),
        (
            "Type: cluster up x --hosts 2 --option slurm=1; or --hosts 1",
            'Type: cluster.launch("x", hosts=2, options={"slurm": "1"}); or hosts=1',
        ),
        ("See: cluster up NAME --hosts 2 --plan", "See: cluster up NAME --hosts 2 --plan"),
        ("cluster up NAME --plan lists them.", "cluster up NAME --plan lists them."),
        ("See its hosts: cluster ls x", 'See its hosts: cluster.attach("x").machines'),
        ("See: cluster ls; cluster check x", 'See: cluster ls; cluster.check("x")'),
        ("Or: cluster check x --near", 'Or: cluster.proximity("x")'),
        (
            "Make room: cluster run x -- df -h; or sync to DIR",
            'Make room: cluster.attach("x").run("df -h"); or sync to DIR',
        ),
        (
            "Copy it: cluster put x a.so /tmp/a.so. Or --mpi here",
            'Copy it: cluster.attach("x").put("a.so", "/tmp/a.so"). Or mpi here',
        ),
        (
            "Take another: cluster more forward x 80:18888",
            'Take another: cluster.attach("x").forward(80, 18888)',
        ),
        (
            "Start one: cluster bench p2p x or cluster runs",
            'Start one: cluster.attach("x").bench("p2p") or cluster.runs()',
        ),
        (
            "Switch it on: cluster more resume x, then cluster show latest",
            'Switch it on: cluster.attach("x").resume(), then print(cluster.load("latest"))',
        ),
        ("Leave --cordon out: it needs RBAC", "Leave cordon out: it needs RBAC"),
        ("Leave it out: cluster judge x.log", 'Leave it out: print(cluster.judge("x.log"))'),
        ("no flag: a - b", "no flag: a - b"),
        ("Or: --buffer cpu", 'Or: buffer="cpu"'),
        ("Copy nothing: --workdir none. What", 'Copy nothing: workdir="none". What'),
        ("Measure: --metrics latency,bandwidth", 'Measure: metrics="latency,bandwidth"'),
        (
            "Or: --provider ssh --option hosts=H1,H2",
            'Or: provider="ssh", options={"hosts": "H1,H2"}',
        ),
        ("Leave it out: --spot is dear.", "Leave it out: spot is dear."),
        ("Take it down: cluster down x", "Take it down: cluster down x"),  # it may have no journal
        ("Look: cluster logs x job -f", 'Look: print(cluster.attach("x").jobs["job"].logs())'),
        (
            "Or: cluster kill x job. End all: --replace",
            'Or: cluster.attach("x").jobs["job"].stop(). End all: replace',
        ),
        (
            "cluster wait x && cluster fetch x\nEnd it",
            'cluster.attach("x").wait(); cluster.attach("x").fetch()\nEnd it',
        ),
        ("Type: cluster check x --groups rack", "Type: cluster check x --groups rack"),
    ],
)
def test_a_flag_is_a_keyword_in_python_and_a_command_stays(typed: str, in_python: str) -> None:
    assert for_reader(typed) == in_python
    with for_command_line():
        assert for_reader(typed) == typed
    assert for_reader(typed) == in_python


def test_errors_are_worded_but_not_what_programs_printed(snapshot: Snapshot) -> None:
    snapshot(str(SpecError("--hosts is 0.", remedy="Say --hosts 1")))
    job = JobError("It failed.", stderr="usage: prog --hosts 3", remedy="Say --hosts 2")
    snapshot(str(job))
