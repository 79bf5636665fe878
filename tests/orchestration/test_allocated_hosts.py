"""The hosts of an allocation, from the variables of each batch system."""

from pathlib import Path

from cluster.core.errors import SpecError
from cluster.orchestration.batch.job import LentHosts, find_lent_hosts
from tests.snapshots import Snapshot


def find(variables: dict[str, str], expanded: str | None = None) -> LentHosts | None:
    return find_lent_hosts(variables, lambda _: expanded)


def slots(variables: dict[str, str], expanded: str | None = None) -> dict[str, int]:
    allocation = find(variables, expanded)
    assert allocation is not None
    return allocation.slots


def test_slurm_expands_its_own_list(snapshot: Snapshot) -> None:
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[0-1]"}

    assert slots(slurm, "n0\nn1\n") == {"n0": 0, "n1": 0}
    with snapshot.raises(SpecError):
        find(slurm, None)


def test_pbs_names_a_host_once_per_slot(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("b.site\nb.site\na.site\na.site\n\n")

    assert slots({"PBS_NODEFILE": str(tmp_path / "nodes")}) == {"b.site": 2, "a.site": 2}


def test_lsf_leaves_its_short_variable_empty_for_many_hosts(snapshot: Snapshot) -> None:
    job = {"LSB_JOBID": "9"}

    assert slots({**job, "LSB_HOSTS": "a a b b"}) == {"a": 2, "b": 2}
    assert slots({**job, "LSB_HOSTS": "", "LSB_MCPU_HOSTS": "a 2 b 2"}) == {"a": 2, "b": 2}
    with snapshot.raises(SpecError):
        find(job)


def test_kubernetes_gives_a_file_with_slots(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("p2p-launcher.p2p.ns.svc slots=8\np2p-worker-0.p2p:4\n")
    counts = slots({"OMPI_MCA_orte_default_hostfile": str(tmp_path / "hosts")})

    assert counts == {"p2p-launcher.p2p.ns.svc": 8, "p2p-worker-0.p2p": 4}


def test_no_allocation_and_lost_files_are_told_apart(snapshot: Snapshot, tmp_path: Path) -> None:
    assert find({}) is None
    with snapshot.raises(SpecError):
        find({"PBS_NODEFILE": str(tmp_path / "gone")})
