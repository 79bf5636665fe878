"""The command lines of the starters that a site brings: srun, aprun, torchrun."""

from cluster.core import plugins
from cluster.core.model.hosts import Allocation, Layout
from cluster.measure.starters import Starter

PROGRAM = ("python3", "-P", "p2p.py", '{"sizes":[8, 16]}')
LENT = Allocation(job="1234", names=("n2", "n0"), pmi="pmix")
LAYOUT = Layout(addresses=("10.0.0.2", "10.0.0.1"), ranks_per_host=2, cores=8, allocation=LENT)


def argv(name: str, layout: Layout) -> list[str]:
    return plugins.load(Starter, name).argv(PROGRAM, layout)


def test_srun_puts_each_rank_on_the_host_of_the_layout_whatever_slurms_own_order() -> None:
    assert argv("srun", LAYOUT) == [
        *("srun", "--jobid=1234", "--mpi=pmix", "--overlap", "-N", "2", "-n", "4"),
        *("--ntasks-per-node=2", "--distribution=arbitrary", "--nodelist=n2,n2,n0,n0"),
        *("--cpu-bind=none", "--kill-on-bad-exit=1", "--export=ALL"),
        *PROGRAM,
    ]


def test_srun_refuses_no_more_ranks_than_cores() -> None:
    """Without --overcommit: More processors requested than permitted."""
    crowded = Layout(addresses=("a",), ranks_per_host=3, cores=2, allocation=LENT_ONE)

    assert "--overcommit" in argv("srun", crowded)
    assert "--overcommit" not in argv("srun", LAYOUT)


LENT_ONE = Allocation(job="1", names=("n0",), pmi="pmi2")


def test_srun_tells_every_rank_where_all_of_them_should_be() -> None:
    env = plugins.load(Starter, "srun").env(LAYOUT)

    assert env["CLUSTER_ADDRESSES"] == "10.0.0.2,10.0.0.2,10.0.0.1,10.0.0.1"


def test_aprun_shares_the_cores_of_a_host_and_tells_the_number_of_ranks() -> None:
    assert argv("aprun", LAYOUT) == [
        *("aprun", "-n", "4", "-N", "2", "-cc", "depth", "-d", "4"),
        *PROGRAM,
    ]
    assert plugins.load(Starter, "aprun").env(LAYOUT) == {"CLUSTER_RANKS": "4"}


def test_torchrun_alone_serves_one_host() -> None:
    layout = Layout(addresses=("10.0.0.1",), ranks_per_host=8)

    assert argv("torchrun", layout) == [
        *("torchrun", "--nnodes", "1", "--nproc-per-node", "8", "--rdzv-backend", "c10d"),
        *("--rdzv-endpoint", "10.0.0.1:29500", "--max-restarts", "0", "--no-python"),
        *PROGRAM,
    ]


def test_one_torchrun_per_host_is_started_by_what_reaches_the_hosts() -> None:
    by_slurm = argv("torchrun", LAYOUT)
    by_ssh = argv("torchrun", Layout(addresses=("a", "b"), ssh_config="/f/ssh"))

    assert by_slurm[:7] == ["srun", "--jobid=1234", "--mpi=none", "--overlap", "-N", "2", "-n"]
    assert by_ssh[:5] == ["mpirun", "-np", "2", "--host", "a:1,b:1"]
    for words in (by_slurm, by_ssh):
        assert words[words.index("torchrun") :][1:3] == ["--nnodes", "2"]
