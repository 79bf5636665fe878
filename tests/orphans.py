"""The orphans that a search finds, where nothing keeps it from looking everywhere."""

from cluster.core.errors import raise_all
from cluster.orchestration.launch.orphans import FAILED, Orphan, search


def find_orphans() -> tuple[Orphan, ...]:
    result = search()
    raise_all(result.errors, FAILED)
    return result.orphans
