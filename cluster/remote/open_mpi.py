"""Leaves the component btl/ofi out of an Open MPI that pip has installed.

It drives RDMA adapters through libfabric, for one-sided calls. Where it finds none, as on each
host with TCP only, every rank sleeps for a second in MPI_Init (`mca_btl_ofi_component_close` in
Open MPI's opal/mca/btl/ofi/btl_ofi_component.c). Debian's package leaves it out, too. Messages
over EFA and its like use the component mtl/ofi, which stays.

A setting of the user's has precedence: `--mca btl=...`, `OMPI_MCA_btl`, `~/.openmpi`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cluster.core.model.hosts import Machine

PARAMETERS = "etc/openmpi-mca-params.conf"  # below the prefix of an Open MPI
OWN_PARAMETERS = ".openmpi/mca-params.conf"  # below the user's home folder
WITHOUT_OFI = "^ofi"


def local_variables(machines: Iterable[Machine], home: Path) -> dict[str, str]:
    """Give the variable that leaves btl/ofi out on this machine, whose files are not ours.

    Args:
        machines: of a cluster.
        home: the user's home folder.

    Returns:
        A variable of Open MPI; none if the machines are others, if the Open MPI is not that
        beside their Python, or if a file sets `btl`.

    """
    prefixes = {Path(machine.bin).parent for machine in machines if machine.shell == "local"}
    if not prefixes:
        return {}
    own = prefixes.pop() / PARAMETERS
    if not own.is_file() or any(_sets_btl(file) for file in (own, home / OWN_PARAMETERS)):
        return {}
    return {"OMPI_MCA_btl": WITHOUT_OFI}


def _sets_btl(file: Path) -> bool:
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return False
    return any(line.partition("=")[0].strip() == "btl" for line in lines)
