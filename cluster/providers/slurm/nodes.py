"""The nodes of a job as machines, and how commands reach them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import msgspec

from cluster.core.errors import ProvisionError
from cluster.core.model.hosts import Access, Machine, machine_name, ssh_command
from cluster.providers.slurm.client import LAB, SlurmClient, lab_machines

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.providers.slurm.options import SlurmOptions
    from cluster.providers.slurm.states import SlurmJob

ASKED_WITHIN = 20.0  # seconds for a node to let us in by SSH, or not


def machines_of(
    client: SlurmClient,
    job: SlurmJob,
    options: SlurmOptions,
    *,
    name: str,
    hosts: int,
    token: str,
    folder: Path,
) -> tuple[Machine, ...]:
    """Return the first nodes of a job as machines, in Slurm's order (ProvisionError: it has fewer).

    The launch's random token names our folder, as the nodes may share a home.
    """
    names = client.names_in(job.nodes)
    if len(names) < hosts:
        raise ProvisionError(f"The job {job.id} has {len(names)} nodes, not {hosts}: {job.nodes}")
    addresses = client.addresses_of(job.nodes)
    ours = f"/tmp/cluster-{token}"  # noqa: S108 - nobody can guess it
    machines = [
        Machine(  # noqa: S604 - "shell" names a plug-in
            name=machine_name(name, number),
            id=node,
            address=addresses.get(node, node),
            shell="ssh",
            folder=ours,
            bin=f"{ours}/env/bin",
            access=_access(client, addresses.get(node, node), folder),
            job=job.id,
        )
        for number, node in enumerate(names[:hosts])
    ]
    if client.place.startswith(LAB):
        machines = [_in_lab(machine, client) for machine in machines]
    return _reached(tuple(machines), client, options)


def _reached(
    machines: tuple[Machine, ...], client: SlurmClient, options: SlurmOptions
) -> tuple[Machine, ...]:
    """Reach the nodes by SSH, or else by steps of srun."""
    if options.reach == "ssh" or (options.reach == "auto" and _lets_in(machines[0])):
        return machines
    return tuple(
        msgspec.structs.replace(machine, shell="srun", access=client.access)  # noqa: S604
        for machine in machines
    )


def _access(client: SlurmClient, address: str, folder: Path) -> Access:
    """Say how SSH reaches a node: through the login host, if there is one."""
    login = client.access
    jump = ""
    if login:
        user = f"{login.user}@" if login.user else ""
        jump = f"{user}{login.host}" + (f":{login.port}" if login.port else "")
    return Access(
        host=address,
        user=login.user if login else "",
        known_hosts=str(folder / "known_hosts"),
        pin=True,
        jump=jump,
    )


def _in_lab(machine: Machine, client: SlurmClient) -> Machine:
    """Return a node of a laboratory the link and the access of the laboratory's host."""
    hosts = {node.id: node for node in lab_machines(client.place.removeprefix(LAB))}
    host = hosts[machine.id]
    return msgspec.structs.replace(machine, access=host.access, link=host.link)


def _lets_in(machine: Machine) -> bool:
    """Try to log in to a node, as pam_slurm_adopt or the site may permit."""
    if machine.access is None:
        return False
    words = ssh_command(machine.access, "true", "-o", "StrictHostKeyChecking=accept-new")
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=ASKED_WITHIN
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
