"""What the commands of many versions of Slurm have printed elsewhere, as we read it.

Excerpts of outputs that were published with the documentation or the tests of other projects; each
names its source. Slurm 22.05 itself answers in `test_slurm.py`.
"""

import re
from pathlib import Path

import pytest

from cluster.core.errors import Denied, ProvisionError
from cluster.providers.slurm import job_number
from cluster.providers.slurm.client import refusal
from cluster.providers.slurm.states import (
    KNOWN,
    SlurmJob,
    is_hopeless,
    parse_jobs,
    parse_nodes,
    words_of,
    words_on_node,
)
from tests.snapshots import Snapshot

# Blocks of `scontrol show node`, cut to the lines that matter. With --oneliner, the same words are
# on one line, which is how they are read: `one_line`.
NODES = dict(
    re.findall(
        r"^# ([\w.]+): .*\n((?:.+\n)+)",
        Path(__file__).with_name("slurm_nodes.txt").read_text(),
        re.MULTILINE,
    )
)


def one_line(block: str) -> str:
    return " ".join(line.strip() for line in block.splitlines())


@pytest.mark.parametrize("version", NODES)
def test_nodes_of_many_versions(version: str, snapshot: Snapshot) -> None:
    line = one_line(NODES[version])
    [node] = parse_nodes(line)

    snapshot([node.address, words_on_node(node)])
    assert words_on_node(node).endswith(line.partition("Reason=")[2])  # with its time


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
    ("word", "state"),
    [
        ("CANCELLED by 150016", "CANCELLED"),
        ("CANCELLED+", "CANCELLED"),
        ("OUT_OF_ME+", "OUT_OF_ME"),
    ],
)
def test_states_as_sacct_and_narrow_columns_write_them(word: str, state: str) -> None:
    """A word that was cut off is not guessed: it is named as unknown."""
    [job] = parse_jobs(f"1|{word}|None|N/A|N/A|n1|")

    assert job.state == state
    assert state in KNOWN or "is not known here" in words_of(job)


@pytest.mark.parametrize(
    ("output", "number"),
    [
        ("17895320\n", "17895320"),
        ("42;north\n", "42"),
        ("sbatch: warning: a login-node note\n4242\n", "4242"),
        ("Your project has 1200 hours left\n7;site-2.example\n", "7"),
    ],
)
def test_numbers_of_jobs(output: str, number: str) -> None:
    assert job_number(output) == number


@pytest.mark.parametrize("printed", ["", "Submitted batch job 12\n", "12 of 20\n"])
def test_no_number_is_guessed(snapshot: Snapshot, printed: str) -> None:
    with snapshot.raises(ProvisionError):
        job_number(printed)


POLICY = (
    "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit "
    "limit, user's size and/or time limits)"
)


FAILED = "sbatch: error: Batch job submission failed:"
REFUSALS = (
    f"sbatch: error: QOSMaxSubmitJobPerUserLimit\n{POLICY}",
    f"sbatch: error: AssocMaxSubmitJobLimit\n{POLICY}",
    f"sbatch: error: QOSMaxWallDurationPerJobLimit\n{POLICY}",
    f"sbatch: error: QOSMaxMemoryPerJob\n{POLICY}",
    POLICY,
    f"{FAILED} Invalid account or account/partition combination specified",
    f"{FAILED} Requested node configuration is not available",
    f"sbatch: error: invalid partition specified: gpu\n{FAILED} Invalid partition name specified",
    f"{FAILED} Pathname of a file, directory or other parameter too long",
)


def test_refusals_that_other_sites_have_shown(snapshot: Snapshot) -> None:
    for text in REFUSALS:
        error = refusal("sbatch", text, "on login1")
        snapshot([f"{type(error).__name__}: {error}"])


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
    for message, typed in REFUSED.items():
        error = refusal("sbatch", f"sbatch: error: Batch job submission failed: {message}", "here")
        assert type(error) is Denied
        assert typed in error.remedy


def test_a_job_in_a_state_that_is_not_known_is_never_taken_to_run(snapshot: Snapshot) -> None:
    job = SlurmJob(id="1", state="MOONLIT")

    snapshot(words_of(job))
    assert not job.is_over
