"""Checks that the Open MPI of the hosts has the MCA parameters that a run sets.

Open MPI ignores parameters that it does not know: a misspelt one would have no effect.
"""

from __future__ import annotations

import posixpath
from difflib import get_close_matches
from typing import TYPE_CHECKING

from cluster.analysis.factors import MCA
from cluster.core.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cluster.core.model.hosts import Machine
    from cluster.remote.shells import Shell

LIST = """\
"$1" --param all all --level 9 --parsable | sed -n 's/^mca:.*:param:\\([^:]*\\):value:.*/\\1/p'
"""
OPTIONAL = ("btl_smcuda_",)  # only builds with CUDA have these; others ignore them
PATIENCE = 60.0  # seconds for ompi_info to answer
SHOWN = 3  # similar names that an error suggests, at most
ALIKE = 0.75  # similarity, from 0 to 1, that a suggested name has at least


def check_mca_parameters(
    variables: Mapping[str, str], machine: Machine, home: str, shell: Shell
) -> None:
    """Refuse MCA parameters that the Open MPI of a host does not have.

    Args:
        variables: of the ranks' environment; those named `OMPI_MCA_...` are MCA parameters.

    Raises:
        SpecError: there is no such parameter; those with a similar name are listed.

    """
    names = [name.removeprefix(MCA) for name in variables if name.startswith(MCA)]
    wanted = [name for name in names if not name.startswith(OPTIONAL)]
    if not wanted:
        return
    program = posixpath.join(home, machine.bin, "ompi_info")
    done = shell.run(["sh", "-c", LIST, "sh", program], timeout=PATIENCE)
    known = done.stdout.split()
    if known:  # an MPI other than Open MPI has no ompi_info
        _refuse_unknown(wanted, known)


def _refuse_unknown(wanted: Iterable[str], known: list[str]) -> None:
    for name in wanted:
        if name in known:
            continue
        near = get_close_matches(name, known, SHOWN, ALIKE)
        similar = f"Did you mean {' or '.join(near)}? " if near else ""
        raise SpecError(
            f"Open MPI has no MCA parameter {name!r} on these hosts, so it would have no effect.",
            remedy=f"{similar}List them: ompi_info --param all all --level 9",
        )
