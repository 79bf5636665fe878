"""What `sync` did to the folders of hosts."""

from cluster.core.model.value import Value


class SyncFigures(Value, frozen=True, kw_only=True):
    """What was sent and removed, and what was not."""

    there: str  # the folder on the hosts
    hosts: tuple[str, ...]
    files: int  # in the folder, without folders
    sent: int = 0  # different files that were sent
    sent_bytes: int = 0  # over the line of this machine, to all hosts
    passed_on: int = 0  # bytes that hosts sent to one another instead
    removed: tuple[str, ...] = ()  # paths on any host that were removed
    left_out: tuple[str, ...] = ()  # paths here that were not sent; those of folders end with `/`
    outward: tuple[str, ...] = ()  # links that lead out of the folder, which were sent as links
    # files that changed whenever they were sent; their copies may be torn
    changed: tuple[str, ...] = ()
