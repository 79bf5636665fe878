"""Checks that the ranks found one another, on the hosts of the layout, before anything is timed."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from cluster.core.errors import ClusterError
from cluster.measure.addresses import ADDRESSES, RANKS
from cluster.measure.pmi import pmi_of, spoken_by

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mpi4py.MPI import Intracomm


def check_world(comm: Intracomm, library: str, variables: Mapping[str, str] = os.environ) -> None:
    """Refuse a world of another size than was started, or a rank on another host than planned.

    Raises:
        ClusterError: a measurement would be of something else than was asked for.

    """
    places = variables.get(ADDRESSES, "").split(",") if variables.get(ADDRESSES) else []
    wanted = len(places) or int(variables.get(RANKS) or 0)
    if wanted and comm.Get_size() != wanted:
        raise _wrong_size(comm, wanted, library, variables)
    if len(set(places)) > 1:
        _check_place(comm.Get_rank(), places)


def _wrong_size(
    comm: Intracomm, wanted: int, library: str, variables: Mapping[str, str]
) -> ClusterError:
    """Explain a world of the wrong size by the interface through which it should have formed."""
    first = library.partition("\n")[0].partition(",")[0].strip("\0 ")
    used, spoken = pmi_of(variables), spoken_by(library)
    found = f"{comm.Get_rank()} of {comm.Get_size()}"
    process = variables.get("SLURM_PROCID") or variables.get("PMI_RANK") or "a process"
    if not used or used in spoken:
        return ClusterError(
            f"{wanted} ranks were started, and this one found itself rank {found}.",
            means="Nothing was measured: the ranks do not find one another.",
            remedy="Start them by the mpirun of the same MPI: --starter mpirun",
        )
    right = [f"--starter srun:{one}" for one in spoken if one != used]
    return ClusterError(
        f"{wanted} ranks were started, and process {process} found itself rank {found}: "
        f"srun started it with --mpi={used}, which {first} does not speak.",
        means=f"Nothing was measured. It speaks {' and '.join(spoken)}.",
        remedy=f"Type: {' or '.join([*right, '--starter mpirun'])}",
    )


def _check_place(rank: int, places: Sequence[str]) -> None:
    """Refuse a rank whose host has the address of another rank, and not its own."""
    wanted = places[rank]
    if _is_here(wanted):
        return
    found = next((one for one in dict.fromkeys(places) if one != wanted and _is_here(one)), "")
    if found:
        raise ClusterError(
            f"Rank {rank} belongs on the host {wanted}, and runs on {found}.",
            means="Nothing was measured: the values would belong to other pairs of hosts.",
            remedy="Start the ranks by another starter: --starter mpirun",
        )


def _is_here(address: str) -> bool:
    """Tell whether this host has an address: only then can a socket be bound to it."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))
        return True
    return False
