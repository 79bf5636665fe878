"""Messages speak to their reader: flags in a terminal, keywords in Python."""

from cluster.core.errors import JobError, SpecError
from cluster.core.messages import for_command_line, for_reader
from tests.snapshots import Snapshot

TYPED = (
    "--hosts is 0; it must be more.",
    "Say --ranks-per-host 2.",
    "Give --zone us-east-1a, or less.",
    "Give one: --image ami-...",
    "See --runs DIR",
    "--profile=/x.so is relative.",
    "Say --option zones=a,b, or not.",
    "Try --mca btl_tcp_links=4.",
    "Type: cluster up x --hosts 2 --option slurm=1; or --hosts 1",
    "See: cluster up NAME --hosts 2 --plan",
    "cluster up NAME --plan lists them.",
    "See its hosts: cluster ls x",
    "See: cluster ls; cluster check x",
    "Or: cluster check x --near",
    "Make room: cluster run x -- df -h; or sync to DIR",
    "Copy it: cluster put x a.so /tmp/a.so. Or --mpi here",
    "Take another: cluster more forward x 80:18888",
    "Start one: cluster bench p2p x or cluster runs",
    "Switch it on: cluster more resume x, then cluster show latest",
    "Leave --cordon out: it needs RBAC",
    "Leave it out: cluster judge x.log",
    "no flag: a - b",
    "Or: --buffer cpu",
    "Copy nothing: --workdir none. What",
    "Measure: --metrics latency,bandwidth",
    "Or: --provider ssh --option hosts=H1,H2",
    "Leave it out: --spot is dear.",
    "Take it down: cluster down x",
    "Look: cluster logs x job -f",
    "Or: cluster kill x job. End all: --replace",
    "cluster wait x && cluster fetch x\nEnd it",
    "Type: cluster check x --groups rack",
)


def test_a_flag_is_a_keyword_in_python_and_a_command_stays(snapshot: Snapshot) -> None:
    with for_command_line():
        assert [for_reader(typed) for typed in TYPED] == list(TYPED)
    snapshot(f"{typed}\nIn Python: {for_reader(typed)}" for typed in TYPED)


def test_errors_are_worded_but_not_what_programs_printed(snapshot: Snapshot) -> None:
    snapshot(str(SpecError("--hosts is 0.", remedy="Say --hosts 1")))
    job = JobError("It failed.", stderr="usage: prog --hosts 3", remedy="Say --hosts 2")
    snapshot(str(job))
