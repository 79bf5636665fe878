"""What the commands of many versions of Slurm have printed elsewhere, as we read it.

Excerpts of outputs that were published with the documentation or the tests of other projects; each
names its source. Slurm 22.05 itself answers in `test_slurm.py`.
"""

import pytest

from cluster.core.errors import Denied, ProvisionError, Quota, SpecError
from cluster.providers.slurm import job_number
from cluster.providers.slurm.node_states import parse_nodes, words_on_node
from cluster.providers.slurm.refusals import refusal
from cluster.providers.slurm.states import KNOWN, SlurmJob, is_hopeless, parse_jobs, words_of
from tests.snapshots import Snapshot

# Blocks of `scontrol show node`, cut to the lines that matter. With --oneliner, the same words are
# on one line, which is how they are read: `one_line`.
NODES = {
    # Slurm 16.05: the tests of a dashboard of a university, with --oneliner; no node address.
    "16.05": """\
NodeName=highmem1 Arch=x86_64 CoresPerSocket=1 CPUAlloc=4 CPUErr=0 CPUTot=32 CPULoad=26.73
 AvailableFeatures=(null) ActiveFeatures=(null) Gres=(null) NodeAddr=highmem1
 NodeHostName=highmem1 Version=16.05 OS=Linux RealMemory=515747 AllocMem=0 FreeMem=1102
 State=DOWN* ThreadsPerCore=1 TmpDisk=0 Weight=100 Owner=N/A MCS_label=N/A Partitions=highmem
 BootTime=2017-07-13T09:10:39 SlurmdStartTime=2017-07-27T10:41:53 CfgTRES=cpu=32,mem=515747M
 AllocTRES= CapWatts=n/a Reason=Not responding [root@2017-08-18T11:14:39]""",
    # Slurm 20.02.0: the documentation of the cluster of the Berlin Institute of Health.
    "20.02": """\
NodeName=med0304 Arch=x86_64 CoresPerSocket=16
   CPUAlloc=2 CPUTot=64 CPULoad=1.44
   NodeAddr=med0304 NodeHostName=med0304 Version=20.02.0
   OS=Linux 3.10.0-1127.13.1.el7.x86_64 #1 SMP Tue Jun 23 15:46:38 UTC 2020
   State=MIXED+DRAIN ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   AllocTRES=cpu=2,mem=1G
   Reason=deep power-off required for PSU [root@2020-07-17T13:21:02]""",
    # Slurm 20.02 or 20.11: the tests of an orchestrator of European sites; the version is not said.
    "20.11": """\
NodeName=wn2 Arch=x86_64 CoresPerSocket=1
   NodeAddr=wn2 NodeHostName=wn2
   OS=Linux 3.10.0-1127.13.1.el7.x86_64 #1 SMP Tue Jun 23 15:46:38 UTC 2020
   State=DOWN* ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Reason=Not responding [root@2020-09-21T14:31:24]""",
    # Slurm 21.08.8: the documentation of the AI Cloud of Aalborg University.
    "21.08": """\
NodeName=a256-t4-01.srv.aau.dk Arch=x86_64 CoresPerSocket=16
   CPUAlloc=0 CPUTot=64 CPULoad=0.00
   Gres=gpu:6
   NodeAddr=a256-t4-01.srv.aau.dk NodeHostName=a256-t4-01.srv.aau.dk Version=21.08.8-2
   OS=Linux 5.4.0-124-generic #140-Ubuntu SMP Thu Aug 4 02:23:37 UTC 2022
   State=IDLE ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   LastBusyTime=2022-08-30T10:04:46""",
    # Slurm 24.05.6: the documentation of a university's cluster.
    "24.05": """\
NodeName=cn20-a40 Arch=x86_64 CoresPerSocket=16
   CPUAlloc=0 CPUEfctv=64 CPUTot=64 CPULoad=0.00
   NodeAddr=cn20-a40 NodeHostName=cn20-a40 Version=24.05.6
   OS=Linux 4.18.0-553.el8_10.x86_64 #1 SMP Fri May 24 13:05:10 UTC 2024
   State=IDLE ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   LastBusyTime=2025-07-10T07:58:57 ResumeAfterTime=None""",
    # Slurm 23.11 or later: notes of a lab on its GPU nodes; the version is not said.
    "down": """\
NodeName=rtx6000-ada CoresPerSocket=28
   CPUAlloc=0 CPUEfctv=56 CPUTot=56 CPULoad=0.00
   Gres=gpu:8(S:0-1)
   NodeAddr=rtx6000-ada.yokota NodeHostName=rtx6000-ada
   State=DOWN+NOT_RESPONDING ThreadsPerCore=1 TmpDisk=0 Weight=20 Owner=N/A MCS_label=N/A
   BootTime=None SlurmdStartTime=None
   Reason=Not responding [root@2026-06-11T16:16:23]""",
    # Slurm 25.05.3: the demonstration of a plug-in for quantum computers.
    "25.05": """\
NodeName=q1 Arch=x86_64 CoresPerSocket=1
   NodeAddr=q1 NodeHostName=q1 Version=25.05.3
   OS=Linux 6.6.87.2-microsoft-standard-WSL2 #1 SMP PREEMPT_DYNAMIC Thu Jun  5 18:30:46 UTC 2025
   State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   AllocTRES=
   CurrentWatts=0 AveWatts=0""",
}


def one_line(block: str) -> str:
    return " ".join(line.strip() for line in block.splitlines())


@pytest.mark.parametrize(
    ("version", "address", "words"),
    [
        (
            "16.05",
            "highmem1",
            (
                "calls highmem1 DOWN: it does not answer slurmctld; "
                "Not responding [root@2017-08-18T11:14:39]"
            ),
        ),
        (
            "20.02",
            "med0304",
            (
                "calls med0304 MIXED: it takes no new jobs; "
                "deep power-off required for PSU [root@2020-07-17T13:21:02]"
            ),
        ),
        (
            "20.11",
            "wn2",
            (
                "calls wn2 DOWN: it does not answer slurmctld; "
                "Not responding [root@2020-09-21T14:31:24]"
            ),
        ),
        ("21.08", "a256-t4-01.srv.aau.dk", "still calls a256-t4-01.srv.aau.dk IDLE"),
        ("24.05", "cn20-a40", "still calls cn20-a40 IDLE"),
        (
            "down",
            "rtx6000-ada.yokota",
            (
                "calls rtx6000-ada DOWN: it does not answer slurmctld; "
                "Not responding [root@2026-06-11T16:16:23]"
            ),
        ),
        ("25.05", "q1", "still calls q1 IDLE"),
    ],
)
def test_nodes_of_many_versions(version: str, address: str, words: str) -> None:
    [node] = parse_nodes(one_line(NODES[version]))

    assert node.address == address
    assert words_on_node(node) == f"Slurm {words}"


def test_nodes_are_lines_and_other_lines_are_left_out() -> None:
    text = "\n".join([*map(one_line, NODES.values()), "", "slurm_load_node error: x"])

    assert len(parse_nodes(text)) == len(NODES)


def test_a_state_that_no_version_has_yet_is_said_as_it_is(snapshot: Snapshot) -> None:
    [node] = parse_nodes("NodeName=n1 State=MOONLIT+BLOCKED")

    snapshot(words_on_node(node))


# Reasons as users of many sites have shown them, with node lists and with parentheses.
@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("ReqNodeNotAvail, UnavailableNodes:gpu-q-[2-47]", "a node that it needs is not available"),
        ("(ReqNodeNotAvail, UnavailableNodes:ant[17-20])", "a node that it needs is not available"),
        ("(Resources)", "it waits for nodes to become free"),
        ("Priority", "jobs of higher priority wait before it"),
        (
            (
                "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority "
                "partitions"
            ),
            "Nodes required for job are DOWN, DRAINED",
        ),
    ],
)
def test_reasons_that_other_sites_have_shown(reason: str, words: str) -> None:
    [job] = parse_jobs(f"588383|PENDING|{reason}|N/A|N/A||(null)")

    assert job.nodes == job.comment == ""
    assert words_of(job).startswith(f"PENDING: {words}")
    assert not is_hopeless(job)


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("CANCELLED by 150016", "CANCELLED"),
        ("CANCELLED+", "CANCELLED"),
        ("OUT_OF_ME+", "OUT_OF_ME"),
    ],
)
def test_states_as_sacct_and_narrow_columns_write_them(said: str, state: str) -> None:
    """A word that was cut off is not guessed: it is named as unknown."""
    [job] = parse_jobs(f"1|{said}|None|N/A|N/A|n1|")

    assert job.state == state
    assert state in KNOWN or "is not known here" in words_of(job)


@pytest.mark.parametrize(
    ("printed", "number"),
    [
        ("17895320\n", "17895320"),
        ("42;north\n", "42"),
        ("sbatch: warning: a login-node note\n4242\n", "4242"),
        ("Your project has 1200 hours left\n7;site-2.example\n", "7"),
    ],
)
def test_numbers_of_jobs(printed: str, number: str) -> None:
    assert job_number(printed) == number


@pytest.mark.parametrize("printed", ["", "Submitted batch job 12\n", "12 of 20\n"])
def test_no_number_is_guessed(snapshot: Snapshot, printed: str) -> None:
    with snapshot.raises(ProvisionError):
        job_number(printed)


POLICY = (
    "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit "
    "limit, user's size and/or time limits)"
)


@pytest.mark.parametrize(
    ("said", "kind", "words", "typed"),
    [
        (
            f"sbatch: error: QOSMaxSubmitJobPerUserLimit\n{POLICY}",
            Quota,
            "(QOSMaxSubmitJobPerUserLimit)",
            "squeue --me",
        ),
        (
            f"sbatch: error: AssocMaxSubmitJobLimit\n{POLICY}",
            Quota,
            "(AssocMaxSubmitJobLimit)",
            "squeue --me",
        ),
        (
            f"sbatch: error: QOSMaxWallDurationPerJobLimit\n{POLICY}",
            SpecError,
            "(QOSMaxWallDurationPerJobLimit)",
            "--ttl 30min",
        ),
        (f"sbatch: error: QOSMaxMemoryPerJob\n{POLICY}", Quota, "(QOSMaxMemoryPerJob)", "sacctmgr"),
        (POLICY, Quota, "job submit limit", "sacctmgr"),
        (
            (
                "sbatch: error: Batch job submission failed: Invalid account or account/partition "
                "combination specified"
            ),
            Denied,
            "Invalid account",
            "--option account=NAME",
        ),
        (
            (
                "sbatch: error: Batch job submission failed: Requested node configuration is not "
                "available"
            ),
            SpecError,
            "node configuration",
            "sinfo --Node --long",
        ),
        (
            (
                "sbatch: error: invalid partition specified: gpu\n"
                "sbatch: error: Batch job submission failed: Invalid partition name specified"
            ),
            SpecError,
            "Invalid partition",
            "sinfo --summarize",
        ),
        (
            (
                "sbatch: error: Batch job submission failed: Pathname of a file, directory or "
                "other parameter too long"
            ),
            ProvisionError,
            "parameter too long",
            "sbatch --version",
        ),
    ],
)
def test_refusals_that_other_sites_have_shown(
    said: str, kind: type[Exception], words: str, typed: str
) -> None:
    error = refusal("sbatch", said, "on login1")

    assert isinstance(error, kind)
    assert isinstance(error, SpecError) == issubclass(kind, SpecError)
    assert words in error.what
    assert typed in error.remedy
    assert "Traceback" not in str(error)


# As Slurm 22.05.8 with slurmdbd (AccountingStorageEnforce=associations,limits,qos) printed them:
# for an account, a QOS and a partition that are not the user's, and for full ones.
CLOSED = "Job's QOS not permitted to use this partition (qosonly allows high not normal)"
WAITS = f"""\
1|PENDING|AssocGrpJobsLimit|N/A|N/A||(null)
2|PENDING|{CLOSED}|N/A|N/A||(null)
6|PENDING|QOSMaxJobsPerUserLimit|N/A|N/A||(null)
7|PENDING|PartitionNodeLimit|N/A|N/A||(null)
"""
REFUSED = {
    "Invalid account or account/partition combination specified": "--option account=NAME",
    "Invalid qos specification": "--option qos=NAME",
}


def test_a_real_slurm_with_accounting(snapshot: Snapshot) -> None:
    """Who waits for others waits, and who never starts is told so."""
    jobs = parse_jobs(WAITS)

    assert [is_hopeless(job) for job in jobs] == [False, True, False, True]
    snapshot(map(words_of, jobs))
    for said, typed in REFUSED.items():
        error = refusal("sbatch", f"sbatch: error: Batch job submission failed: {said}", "here")
        assert type(error) is Denied
        assert typed in error.remedy


def test_a_job_in_a_state_that_is_not_known_is_never_taken_to_run(snapshot: Snapshot) -> None:
    job = SlurmJob(id="1", state="MOONLIT")

    snapshot(words_of(job))
    assert not job.is_over
