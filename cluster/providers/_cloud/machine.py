"""What an instance of a cloud is to us; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.model.hosts import Access, Machine
from cluster.core.model.value import Value
from cluster.core.ssh_keys import LOGIN

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.core.model.hosts import Link
    from cluster.providers._cloud.options import CloudOptions


class InstanceView(Value, frozen=True, kw_only=True):
    """An instance, as every cloud shows it.

    Args:
        id: by which the cloud finds it.
        alias: under which its host keys are known: addresses are used again, ids never.
        private: its address in the cluster's network.
        public: its address for everybody; may be empty.

    """

    id: str
    alias: str
    private: str
    public: str


def machine(
    called: str, one: InstanceView, options: CloudOptions, known_hosts: Path, link: Link | None
) -> Machine:
    """Give the machine that an instance is to us.

    Args:
        called: its name.
        one: the instance.
        options: of the launch.
        known_hosts: where its host keys are.
        link: what its network can do, where that is known.

    Returns:
        The machine.

    """
    folder = f".cluster-{called.rpartition('.')[2]}"
    return Machine(  # noqa: S604 - "shell" names one of our plug-ins
        name=called,
        id=one.id,
        address=one.private,
        shell="ssh",
        folder=folder,
        bin=f"{folder}/env/bin",
        access=Access(
            host=(options.is_public and one.public) or one.private,
            user=options.user,
            port=22,
            key=str(known_hosts.with_name(LOGIN)),
            known_hosts=str(known_hosts),
            alias=one.alias,
            jump=options.jump,
        ),
        link=link,
    )
