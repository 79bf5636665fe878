"""From a cloud's instance to a machine of the cluster; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.model.hosts import Access, Link, Machine
from cluster.core.model.value import Value
from cluster.core.ssh_keys import LOGIN

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.providers._cloud.options import CloudOptions


class InstanceView(Value, frozen=True, kw_only=True):
    """The fields of an instance that all clouds have."""

    id: str  # of the instance in the cloud
    alias: str  # its name in known_hosts: an address may be reused, an id never is
    private: str  # its address in the cluster's network
    public: str  # its public address; empty if it has none


def machine(
    called: str, view: InstanceView, options: CloudOptions, known_hosts: Path, link: Link | None
) -> Machine:
    """Describe an instance as a machine of the cluster."""
    folder = f".cluster-{called.rpartition('.')[2]}"
    return Machine(  # noqa: S604 - "shell" names a plug-in
        name=called,
        id=view.id,
        address=view.private,
        shell="ssh",
        folder=folder,
        bin=f"{folder}/env/bin",
        access=Access(
            host=(options.is_public and view.public) or view.private,
            user=options.user,
            port=22,
            key=str(known_hosts.with_name(LOGIN)),
            known_hosts=str(known_hosts),
            alias=view.alias,
            jump=options.jump,
        ),
        link=link,
    )
