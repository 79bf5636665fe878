"""Environment variables of ranks, also from MCA parameters of Open MPI."""

import re
from collections.abc import Mapping

from cluster.analysis.statistics.factors import MCA
from cluster.core.errors import SpecError

NAME = re.compile(r"[A-Za-z_]\w*")
SECRET = re.compile(r"SECRET|TOKEN|PASSW|CREDENTIAL|PRIVATE|(^|_)KEY", re.IGNORECASE)


def variable(kind: str, name: str, value: str) -> tuple[str, str]:
    """Return a variable (`env`) or an MCA parameter (`mca`); refuse secrets (SpecError)."""
    if NAME.fullmatch(name) is None:
        raise SpecError(f"{name!r} cannot be the name of a variable.")
    if SECRET.search(name):
        raise SpecError(
            f"{name} looks like a secret, and would be kept in the run's folder.",
            remedy="Put it into the host's own environment.",
        )
    return (MCA if kind == "mca" else "") + name, value


def all_variables(
    variables: Mapping[str, str] | None,
    mca: Mapping[str, object] | None,
    env: Mapping[str, object] | None,
) -> dict[str, str]:
    """Combine the variables of all ranks, with True and False as 1 and 0 (SpecError)."""
    groups = (("mca", mca or {}), ("env", env or {}))
    for kind, group in groups:
        if not isinstance(group, Mapping):
            raise SpecError(
                f"{kind}={group!r} is not a dictionary.",
                remedy='Such as mca={"btl_tcp_links": 4} or env={"OMP_NUM_THREADS": 1}',
            )
    named = [variable(kind, *pair) for kind, group in groups for pair in _as_text(group)]
    return {**(variables or {}), **dict(named)}


def _as_text(values: Mapping[str, object]) -> list[tuple[str, str]]:
    return [(name, str(int(v) if isinstance(v, bool) else v)) for name, v in values.items()]
