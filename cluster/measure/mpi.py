"""How ranks of an MPI are started: by srun, over a PMI that fits, or by Open MPI's own mpirun.

Open MPI 5 speaks PMIx only (its PMI-1 and PMI-2 were removed with 5.0); with another PMI, each
process is rank 0 of 1. MPICH and its relatives speak PMI-2; with PMIx, MPICH of PyPI ends in
MPI_Init: "unsupported PMI version PMIx".
"""

import re
from collections.abc import Mapping, Sequence

from cluster.core.errors import SpecError
from cluster.core.model.hosts import Layout

PMIX, PMI2, NONE = "pmix", "pmi2", "none"
OPEN_MPI = re.compile(r"Open MPI\)? v?(\d+)")
MPICH = ("MPICH", "HYDRA", "Intel", "MVAPICH")
NAMES = re.compile(r"^\s*(?:srun: )?(\w+)\s*$")  # a type per line, in every version of Slurm
ADDRESSES = "CLUSTER_ADDRESSES"  # of their hosts, in the order of the ranks
RANKS = "CLUSTER_RANKS"  # how many there are, where the starter chooses their hosts
# The variables of Open MPI 4 (OMPI) and 5 (PRTE, PMIX).
PREFIXES = ("OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_")
LAUNCHED_BY = {"PRTE_MCA_plm": "ssh", "OMPI_MCA_plm": "rsh"}  # never by srun, also inside of Slurm
AGENTS = ("PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_rsh_agent")
INCLUDES = (
    "OMPI_MCA_btl_tcp_if_include",
    "OMPI_MCA_oob_tcp_if_include",
    "PRTE_MCA_prte_if_include",
    "PMIX_MCA_ptl_tcp_if_include",
)
# TCP keepalive of mpirun's daemons: seconds of silence, seconds between probes, number of probes;
# the defaults are 300, 20 and 9. With these, daemons that lost the first host end their ranks soon,
# but not before the first host has reported the reason.
KEEPALIVE = {"time": "6", "intvl": "3", "probes": "3"}


def spoken_by(mpi: str) -> tuple[str, ...]:
    """Return the PMIs that an MPI speaks, by what `mpirun --version` or the library says."""
    version = OPEN_MPI.search(mpi)
    if version:
        return (PMIX,) if int(version[1]) >= 5 else (PMIX, PMI2)  # noqa: PLR2004 - version 5
    return (PMI2,) if any(name in mpi for name in MPICH) else (PMIX, PMI2)


def pmi_of(variables: Mapping[str, str]) -> str:
    """Return the PMI of srun's tasks: `pmix`, `pmi2` or `none`; empty if srun started none."""
    if "SLURM_STEP_ID" not in variables and "SLURM_STEPID" not in variables:
        return ""
    if "PMIX_RANK" in variables:
        return PMIX
    return PMI2 if "PMI_FD" in variables else NONE


def read_list(text: str) -> tuple[str, ...]:
    """Read what `srun --mpi=list` prints."""
    return tuple(match[1] for line in text.splitlines() if (match := NAMES.match(line)))


def choose_pmi(mpi: str, choices: Sequence[str]) -> str:
    """Choose the value of `--mpi` for ranks of an MPI (SpecError: there is none)."""
    interfaces = spoken_by(mpi)
    for interface in interfaces:
        if interface in choices:
            return interface
        versions = [version for version in choices if version.startswith(f"{interface}_v")]
        if versions:
            return max(versions, key=lambda version: int(re.sub(r"\D", "", version) or 0))
    raise SpecError(
        f"srun cannot start ranks of {mpi or 'an unknown MPI'}: they speak "
        f"{' and '.join(interfaces)}, and this Slurm offers {', '.join(choices) or 'nothing'}.",
        means="Nothing was started: each process would be rank 0 of 1.",
        remedy="Let the MPI start them: --starter mpirun",
    )


def step_words(layout: Layout, tasks: int, *, pmi: str = "", overcommit: bool) -> list[str]:
    """Return the command line of a step, up to its program.

    Steps have exclusive resources since Slurm 20.11, so that a second one would wait for the first:
    `--overlap`. Slurm numbers tasks along its own list of nodes, unless their distribution is
    `arbitrary`: then task N runs on the Nth name of `--nodelist`. A rank that dies ends the others,
    which would wait for it. Without `pmi`, `--mpi` is that of the allocation.
    """
    allocation = layout.allocation
    names = allocation.names if allocation else layout.addresses
    by_place = dict(zip(layout.addresses, names, strict=True))
    places = [by_place[a] for a in layout.slots for _ in range(layout.addresses.count(a) * tasks)]
    uniform = len(set(names)) == len(names)
    return [
        "srun",
        *([f"--jobid={allocation.job}"] if allocation and allocation.job else []),
        f"--mpi={pmi or (allocation.pmi if allocation else '') or 'none'}",
        "--overlap",
        *("-N", str(len(set(places))), "-n", str(len(places))),
        *([f"--ntasks-per-node={tasks}"] if uniform else []),
        *("--distribution=arbitrary", f"--nodelist={','.join(places)}"),
        *("--cpu-bind=none", "--kill-on-bad-exit=1", "--export=ALL"),
        *(["--overcommit"] if overcommit else []),
    ]


def open_mpi_variables(layout: Layout) -> dict[str, str]:
    """Return the variables by which mpirun reaches other hosts.

    Daemons and messages use the cluster's networks only, by their CIDR: a bridge such as docker0
    has the same address on every host, and a rank that tries it waits for ever
    (open-mpi/ompi#6377). Without our own SSH, only those that keep it on the networks.
    """
    if not layout.ssh_config:
        return network_variables(layout)
    variables = dict.fromkeys(AGENTS, f"ssh -F {layout.ssh_config}") | LAUNCHED_BY
    variables |= network_variables(layout)
    for name, value in KEEPALIVE.items():
        names = (f"{version}_MCA_oob_tcp_keepalive_{name}" for version in ("OMPI", "PRTE"))
        variables |= dict.fromkeys(names, value)
    return variables


def network_variables(layout: Layout) -> dict[str, str]:
    """Return the variables that keep Open MPI on a cluster's networks, if they are known."""
    return dict.fromkeys(INCLUDES, ",".join(layout.networks)) if layout.networks else {}
